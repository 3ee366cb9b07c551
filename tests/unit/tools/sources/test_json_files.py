"""Folders of tool files: what is looked at, what is read again, and what one bad file cannot do to the others."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import content, shell, write
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.registry import MOST_POSITIONS, Registry
from toolstead.tools.sources.json_file import FileReader, LoadedFile
from toolstead.tools.sources.json_files import JsonFiles, is_tool_file

# Python 3.12 freezes objects of its own at its start; the others freeze none, and nobody else does here.
FROZEN_BY_PYTHON = gc.get_freeze_count() if sys.version_info[:2] == (3, 12) else 0

pytestmark = pytest.mark.promise("R4", "R6")


class Counting(FileReader):
    """Notes which files were read, and fails where it is told to."""

    def __init__(self, failing: str = "") -> None:
        super().__init__(Surroundings(root=Path("/"), environ={}), GuardedClient)
        self.seen: list[str] = []
        self.failing = failing

    def read(self, path: Path, data: bytes) -> LoadedFile:
        self.seen.append(path.name)
        if path.name == self.failing:
            raise LookupError("a fault of the loader")
        return super().read(path, data)


class Waiting(Counting):
    """Reads a file only after the event loop went on: `go_on` is called there."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.went_on = threading.Event()
        self._loop = asyncio.get_running_loop()

    def read(self, path: Path, data: bytes) -> LoadedFile:
        self._loop.call_soon_threadsafe(self.began.set)
        assert self.went_on.wait(10), "the event loop stood still while a file was read"
        return super().read(path, data)


def names(offers: Any) -> list[str]:
    return [tool.info.name for tool in offers.tools]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.json", True),
        ("my tools.json", True),
        (".a.json", False),
        ("~a.json", False),
        ("#a.json#", False),
        ("#a.json", False),
        (".#a.json", False),
        (".a.json.swp", False),
        ("a.json~", False),
        ("a.json.tmp", False),
        (".a.json.tmp", False),
        ("a.json.bak", False),
        ("a.json___jb_tmp___", False),
        ("4913", False),
        ("json", False),
        (".json", False),
        ("a.toml", False),
    ],
)
def test_editors_own_files_are_not_tool_files(name: str, expected: bool) -> None:
    assert is_tool_file(Path("/tools", name)) is expected


