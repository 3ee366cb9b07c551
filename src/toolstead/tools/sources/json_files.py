"""Folders of JSON tool files as a source: what did not change is not read again.

A deleted file takes its tools away. A file that became bad keeps its last good tools, marked
stale, and its problems are reported. So does one that cannot be read for a moment, and it is read again at the next
look. Editors' own files and hidden ones are not looked at. The reader of one file is
a module of its own, because it needs every kind of handler: where there is no file, nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from toolstead.schema.visible import escape_unseen
from toolstead.tools.sources import Offers, SourceChanges
from toolstead.types.tool import ClientWarning, Problem

if TYPE_CHECKING:
    from toolstead.tools.definition import RegisteredTool
    from toolstead.tools.sources.json_text import Position

logger = logging.getLogger(__name__)

LARGEST_FILE = 1_048_576
MOST_FILES = 10_000
_CLOCK_STEP = 20_000_000  # nanoseconds: no file system's clock has longer steps than this
Signature = tuple[int, int, int]
_NEVER: Signature = (0, 0, 0)
_Seen = TypeVar("_Seen")


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An example of a tool, for `toolstead tools test`."""

    input: Mapping[str, Any]
    expect: Any = None
    run: bool = True


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds.

    Attributes:
        path: The file.
        tools: Its good tools.
        problems: What is wrong in it.
        examples: The examples of its good tools, by name.
        warnings: What known clients cannot take of its good tools; only where the file was read to be checked.
    """

    path: Path
    tools: tuple[RegisteredTool, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[ClientWarning, ...] = ()
    examples: Mapping[str, Sequence[Example]] = msgspec.field(default_factory=dict[str, Sequence[Example]])


class Reader(Protocol):
    """Reads tool files."""

    def read(self, path: Path, data: bytes) -> LoadedFile:
        """Read a file's content. Never raises for what is in it."""
        ...


