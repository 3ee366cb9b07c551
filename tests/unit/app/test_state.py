"""The switches: kept in a private file, written whole, never lost, never guessed."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from toolstead.app import private_file
from toolstead.app.state import State, Switches
from toolstead.errors import StateError
from toolstead.types.plugin_row import PluginRow


@pytest.fixture
def switches(tmp_path: Path) -> Switches:
    return Switches(tmp_path / "data")


def write(switches: Switches, text: str) -> None:
    switches.path.parent.mkdir(exist_ok=True)
    switches.path.write_text(text, encoding="utf-8")


def test_without_a_file_nothing_is_turned_off_and_none_is_made(switches: Switches) -> None:
    assert switches.read().disabled_tools == frozenset()
    assert not switches.path.parent.exists()


def test_a_switch_is_kept_and_says_whether_it_changed_anything(switches: Switches) -> None:
    assert switches.set_tool_enabled("a", False)
    assert not switches.set_tool_enabled("a", False)
    assert switches.set_tool_enabled("b", False)
    assert Switches(switches.path.parent).read().disabled_tools == {"a", "b"}
    assert switches.set_tool_enabled("a", True)
    assert not switches.set_tool_enabled("a", True)
    assert switches.read().disabled_tools == {"b"}


def test_turning_on_what_never_was_off_writes_nothing(switches: Switches) -> None:
    assert not switches.set_tool_enabled("a", True)
    assert not switches.path.exists()


def test_the_file_has_the_documented_form(switches: Switches) -> None:
    switches.set_tool_enabled("b", False)
    switches.set_tool_enabled("a", False)

    assert json.loads(switches.path.read_bytes()) == {"version": 1, "disabledTools": ["a", "b"]}


def test_file_and_folder_are_private_whatever_the_umask(switches: Switches) -> None:
    before = os.umask(0)
    try:
        switches.set_tool_enabled("a", False)
    finally:
        os.umask(before)

    assert stat.S_IMODE(switches.path.parent.stat().st_mode) == 0o700
    for file in switches.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_what_other_versions_keep_in_the_file_is_preserved(switches: Switches) -> None:
    write(switches, '{"version": 1, "later": {"x": [1]}}')

    assert switches.read().disabled_tools == frozenset()
    switches.set_tool_enabled("a", False)

    assert json.loads(switches.path.read_bytes()) == {
        "version": 1,
        "later": {"x": [1]},
        "disabledTools": ["a"],
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not valid JSON"),
        ('{"version": 1', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no JSON object"),
        ("{}", '"version" must be 1'),
        ('{"version": "1"}', '"version" must be 1'),
        ('{"version": true}', '"version" must be 1'),
        ('{"version": 0}', '"version" must be 1'),
        ('{"version": 2}', "understands up to 1"),
        ('{"version": 1, "disabledTools": "a"}', '"disabledTools" must be a list of names'),
        ('{"version": 1, "disabledTools": [1]}', '"disabledTools" must be a list of names'),
    ],
)
def test_a_file_that_cannot_be_understood_is_told_and_left_as_it_is(switches: Switches, text: str, why: str) -> None:
    write(switches, text)

    for attempt in (switches.read, lambda: switches.set_tool_enabled("a", False)):
        with pytest.raises(StateError) as caught:
            attempt()
        assert str(switches.path) in str(caught.value)
        assert why in str(caught.value)
        assert "delete it" in str(caught.value) or "update Toolstead" in str(caught.value)
    assert switches.path.read_text(encoding="utf-8") == text


def test_a_file_that_is_not_utf8_is_told(switches: Switches) -> None:
    write(switches, "")
    switches.path.write_bytes(b'{"version": 1, "x": "\xff"}')

    with pytest.raises(StateError, match="not valid JSON"):
        switches.read()


def test_a_file_that_cannot_be_read_is_told(switches: Switches) -> None:
    switches.path.mkdir(parents=True)

    with pytest.raises(StateError, match="cannot be read: Is a directory"):
        switches.read()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(StateError, match="cannot be written"):
        Switches(tmp_path / "file" / "data").set_tool_enabled("a", False)


def test_what_a_crash_left_behind_is_in_nobodys_way(switches: Switches, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me", encoding="utf-8")
    switches.path.parent.mkdir()
    switches.path.with_name("state.json.new").symlink_to(precious)

    switches.set_tool_enabled("a", False)

    assert switches.read().disabled_tools == {"a"}
    assert precious.read_text(encoding="utf-8") == "keep me"
    assert not switches.path.is_symlink()


def test_a_crash_before_the_move_leaves_the_old_file_whole(switches: Switches, monkeypatch: pytest.MonkeyPatch) -> None:
    switches.set_tool_enabled("a", False)

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(StateError, match="No space left on device"):
            switches.set_tool_enabled("b", False)

    assert switches.read().disabled_tools == {"a"}
    assert switches.set_tool_enabled("b", False)


def test_what_is_moved_into_place_has_reached_the_disk_before(
    switches: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("sync"), sync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, target: (done.append("move"), replace(self, target))[1])

    switches.set_tool_enabled("a", False)

    assert done == ["sync", "move", "sync"]


def test_a_writer_that_never_lets_go_is_told(switches: Switches, monkeypatch: pytest.MonkeyPatch) -> None:
    switches.set_tool_enabled("a", False)
    monkeypatch.setattr(private_file, "LOCK_SECONDS", 0.05)
    with switches.path.with_name("state.json.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StateError, match=r"state\.json\.lock has been held by another process"):
            switches.set_tool_enabled("b", False)

    assert switches.set_tool_enabled("b", False)


def _switch_many(folder: Path, prefix: str, start: multiprocessing.synchronize.Barrier) -> None:
    switches = Switches(folder)
    start.wait(timeout=60)
    for number in range(200):
        switches.set_tool_enabled(f"{prefix}{number}", enabled=False)
        if number % 4 == 0:
            switches.set_tool_enabled(f"{prefix}{number}", enabled=True)


def test_two_processes_writing_at_once_lose_no_switch(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    writers = [context.Process(target=_switch_many, args=(tmp_path, prefix, start)) for prefix in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=100)

    assert [writer.exitcode for writer in writers] == [0, 0]
    expected = {f"{prefix}{number}" for prefix in ("a", "b") for number in range(200) if number % 4}
    assert Switches(tmp_path).read().disabled_tools == expected


def test_what_the_database_says_of_plugins_is_looked_up_while_nobody_else_writes(tmp_path: Path) -> None:
    switches = Switches(tmp_path)
    switches.set_tool_enabled("x", False)
    rows = {"a": PluginRow(enabled=False), "b": PluginRow(settings={"n": [1]})}

    def look() -> dict[str, PluginRow]:
        with (tmp_path / "state.json.lock").open() as beside, pytest.raises(BlockingIOError):
            fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return rows

    assert switches.mirror_plugins(look) == rows
    assert switches.read() == State(disabled_tools=frozenset({"x"}), plugins=rows)
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600
    assert switches.mirror_plugins(dict) == {}
    assert switches.read().plugins == {}
