"""SIGTERM while plugins are at work: what was begun is stopped, the last one first, and nothing stays behind.

Real processes, with plugins that lie in the user's folder and write down what happens to them.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.programs.running import TOOLSTEAD, Program, Wire, is_alive, running, text_in
from tests.surfaces.rest_server import Client
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.promise("P7")

DOORS = {"serve": ["serve", "--port", "0"], "mcp": ["mcp"]}

PLUGIN = '''
import asyncio, atexit, os, pathlib, subprocess, threading
from toolstead.plugins.contract import Plugin, Tool

NAME = pathlib.Path(__file__).stem
FOLDER = pathlib.Path(os.environ["JOURNAL"])


def note(what):
    with (FOLDER / "journal").open("a") as journal:
        journal.write(f"{NAME} {what}\\n")


def left():
    """Written at the very end: the threads that Python still waits for."""
    (FOLDER / "left").write_text(" ".join(thread.name for thread in threading.enumerate() if not thread.daemon))


async def child(name):
    """A process that runs until whoever waits here is cancelled."""
    process = subprocess.Popen(["sleep", "1000"])
    try:
        (FOLDER / name).write_text(str(process.pid))
        note(f"{name} began")
        await asyncio.get_running_loop().create_future()
    finally:
        process.kill()
        process.wait()
        note(f"{name} ended")


async def start(ctx):
    note("start")
    if NAME == "alpha":
        atexit.register(left)
        await asyncio.to_thread(threading.get_ident)  # a worker, which must not stay
    if NAME == "beta" and "beta" in os.environ.get("HANGS", ""):
        await child("start")
    if NAME == "beta" and "deaf" in os.environ.get("HANGS", ""):
        note("start began")
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                note("ignores it")
    if NAME == "gamma" and os.environ.get("JOB"):
        ctx.run_background(child("job"), name="job")
    note("started")


async def stop(ctx):
    note("stop")


async def work(ctx, input, meta):
    await child("call")
    return "done"


async def wait_for(ctx, input, meta):
    note("call began")
    while not (FOLDER / "go-on").exists():
        await asyncio.sleep(0.01)
    note("call ended")
    return "done"


plugin = Plugin(
    name=NAME,
    start=start,
    stop=stop,
    tools=[
        Tool(name="work", description="Works for long.", handler=work, timeout=1000),
        Tool(name="wait", description="Waits for a file.", handler=wait_for, timeout=1000),
    ],
)
'''

STARTED = [f"{name} {what}" for name in ("alpha", "beta", "gamma") for what in ("start", "started")]
STOPPED = ["gamma stop", "beta stop", "alpha stop"]


class House:
    """A running server, and what its plugins wrote down."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def journal(self) -> list[str]:
        file = self.folder / "journal"
        return file.read_text().splitlines() if file.exists() else []

    async def noted(self, line: str) -> None:
        await until(lambda: line in self.journal())

    async def pid_of(self, name: str) -> int:
        pid = int(await text_in(self.folder / name))
        assert is_alive(pid)
        return pid

    async def ends_with(self, status: int) -> None:
        """It has ended by itself, with this status, and has left neither threads nor complaints."""
        assert await self.program.ended() == status, self.program.stderr
        assert (self.folder / "left").read_text() == "MainThread"
        assert "Traceback" not in self.program.stderr
        print(f"pid {self.program.pid}: {self.journal()}")


@asynccontextmanager
async def house(door: str, home: Path, folder: Path, **environ: str) -> AsyncIterator[House]:
    """`toolstead serve` or `toolstead mcp` with three plugins."""
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    for name in ("alpha", "beta", "gamma"):
        (plugins / f"{name}.py").write_text(PLUGIN)
    command = [*TOOLSTEAD, *DOORS[door], "--project", str(folder)]
    env = {"JOURNAL": str(folder), **environ}
    async with running(command, errors=folder / "stderr.txt", cwd=folder, env=env) as program:
        yield House(program, folder)


async def client_of(home: Path) -> Client:
    """A client of `serve`, once it listens."""

    def announced() -> str:
        files = [json.loads(path.read_text()) for path in home.rglob("server.json")]
        entries = [entry for file in files for servers in file.values() for entry in servers]
        return entries[0]["url"] if entries else ""

    return Client(await until(announced))


