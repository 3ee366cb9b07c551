"""A stead in a process of its own, told over stdin what to do with its plugins; and the client of it.

Each line is a JSON object with `do`; each answer is a JSON line: `{"is": …}`, or `{"error": …, "text": …}`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import machine
from tests.programs.running import Program, running
from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.errors import ToolsteadError, UnknownToolError


class Stead:
    """The other process, as its client has it."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def stderr(self) -> str:
        return self._program.stderr

    def kill(self) -> None:
        self._program.process.kill()

    async def ended(self) -> int:
        assert self._program.process.stdin is not None
        self._program.process.stdin.close()
        return await self._program.ended()

    async def ask(self, do: str, **more: Any) -> Any:
        """What it answers, errors too."""
        stdin = self._program.process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        await stdin.drain()
        line = await self._program.line()
        assert line, self.stderr
        return json.loads(line)

    async def do(self, do: str, **more: Any) -> Any:
        """What it answers, which must be no error."""
        answer = await self.ask(do, **more)
        assert "is" in answer, answer
        return answer["is"]

    async def shown(self, name: str = "shouty") -> Any:
        return await self.do("shown", name=name)

    async def call(self, tool: str = "shouty__shout", **input: Any) -> str | None:
        """What a tool says; None when there is none of that name."""
        return await self.do("call", tool=tool, input=input)

    async def says(self, text: str | None, tool: str = "shouty__shout") -> None:
        """Wait until the tool says this; None means that it is gone."""
        async with asyncio.timeout(PATIENCE):
            while await self.call(tool, **({"text": "a"} if tool == "shouty__shout" else {})) != text:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def stead_in_another_process(project: Path, home: Path, **environ: str) -> AsyncIterator[Stead]:
    """Open one, and see that it is another process."""
    command = [sys.executable, "-m", "tests.programs.plugin_stead", str(project)]
    path = os.pathsep.join(filter(None, (str(machine.ROOT), os.environ.get("PYTHONPATH"))))
    surroundings = {"TOOLSTEAD_HOME": str(home), "PYTHONPATH": path, **environ}
    errors = home / f"stderr-{len(list(home.glob('stderr-*')))}.txt"
    async with running(command, errors=errors, env=surroundings) as program:
        first = await program.line()
        assert first, program.stderr
        assert json.loads(first) == {"is": program.pid}
        assert program.pid != os.getpid()
        yield Stead(program)


async def _answer(stead: Toolstead, asked: dict[str, Any]) -> Any:
    match asked:
        case {"do": "shown", "name": name}:
            return next(one for one in stead.plugins.show_plugins() if one["name"] == name)
        case {"do": "call", "tool": tool, "input": input}:
            try:
                return (await stead.call(tool, input)).text
            except UnknownToolError:
                return None
        case {"do": "change", "name": name, **more}:
            return await stead.plugins.change_plugin(
                name, **{key: more[key] for key in ("enabled", "settings") if key in more}
            )
        case {"do": "reset", "name": name}:
            return await stead.plugins.reset_plugin(name)
        case {"do": "count", "name": name, "key": key, "to": last}:
            for number in range(last):
                await stead.plugins.change_plugin(name, settings={"counts": {f"{key}-{number}": number}})
            return last
        case {"do": "open"}:
            return (await stead.conversations()).store.owner
        case {"do": "reload"}:
            return [error.message for error in (await stead.registry.reload_plugins()).errors]
        case _:
            raise AssertionError(asked)


async def _main(project: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    async with Toolstead(project) as stead:
        print(json.dumps({"is": os.getpid()}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                answer: Any = {"is": await _answer(stead, json.loads(line))}
            except ToolsteadError as error:
                answer = {"error": type(error).__name__, "text": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
