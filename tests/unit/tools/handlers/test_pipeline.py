"""Processes and their pipes: how they end, what they leave behind, and that it is the same on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import PROGRAMS, is_alive
from tests.waiting import PATIENCE, until
from toolstead.errors import ToolError
from toolstead.processes import owner
from toolstead.processes.capture import Capture
from toolstead.processes.mark import MARK
from toolstead.tools.handlers.shell import Setting, run_pipeline

pytestmark = [pytest.mark.promise("R2"), pytest.mark.usefixtures("nothing_left")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PYTHON = [sys.executable, "-S", "-E"]
STUBBORN = [*PYTHON, str(PROGRAMS / "stubborn.py")]


def setting(folder: Path = Path("/"), limit: int = 100_000, **env: str) -> Setting:
    environ = {"PATH": os.environ["PATH"], **env}
    return Setting(cwd=folder, env=environ, stdout=Capture(limit), stderr=Capture(limit))


async def ran(*commands: Sequence[str], stdin: bytes | None = None, folder: Path = Path("/")) -> tuple[int, str, str]:
    """Status, stdout and stderr of a pipeline."""
    here = setting(folder)
    async with asyncio.timeout(PATIENCE):
        status = await run_pipeline(commands, here, stdin)
    return status, here.stdout.text, here.stderr.text


def sh(script: str, *arguments: str) -> list[str]:
    return ["sh", "-c", script, "sh", *arguments]


async def settled(folder: Path, *names: str) -> dict[str, int]:
    """The process numbers of what has settled there, once all of it has."""
    await until(lambda: all((folder / name).exists() for name in names))
    return {name: int((folder / name).read_text()) for name in names}


# How it ends


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("command", "status"),
    [(["true"], 0), (["false"], 1), (sh("exit 42"), 42), (sh("kill -9 $$"), -9), (sh("kill -TERM $$"), -15)],
)
def test_the_status_is_the_exit_status_or_the_signal(command: list[str], status: int, run: Run) -> None:
    assert run(ran(command)) == (status, "", "")


def test_the_last_status_counts_and_stderr_of_all_is_kept(run: Run) -> None:
    status, out, err = run(ran(sh("echo a; echo b >&2; exit 3"), sh("cat; echo c >&2"), sh("tr a-z A-Z; exit 7")))
    assert (status, out) == (7, "A\n")
    assert sorted(err.split()) == ["b", "c"]


def test_who_writes_to_nobody_ends_without_a_word(run: Run) -> None:
    assert run(ran(["yes"], ["head", "-1"])) == (0, "y\n", "")


def test_a_program_that_is_missing_in_the_middle_gives_its_neighbours_the_end_of_a_pipe(run: Run) -> None:
    status, out, err = run(ran(["yes"], ["no-such-program-1"], sh("cat; echo rest")))
    assert (status, out) == (0, "rest\n")
    assert err == "no-such-program-1: program not found; install it, or give its path\n"
    assert run(ran(["yes"], ["cat"], ["no-such-program-2"]))[0] == 127
    assert run(ran(["no-such-program-3"], ["cat"], stdin=b"x" * 1_000_000))[:2] == (0, "")


def test_what_cannot_be_run_is_told_apart(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "nonsense").write_text("no program\n")
    (tmp_path / "nonsense").chmod(0o755)
    (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
    (tmp_path / "orphan").chmod(0o755)
    assert run(ran(["./plain"], folder=tmp_path)) == (126, "", "./plain: cannot be run: Permission denied\n")
    assert run(ran([str(tmp_path)]))[0] == 126
    assert run(ran(["./orphan"], folder=tmp_path))[0] == 127
    assert run(ran(["./plain/x"], folder=tmp_path))[0] == 127
    with pytest.raises(ToolError, match=r"\./nonsense cannot be started: Exec format error"):
        run(ran(["./nonsense"], folder=tmp_path))


def test_a_folder_that_is_gone_is_told_as_such(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="gone' that this tool runs in does not exist"):
        run(ran(["true"], folder=tmp_path / "gone"))


def test_more_arguments_than_the_system_takes_are_an_error_and_what_already_runs_is_ended(run: Run) -> None:
    long = ["x" * 100_000] * 200
    with pytest.raises(ToolError, match="echo cannot be started: Argument list too long"):
        run(ran(["sleep", "1000"], ["echo", *long], ["cat"]))


def test_without_descriptors_nothing_starts_and_nothing_leaks(run: Run) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    said: list[str] = []

    async def main() -> None:
        await ran(["true"])  # what is imported and opened once is there
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(16):
            try:
                await ran(["sleep", "0"], ["cat"], ["cat"], stdin=b"x")
            except ToolError as error:
                said.append(str(error))
            os.close(taken.pop())

    try:
        run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    assert 8 < len(said) < 16
    assert all(f"cannot be started: {os.strerror(errno.EMFILE)}" in text for text in said)


def test_a_process_that_nobody_could_watch_does_not_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ToolError, match="sh cannot be started: the system has no thread left"):
        run(run_pipeline([sh("sleep 1; echo ran > ran")], setting(tmp_path)))
    assert list(tmp_path.iterdir()) == []


# Input


def test_without_input_a_program_reads_the_end_at_once(run: Run) -> None:
    assert run(ran(["cat"])) == (0, "", "")


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_input_of_any_size_is_read_to_the_end(size: int, run: Run) -> None:
    assert run(ran(["wc", "-c"], stdin=b"x" * size))[1].strip() == str(size)
    assert run(ran(["cat"], ["cat"], ["wc", "-c"], stdin=b"x" * size))[1].strip() == str(size)


@pytest.mark.parametrize(
    ("command", "status", "out"),
    [
        (["true"], 0, ""),
        (["head", "-c", "3"], 0, "xxx"),
        (sh("exec <&-; sleep 0.1; echo on"), 0, "on\n"),
        (sh("sleep 0.1; exit 5"), 5, ""),
    ],
)
def test_input_that_is_not_read_neither_hangs_nor_hurts(command: list[str], status: int, out: str, run: Run) -> None:
    assert run(ran(command, stdin=b"x" * 4_000_000)) == (status, out, "")


# What a process is given


def test_a_process_has_its_own_session_three_descriptors_and_the_given_environment_with_the_mark(
    run: Run, tmp_path: Path
) -> None:
    here = setting(tmp_path, A="1", UMLAUT="ü")
    spare = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(spare, True)
    try:
        status = run(run_pipeline([["cat"], [*PYTHON, str(PROGRAMS / "look_around.py"), "-x", "é", ""]], here))
    finally:
        os.close(spare)
    assert status == 0, here.stderr.text
    seen = json.loads(here.stdout.text)
    assert seen["argv"] == ["-x", "é", ""]
    assert set(seen["descriptors"]) == {"0", "1", "2"}
    assert all(stat.S_ISFIFO(int(mode, 8)) for mode in seen["descriptors"].values())
    assert seen["leads_session"]
    assert seen["cwd"] == str(tmp_path.resolve())
    seen["environ"].pop("LC_CTYPE", None)  # set by Python itself where there is no locale
    assert seen["environ"] == {"PATH": os.environ["PATH"], "A": "1", "UMLAUT": "ü", MARK: here.mark}
    assert len(here.mark) == 32


def test_the_environments_own_path_finds_the_program(run: Run, tmp_path: Path) -> None:
    (tmp_path / "only-here").symlink_to("/bin/echo")
    here = Setting(cwd=Path("/"), env={"PATH": str(tmp_path)}, stdout=Capture(100), stderr=Capture(100))
    assert run(run_pipeline([["only-here", "found"]], here)) == 0
    assert here.stdout.text == "found\n"


IN_ANOTHER_LOCALE = """
import asyncio, sys
from pathlib import Path
from toolstead.processes.capture import Capture
from toolstead.tools.handlers.shell import Setting, run_pipeline
assert sys.getfilesystemencoding() == "ascii"
here = Setting(cwd=Path("/"), env={"PATH": sys.argv[1]}, stdout=Capture(100), stderr=Capture(100))
asyncio.run(run_pipeline([["printf", "%s", "\\u20ac"]], here))
print(ascii(here.stdout.text))
"""


def test_arguments_are_utf8_whatever_the_locale_says() -> None:
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", IN_ANOTHER_LOCALE, os.environ["PATH"]]
    shown = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert shown.stdout == "'\\u20ac'\n", shown.stderr


# What is left behind


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("output", ["", ">/dev/null 2>&1 </dev/null"])
def test_what_a_program_leaves_in_its_group_ends_with_it(output: str, run: Run) -> None:
    status, out, _ = run(ran(sh(f"sleep 1000 {output} & echo $!")))
    assert status == 0
    run(until(lambda: not is_alive(int(out))))


def test_one_that_escaped_holds_up_no_answer_and_loses_none_of_it(run: Run, tmp_path: Path) -> None:
    pid_file = str(tmp_path / "pid")
    escape = "import os,sys,signal,time\nprint('x'*50000)\nsys.stdout.flush()\nif os.fork()==0:\n os.setsid()\n"
    escape += f" open({pid_file!r},'w').write(str(os.getpid()))\n os.close(os.open('/dev/null',0))\n signal.pause()\n"
    escape += f"while not os.path.exists({pid_file!r}) or not os.path.getsize({pid_file!r}): time.sleep(0.01)\n"
    status, out, _ = run(ran([*PYTHON, "-c", escape]))
    assert (status, len(out)) == (0, 50_001)
    pid = run(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    os.kill(int(pid), signal.SIGKILL)


WAYS = ["child", "silent", *(["session", "naked"] if Path("/proc/self/environ").exists() else [])]


@pytest.mark.promise("R8")
@pytest.mark.usefixtures("watched")
def test_a_cancelled_call_leaves_no_process_alive_wherever_it_went(run: Run, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        task = asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path), *WAYS], ["cat"]], setting()))
        numbers = await settled(tmp_path, "itself", *WAYS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        return numbers

    for name, number in run(main()).items():
        assert not is_alive(number), name


@pytest.mark.promise("R8")
def test_even_a_caller_that_cancels_again_and_again_leaves_nothing(run: Run, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        task = asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path), *WAYS]], setting()))
        numbers = await settled(tmp_path, "itself", *WAYS)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()
        return numbers

    for name, number in run(main()).items():
        assert not is_alive(number), name


def test_who_gives_up_while_a_failed_start_is_cleaned_up_is_heard(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, looked = threading.Event(), threading.Event()

    def look(*_: object) -> None:
        looking.set()
        assert looked.wait(PATIENCE)

    monkeypatch.setattr(owner, "kill_marked", look)

    async def main() -> None:
        commands = [["sleep", "1000"], ["echo", *["x" * 100_000] * 200]]
        task = asyncio.create_task(run_pipeline(commands, setting()))
        await until(looking.is_set)
        task.cancel()
        await asyncio.sleep(0)
        looked.set()
        await asyncio.wait([task], timeout=PATIENCE)
        assert task.cancelled()

    run(main())


@pytest.mark.parametrize("hidden", ["/proc cannot be listed", "nothing is shown"])
def test_where_the_system_shows_no_processes_the_group_ends_all_the_same(
    hidden: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(_: str) -> Any:
        if hidden == "nothing is shown":
            return contextlib.nullcontext(iter(()))
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main() -> dict[str, int]:
        task = asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path), "child", "silent"]], setting()))
        numbers = await settled(tmp_path, "itself", "child", "silent")
        with monkeypatch.context() as patched:
            patched.setattr(os, "scandir", listing)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
        return numbers

    for number in run(main()).values():
        run(until(lambda number=number: not is_alive(number)))


def test_calls_cancelled_at_random_moments_leave_nothing(run: Run) -> None:
    chance = random.Random(5)

    async def one() -> None:
        task = asyncio.create_task(run_pipeline([sh("sleep 1000 & sleep 1000"), ["cat"]], setting(), b"x" * 200_000))
        for _ in range(chance.choice([0, 0, 1, 2, 3, 5, 10, 50, 200])):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    async def main() -> None:
        for _ in range(4):
            await asyncio.gather(*(one() for _ in range(15)))

    run(main())


def test_the_end_of_the_loop_is_the_end_of_every_process(tmp_path: Path) -> None:
    """As when a program returns from its main function while a call is in flight."""

    kept: list[asyncio.Task[int]] = []

    async def main() -> dict[str, int]:
        kept.append(asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path), *WAYS]], setting())))
        return await settled(tmp_path, "itself", *WAYS)

    for name, number in asyncio.run(main()).items():
        assert asyncio.run(until(lambda number=number: not is_alive(number))), name


def test_a_call_is_over_when_what_it_killed_has_ended_and_not_before(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Dying takes a while; here the signal does."""
    kill = os.killpg
    monkeypatch.setattr(owner, "kill_marked", lambda *_: None)

    async def main() -> int:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(os, "killpg", lambda *given: loop.call_later(0.2, kill, *given))
        task = asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path)]], setting()))
        number = (await settled(tmp_path, "itself"))["itself"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        return number

    assert not is_alive(run(main()))
    assert caplog.text == ""


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_group_that_is_gone_or_may_not_be_killed_keeps_no_other_one_alive(
    error: type[OSError], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def refuse(number: int, _: int) -> None:
        tried.append(number)
        raise error

    monkeypatch.setattr(os, "killpg", refuse)
    assert run(ran(["true"], ["true"], sh("echo well"))) == (0, "well\n", "")
    assert len(tried) == 3


def test_nobody_waits_while_escaped_processes_are_looked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, looked = threading.Event(), threading.Event()

    def look(*_: object) -> None:
        looking.set()
        assert looked.wait(PATIENCE), "the loop stood still"

    monkeypatch.setattr(owner, "kill_marked", look)

    async def main() -> None:
        task = asyncio.create_task(run_pipeline([["sleep", "1000"]], setting()))
        await asyncio.sleep(0)
        task.cancel()
        await until(looking.is_set)
        looked.set()
        await asyncio.wait([task], timeout=PATIENCE)
        assert task.cancelled()

    run(main())


def test_a_process_that_cannot_be_killed_holds_up_no_call(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    open_descriptors: Callable[[], int],
) -> None:
    monkeypatch.setattr(owner, "kill_marked", lambda *_: None)
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    monkeypatch.setattr(owner, "SECONDS_TO_DIE", 0.05)

    async def main() -> int:
        task = asyncio.create_task(run_pipeline([[*STUBBORN, str(tmp_path)]], setting()))
        number = (await settled(tmp_path, "itself"))["itself"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        return number

    before = open_descriptors()
    with caplog.at_level(logging.ERROR):
        number = run(main())
    assert open_descriptors() == before
    assert f"process {number} did not exit after SIGKILL" in caplog.text
    os.kill(number, signal.SIGKILL)
    run(until(lambda: not Path(f"/proc/{number}").exists()))  # somebody waits for it all the same


@pytest.mark.usefixtures("watched")
def test_two_hundred_at_once_leave_nothing(run: Run) -> None:
    async def main() -> None:
        answers = await asyncio.gather(*(ran(sh(f"echo {number}; exit {number % 5}")) for number in range(200)))
        assert [(status, int(out)) for status, out, _ in answers] == [(number % 5, number) for number in range(200)]

    run(main())


def test_the_pipes_of_a_process_are_not_those_of_its_neighbours(run: Run) -> None:
    """A child that held another one's pipe would keep its answer waiting."""

    async def main() -> None:
        slow = [asyncio.create_task(run_pipeline([["sleep", "1000"]], setting())) for _ in range(10)]
        await asyncio.sleep(0)
        for _ in range(20):
            assert await ran(["echo", "quick"]) == (0, "quick\n", "")
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    run(main())
