"""Where agents' files come from: a port, and the folder that implements it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from toolstead.types.agent import AgentScope

LARGEST_FILE = 262_144
MOST_FILES = 1_000
MOST_ENTRIES = 20_000
"""Entries of a tree of folders that are looked at: it may be anything."""
_CLOCK_STEP = 20_000_000  # nanoseconds: no file system's clock has longer steps than this


class AgentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a source, or what is wrong with one of its folders.

    Attributes:
        path: The file.
        scope: Where it comes from.
        data: Its content; None when it could not be read.
        problem: Why it could not be read.
        is_folder: It is a folder, and the problem is the folder's.
        is_unread: It is a folder that could not be read: what was in it may still be there.
    """

    path: Path
    scope: AgentScope
    data: bytes | None = None
    problem: str = ""
    is_folder: bool = False
    is_unread: bool = False


class AgentSource(Protocol):
    """Offers agents' files."""

    def list_files(self) -> Sequence[AgentFile]:
        """Every file with its content. Called in a worker thread; never raises for one bad file."""
        ...


class AgentFolder:
    """The agents' files of a folder; of `.claude/agents` also those in folders below it.

    Attributes:
        folder: The folder; it need not exist.
        scope: Where its agents come from.
    """

    def __init__(self, folder: Path, scope: AgentScope) -> None:
        self.folder = folder
        self.scope: AgentScope = scope

    def list_files(self) -> Sequence[AgentFile]:
        """Every file in the order of paths, each with its content or why there is none."""
        paths, problems = self._scan()
        return [*problems, *(self._read_file(path) for path in paths)]

    def stamp(self) -> object:
        """Something that is another after any file has changed, come or gone."""
        paths, problems = self._scan()
        return tuple((path, _sign_file(path)) for path in paths), tuple(problem.problem for problem in problems)

    def _scan(self) -> tuple[list[Path], list[AgentFile]]:
        paths: list[Path] = []
        problems: list[AgentFile] = []
        for path in self._walk(problems):
            if len(paths) == MOST_FILES:
                problem = f"more than {MOST_FILES:,} agent files; only the first {MOST_FILES:,} are read"
                problems.append(AgentFile(path=self.folder, scope=self.scope, problem=problem, is_folder=True))
                break
            paths.append(path)
        return sorted(paths), problems

    def _walk(self, problems: list[AgentFile]) -> Iterator[Path]:
        """The paths of agents' files, in a stable order; links to folders are not followed."""
        waiting, seen = [self.folder], 0
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries: list[os.DirEntry[str]] = []
                    for entry in found:
                        seen += 1
                        if seen > MOST_ENTRIES:
                            problem = f"more than {MOST_ENTRIES:,} entries; the rest is not looked at"
                            problems.append(
                                AgentFile(path=self.folder, scope=self.scope, problem=problem, is_folder=True)
                            )
                            waiting.clear()
                            break
                        entries.append(entry)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = f"the folder cannot be read: {error.strerror or error}"
                problems.append(
                    AgentFile(path=folder, scope=self.scope, problem=problem, is_folder=True, is_unread=True)
                )
                continue
            entries.sort(key=lambda entry: entry.name)
            yield from (folder / entry.name for entry in entries if is_agent_file(entry.name))
            if self.scope == "claude" and seen <= MOST_ENTRIES:
                below = [entry.name for entry in entries if _is_visible(entry.name) and _is_own_folder(entry)]
                waiting.extend(folder / name for name in reversed(below))

    def _read_file(self, path: Path) -> AgentFile:
        try:
            data = read_regular(path)
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            return AgentFile(path=path, scope=self.scope, problem=problem)
        return AgentFile(path=path, scope=self.scope, data=data)


def is_agent_file(name: str) -> bool:
    """Whether a name is an agent file's: not hidden, not an editor's own, and ends with .md."""
    return name.endswith(".md") and _is_visible(name)


def read_regular(path: Path) -> bytes:
    """A regular file's bytes, at most one more than is allowed; a named pipe is not waited for.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE + 1)
    finally:
        os.close(descriptor)


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "#", "~"))


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _sign_file(path: Path) -> tuple[int, int, int]:
    """What changes when a file does; one that was written this very moment may be written again within its mark."""
    try:
        seen = path.stat()
    except OSError:
        return (0, 0, 0)
    fresh = abs(time.time_ns() - seen.st_mtime_ns) < _CLOCK_STEP
    return (time.monotonic_ns() if fresh else seen.st_mtime_ns, seen.st_size, seen.st_ino)