def listens(client: Client) -> bool:
    """Whether anybody is at the address."""
    try:
        socket.create_connection(("127.0.0.1", client.port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("door", DOORS)
async def test_in_the_middle_of_a_start_those_begun_are_stopped(door: str, home: Path, tmp_path: Path) -> None:
    async with house(door, home, tmp_path, HANGS="beta") as serving:
        child = await serving.pid_of("start")
        serving.program.process.terminate()
        await serving.ends_with(128 + signal.SIGTERM)
        assert serving.journal() == [
            *("alpha start", "alpha started", "beta start"),
            *("beta start began", "beta start ended"),
            *("beta stop", "alpha stop"),
        ]
        assert not is_alive(child)


@pytest.mark.parametrize("door", DOORS)
async def test_a_start_that_ignores_the_end_does_not_keep_the_process(door: str, home: Path, tmp_path: Path) -> None:
    async with house(door, home, tmp_path, HANGS="deaf") as serving:
        await serving.noted("beta start began")
        serving.program.process.terminate()
        await serving.ends_with(128 + signal.SIGTERM)
        assert "beta ignores it" in serving.journal()
        assert serving.journal()[-2:] == ["beta stop", "alpha stop"]
        assert "gamma start" not in serving.journal()


@pytest.mark.parametrize("door", DOORS)
async def test_in_the_middle_of_a_background_job_it_is_cancelled_before_its_plugin_is_stopped(
    door: str, home: Path, tmp_path: Path
) -> None:
    async with house(door, home, tmp_path, JOB="yes") as serving:
        child = await serving.pid_of("job")
        if door == "serve":
            await client_of(home)
        else:
            await Wire(serving.program).shake_hands()
        serving.program.process.terminate()
        await serving.ends_with(0)
        journal = serving.journal()
        assert journal[-4:] == ["gamma job ended", *STOPPED]
        assert [line for line in journal if "job" not in line] == [*STARTED, *STOPPED]
        assert not is_alive(child)


async def test_in_the_middle_of_a_call_over_mcp_it_is_cancelled_and_then_all_are_stopped(
    home: Path, tmp_path: Path
) -> None:
    async with house("mcp", home, tmp_path) as serving:
        wire = Wire(serving.program)
        await wire.shake_hands()
        await wire.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "alpha__work"}})
        child = await serving.pid_of("call")
        serving.program.process.terminate()
        await serving.ends_with(0)
        assert serving.journal() == [*STARTED, "alpha call began", "alpha call ended", *STOPPED]
        assert not is_alive(child)


async def test_in_the_middle_of_a_call_over_http_it_is_waited_for_and_then_all_are_stopped(
    home: Path, tmp_path: Path
) -> None:
    async with house("serve", home, tmp_path) as serving:
        client = await client_of(home)
        call = asyncio.create_task(client.call("alpha__wait", {}))
        await serving.noted("alpha call began")
        serving.program.process.terminate()
        await until(lambda: not listens(client))  # it was heard
        (tmp_path / "go-on").touch()
        reply = await asyncio.wait_for(call, PATIENCE)
        assert (reply.status, reply.json["content"][0]["text"]) == (200, "done")
        await serving.ends_with(0)
        assert serving.journal() == [*STARTED, "alpha call began", "alpha call ended", *STOPPED]
        client.leave()


async def test_a_second_signal_cancels_the_call_over_http_and_still_all_are_stopped(home: Path, tmp_path: Path) -> None:
    async with house("serve", home, tmp_path) as serving:
        client = await client_of(home)
        call = asyncio.create_task(client.call("alpha__work", {}))
        child = await serving.pid_of("call")
        serving.program.process.terminate()
        await until(lambda: not listens(client))  # the first one was heard
        serving.program.process.terminate()
        await serving.ends_with(0)
        assert (await asyncio.wait_for(call, PATIENCE)).status == 503
        assert serving.journal() == [*STARTED, "alpha call began", "alpha call ended", *STOPPED]
        assert not is_alive(child)
        client.leave()
