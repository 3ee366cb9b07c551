"""A process that talks in a thread which others talk in, too; its model calls a tool that notes when it is inside."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from toolstead.adapters.scripted.runtime import ScriptedRuntime
from toolstead.adapters.storage import store as preloaded  # noqa: F401 - so that a start is cheap
from toolstead.app.stead import Toolstead
from toolstead.orchestrator.orchestrator import RunRequest
from toolstead.plugins.decorator import tool

SCRIPT = r"""
- when: 'hang\Z'
  hang: 1000
- when: 'go on\Z'
  hang: 1000
- when: 'stall\Z'
  call: [{tool: be_inside, input: {}}]
- hang: 1000
- when: message
  call: [{tool: be_inside, input: {}}]
- say: "inside and out: {{result}}"
"""
THREAD = "shared"


@dataclass(frozen=True)
class Place:
    """A database, and the folder its processes share.

    Attributes:
        resumable: Conversations are kept where the other process can resume them.
    """

    folder: Path
    url: str | None = None
    resumable: bool = True

    @property
    def inside(self) -> Path:
        """A line for each time a model goes inside, and one when it is out again."""
        return self.folder / "inside.txt"

    @property
    def conversations(self) -> Path:
        return self.folder / "conversations"

    def stead(self) -> Toolstead:
        environ = {"TOOLSTEAD_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}
        if self.url is not None:
            environ["TOOLSTEAD_DATABASE_URL"] = self.url
        script = self.folder / "script.yaml"
        script.write_text(SCRIPT, encoding="utf-8")
        scripted = {"script": str(script)} | ({"folder": str(self.conversations)} if self.resumable else {})
        return Toolstead(self.folder, environ=environ, settings={"runtime": {"scripted": scripted}}, watch=False)


class Talker:
    """The other end of a process that talks."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe
        self.pid: int = process.pid

    async def ask(self, *command: Any) -> Any:
        """Have it do something, and wait for what it says."""
        self._pipe.send(command)
        return await self.receive()

    async def receive(self) -> Any:
        return await asyncio.to_thread(self._receive)

    def freeze(self) -> None:
        """Stop it, alive as it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _receive(self) -> Any:
        assert self._pipe.poll(PATIENCE), "the process says nothing"
        return self._pipe.recv()


@contextmanager
def talker(place: Place) -> Generator[Talker]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(place, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Talker(process, ours)
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def _main(place: Place, pipe: Connection) -> None:
    asyncio.run(_talk(place, pipe))


async def _talk(place: Place, pipe: Connection) -> None:
    @tool
    async def be_inside() -> str:
        """Say that a model is inside, stay a moment, and say that it is out."""
        _note(place.inside, f"in {os.getpid()}")
        await asyncio.sleep(0.005)
        _note(place.inside, f"out {os.getpid()}")
        return "done"

    async with place.stead() as stead:
        stead.registry.register(be_inside)
        talk = await stead.conversations()
        pipe.send((os.getpid(), talk.store.owner))
        while (command := await asyncio.to_thread(pipe.recv))[0] != "stop":
            match command:
                case ("say", text):
                    accepted = await talk.submit(RunRequest(prompt=text, thread_id=THREAD))
                    pipe.send(accepted.run_id)
                case ("steer", text, key):
                    wanted = RunRequest(prompt=text, thread_id=THREAD, idempotency_key=key)
                    accepted = await talk.steer(wanted)
                    pipe.send((accepted.message_id, accepted.run_id, accepted.fresh))
                case ("cancel", run_id):
                    run = await talk.cancel(run_id)
                    pipe.send((run.status, run.error and run.error.code))
                case ("delete",):
                    await talk.delete_thread(THREAD)
                    pipe.send("deleted")
                case ("wait", run_id):
                    run = await talk.wait(run_id)
                    pipe.send((run.status, run.result))
                case _:
                    runtime: Any = talk.agents.runtimes("")
                    assert isinstance(runtime, ScriptedRuntime)
                    # What was said before may stand above the message itself.
                    told = [(one.prompt.splitlines()[-1], one.warmth, one.steered) for one in runtime.received]
                    pipe.send(told)
    pipe.send("stopped")


def _note(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