class _KeptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was last seen.

    Attributes:
        signature: What changes when the file does.
        content: The hash of what was in it.
        tools: What it offers now: its own, or the last good ones marked stale.
        good: The last version without a problem, or the first one.
        problems: What is wrong with it now.
    """

    signature: Signature
    content: int
    tools: tuple[RegisteredTool, ...]
    good: LoadedFile
    problems: tuple[Problem, ...]


class JsonFiles:
    """The tool files of some folders, in the order of their paths.

    Attributes:
        name: The source's name.
        folders: Where they are.
        is_unread: Whether something could not be read at the last load, though it may be as it was.
        unfinished: Files that were missing or cut off when a watcher saw them change, and were left as they were: an
            editor may still be writing them. Whoever refreshes them again takes them as they are then.
    """

    def __init__(self, folders: Sequence[Path], reader: Reader, *, name: str = "json") -> None:
        self.name = name
        self.folders = tuple(folders)
        self._reader = reader
        self._kept: dict[Path, _KeptFile] = {}
        self._folder_problems: tuple[Problem, ...] = ()
        self.is_unread = False
        self.unfinished: frozenset[Path] = frozenset()

    async def load(self) -> Offers:
        """Look at every file; read those that changed."""
        if not self._kept and not any(folder.exists() for folder in self.folders):  # many steads have no file
            self._folder_problems, self.is_unread = (), False
            return Offers()
        before = self._kept
        self._kept, self._folder_problems, self.is_unread = await self._run_aside(self._look_at_all)
        for gone in before.keys() - self._kept.keys():
            logger.info("%s is gone, and its tools with it", before[gone].good.path)
        tools = [tool for kept in self._kept.values() for tool in kept.tools]
        return Offers(tools=tools, problems=self._collect_problems())

    async def refresh(self, paths: Collection[Path] | None = None) -> SourceChanges:
        """Look again at the files that a watcher saw change, where an unfinished one gets a second look; or at all."""
        gone: list[RegisteredTool] = []
        fresh: list[RegisteredTool] = []
        before = self._kept
        self._kept, looked_at, self.unfinished = await self._run_aside(partial(self._look_at_some, paths))
        for path in looked_at:
            was, now = before.get(path), self._kept.get(path)
            if was is not None and now is not None and was.tools is now.tools and was.problems is now.problems:
                continue
            if was is not None and now is None:
                logger.info("%s is gone, and its tools with it", path)
            gone.extend(was.tools if was is not None else ())
            fresh.extend(now.tools if now is not None else ())
        return SourceChanges(gone=gone, fresh=fresh, problems=self._collect_problems())

    def read_with(self, reader: Reader) -> None:
        """Use another reader; the next load reads everything again."""
        self._reader = reader
        self._kept = {
            path: msgspec.structs.replace(kept, signature=_NEVER, content=0) for path, kept in self._kept.items()
        }

    def forget_files(self) -> None:
        """Forget all files and their last good versions."""
        self._kept = {}

    def find_changed(self, paths: Iterable[Path]) -> list[Path]:
        """The tool files among these, and in the folders among these, that are not as they were last seen."""
        looked_at: dict[Path, None] = {}
        for path in paths:
            if path in self.folders:
                inside = (known for known in self._kept if known.parent == path)
                looked_at.update(dict.fromkeys((*_scan_folders([path])[0], *inside)))
            elif self._is_own(path):
                looked_at[path] = None
        return [path for path in looked_at if _file_signature(path) != getattr(self._kept.get(path), "signature", None)]

    def loaded_files(self) -> list[LoadedFile]:
        """Every file's good version, for `toolstead tools test`."""
        return [kept.good for kept in self._kept.values()]

    def read_aside(self, paths: Sequence[Path], taken: Mapping[str, str]) -> list[LoadedFile]:
        """Read files, and the tool files of folders, without taking them in.

        Args:
            paths: Files and folders.
            taken: Names that are not free, with their holders.
        """
        found, problems, _ = _scan_folders(path for path in paths if path.is_dir())
        named = (path for path in paths if not path.is_dir() and path not in self.folders)  # no folder yet: no file
        files = dict.fromkeys((*found, *named))
        unreadable = [LoadedFile(path=Path(problem.source), problems=(problem,)) for problem in problems]
        held = dict(taken)
        return [*unreadable, *(self._check_content(path, _read_content(path), held) for path in files)]

    def check_text(self, path: Path, data: bytes, taken: Mapping[str, str]) -> LoadedFile:
        """Read a text as if a file held it, with warnings; no file is opened, and nothing is taken in.

        Args:
            path: The file that it would be.
            data: The text.
            taken: Names that are not free, with their holders.
        """
        return self._check_content(path, data, dict(taken))

    def list_kept(self) -> dict[Path, tuple[RegisteredTool, ...]]:
        """The files that are there, and what each offers now."""
        return {path: kept.tools for path, kept in self._kept.items()}

    def _check_content(self, path: Path, data: bytes | str, held: dict[str, str]) -> LoadedFile:
        """Read what a file holds, with warnings."""
        from toolstead.tools.sources.json_warnings import find_client_warnings

        file = self._read(path, data)
        if isinstance(data, bytes):
            for tool in file.tools:
                tool.position = partial(_find_position, data, tool.info.name)
        file = _without_taken(file, held)
        if isinstance(data, str):
            return file
        warnings = find_client_warnings(file.path, data, [tool.info for tool in file.tools])
        return msgspec.structs.replace(file, warnings=warnings)

    async def _run_aside(self, look: Callable[[], _Seen]) -> _Seen:
        """Look at files in a worker thread, so that the event loop goes on; nothing is changed there.

        When the files were forgotten or got another reader meanwhile, what was seen counts no more.
        """
        while True:
            before = self._kept
            result = await asyncio.to_thread(look)
            if self._kept is before:
                return result

    def _look_at_all(self) -> tuple[dict[Path, _KeptFile], tuple[Problem, ...], bool]:
        """Every file as it is kept from now on, the folders' problems, and whether something could not be read."""
        found, problems, unread = _scan_folders(self.folders)
        still_there = {path: kept.signature for path, kept in self._kept.items() if path.parent in unread}
        found |= {path: _file_signature(path) or before for path, before in still_there.items()}
        with _pause_collector():
            files = ((path, self._look_at(path, signature)) for path, signature in found.items())
            kept = {path: file for path, file in files if file is not None}
        is_unread = any(map(_may_pass, unread.values())) or any(file.signature == _NEVER for file in kept.values())
        return kept, problems, is_unread

    def _look_at_some(
        self, paths: Collection[Path] | None
    ) -> tuple[dict[Path, _KeptFile], list[Path], frozenset[Path]]:
        """Every file as it is kept from now on, those that were looked at, and those that get a second look."""
        kept = dict(self._kept)
        named = () if paths is None else frozenset(paths) - self.unfinished
        unfinished: set[Path] = set()
        own = [
            path
            for path in dict.fromkeys(self.find_changed(self.folders) if paths is None else paths)
            if self._is_own(path)
        ]
        for path in own:
            signature = _file_signature(path)
            file = None if signature is None else self._look_at(path, signature, is_patient=path in named)
            if file is None and path in named:
                unfinished.add(path)
            elif file is None:
                kept.pop(path, None)
            else:
                kept[path] = file
        return kept, own, frozenset(unfinished)

    def _is_own(self, path: Path) -> bool:
        return is_tool_file(path) and path.parent in self.folders

    def _look_at(self, path: Path, signature: Signature, *, is_patient: bool = False) -> _KeptFile | None:
        """A file as it is now; None where it is cut off and somebody is patient."""
        kept = self._kept.get(path)
        if kept is not None and kept.signature == signature:
            return kept
        data = _read_content(path)
        if is_patient and _is_cut_off(data):
            return None
        content = hash(data)
        if isinstance(data, _UnreadNow):
            signature = _NEVER  # the next look reads it, whether or not it changes
        elif kept is not None and kept.content == content:
            return msgspec.structs.replace(kept, signature=signature)
        loaded = self._read(path, data)
        for problem in loaded.problems:
            logger.warning("%s", describe_problem(problem))
        if not loaded.problems or kept is None:
            tools, good = loaded.tools, loaded
        else:
            tools, good = tuple(tool.as_stale() for tool in kept.good.tools), kept.good
            if tools:
                logger.warning("%s became bad: its %s last good tools stay, marked stale", loaded.path, len(tools))
        return _KeptFile(signature=signature, content=content, tools=tools, good=good, problems=loaded.problems)

    def _read(self, path: Path, data: bytes | str) -> LoadedFile:
        if isinstance(data, str):
            return LoadedFile(path=path, problems=(Problem(source=str(path), message=data),))
        try:
            loaded = self._reader.read(path, data)
        except Exception:
            logger.exception("%s made the loader fail; please report this", path)
            problem = Problem(source=str(path), message="the loader failed on this file; the log has the details")
            return LoadedFile(path=path, problems=(problem,))
        for tool in loaded.tools:
            tool.position = partial(_find_tool_position, path, tool.info.name)
        return loaded

    def _collect_problems(self) -> list[Problem]:
        kept = (problem for kept in self._kept.values() for problem in kept.problems)
        return [*self._folder_problems, *kept]


