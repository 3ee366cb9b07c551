"""Confines paths and files to a folder, also while another process changes links.

A path is resolved and compared by component, the file is opened, and the open descriptor's real
path is compared again: what is read is what was checked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from toolstead.errors import RefusedError, ToolError

LONGEST_PATH = 4_096
"""Bytes of a path; the limit of the systems we run on."""

_SHOWN = 200
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_REASONS = {
    errno.EACCES: "may not be read by this user",
    errno.EPERM: "may not be read by this user",
    errno.ELOOP: "is a link that leads back to itself",
    errno.ENAMETOOLONG: "has a name that is longer than a file's name can be",
    errno.ENXIO: "is a socket or a device without its other end, not a file",
}


def resolve_inside(base: Path, path: str, *, named: str = "the project") -> Path:
    """Where a path leads, links followed, if that is inside a folder. It need not exist.

    Args:
        base: The folder to stay in.
        path: As the caller wrote it: relative to the folder, or absolute. Nothing is expanded or
            decoded: `~` and `%2e` are ordinary characters.
        named: What the folder is called in an error.

    Raises:
        RefusedError: It leads out of the folder, or can be no path at all.
        ToolError: It cannot be resolved.
    """
    if "\0" in path:
        raise RefusedError("the path contains a null byte, which no file name can have")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise RefusedError(f"the path {quote_path(path)} has a character in it that no file's name can have") from None
    if size > LONGEST_PATH:
        raise RefusedError(
            f"the path has {size:,} bytes, and at most {LONGEST_PATH:,} are possible: {quote_path(path)}"
        )
    try:
        folder = Path(os.path.realpath(base))
        resolved = Path(os.path.realpath(folder / path))
    except OSError as error:  # a link that vanished while it was followed
        raise ToolError(f"cannot resolve {quote_path(path)}: {error.strerror}") from None
    if not resolved.is_relative_to(folder):
        raise _outside_error(path, named)
    return resolved


def open_inside(base: Path, path: str, *, named: str = "the project", private: Path | None = None) -> BinaryIO:
    """Open a regular file inside a folder for reading. Never waits: a named pipe is refused.

    Args:
        base: The folder to stay in.
        path: As the caller wrote it.
        named: What the folder is called in an error.
        private: A folder that nothing is read from, though it may lie inside the other.

    Raises:
        RefusedError: It leads out of the folder or into the private one, or is no regular file.
        ToolError: There is no such file, or it cannot be read.
    """
    resolved = resolve_inside(base, path, named=named)
    try:
        folder = _path_of_folder(base)
        descriptor = os.open(resolved, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise ToolError(f"there is no file {quote_path(path)} in {named}{_path_hint(path)}") from None
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) or f"cannot be opened: {error.strerror}"
        raise ToolError(f"{quote_path(path)} {reason}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
            raise RefusedError(f"{quote_path(path)} is {kind}, not a file; give the path of a file")
        real = _path_of(descriptor)
        if not real.is_relative_to(folder):
            raise _outside_error(path, named)
        if private is not None and _is_kept_from(folder, real, private):
            raise RefusedError(f"{quote_path(path)} is in Toolstead's private folder, which no tool may read")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def quote_path(path: str) -> str:
    """A path as an error shows it: on one line, and shortened."""
    return repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…")


def _is_kept_from(folder: Path, real: Path, private: Path) -> bool:
    """Whether a file lies in the private folder. A base folder inside that one was chosen by the tool's author."""
    try:
        kept = _path_of_folder(private)
    except OSError:  # there is none, so nothing is in it
        return False
    return real.is_relative_to(kept) and not folder.is_relative_to(kept)


def _outside_error(path: str, named: str) -> RefusedError:
    return RefusedError(f"{quote_path(path)} is outside {named}; give a path inside it, such as 'src/main.py'")


def _path_hint(path: str) -> str:
    if path.startswith("~"):
        return "; `~` is not expanded here, so give a path relative to the folder"
    return "" if Path(path).is_absolute() else "; a path is relative to that folder"


def _path_of_folder(base: Path) -> Path:
    """A folder's real path, spelled as the system spells the paths of what is open inside it."""
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _path_of(descriptor)
    finally:
        os.close(descriptor)


def _path_of(descriptor: int) -> Path:
    """The real path of what is open, as the system knows it now."""
    if sys.platform == "darwin":
        return Path(os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1_024)).rstrip(b"\0")))
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError as error:
        raise RefusedError(f"cannot check where an open file is ({error.strerror}: /proc)") from None
