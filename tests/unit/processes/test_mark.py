"""What left its session is found by its parents and by its mark, and nobody else's process is taken for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolstead.processes import mark as under_test
from toolstead.processes.mark import MARK, kill_marked

pytestmark = pytest.mark.promise("R8")

THE_MARK = f"the-mark-{os.getpid()}"  # another run beside this one looks for its own
HAS_PROC = Path("/proc/self/environ").exists()
Start = Callable[..., subprocess.Popen[bytes]]


def until_it_has_its_environment(number: int) -> None:
    """On a busy machine `Popen` returns a moment before the system shows it."""
    deadline = time.monotonic() + 20
    while HAS_PROC and not Path(f"/proc/{number}/environ").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that wait for ever; in the end all of them are gone."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(program: str | Path = "sleep", **env: str) -> subprocess.Popen[bytes]:
        environ = {"PATH": os.environ["PATH"], **env}
        started.append(subprocess.Popen([str(program), "1000"], env=environ, start_new_session=True))
        until_it_has_its_environment(started[-1].pid)
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[int, under_test._Process]:
    """The processes that the system shows, as a table; a number above 90 carries the mark."""
    table: dict[int, under_test._Process] = {}
    monkeypatch.setattr(under_test, "_list_numbers", lambda: [*table, 1_000_000])
    monkeypatch.setattr(under_test, "_read_process", table.get)
    monkeypatch.setattr(under_test, "_is_marked", lambda number, _: number > 90)
    return table


def process(parent: int, begun: int = 5, *, ended: bool = False) -> under_test._Process:
    return under_test._Process(ended, parent, begun)


def test_what_was_started_descends_from_it_or_is_marked_is_ours(shown: dict[int, under_test._Process]) -> None:
    shown.update({1: process(0, 0), 14: process(13), 13: process(12), 12: process(11), 11: process(1)})
    shown.update({20: process(1), 21: process(20), 91: process(1), 31: process(91)})
    assert under_test._find_alive(b"mark", [11]) == {11, 12, 13, 14, 91, 31}
    assert under_test._find_alive(b"mark", []) == {91, 31}


def test_what_has_ended_needs_no_killing_but_its_children_do(shown: dict[int, under_test._Process]) -> None:
    shown.update({11: process(1, ended=True), 12: process(11), 92: process(1, ended=True), 32: process(92)})
    assert under_test._find_alive(b"mark", [11]) == {12, 32}


def test_a_process_that_began_in_the_same_moment_is_ours_and_one_from_before_is_not_looked_into(
    shown: dict[int, under_test._Process],
) -> None:
    shown.update({11: process(1, 7), 91: process(1, 7), 92: process(1, 8), 93: process(1, 6)})
    assert under_test._find_alive(b"mark", [11, 12]) == {11, 91, 92}  # 12 is not shown any more


def test_it_is_looked_again_until_nobody_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [{11}, {12, 13}, {14}, set[int]()]
    killed: list[tuple[int, int]] = []
    pauses: list[float] = []
    monkeypatch.setattr(under_test, "_find_alive", lambda *_: rounds.pop(0))
    monkeypatch.setattr(os, "kill", lambda number, how: killed.append((number, how)))
    monkeypatch.setattr(time, "sleep", pauses.append)  # a process that is just being started appears meanwhile
    kill_marked("mark", [11])
    assert sorted(killed) == [(number, signal.SIGKILL) for number in (11, 12, 13, 14)]
    assert rounds == []
    assert len(pauses) == 3
    assert all(pauses)


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_one_that_is_gone_or_may_not_be_killed_keeps_nobody_else_alive(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [{11, 12, 13}, set[int]()]
    tried: list[int] = []

    def kill(number: int, _: int) -> None:
        tried.append(number)
        raise error

    monkeypatch.setattr(under_test, "_find_alive", lambda *_: rounds.pop(0))
    monkeypatch.setattr(os, "kill", kill)
    kill_marked("mark", [11])
    assert sorted(tried) == [11, 12, 13]


def test_what_takes_long_to_die_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a process that was killed runs on until the system gets to it."""
    looks = iter([{11}] * 60)
    pauses: list[float] = []
    monkeypatch.setattr(under_test, "_find_alive", lambda *_: next(looks, set[int]()))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(time, "sleep", pauses.append)
    kill_marked("mark", [11])
    assert next(looks, None) is None
    assert len(pauses) == 60
    assert max(pauses) <= 0.1


def test_what_never_ends_holds_up_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(under_test, "SECONDS_TO_DIE", 0.1)
    monkeypatch.setattr(under_test, "_find_alive", lambda *_: looks.append(1) or {11})
    monkeypatch.setattr(os, "kill", lambda *_: None)
    kill_marked("mark", [11])
    assert 1 < len(looks) <= 100


def test_what_may_not_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(under_test, "_find_alive", lambda *_: looks.append(1) or {11})
    monkeypatch.setattr(os, "kill", refuse)
    kill_marked("mark", [11])
    assert len(looks) == 2


@pytest.mark.parametrize("size", [0, 200_000] if HAS_PROC else [])
def test_the_mark_is_found_in_an_environment_of_any_size(size: int, start: Start) -> None:
    ours = start(A="x" * (size // 2), B="x" * (size // 2), **{MARK: THE_MARK})
    kill_marked(THE_MARK, [])
    assert ours.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["NOTE", "X" + MARK, MARK] if HAS_PROC else [])
def test_a_process_that_only_speaks_of_the_mark_is_left_alone(name: str, start: Start) -> None:
    other, ours = start(**{name: f"see {MARK}={THE_MARK}"}), start(**{MARK: THE_MARK})
    longer = start(**{MARK: f"{THE_MARK}-of-another"})
    kill_marked(THE_MARK, [])
    assert ours.wait(20) == -signal.SIGKILL
    assert (other.poll(), longer.poll()) == (None, None)


@pytest.mark.parametrize(("state", "ended"), [("R", False), ("S", False), ("T", False), ("Z", True), ("X", True)])
def test_only_what_has_ended_counts_as_ended(state: str, ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"5 (a) {state} 3 " + " ".join(str(number) for number in range(5, 53))
    monkeypatch.setattr(under_test, "_read_file", lambda *_: line.encode())
    assert under_test._read_process(5) == under_test._Process(ended, 3, 22)


@pytest.mark.parametrize("name", ["a) Z 1 1 (b", "((", "))", "a b\nc"] if HAS_PROC else [])
def test_a_program_may_have_any_name(name: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/bin/sleep")
    ours = start(tmp_path / name)
    found = under_test._read_process(ours.pid)
    assert found is not None
    assert (found.ended, found.parent) == (False, os.getpid())
    kill_marked("no-mark", [ours.pid])
    assert ours.wait(20) == -signal.SIGKILL
