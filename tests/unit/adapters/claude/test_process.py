"""The process around the program, with small programs in its place."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import CLIConnectionError, ProcessError

from tests.waiting import PATIENCE, until
from toolstead.adapters.claude import process as under_test
from toolstead.adapters.claude.launch import Launch
from toolstead.adapters.claude.process import ClaudeProcess
from toolstead.processes import owner
from toolstead.processes.owner import ProcessOwner
from toolstead.processes.piped import PipedProcess

pytestmark = pytest.mark.requires("claude")

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
DEAF = "import time\nprint('{\"a\": 1}', flush=True)\nwhile True: time.sleep(100)\n"

Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    started: list[ClaudeProcess] = []

    async def begin(program: str, *, key: str = "", cwd: Path = tmp_path) -> ClaudeProcess:
        environment = {"PATH": os.environ["PATH"]}
        launch = Launch(argv=(sys.executable, "-c", program), environment=environment, cwd=cwd, key=key)
        process = ClaudeProcess(launch)
        started.append(process)
        await process.connect()
        return process

    yield begin
    for process in started:
        await process.close()


@pytest.fixture
def watchdogs(monkeypatch: pytest.MonkeyPatch) -> list[ProcessOwner]:
    """Those that were started, each before its program."""
    started: list[ProcessOwner] = []
    really = under_test.start_watchdog

    def watch(mark: str) -> ProcessOwner:
        started.append(really(mark))
        return started[-1]

    class Watched(PipedProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            assert started
            super().__init__(*given, **named)

    monkeypatch.setattr(under_test, "start_watchdog", watch)
    monkeypatch.setattr(under_test, "PipedProcess", Watched)
    return started


async def first(process: ClaudeProcess) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        async for message in process.read_messages():
            return message
    raise AssertionError("it says nothing")


async def test_messages_go_in_and_come_out(start: Start) -> None:
    process = await start(ECHO)
    await process.write('{"type": "größe"}\n')
    assert await first(process) == {"type": "größe"}
    assert process.is_ready()


async def test_what_is_no_message_is_passed_over(start: Start) -> None:
    process = await start("print('hello'); print(); print('{\"a\": 1}')")
    assert await first(process) == {"a": 1}


async def test_half_a_character_is_no_reason_to_stop_listening(start: Start) -> None:
    process = await start(r"""print(r'{"a": ["\ud83d!", "\ud83d\ude00"]}')""")
    assert await first(process) == {"a": ["\ufffd!", "\U0001f600"]}


async def test_it_is_given_the_environment_it_is_given_and_nothing_else(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "of somebody else")
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    one, other = [await first(await start(program)) for _ in range(2)]
    assert one.keys() - {"LC_CTYPE"} == {"PATH", "TOOLSTEAD_CALL"}
    assert one["TOOLSTEAD_CALL"] != other["TOOLSTEAD_CALL"]


async def test_the_key_comes_through_a_descriptor_of_its_own(start: Start) -> None:
    program = """
import json, os
number = int(os.environ["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"])
key = os.read(number, 1000).decode()
print(json.dumps({"key": key, "rest": os.read(number, 1000).decode(), "shown": key in str(os.environ)}))
"""
    process = await start(program, key="the key")
    assert await first(process) == {"key": "the key", "rest": "", "shown": False}


async def test_a_program_that_leaves_when_its_input_ends_is_not_killed(start: Start, tmp_path: Path) -> None:
    program = (
        f"import sys, pathlib\nsys.stdin.read()\npathlib.Path({str(tmp_path / 'left')!r}).write_text('properly')\n"
    )
    process = await start(program)
    await process.close()
    assert (tmp_path / "left").read_text() == "properly"
    assert not process.is_alive


async def test_a_program_that_does_not_leave_is_killed_with_all_it_started(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LEAVING", 0.1)
    program = """
import json, subprocess, sys, time
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print(json.dumps({"own": own.pid, "away": away.pid}), flush=True)
time.sleep(1000)
"""
    process = await start(program)
    children = (await first(process)).values()
    await process.close()
    await process.close()
    await until(lambda: not any(_is_there(child) for child in children))
    assert not _is_there(process.pid or 0)


async def test_where_no_process_can_be_looked_up_the_group_of_its_own_is_ended_all_the_same_and_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(under_test, "LEAVING", 0.1)
    monkeypatch.setattr(owner, "kill_marked", lambda mark, started: looked.append(mark))
    program = """
