"""Watching folders: what changed is told, whatever became of the folder, the watch or the listener."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from tests.waiting import PATIENCE, until
from toolstead.app import watching
from toolstead.app.watching import FolderWatcher, is_network_folder

pytestmark = pytest.mark.promise("R5")


class Files:
    """Knows files by their text; what ends with `…` is not finished."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        present = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
        self.known = {file: file.read_text() for file in present}
        self.told: asyncio.Queue[dict[str, str | None]] = asyncio.Queue()
        self.unfinished: frozenset[Path] = frozenset()

    def find_changed(self, paths: Iterable[Path]) -> list[Path]:
        inside = [file for path in paths for file in self._in(path)]
        return [file for file in dict.fromkeys(inside) if self._text(file) != self.known.get(file)]

    async def take(self, paths: Collection[Path]) -> None:
        texts = {path: self._text(path) for path in paths}
        waits = {path for path, text in texts.items() if (text or "…").endswith("…")}
        self.unfinished = frozenset(waits - self.unfinished)
        news = {
            path: text for path, text in texts.items() if path not in self.unfinished and text != self.known.get(path)
        }
        self.known = {path: text for path, text in {**self.known, **news}.items() if text is not None}
        if news:
            self.told.put_nowait({path.name: text for path, text in news.items()})

    async def next(self) -> dict[str, str | None]:
        return await asyncio.wait_for(self.told.get(), PATIENCE)

    def _in(self, path: Path) -> list[Path]:
        if path not in self.folders:
            return [path]
        return [*(path.iterdir() if path.is_dir() else ()), *(file for file in self.known if file.parent == path)]

    def _text(self, path: Path) -> str | None:
        return path.read_text() if path.is_file() else None


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[Files]:
    files: Any = Files(folder)
    async with FolderWatcher(folder, files, files.take):
        yield files
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("toolstead-watch")]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MISSING_FOLDER_POLL", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tools"
    made.mkdir()
    return made


async def test_what_comes_changes_and_goes_is_told(folder: Path) -> None:
    async with watched(folder) as files:
        (folder / "a").write_text("1")
        assert await files.next() == {"a": "1"}
        (folder / "a").write_text("2")
        assert await files.next() == {"a": "2"}
        (folder / "a").rename(folder / "b")
        assert await files.next() == {"b": "2"}  # what is gone gets a second look first
        assert await files.next() == {"a": None}


async def test_what_changed_before_the_watch_stood_is_told_too(folder: Path) -> None:
    (folder / "gone").write_text("1")
    files = Files(folder)
    (folder / "gone").unlink()
    (folder / "new").write_text("2")
    async with FolderWatcher(folder, files, files.take):
        assert await files.next() == {"new": "2"}
        assert await files.next() == {"gone": None}


async def test_a_folder_that_went_before_the_watch_stood_takes_its_files_along(folder: Path) -> None:
    (folder / "a").write_text("1")
    files = Files(folder)
    shutil.rmtree(folder)
    async with FolderWatcher(folder, files, files.take):
        assert await files.next() == {"a": None}


@pytest.mark.parametrize("times", range(3))
async def test_a_folder_that_is_replaced_by_another_is_watched_all_the_same(folder: Path, times: int) -> None:
    async with watched(folder) as files:
        (folder / "a").write_text("1")
        await files.next()
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "b").write_text("2")
        told: dict[str, Any] = {}
        while told != {"a": None, "b": "2"}:
            told |= await files.next()
        (folder / "c").write_text("3")
        assert await files.next() == {"c": "3"}


async def test_nothing_is_told_of_what_did_not_change(folder: Path) -> None:
    (folder / "same").write_text("1")
    async with watched(folder) as files:
        (folder / "same").touch()
        (folder / "new").write_text("2")
        assert await files.next() == {"new": "2"}


async def test_a_folder_that_comes_later_is_watched_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with watched(folder) as files:
        folder.mkdir()
        (folder / "a").write_text("1")
        assert await files.next() == {"a": "1"}
        (folder / "b").write_text("2")
        assert await files.next() == {"b": "2"}


