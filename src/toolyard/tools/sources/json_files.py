"""Folders of JSON tool files as a source: what did not change is not read again.

A deleted file takes its tools away. A file that became bad keeps its last good tools, marked
stale, and its problems are reported. Editors' own files and hidden ones are not looked at.
"""

from __future__ import annotations

import gc
import logging
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from toolyard.tools.definition import RegisteredTool
from toolyard.tools.sources import Delta, Offers
from toolyard.tools.sources.json_file import FileReader, LoadedFile
from toolyard.tools.sources.json_report import LARGEST_FILE
from toolyard.types.tool import Problem

logger = logging.getLogger(__name__)

MOST_FILES = 10_000
Signature = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A file as it was last seen.

    Attributes:
        signature: What changes when the file does.
        tools: What it offers now: its own, or the last good ones marked stale.
        good: The last version without a problem, or the first one.
        problems: What is wrong with it now.
    """

    signature: Signature
    tools: tuple[RegisteredTool, ...]
    good: LoadedFile
    problems: tuple[Problem, ...]


class JsonFiles:
    """The tool files of some folders, in the order of their paths."""

    def __init__(self, folders: Sequence[Path], reader: FileReader, *, name: str = "json") -> None:
        self.name = name
        self.folders = tuple(folders)
        self._reader = reader
        self._kept: dict[Path, _Kept] = {}
        self._folder_problems: tuple[Problem, ...] = ()

    async def load(self) -> Offers:
        """Look at every file; read those that changed."""
        found, self._folder_problems = _scan(self.folders)
        for gone in self._kept.keys() - found.keys():
            logger.info("%s is gone, and its tools with it", gone)
        with _uncollected():
            self._kept = {path: self._look(path, signature) for path, signature in found.items()}
        return self._offers()

    async def refresh(self, paths: Iterable[Path]) -> Delta:
        """Look again at some files only, such as those a watcher saw change."""
        gone: list[RegisteredTool] = []
        fresh: list[RegisteredTool] = []
        for path in dict.fromkeys(paths):
            if not is_tool_file(path) or path.parent not in self.folders:
                continue
            before, signature = self._kept.get(path), _signature(path)
            if signature is not None:
                after = self._kept[path] = self._look(path, signature)
                if after is before:
                    continue
                fresh.extend(after.tools)
            elif before is not None:
                del self._kept[path]
                logger.info("%s is gone, and its tools with it", path)
            gone.extend(before.tools if before is not None else ())
        return Delta(gone=gone, fresh=fresh, problems=self._problems())

    def changed(self, paths: Iterable[Path]) -> list[Path]:
        """The tool files among these, and in the folders among these, that are not as they were last seen."""
        looked_at: dict[Path, None] = {}
        for path in paths:
            if path in self.folders:
                inside = (known for known in self._kept if known.parent == path)
                looked_at.update(dict.fromkeys((*_scan([path])[0], *inside)))
            elif is_tool_file(path) and path.parent in self.folders:
                looked_at[path] = None
        return [path for path in looked_at if _signature(path) != self._last_signature(path)]

    def unsettled(self, paths: Iterable[Path]) -> list[Path]:
        """The changed files among these that are gone, or cut off: somebody may be about to finish them."""
        return [path for path in self.changed(path for path in paths if path not in self.folders) if _is_cut_off(path)]

    def files(self) -> list[LoadedFile]:
        """Every file's good version, for `toolyard tools test`."""
        return [kept.good for kept in self._kept.values()]

    def read_aside(self, paths: Iterable[Path]) -> list[LoadedFile]:
        """Read files, and the tool files of folders, without taking them in."""
        folders = [path for path in paths if path.is_dir()]
        found, problems = _scan(folders)
        files = [*found, *(path for path in paths if not path.is_dir())]
        unreadable = [LoadedFile(path=Path(problem.source), problems=(problem,)) for problem in problems]
        return [*unreadable, *(self._read(path) for path in files)]

    def _last_signature(self, path: Path) -> Signature | None:
        kept = self._kept.get(path)
        return None if kept is None else kept.signature

    def _look(self, path: Path, signature: Signature) -> _Kept:
        kept = self._kept.get(path)
        if kept is not None and kept.signature == signature:
            return kept
        loaded = self._read(path)
        for problem in loaded.problems:
            logger.warning("%s", describe(problem))
        if not loaded.problems or kept is None:
            return _Kept(signature=signature, tools=loaded.tools, good=loaded, problems=loaded.problems)
        stale = tuple(tool.as_stale() for tool in kept.good.tools)
        if stale:
            logger.warning("%s became bad: its %s last good tools stay, marked stale", path, len(stale))
        return _Kept(signature=signature, tools=stale, good=kept.good, problems=loaded.problems)

    def _read(self, path: Path) -> LoadedFile:
        try:
            data = _read_regular(path)
        except OSError as error:
            problem = Problem(source=str(path), message=f"cannot be read: {error.strerror}")
            return LoadedFile(path=path, problems=(problem,))
        try:
            return self._reader.read(path, data)
        except Exception:
            logger.exception("%s made the loader fail; please report this", path)
            problem = Problem(source=str(path), message="the loader failed on this file; the log has the details")
            return LoadedFile(path=path, problems=(problem,))

    def _offers(self) -> Offers:
        tools = [tool for kept in self._kept.values() for tool in kept.tools]
        return Offers(tools=tools, problems=self._problems())

    def _problems(self) -> list[Problem]:
        kept = (problem for kept in self._kept.values() for problem in kept.problems)
        return [*self._folder_problems, *kept]


@contextmanager
def _uncollected() -> Generator[None]:
    """Pause the collector of cycles: thousands of tools that are all kept make it walk them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_tool_file(path: Path) -> bool:
    """Whether a name is a tool file's: not hidden, not an editor's own, and ends with .json."""
    return path.suffix == ".json" and not path.name.startswith((".", "#", "~"))


def describe(problem: Problem) -> str:
    """A problem as a compiler would say it."""
    place = problem.source
    if problem.line is not None:
        place += f":{problem.line}:{problem.column or 1}"
    tool = f"tool {problem.tool_name!r}: " if problem.tool_name else ""
    return f"{place}: {tool}{problem.message}"


def _scan(folders: Iterable[Path]) -> tuple[dict[Path, Signature], tuple[Problem, ...]]:
    """Every tool file with its signature, in the order of folders and names."""
    found: dict[Path, Signature] = {}
    problems: list[Problem] = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if is_tool_file(Path(entry.name)))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(Problem(source=str(folder), message=f"the folder cannot be read: {error.strerror}"))
            continue
        for name in names[:MOST_FILES]:
            path = folder / name
            signature = _signature(path)
            if signature is not None:
                found[path] = signature
        if len(names) > MOST_FILES:
            message = f"{len(names):,} tool files; only the first {MOST_FILES:,} are read"
            problems.append(Problem(source=str(folder), message=message))
    return found, tuple(problems)


def _signature(path: Path) -> Signature | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _is_cut_off(path: Path) -> bool:
    try:
        msgspec.json.decode(_read_regular(path).removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError, RecursionError):
        return True
    return False


def _read_regular(path: Path) -> bytes:
    """A regular file's bytes, at most one more than is allowed; a named pipe is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(LARGEST_FILE + 1)