import json, subprocess, sys, time
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(json.dumps({"own": own.pid}), flush=True)
time.sleep(1000)
"""
    process = await start(program)
    child = (await first(process))["own"]
    async with asyncio.timeout(PATIENCE):
        await process.close()
        await process.close()
    await until(lambda: not _is_there(child))
    assert looked == [process._process._mark, process._watchdog._mark]


async def test_a_program_that_nobody_hears_out_is_ended_all_the_same(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LEAVING", 0.1)
    monkeypatch.setattr(under_test, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(owner, "kill_marked", lambda mark, started: None)
    process = await start("while True: print('x' * 1000, flush=True)")
    really, loop = os.killpg, asyncio.get_running_loop()
    monkeypatch.setattr(os, "killpg", lambda *given: loop.call_later(0.1, really, *given))  # as it is waited for
    async with asyncio.timeout(PATIENCE):
        await process.close()
    assert not process.is_alive


async def test_what_a_program_left_behind_ends_when_it_is_closed(start: Start) -> None:
    program = """
import json, subprocess, sys
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print(json.dumps({"away": away.pid}), flush=True)
"""
    process = await start(program)
    child = (await first(process))["away"]
    await until(lambda: not process.is_alive)
    await process.close()
    await until(lambda: not _is_there(child))


async def test_a_program_that_was_killed_is_seen_to_be_dead_at_once(start: Start) -> None:
    process = await start(DEAF)
    await first(process)
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while _is_there(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - the event loop must not hear of it
    assert not process.is_alive


async def test_a_program_that_ended_badly_says_why(start: Start) -> None:
    process = await start("import sys; print('no such thing', file=sys.stderr); sys.exit(3)")
    with pytest.raises(ProcessError, match="no such thing") as raised:
        await first(process)
    assert raised.value.exit_code == 3
    with pytest.raises(CLIConnectionError, match=r"ended with status 3.*no such thing"):
        await process.write("{}\n")


async def test_a_program_that_cannot_be_started_is_named_and_watched_over_no_more(
    start: Start, tmp_path: Path, watchdogs: list[ProcessOwner]
) -> None:
    with pytest.raises(CLIConnectionError, match=r"cannot be started in .*nowhere"):
        await start(ECHO, cwd=tmp_path / "nowhere")
    (watchdog,) = watchdogs
    assert not any(child.returncode is None for child in watchdog._children)


async def test_a_program_is_watched_over_from_before_it_starts_until_it_has_ended(
    start: Start, watchdogs: list[ProcessOwner]
) -> None:
    process = await start(ECHO)
    (watchdog,) = watchdogs
    (watching,) = watchdog._children
    assert watching.returncode is None
    await process.close()
    assert watching.returncode is not None


@pytest.mark.parametrize("program", ["print('{\"a\": ')", "print('{' + ' ' * 200_000)"])
async def test_a_message_that_is_broken_or_too_long_ends_the_reading(
    start: Start, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(under_test, "LONGEST_LINE", 1_000)
    process = await start(program)
    with pytest.raises(CLIConnectionError, match="cannot be read"):
        await first(process)


async def test_a_complaint_that_is_too_long_is_passed_over(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "LONGEST_LINE", 1_000)
    program = "import sys\nprint('x' * 200_000, file=sys.stderr)\nprint('at last', file=sys.stderr, flush=True)\n"
    process = await start(program + "print('{}', flush=True)\nsys.stdin.read()\n")
    await first(process)
    await until(lambda: process.last_errors.endswith("at last"))


async def test_a_start_has_no_moment_at_which_it_could_be_cancelled_half_way(tmp_path: Path) -> None:
    launch = Launch(argv=(sys.executable, "-c", ECHO), environment={"PATH": os.environ["PATH"]}, cwd=tmp_path)
    process = ClaudeProcess(launch)
    starting = asyncio.create_task(process.connect())
    await asyncio.sleep(0)
    assert starting.done()
    assert process.is_alive
    await process.close()
    assert not _is_there(process.pid or 0)


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
