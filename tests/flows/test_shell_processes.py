"""Commands of tool files as processes: what they are given, and that none of them outlives its call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.flows.tool_files import opened, shell, write
from tests.programs.running import PROGRAMS, TOOLSTEAD, is_alive, running
from tests.surfaces.rest_server import Connection, request
from tests.waiting import PATIENCE, until
from toolstead import Toolstead
from toolstead.processes.mark import MARK
from toolstead.types.result import Failure

pytestmark = [pytest.mark.promise("R2"), pytest.mark.promise("R8")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PYTHON = f"'{sys.executable}' -S -E"
WAYS = ("child", "silent", *(("session", "naked") if Path("/proc/self/environ").exists() else ()))
STUBBORN = f"{PYTHON} '{PROGRAMS / 'stubborn.py'}' {{{{folder}}}} {' '.join(WAYS)} | cat"
LOOK = f"{PYTHON} '{PROGRAMS / 'look_around.py'}'"
LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}
HANDED_ON = {"PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "USER"}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine on one event loop, then on the other: `toolstead serve` is on uvloop."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "alive").mkdir()
    write(
        tmp_path / "tools/processes.json",
        shell("stubborn", STUBBORN, "folder"),
        shell("impatient", STUBBORN, "folder", timeout=3_000),
        shell("look", LOOK, env={"GIVEN": "1", "TOKEN_FOR_IT": "Bearer ${USERS_OWN}"}),
        shell("wait", "sleep 1000"),
        shell("blink", "sleep 1000 | sleep 1000", timeout=50),
        shell("echo", "echo {{text}} | cat", "text"),
        shell("leave", "sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'"),
    )
    return tmp_path


async def settled(folder: Path) -> dict[str, int]:
    """The process numbers of everything the stubborn program started, once all of it runs."""
    names = ("itself", *WAYS)
    await until(lambda: all((folder / name).exists() for name in names))
    return {name: int((folder / name).read_text()) for name in names}


def none_alive(numbers: Mapping[str, int]) -> bool:
    return not any(is_alive(number) for number in numbers.values())


@asynccontextmanager
async def serving(stead: Toolstead) -> AsyncGenerator[tuple[int, asyncio.Task[None]]]:
    """The stead over HTTP: its port, and the task that serves."""
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
    await asyncio.wait([task, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield int((await ready).url.rpartition(":")[2]), task
    finally:
        stop.set()
        await asyncio.wait([task], timeout=PATIENCE)


async def calling(port: int, name: str, input: Mapping[str, Any]) -> Connection:
    """A connection with a call on its way."""
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port), f"127.0.0.1:{port}")
    await connection.send(request("POST", f"/api/tools/{name}/call", {"input": input}, host=connection.host))
    return connection


# Nothing outlives its call


@pytest.mark.promise("S2")
def test_a_timeout_leaves_no_process_alive_wherever_it_went(folder: Path, run: Run) -> None:
    async def main() -> dict[str, int]:
        async with opened(folder) as stead:
            result = await asyncio.wait_for(stead.call("impatient", {"folder": str(folder / "alive")}), PATIENCE)
            numbers = await asyncio.wait_for(settled(folder / "alive"), PATIENCE)
            assert result.failure == Failure.TIMEOUT
            assert result.text == "impatient did not finish within 3 seconds and was stopped"
            assert none_alive(numbers), numbers
            return numbers

    run(main())


def test_a_client_that_goes_away_ends_every_process_of_its_call(folder: Path, run: Run) -> None:
    async def main() -> None:
        async with opened(folder) as stead, serving(stead) as (port, _):
            connection = await calling(port, "stubborn", {"folder": str(folder / "alive")})
            numbers = await settled(folder / "alive")
            await connection.close()
            await until(lambda: none_alive(numbers))

    run(main())


def test_a_server_that_is_ended_in_a_hurry_ends_every_process(folder: Path, run: Run) -> None:
    async def main() -> None:
        async with opened(folder) as stead, serving(stead) as (port, task):
            connection = await calling(port, "stubborn", {"folder": str(folder / "alive")})
            numbers = await settled(folder / "alive")
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
            assert none_alive(numbers)
            await connection.close()

    run(main())


async def test_the_command_that_serves_takes_its_processes_along_when_it_is_told_to_end(folder: Path) -> None:
    environ = {"TOOLSTEAD_TOOLS_DIR": str(folder / "tools"), "USERS_OWN": "x" * 20}
    command = [*TOOLSTEAD, "serve", "--port", "0"]
    async with running(command, errors=folder / "stderr.txt", cwd=folder, env=environ) as program:
        port = int((await program.stderr_with("/docs")).partition("/api/tools")[0].rpartition(":")[2])
        connection = await calling(port, "stubborn", {"folder": str(folder / "alive")})
        numbers = await settled(folder / "alive")
        async with asyncio.timeout(PATIENCE):
            while program.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    program.process.send_signal(signal.SIGTERM)  # a second one skips the grace
                await asyncio.sleep(0.05)
        assert none_alive(numbers)
        await connection.close()


def test_what_a_command_leaves_in_the_background_ends_with_it(folder: Path, run: Run) -> None:
    async def main() -> None:
        async with opened(folder) as stead:
            number = int((await stead.call("leave")).text)
            await until(lambda: not is_alive(number))

    run(main())


# What a process is given


async def test_a_process_sees_the_allowed_environment_and_nothing_of_the_servers(folder: Path) -> None:
    """Through the real command, on its own event loop, with tokens and descriptors that are nobody's business."""
    secret = "s3cr3t-of-the-user"
    environ = dict.fromkeys(("TOOLSTEAD_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK"), secret)
    environ |= {"USERS_OWN": secret, "LD_LIBRARY_PATH": "", "LANGUAGE": "x", "PATHS": "x", "lc_all": "x", "LCX": "x"}
    environ |= {
        "LC_ALL": "C.UTF-8",
        "LC_OWN": "x",
        "LC_CTYPE": "C.UTF-8",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "USER": "me",
    }
    environ |= {"TMPDIR": str(folder), "TOOLSTEAD_TOOLS_DIR": str(folder / "tools")}
    spare = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(spare, True)
    try:
        command = [*TOOLSTEAD, "serve", "--port", "0"]
        async with running(command, errors=folder / "stderr.txt", cwd=folder, env=environ) as program:
            port = int((await program.stderr_with("/docs")).partition("/api/tools")[0].rpartition(":")[2])
            connection = Connection(*await asyncio.open_connection("127.0.0.1", port), f"127.0.0.1:{port}")
            headers = {"authorization": f"Bearer {secret}"}
            body = request("POST", "/api/tools/look/call", {"input": {}}, headers, host=connection.host)
            await connection.send(body)
            reply = (await connection.reply()).json
            await connection.close()
    finally:
        os.close(spare)
    assert reply["isError"] is False, reply
    seen = json.loads(reply["content"][0]["text"])
    assert set(seen["environ"]) == {*HANDED_ON, "LC_ALL", "LC_CTYPE", "LC_OWN", "GIVEN", "TOKEN_FOR_IT", MARK}
    assert seen["environ"]["TOKEN_FOR_IT"] == "Bearer ********"  # masked on its way out
    assert seen["stdin"] == ""
    assert seen["leads_session"]
    assert seen["cwd"] == str(folder.resolve())
    assert set(seen["descriptors"]) == {"0", "1", "2"}
    kinds = [int(seen["descriptors"][number], 8) for number in ("0", "1", "2")]
    assert stat.S_ISCHR(kinds[0])
    assert stat.S_ISFIFO(kinds[1])
    assert stat.S_ISFIFO(kinds[2])