def _without_taken(file: LoadedFile, held: dict[str, str]) -> LoadedFile:
    """A file without the tools whose names have a holder; its other tools hold theirs from now on."""
    lost = [tool.refuse_name(held[tool.info.name]) for tool in file.tools if tool.info.name in held]
    kept = tuple(tool for tool in file.tools if tool.info.name not in held)
    held.update((tool.info.name, str(file.path)) for tool in kept)
    return msgspec.structs.replace(file, tools=kept, problems=(*file.problems, *lost)) if lost else file


@contextmanager
def _pause_collector() -> Generator[None]:
    """Pause the collector of cycles: thousands of tools that are all kept make it walk them again and again.

    What was made meanwhile goes straight to the oldest generation, as if it had lived for long: freezing and
    thawing does that without a walk. Objects that other code froze stay frozen; Python 3.12 itself freezes
    some at its start.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def is_tool_file(file: Path | os.DirEntry[str]) -> bool:
    """Whether a name is a tool file's: not hidden, not an editor's own, and ends with .json."""
    return file.name.endswith(".json") and not file.name.startswith((".", "#", "~"))


def describe_problem(problem: Problem) -> str:
    """A problem in the format of compiler messages."""
    place = escape_unseen(problem.source)
    if problem.line is not None:
        place += f":{problem.line}:{problem.column or 1}"
    tool = f"tool {problem.tool_name!r}: " if problem.tool_name else ""
    return f"{place}: {tool}{problem.message}"


def _find_tool_position(path: Path, name: str) -> Position | None:
    """The position of a tool's name in its file, as the file is now; None where it is not found."""
    return _find_position(_read_content(path), name)


