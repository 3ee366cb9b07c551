"""Confines paths and files to a folder, also while another process changes links.

A path is resolved and compared by component, the file is opened, and the open descriptor's real
path is compared again: what is read is what was checked.

A small file that the kernel has in its caches is read at once (`QuickFolder`), everything else is opened
with `open_inside`, which may wait for a disk. However a file was opened, `_check_file` decides.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from toolstead.errors import RefusedError, ToolError
from toolstead.tools import kernel_cache

LONGEST_PATH = 4_096
"""Bytes of a path; the limit of the systems we run on."""

_MOST_AT_ONCE = 65_536
"""Bytes of a file that the event loop reads itself; some 0.1 ms with all that a tool does with them."""

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
    _encode_path(path)
    try:
        folder = os.path.realpath(base)
        resolved = os.path.realpath(path if path.startswith("/") else f"{folder}/{path}")
    except OSError as error:  # a link that vanished while it was followed
        raise ToolError(f"cannot resolve {quote_path(path)}: {error.strerror}") from None
    if not _is_inside(resolved, folder):
        raise _outside_error(path, named)
    return Path(resolved)


def open_inside(base: Path, path: str, *, named: str = "the project", private: Path | None = None) -> BinaryIO:
    """Open a regular file inside a folder for reading. It waits for no other program: a named pipe is refused.

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
        try:
            _check_file(descriptor, path, folder, named=named, private=private, find_path=_path_of_folder)
        except OSError as error:
            raise RefusedError(f"cannot check where {quote_path(path)} lies: {error.strerror}") from None
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@dataclass(slots=True, eq=False)
class QuickFolder:
    """A folder whose small files are read at once, on the event loop, where the kernel has them in its caches.

    It answers only what is plainly right. A path that leads out through a link, a file that is not there,
    one that is large or not in the caches: all that is left to `open_inside`, in a worker thread.

    Attributes:
        base: The folder.
        named: What it is called in an error.
        private: A folder that nothing is read from, though it may lie inside the other.
    """

    base: Path
    named: str = "the project"
    private: Path | None = None
    _device: int | None = field(default=None, init=False)
    _surveyed: bool = field(default=False, init=False)

    def survey(self) -> None:
        """Find out, once, whether the folder's file system can answer at once. It may wait, so not for a loop."""
        if not self._surveyed:
            with suppress(OSError):
                self._device = kernel_cache.find_device(self.base)
                self._surveyed = True

    def read_at_once(self, path: str, most: int) -> bytes | None:
        """The bytes of a file, or None where a worker thread has to look, as for one that has more bytes than this.

        Raises:
            RefusedError: As `open_inside`.
        """
        if self._device is None:
            return None
        base, below = os.fsencode(self.base), _encode_path(path)
        if path.startswith("/"):
            below = below.removeprefix(base + b"/")
        try:
            folder = kernel_cache.open_folder(base)
        except OSError:
            return None
        try:
            if os.fstat(folder).st_dev != self._device:  # another file system took its place
                self._device, self._surveyed = None, False
                return None
            return self._read_below(folder, path, below, most)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                self._device = None
            return None
        finally:
            os.close(folder)

    def _read_below(self, folder: int, path: str, below: bytes, most: int) -> bytes | None:
        descriptor = kernel_cache.open_below(folder, below)
        try:
            size = _check_file(
                descriptor,
                path,
                _path_of(folder),
                named=self.named,
                private=self.private,
                find_path=_path_of_cached_folder,
            )
            return kernel_cache.read_file(descriptor, size) if size <= min(most, _MOST_AT_ONCE) else None
        finally:
            os.close(descriptor)


def quote_path(path: str) -> str:
    """A path as an error shows it: on one line, and shortened."""
    return repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…")


def _encode_path(path: str) -> bytes:
    """A path as the system takes it.

    Raises:
        RefusedError: It can be no path at all.
    """
    if "\0" in path:
        raise RefusedError("the path contains a null byte, which no file name can have")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise RefusedError(f"the path {quote_path(path)} has a character in it that no file's name can have") from None
    if len(encoded) > LONGEST_PATH:
        raise RefusedError(
            f"the path has {len(encoded):,} bytes, and at most {LONGEST_PATH:,} are possible: {quote_path(path)}"
        )
    return encoded


def _check_file(
    descriptor: int,
    path: str,
    folder: str,
    *,
    named: str,
    private: Path | None,
    find_path: Callable[[Path], str],
) -> int:
    """Decide, of what is open, whether it may be read. Everything that is read passes here. Gives its size.

    The folder is given as its real path, and `find_path` gives that of the private one.

    Raises:
        RefusedError: It may not.
        OSError: Where the private folder is cannot be found out.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "something else")
        raise RefusedError(f"{quote_path(path)} is {kind}, not a file; give the path of a file")
    real = _path_of(descriptor)
    if not _is_inside(real, folder):
        raise _outside_error(path, named)
    if private is not None and _is_kept_from(folder, real, private, find_path):
        raise RefusedError(f"{quote_path(path)} is in Toolstead's private folder, which no tool may read")
    return found.st_size


def _is_kept_from(folder: str, real: str, private: Path, find_path: Callable[[Path], str]) -> bool:
    """Whether a file lies in the private folder. A base folder inside that one was chosen by the tool's author."""
    try:
        kept = find_path(private)
    except (FileNotFoundError, NotADirectoryError):  # there is none, so nothing is in it
        return False
    return _is_inside(real, kept) and not _is_inside(folder, kept)


def _is_inside(real: str, folder: str) -> bool:
    """Whether a real path is a folder's or lies below it, by component."""
    return real == folder or real.startswith(folder if folder == "/" else f"{folder}/")


def _outside_error(path: str, named: str) -> RefusedError:
    return RefusedError(f"{quote_path(path)} is outside {named}; give a path inside it, such as 'src/main.py'")


def _path_hint(path: str) -> str:
    if path.startswith("~"):
        return "; `~` is not expanded here, so give a path relative to the folder"
    return "" if Path(path).is_absolute() else "; a path is relative to that folder"


def _path_of_folder(base: Path) -> str:
    """A folder's real path, spelled as the system spells the paths of what is open inside it."""
    return _path_of_closing(os.open(base, os.O_RDONLY | os.O_DIRECTORY))


def _path_of_cached_folder(base: Path) -> str:
    """The same, from the kernel's caches alone."""
    return _path_of_closing(kernel_cache.open_folder(os.fsencode(base)))


def _path_of_closing(descriptor: int) -> str:
    try:
        return _path_of(descriptor)
    finally:
        os.close(descriptor)


def _path_of(descriptor: int) -> str:
    """The real path of what is open, as the system knows it now."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1_024)).rstrip(b"\0"))
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - a Path costs more than the call
    except OSError as error:
        raise RefusedError(f"cannot check where an open file is ({error.strerror}: /proc)") from None