@pytest.mark.parametrize("leave", [lambda folder: folder.rename(folder.with_name("away")), shutil.rmtree])
async def test_a_folder_that_goes_takes_its_files_along_and_may_come_back(
    leave: Callable[[Path], Any], folder: Path
) -> None:
    (folder / "a").write_text("1")
    async with watched(folder) as files:
        (folder / "b").write_text("2")
        await files.next()
        leave(folder)
        gone: dict[str, Any] = {}
        while len(gone) < 2:
            gone |= await files.next()
        assert gone == {"a": None, "b": None}
        folder.mkdir()
        (folder / "a").write_text("back")
        assert await files.next() == {"a": "back"}


async def test_what_went_with_its_folder_is_told_also_where_no_notice_came(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def awatch(watched: Path, **_: Any) -> AsyncIterator[Any]:
        await until(lambda: not watched.exists())
        yield {(3, str(watched / "a"))}
        await asyncio.Event().wait()

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    for name in ("a", "b"):
        (folder / name).write_text("1")
    async with watched(folder) as files:
        shutil.rmtree(folder)
        gone: dict[str, Any] = {}
        while len(gone) < 2:
            gone |= await files.next()
        assert gone == {"a": None, "b": None}


async def test_what_is_not_finished_gets_a_second_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, watching.__name__)
    monkeypatch.setattr(watching, "SECOND_LOOK", 2.0)
    async with watched(folder) as files:
        (folder / "a").write_text("half…")
        await until(lambda: "looking again" in caplog.text)
        assert files.told.empty()
        (folder / "a").write_text("whole")
        assert await files.next() == {"a": "whole"}


async def test_what_is_put_back_within_that_time_is_not_told_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, watching.__name__)
    monkeypatch.setattr(watching, "SECOND_LOOK", 2.0)
    (folder / "a").write_text("1")
    async with watched(folder) as files:
        (folder / "a").unlink()
        await until(lambda: "looking again" in caplog.text)
        (folder / "a").write_text("1")
        (folder / "b").write_text("2")
        assert await files.next() == {"b": "2"}


async def test_what_stays_unfinished_is_told_in_the_end(folder: Path) -> None:
    async with watched(folder) as files:
        (folder / "a").write_text("half…")
        assert await files.next() == {"a": "half…"}


async def test_a_listener_that_fails_is_told_of_the_next_change(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(folder)

    async def take(paths: Collection[Path]) -> None:
        await files.take(paths)
        if (folder / "bad") in paths:
            raise LookupError("on purpose")

    async with FolderWatcher(folder, files, take):
        (folder / "bad").write_text("1")
        await files.next()
        (folder / "good").write_text("2")
        assert await files.next() == {"good": "2"}
    assert "could not be applied" in caplog.text


@pytest.mark.parametrize("error", [OSError("no more watches"), RuntimeError("inside the library")])
async def test_a_folder_that_cannot_be_watched_is_polled_and_that_is_said(
    error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = watchfiles.awatch
    polled: list[bool] = []

    async def awatch(*paths: Path, force_polling: bool, **options: Any) -> AsyncIterator[Any]:
        polled.append(force_polling)
        if not force_polling:
            raise error
        async for changes in original(*paths, force_polling=True, poll_delay_ms=20, **options):
            yield changes

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    async with watched(folder) as files:
        (folder / "a").write_text("1")
        assert await files.next() == {"a": "1"}
        (folder / "b").write_text("2")
        assert await files.next() == {"b": "2"}
        await until(lambda: True in polled)
    assert polled == [False, True]
    said = [message for message in caplog.messages if "cannot be watched" in message]
    assert said == [f"{folder} cannot be watched ({error}); it is polled from now on"]


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("/home/me/tools", False), ("/net/share/tools", True), ("/net/share", True), ("/net/sharetools", False)],
)
def test_network_folders_are_known_by_their_mount(folder: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = "rootfs / ext4 rw 0 0\nserver:/x /net/share nfs4 rw 0 0\ntmpfs /net/share/local tmpfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda *_: mounts)
    assert is_network_folder(Path(folder)) is expected
    assert is_network_folder(Path("/net/share/local/tools")) is False


def test_where_mounts_cannot_be_told_a_folder_is_an_ordinary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", fail)
    assert is_network_folder(Path("/anything")) is False
