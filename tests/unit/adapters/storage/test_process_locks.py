"""The locks by which processes know that others are alive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolstead.adapters.storage.process_locks import ProcessLock, living_owners, opening_lock, sweep_locks
from toolstead.errors import StorageError


def test_who_holds_a_lock_is_alive_until_it_is_released(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path, "a")
    assert living_owners(tmp_path, ["a", "b"]) == {"a"}
    lock.release()
    assert living_owners(tmp_path, ["a", "b"]) == set()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path, "a")
    with pytest.raises(StorageError, match=r"a\.lock is held by a process that is alive: the owner 'a' is taken"):
        ProcessLock(tmp_path, "a", patience=0)
    lock.release()
    ProcessLock(tmp_path, "a", patience=0).release()


def test_the_locks_of_the_dead_are_swept_and_no_others(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path, "alive")
    (tmp_path / "dead.lock").touch()
    (tmp_path / "something else").touch()
    assert living_owners(tmp_path, ["alive", "dead"]) == {"alive"}
    sweep_locks(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["alive.lock", "something else"]
    assert living_owners(tmp_path, ["alive"]) == {"alive"}
    lock.release()


def test_a_lock_that_was_swept_away_while_it_was_taken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open
    swept: list[int] = []

    def open_and_lose(path: Path, *options: int) -> int:
        file = opened(path, *options)
        if not swept:
            swept.append(file)
            Path(path).unlink()
        return file

    monkeypatch.setattr(os, "open", open_and_lose)
    lock = ProcessLock(tmp_path, "a")
    monkeypatch.undo()
    assert living_owners(tmp_path, ["a"]) == {"a"}
    lock.release()


def test_an_owner_that_is_a_path_is_nobody(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path, "a")
    folder = tmp_path / "inner"
    folder.mkdir()
    assert living_owners(folder, ["../a"]) == set()
    lock.release()


def test_one_process_opens_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(StorageError, match="held by another process for more than 0 seconds")
    with opening_lock(tmp_path, 1), refused, opening_lock(tmp_path, 0):
        pass
    with opening_lock(tmp_path, 0):
        pass