async def test_files_that_cannot_be_opened_for_a_moment_keep_their_tools_and_are_read_at_the_next_look(
    tmp_path: Path,
) -> None:
    file, before = tmp_path / "a.json", resource.getrlimit(resource.RLIMIT_NOFILE)
    write(file, shell("old", "ls"))
    files = JsonFiles([tmp_path], Counting())
    await files.load()
    write(file, shell("new", "ls"))
    os.utime(file, (1, 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        for _ in range(2):
            offers = await files.load()
            assert (names(offers), files.is_unread) == (["old"], True)
            assert {problem.message.rpartition(": ")[2] for problem in offers.problems} == {"Too many open files"}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    offers = await files.load()
    assert (names(offers), files.is_unread, list(offers.problems)) == (["new"], False, [])


async def test_a_loader_that_fails_on_one_file_sets_that_file_aside_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.json", shell(name, "ls"))
    offers = await JsonFiles([tmp_path], Counting(failing="b.json")).load()
    assert names(offers) == ["a", "c"]
    assert [(Path(problem.source).name, problem.message) for problem in offers.problems] == [
        ("b.json", "the loader failed on this file; the log has the details")
    ]
    assert "a fault of the loader" in caplog.text


async def test_what_did_not_change_is_not_read_again_and_what_is_equal_makes_no_new_tools(tmp_path: Path) -> None:
    file, other = write(tmp_path / "a.json", shell("a", "ls")), write(tmp_path / "b.json", shell("b", "ls"))
    os.utime(file, (1, 1))
    os.utime(other, (1, 1))
    reader = Counting()
    files = JsonFiles([tmp_path], reader)
    first = await files.load()
    again = await files.load()
    assert reader.seen == ["a.json", "b.json"]
    assert [id(tool) for tool in first.tools] == [id(tool) for tool in again.tools]
    os.utime(file, (2, 2))
    assert files.find_changed([tmp_path]) == [file]
    delta = await files.refresh([file])
    assert (delta.gone, delta.fresh) == ([], [])
    assert files.find_changed([tmp_path]) == []
    assert reader.seen == ["a.json", "b.json"]


async def test_two_edits_within_one_step_of_the_clock_are_both_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: moment)
    file = tmp_path / "a.json"
    files = JsonFiles([tmp_path], Counting())
    for number in range(3):  # the same length, the same file, the same time
        file.write_text(content(shell(f"t{number}", "ls")))
        os.utime(file, ns=(moment, moment))
        assert names(await files.load()) == [f"t{number}"]


async def test_changes_are_those_of_tool_files_of_these_folders_and_unfinished_files_get_a_second_look(
    tmp_path: Path,
) -> None:
    folder, elsewhere = tmp_path / "tools", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    files = JsonFiles([folder], Counting())
    await files.load()
    good, half, gone = folder / "good.json", folder / "half.json", folder / "gone.json"
    write(gone, shell("gone", "ls"))
    await files.load()
    gone.unlink()
    write(good, shell("good", "ls"))
    half.write_text('{"name": "x", "tools": [')
    for stray in (folder / "x.json~", folder / ".x.json", elsewhere / "x.json"):
        stray.write_text("nonsense")
    everything = [*folder.iterdir(), gone, elsewhere / "x.json"]
    assert set(files.find_changed(everything)) == {good, half, gone}
    assert set(files.find_changed([folder])) == {good, half, gone}
    seen = await files.refresh(everything)
    assert (files.unfinished, [tool.info.name for tool in seen.fresh], seen.gone, seen.problems) == (
        {half, gone},
        ["good"],
        [],
        [],
    )
    seen = await files.refresh(files.unfinished)
    assert (files.unfinished, [tool.info.name for tool in seen.gone], len(seen.problems)) == (frozenset(), ["gone"], 1)
    assert files.find_changed(everything) in (
        [],
        [good],
        [half],
        [good, half],
        [half, good],
    )  # those of this very moment


async def test_a_folder_a_pipe_and_a_file_that_may_not_be_read_are_problems_and_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nothing")
    write(tmp_path / "good.json", shell("good", "ls"))
    offers = await JsonFiles([tmp_path, tmp_path / "missing"], Counting()).load()
    assert names(offers) == ["good"]
    assert sorted((Path(problem.source).name, problem.message) for problem in offers.problems) == [
        ("folder.json", "cannot be read: Is a directory"),
        ("pipe.json", "cannot be read: not a regular file"),
    ]


async def test_where_a_tool_stands_is_told_as_the_file_is_now(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", shell("a", "ls"), shell("b", "ls"))
    offers = await JsonFiles([tmp_path], Counting()).load()
    a, b = offers.tools
    assert (a.position(), b.position()) == ((5, 15), (18, 15))
    file.write_text("\n" + file.read_text())
    assert b.position() == (19, 15)
    file.write_text("nonsense")
    assert b.position() is None
    file.unlink()
    assert b.position() is None


async def test_what_was_loaded_is_not_walked_at_once_and_what_others_froze_stays_frozen(tmp_path: Path) -> None:
    write(tmp_path / "a.json", shell("a", "ls"))
    assert gc.get_freeze_count() == FROZEN_BY_PYTHON
    await JsonFiles([tmp_path], Counting()).load()
    assert gc.isenabled()
    assert gc.get_freeze_count() == FROZEN_BY_PYTHON
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        await JsonFiles([tmp_path], Counting()).load()
        assert gc.get_freeze_count() >= before - 1_000  # some die, none is thawed
    finally:
        gc.unfreeze()


async def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a.json", shell("a", "ls"))
    small = os.stat_result((0o100600, *[0] * 9))
    monkeypatch.setattr("toolstead.tools.sources.json_files.os.fstat", lambda _: small)
    offers = await JsonFiles([tmp_path], Counting()).load()
    assert (names(offers), list(offers.problems)) == (["a"], [])
    assert file.stat().st_size > 1


@pytest.mark.parametrize("again", [False, True])
async def test_the_event_loop_goes_on_while_files_are_read(tmp_path: Path, again: bool) -> None:
    files = JsonFiles([tmp_path], Counting())
    await files.load()
    write(tmp_path / "a.json", shell("a", "ls"))
    reader = Waiting()
    files.read_with(reader)
    reading = asyncio.create_task(files.refresh() if again else files.load())
    await asyncio.wait_for(reader.began.wait(), 10)
    reader.went_on.set()
    await reading
    assert reader.seen == ["a.json"]
    assert [problem.message for file in files.loaded_files() for problem in file.problems] == []


async def test_a_reader_that_is_replaced_while_it_reads_counts_no_more(tmp_path: Path) -> None:
    write(tmp_path / "a.json", shell("a", "ls"))
    before, after = Waiting(), Counting()
    files = JsonFiles([tmp_path], before)
    reading = asyncio.create_task(files.load())
    await asyncio.wait_for(before.began.wait(), 10)
    files.read_with(after)
    before.went_on.set()
    assert names(await reading) == ["a"]
    assert after.seen == ["a.json"]


async def test_files_that_are_forgotten_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", shell("a", "ls"))
    reader = Waiting()
    files = JsonFiles([tmp_path], reader)
    reading = asyncio.create_task(files.load())
    await asyncio.wait_for(reader.began.wait(), 10)
    file.unlink()
    files.forget_files()
    reader.went_on.set()
    assert names(await reading) == []
    assert files.loaded_files() == []


async def test_of_very_many_contested_names_only_the_first_are_looked_up_in_their_files(tmp_path: Path) -> None:
    given = [shell(f"t{number}", "ls") for number in range(MOST_POSITIONS + 10)]
    for name in ("a", "b"):
        write(tmp_path / f"{name}.json", *given)
    swap = await Registry([JsonFiles([tmp_path], Counting())]).reload()
    assert len(swap.problems) == len(given)
    assert [problem.line is not None for problem in swap.problems] == [True] * MOST_POSITIONS + [False] * 10
