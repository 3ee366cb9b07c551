"""Tools that ignore being cancelled, or work on in a thread: whoever called them, the process ends all the same."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.programs.running import TOOLSTEAD, Program, Wire, running, text_in
from tests.surfaces.rest_server import Client
from tests.surfaces.test_plugin_shutdown import client_of

pytestmark = pytest.mark.promise("P7")

PLUGIN = '''
import asyncio, os, pathlib, time
from toolstead import Plugin, tool

began = pathlib.Path(os.environ["BEGAN"])


@tool
async def deaf() -> str:
    """Ignores everything."""
    began.write_text("deaf")
    while True:
        try:
            await asyncio.sleep(1000)
        except BaseException:
            pass


@tool
async def threaded() -> str:
    """Waits in a thread for what never comes."""

    def wait():
        began.write_text("threaded")
        time.sleep(1000)

    await asyncio.to_thread(wait)
    return "never"


plugin = Plugin(name="stubborn", tools=[deaf, threaded])
'''
TASK = ("ignored its cancellation and was abandoned",)
THREAD = ("a thread does not end (",)


@asynccontextmanager
async def started(home: Path, folder: Path, *words: str) -> AsyncIterator[Program]:
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "stubborn.py").write_text(PLUGIN)
    command = [*TOOLSTEAD, *words, "--project", str(folder)]
    env = {"BEGAN": str(folder / "began")}
    async with running(command, errors=folder / "stderr.txt", cwd=folder, env=env) as program:
        yield program


async def begin_over_mcp(program: Program, tool: str) -> Wire:
    wire = Wire(program)
    await wire.shake_hands()
    await wire.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": f"stubborn__{tool}"}})
    return wire


@pytest.mark.parametrize(("tool", "said"), [("deaf", TASK), ("threaded", THREAD)], ids=["deaf", "threaded"])
async def test_a_client_that_leaves_does_not_leave_the_server_behind(
    tool: str, said: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    async with started(home, tmp_path, "mcp") as program:
        wire = await begin_over_mcp(program, tool)
        await text_in(tmp_path / "began")
        wire.close()
        assert await program.ended() == 0
        assert any(words in program.stderr for words in said), program.stderr
        assert "Traceback" not in program.stderr


async def test_a_server_that_is_terminated_ends_on_the_other_loop_too(home: Path, tmp_path: Path) -> None:
    async with started(home, tmp_path, "serve", "--port", "0") as program:
        client: Client = await client_of(home)
        call = asyncio.create_task(client.call("stubborn__threaded", {}))
        await text_in(tmp_path / "began")
        program.process.terminate()
        assert await program.ended() == 0
        assert THREAD[0] in program.stderr
        await asyncio.wait((call,))
        client.leave()


async def test_a_command_that_is_interrupted_lets_the_tool_go(home: Path, tmp_path: Path) -> None:
    async with started(home, tmp_path, "tools", "call", "stubborn__deaf") as program:
        await text_in(tmp_path / "began")
        program.process.send_signal(signal.SIGINT)
        assert await program.ended() == 130
        assert "interrupted" in program.stderr