def _find_position(data: bytes | str, name: str) -> Position | None:
    return None if isinstance(data, str) else _tool_positions(data).get(name)


@lru_cache(maxsize=2)
def _tool_positions(data: bytes) -> dict[str, Position]:
    from toolstead.tools.sources.json_text import locate_each

    try:
        text = data.decode("utf-8-sig")
        json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return locate_each(text, "tools", "name")


def _scan_folders(folders: Iterable[Path]) -> tuple[dict[Path, Signature], tuple[Problem, ...], dict[Path, OSError]]:
    """Every tool file with its signature, in the order of folders and names; and the folders that cannot be read."""
    found: dict[Path, Signature] = {}
    problems: list[Problem] = []
    unread: dict[Path, OSError] = {}
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if is_tool_file(entry))
        except FileNotFoundError:
            continue
        except OSError as error:
            unread[folder] = error
            problems.append(Problem(source=str(folder), message=f"the folder cannot be read: {error.strerror}"))
            continue
        for name in names[:MOST_FILES]:
            path = folder / name
            signature = _file_signature(path)
            if signature is not None:
                found[path] = signature
        if len(names) > MOST_FILES:
            message = f"{len(names):,} tool files; only the first {MOST_FILES:,} are read"
            problems.append(Problem(source=str(folder), message=message))
    return found, tuple(problems), unread


def _file_signature(path: Path) -> Signature | None:
    """What changes when a file does; one that was written this very moment may be written again within its mark."""
    try:
        seen = path.stat()
    except OSError:
        return None
    fresh = abs(time.time_ns() - seen.st_mtime_ns) < _CLOCK_STEP
    return (time.monotonic_ns() if fresh else seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _read_content(path: Path) -> bytes | str:
    """A file's bytes, or why they cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        kind = _UnreadNow if _may_pass(error) else str
        return kind(f"cannot be read: {error.strerror}")


class _UnreadNow(str):
    """Why a file cannot be read at the moment."""

    __slots__ = ()


def _may_pass(error: OSError) -> bool:
    """Whether the machine is short of something, and the file itself may be as it was."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EIO, errno.ESTALE)


def _is_cut_off(data: bytes | str) -> bool:
    """Whether something is not whole JSON, as a file that an editor is still writing."""
    if isinstance(data, str):
        return True
    try:
        msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return True
    return False


def read_regular(path: Path, *, follows_link: bool = True) -> bytes:
    """A regular file's bytes, at most one more than is allowed; a named pipe is not waited for.

    Raises:
        OSError: It cannot be read, is no regular file, or is a link that is not followed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follows_link else os.O_NOFOLLOW))
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) and not stat.S_ISDIR(seen.st_mode):  # reading a folder raises an error anyway
            raise OSError(0, "not a regular file")
        room = min(seen.st_size, LARGEST_FILE) + 1
        data = os.read(descriptor, room)
        if len(data) < room:
            return data
        with os.fdopen(descriptor, "rb", closefd=False) as file:  # it grew meanwhile, or is too large
            return data + file.read(LARGEST_FILE + 1 - room)
    finally:
        os.close(descriptor)
