"""What a project brings, read once: `.toolstead/**` and `.claude/agents/**`, which is all that is used of it.

No link is followed and nothing is read twice: what is shown, approved and kept are the bytes of one
snapshot. Names come from the project's author, so messages show them escaped.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from toolstead.errors import TrustError, UnreadableTrustError
from toolstead.schema.visible import HALF_CHARACTER, escape_unseen

FOLDERS = (".toolstead", ".claude/agents")
MOST_FILES = 2_000
LARGEST_FILE = 8 * 1024 * 1024
LARGEST_SNAPSHOT = 64 * 1024 * 1024
DEEPEST = 32

Mark = tuple[tuple[str, int, int, int, int], ...]
"""What changes when any file of the scope does: path, mode, time, size and inode of each.

The time is that of the last status change (ctime), which no program can set; mtime may lie in the future."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a file: the SHA-256 of its bytes, and whether it may be run as a program."""

    sha256: str
    executable: bool = False


class PinnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file's content, and whether it may be run as a program."""

    data: bytes
    executable: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a project brings at one moment.

    Attributes:
        files: By path relative to the project's root, sorted.
        skipped: What is no regular file, such as a link: never followed, never loaded.
    """

    files: Mapping[str, PinnedFile]
    skipped: tuple[str, ...] = ()

    @property
    def pins(self) -> dict[str, Pin]:
        """What identifies each file, by path."""
        return {
            path: Pin(sha256=hashlib.sha256(file.data).hexdigest(), executable=file.executable)
            for path, file in self.files.items()
        }

    @property
    def digest(self) -> str:
        """One name for all of it: other bytes, names or modes give another."""
        return digest_of(self.pins)


def digest_of(pins: Mapping[str, Pin]) -> str:
    """One name for many files: the path of each, whether it is a program, and the digest of its bytes."""
    whole = hashlib.sha256()
    for path, pin in pins.items():
        whole.update(f"{len(path)}:{path}:{int(pin.executable)}:{pin.sha256}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def is_in_scope(path: str) -> bool:
    """Whether a path of a project is in what it brings; an earlier version may have kept more."""
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) or path in FOLDERS


def take_snapshot(project: Path, *, without: Path | None = None) -> Snapshot:
    """Read everything a project brings.

    Args:
        project: The project's root.
        without: A folder that is the user's own, though it lies in the project.

    Raises:
        TrustError: There is more than can be approved, or something cannot be read.
    """
    files: dict[str, PinnedFile] = {}
    skipped: list[str] = []
    total = 0
    try:
        for entry in _walk_scope(project, without):
            file = _read(entry)
            if file is None:
                skipped.append(entry.path)
                continue
            total += len(file.data)
            if total > LARGEST_SNAPSHOT:
                raise TrustError(
                    f"{escape_unseen(str(project))} brings more than {LARGEST_SNAPSHOT:,} bytes; "
                    "move large files elsewhere"
                )
            files[entry.path] = file
    except OSError as error:
        raise _unreadable_error(project, error) from None
    return Snapshot(files=dict(sorted(files.items())), skipped=tuple(sorted(skipped)))


def take_mark(project: Path, *, without: Path | None = None) -> Mark:
    """What changes when the scope does; costs a look at each name, and reads nothing.

    Raises:
        TrustError: There is more than can be approved, or something cannot be read.
    """
    try:
        found = [(entry.path, entry.seen) for entry in _walk_scope(project, without)]
    except OSError as error:
        raise _unreadable_error(project, error) from None
    return tuple(sorted((path, at.st_mode, at.st_ctime_ns, at.st_size, at.st_ino) for path, at in found))


def _unreadable_error(project: Path, error: OSError) -> TrustError:
    name = escape_unseen(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "its folder"
    return UnreadableTrustError(f"what {escape_unseen(str(project))} brings cannot be read: {error.strerror} ({name})")


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A name in the scope that is no folder; its folder is held open, so that it cannot be replaced."""

    path: str
    folder: int
    name: str
    seen: os.stat_result


class _ScopeWalk:
    """One walk through the scope; every name counts, folders included."""

    def __init__(self, project: Path, without: Path | None) -> None:
        self._project = project
        self._without = without
        self._room = MOST_FILES

    def walk_below(self, folder: int, above: str, steps: Sequence[str]) -> Iterator[_Entry]:
        """What lies at a place, one step at a time; where the steps end, everything in it."""
        name = steps[0]
        path = f"{above}{name}"
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        self._room -= 1
        if self._room < 0:
            raise TrustError(
                f"{escape_unseen(str(self._project))} brings more than {MOST_FILES:,} files; "
                "move what is no tool elsewhere"
            )
        if not stat.S_ISDIR(seen.st_mode):
            if len(steps) == 1 or not stat.S_ISREG(seen.st_mode):  # a file called `.claude` holds no agents
                yield _Entry(path=path, folder=folder, name=name, seen=seen)
            return
        if self._without is not None and self._project / path == self._without:
            return
        if path.count("/") > DEEPEST:
            raise TrustError(f"{_start(path)} is nested more than {DEEPEST} folders deep; move it elsewhere")
        inner = _open_inside(folder, name, os.O_DIRECTORY)
        if inner is None:  # replaced by a link since we looked
            yield _Entry(path=path, folder=folder, name=name, seen=seen)
            return
        try:
            if len(steps) > 1:
                yield from self.walk_below(inner, f"{path}/", steps[1:])
                return
            with os.scandir(inner) as inside:
                names = sorted(found.name for found in islice(inside, self._room + 1))
            for found in names:
                yield from self.walk_below(inner, f"{path}/", [found])
        finally:
            os.close(inner)


def _walk_scope(project: Path, without: Path | None) -> Iterator[_Entry]:
    """Every name of the scope that is no folder, with its folder open."""
    walk = _ScopeWalk(project, without)
    root = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for place in FOLDERS:
            yield from walk.walk_below(root, "", place.split("/"))
    finally:
        os.close(root)


def _open_inside(folder: int, name: str, flags: int) -> int | None:
    """Open a name inside a folder, through no link; None where it is gone, or something else by now."""
    try:
        return os.open(name, flags | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
            raise
        return None


def _read(entry: _Entry) -> PinnedFile | None:
    """A regular file's content; None for what is never loaded.

    That is a link, a pipe, a socket, a device, a name that is no text, and what went away meanwhile.
    """
    if not stat.S_ISREG(entry.seen.st_mode) or HALF_CHARACTER.search(entry.path):
        return None
    descriptor = _open_inside(entry.folder, entry.name, os.O_NONBLOCK)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise TrustError(
            f"{_start(entry.path)} has more than {LARGEST_FILE:,} bytes, the most that can be approved; move it out"
        )
    return PinnedFile(data=data, executable=bool(found.st_mode & stat.S_IXUSR))


def _start(path: str) -> str:
    return escape_unseen(path if len(path) <= 200 else f"{path[:200]}…")
