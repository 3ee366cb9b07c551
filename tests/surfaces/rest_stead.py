"""A whole stead behind HTTP, inside the test or in a process of its own, and a client that follows streams."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.programs import running as programs
from tests.surfaces.rest_server import Client, Connection, request
from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.orchestrator.orchestrator import Orchestrator

ENDS = {"completed", "error", "cancelled"}

SCRIPT = """
- when: ^fail
  fail: the model is tired
- when: ^hang
  say: Hm
  hang: 600
- when: ^read
  call: [{tool: file-reader, input: {path: missing.txt}}]
- say: "It says: {{result}}"
- when: ^go
  say: Going
- when: .
  say: "You said: {{prompt}}"
"""


@dataclass(slots=True)
class SteadClient(Client):
    """Talks to a stead's server."""

    stead: Toolstead
    project: Path
    stop: asyncio.Event
    task: asyncio.Task[None]

    async def conversations(self) -> Orchestrator:
        return await self.stead.conversations()


@dataclass(frozen=True, slots=True)
class Told:
    """One event, as it came over the wire."""

    type: str
    id: str | None
    data: Any


@dataclass(slots=True)
class Stream:
    """A stream of events under the test's own hands."""

    connection: Connection
    headers: Mapping[str, str]
    seen: list[Told] = field(default_factory=list[Told])
    comments: list[str] = field(default_factory=list[str])
    _held: bytes = b""
    _over: bool = False

    async def next(self) -> Told | None:
        """The next event; None when the stream was closed in order."""
        while True:
            while b"\n\n" not in self._held:
                if self._over:
                    assert not self._held
                    return None
                await self._read()
            block, _, self._held = self._held.partition(b"\n\n")
            lines = block.decode().split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            self.comments += [line for line in lines if line.startswith(":")]
            if "data" in fields:
                told = Told(fields["event"], fields.get("id"), json.loads(fields["data"]))
                assert told.data["type"] == told.type
                assert told.data["id"] == (told.id or "")
                self.seen.append(told)
                return told

    async def until(self, kind: str) -> Told:
        """The next event of a type."""
        while True:
            told = await self.next()
            assert told is not None, f"closed before {kind}: {[event.type for event in self.seen]}"
            if told.type == kind:
                return told

    async def rest(self) -> list[Told]:
        """Everything until the stream closes."""
        found: list[Told] = []
        while (told := await self.next()) is not None:
            found.append(told)
        return found

    async def _read(self) -> None:
        reader = self.connection.reader
        async with asyncio.timeout(PATIENCE):
            size = int(await reader.readline(), 16)
            data = (await reader.readexactly(size + 2))[:-2]
        self._over = size == 0
        self._held += data

    async def close(self) -> None:
        await self.connection.close()


def joined(seen: Iterable[Told]) -> list[Told]:
    """The same events with deltas of a run that follow each other as one, as they are read after the run's end."""
    found: list[Told] = []
    for told in seen:
        before = found[-1] if found and found[-1].type == told.type == "message.delta" else None
        if before is None or before.data["runId"] != told.data["runId"]:
            found.append(told)
        else:
            text = before.data["data"]["text"] + told.data["data"]["text"]
            found[-1] = Told(told.type, told.id, {**told.data, "data": {"text": text}})
    return found


async def follow(client: Client, path: str, headers: Mapping[str, str] | None = None) -> Stream:
    """Open a stream of events."""
    connection = await client.connect()
    await connection.send(request("GET", path, headers=headers, host=connection.host))
    async with asyncio.timeout(PATIENCE):
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    shown = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    assert head[0].split()[1] == "200", head
    return Stream(connection, shown)


async def ended(client: Client, run_id: str) -> Any:
    """A run at its end, which its stream tells."""
    stream = await follow(client, f"/api/runs/{run_id}/events")
    await stream.rest()
    await stream.close()
    return (await client.get(f"/api/runs/{run_id}")).json


async def readers(client: SteadClient, count: int) -> None:
    """Wait until so many streams are open, and not one more."""
    log = (await client.conversations()).log
    async with asyncio.timeout(PATIENCE):
        while log.feed is None or len(log.feed._readers) != count:
            await asyncio.sleep(0.01)


def settings_of(script: Path) -> dict[str, Any]:
    return {"runtime": {"scripted": {"script": str(script)}}}


@asynccontextmanager
async def serving(folder: Path, script: str = SCRIPT, **settings: Any) -> AsyncIterator[SteadClient]:
    """A stead in this process, served on a free port."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    file = folder / "script.yaml"
    file.write_text(script)
    async with Toolstead(project, settings={**settings_of(file), **settings}, watch=False) as stead:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(
            stead.serve_http(port=0, on_ready=lambda address: ready.set_result(address.url), stop=stop)
        )
        await asyncio.wait([task, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        client = SteadClient(await ready, stead, project, stop, task)
        try:
            yield client
        finally:
            client.leave()
            stop.set()
            await asyncio.wait_for(task, PATIENCE)


_PROGRAM = """
import asyncio, sys
from toolstead import Toolstead

async def main():
    settings = {"runtime": {"scripted": {"script": sys.argv[2]}}}
    async with Toolstead(sys.argv[1], settings=settings, watch=False) as stead:
        await stead.serve_http(port=0, on_ready=lambda address: print(address.url, flush=True))

asyncio.run(main())
"""


@asynccontextmanager
async def served_elsewhere(folder: Path, script: str = SCRIPT) -> AsyncIterator[tuple[programs.Program, Client]]:
    """The same in a process of its own, on the database of this test's home."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    file = folder / "script.yaml"
    file.write_text(script)
    command = [sys.executable, "-c", _PROGRAM, str(project), str(file)]
    async with programs.served(command, folder) as (program, url):
        client = Client(url)
        try:
            yield program, client
        finally:
            client.leave()