# Many at once


def used() -> tuple[int, int]:
    """How many descriptors are open (devices aside: uvloop keeps one in reserve), and how many processes are ours."""
    descriptors = 0
    for entry in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):
            descriptors += not stat.S_ISCHR(os.fstat(int(entry.name)).st_mode)
    shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(number): int(parent) for number, parent in map(str.split, shown.splitlines())}
    ours = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return descriptors, len(ours)


def test_two_hundred_at_once_leak_nothing_even_when_most_of_them_are_stopped(folder: Path, run: Run) -> None:
    chance = random.Random(8)

    async def well(stead: Toolstead, number: int) -> str:
        result = await stead.call("echo", {"text": f"number {number}"})
        assert result.text == f"number {number}\n"
        return "well"

    async def late(stead: Toolstead, _: int) -> str:
        assert (await stead.call("blink")).failure == Failure.TIMEOUT
        return "late"

    async def given_up(stead: Toolstead, _: int) -> str:
        task = asyncio.ensure_future(stead.call("wait"))
        for _ in range(chance.choice([0, 0, 1, 2, 3, 8, 20, 100])):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        assert task.cancelled()
        return "given up"

    async def main() -> None:
        async with opened(folder, watch=False) as stead:
            await asyncio.gather(*(stead.call("echo", {"text": "first"}) for _ in range(10)))  # what is made once
            tasks, before = asyncio.all_tasks(), used()
            for _ in range(2):
                kinds = [well] * 100 + [late] * 50 + [given_up] * 50
                chance.shuffle(kinds)
                async with asyncio.timeout(PATIENCE):
                    ends = await asyncio.gather(*(kind(stead, number) for number, kind in enumerate(kinds)))
                assert sorted(ends) == ["given up"] * 50 + ["late"] * 50 + ["well"] * 100
            assert asyncio.all_tasks() == tasks
            assert used() == before

    run(main())


def test_two_hundred_good_ones_at_once_leak_nothing(folder: Path, run: Run) -> None:
    async def main() -> None:
        async with opened(folder, watch=False) as stead:
            await stead.call("echo", {"text": "once"})
            tasks, before = asyncio.all_tasks(), used()
            texts = [f"{number};|&" for number in range(200)]
            answers = await asyncio.gather(*(stead.call("echo", {"text": text}) for text in texts))
            assert [answer.text for answer in answers] == [f"{text}\n" for text in texts]
            assert asyncio.all_tasks() == tasks
            assert used() == before

    run(main())
