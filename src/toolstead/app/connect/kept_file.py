"""Replacing a file that belongs to another program: whole, with a copy of what it was, and never over its last change.

A link is followed and stays a link. The file keeps its mode, its owner and its attributes.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from toolstead.app.private_file import write_synced
from toolstead.errors import ClientConfigError

LARGEST = 64 << 20
"""Bytes of a file that is read; Claude Code's own has its history in it."""
MOST_COPIES = 5
"""Copies that are kept of a file."""
LOCK_SECONDS = 10.0
"""How old a lock is that its holder has left behind; its holder renews it more often."""
_LOCK_STEP = 0.05


class ChangedMeanwhileError(ClientConfigError):
    """The file is not what was read any more: read it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as it was read.

    Attributes:
        path: Its name, as its program knows it.
        target: What that leads to where it is a link.
        data: What it holds; None where there is none.
    """

    path: Path
    target: Path
    data: bytes | None


def read_file(path: Path) -> FoundFile:
    """Read a file, or find that there is none.

    Raises:
        ClientConfigError: It is no file that can be read.
    """
    try:
        target = Path(os.path.realpath(path, strict=path.exists()))
        if not os.path.lexists(target):
            return FoundFile(path=path, target=target, data=None)
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ClientConfigError(f"{path} is no file; move it away, and try again")
        if found.st_size > LARGEST:
            raise ClientConfigError(f"{path} has more than {LARGEST >> 20} MiB, which no configuration has")
        return FoundFile(path=path, target=target, data=target.read_bytes())
    except OSError as error:
        raise ClientConfigError(f"{path} cannot be read: {error.strerror or error}") from None


def replace_file(found: FoundFile, data: bytes | None, *, mode: int = 0o600) -> Path | None:
    """Give a file other content, and keep a copy of what it held; gives the copy's path, None where there was no file.

    Args:
        found: The file as it was read.
        data: What it is to hold; None removes it.
        mode: That of a new file, less what the umask takes away.

    Raises:
        ChangedMeanwhileError: It is another one by now; nothing was changed.
        ClientConfigError: It cannot be changed.
    """
    target = found.target
    shown = f"{found.path}" if found.path == target else f"{found.path} (a link to {target})"
    _check_folder(found)
    _check_writable(target, shown)
    fresh = target.with_name(f".{target.name.lstrip('.')}.{secrets.token_hex(4)}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = None if found.data is None else _keep_copy(found)
        if data is not None:
            write_synced(fresh, data, mode if found.data is None else 0o600)
            if found.data is not None:
                _copy_owner(target, fresh)
        _check_unchanged(found, copy)
        if data is None:
            target.unlink()
        else:
            fresh.replace(target)
        for old in find_copies(found)[MOST_COPIES:]:
            old.unlink(missing_ok=True)
        return copy
    except OSError as error:
        raise ClientConfigError(f"{shown} cannot be changed: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            fresh.unlink()


def find_copies(found: FoundFile) -> list[Path]:
    """The copies that were kept of a file, the newest first."""
    with suppress(OSError):
        copies = found.target.parent.glob(f"{_escape(found.target.name)}.toolstead-*.bak")
        return sorted(copies, key=_read_moment, reverse=True)
    return []


@contextmanager
def lock_folder(path: Path) -> Generator[None]:
    """Hold the lock that Claude Code takes before it writes a file: a folder beside it, made and removed.

    Raises:
        ClientConfigError: Another process holds it and does not release it.
    """
    lock = Path(f"{os.path.realpath(path)}.lock")
    deadline = time.monotonic() + LOCK_SECONDS
    while path.exists():
        try:
            lock.mkdir()
            break
        except FileExistsError:
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > LOCK_SECONDS:
                    lock.rmdir()
                    continue
            if time.monotonic() > deadline:
                raise ClientConfigError(
                    f"{path} is locked by its program: {lock} has been there for {LOCK_SECONDS:g} seconds;"
                    " close the program, and try again"
                ) from None
            time.sleep(_LOCK_STEP)
        except OSError:  # a folder in which nothing can be made: that is said where the file is replaced
            yield
            return
    else:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            lock.rmdir()


def _keep_copy(found: FoundFile) -> Path:
    """Write what a file holds beside it, unless the newest copy is the same; no copy is ever replaced."""
    data = found.data or b""
    copies = find_copies(found)
    if copies and copies[0].read_bytes() == data:
        return copies[0]
    moment = time.strftime("%Y%m%d-%H%M%S")
    # A number that is free again is not the newest.
    number = 1 + max((number for made, number in map(_read_moment, copies) if made == moment), default=0)
    while True:
        end = moment if number == 1 else f"{moment}-{number}"
        path = found.target.with_name(f"{found.target.name}.toolstead-{end}.bak")
        try:
            write_synced(path, data, 0o600)
        except FileExistsError:
            number += 1
            continue
        _copy_owner(found.target, path)
        return path


def _copy_owner(source: Path, path: Path) -> None:
    """Give a file the mode, the attributes and, where we may, the owner of another."""
    known = source.stat()
    with suppress(OSError):
        os.chown(path, known.st_uid, known.st_gid)
    shutil.copystat(source, path)
    os.utime(path)


def _check_folder(found: FoundFile) -> None:
    """Refuse to make the folder that a link leads to: what it is for is missing, perhaps for now alone.

    Raises:
        ClientConfigError: A link leads to a folder that is not there.
    """
    if found.target.parent.exists():
        return
    first = next((path for path in (found.path, *found.path.parents) if os.path.lexists(path)), found.path)
    if first.is_symlink():
        raise ClientConfigError(
            f"{first} is a link to {first.readlink()}, which is not there; nothing was written. Make its folder, or"
            " remove the link, and try again"
        )


def _check_writable(target: Path, shown: str) -> None:
    """Refuse what its owner has made read-only, also where we could replace it.

    Raises:
        ClientConfigError: It is read-only.
    """
    for path, what in ((target, "it"), (target.parent, f"its folder {target.parent}")):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if not mode & 0o222 or not os.access(path, os.W_OK):
            raise ClientConfigError(
                f"{shown} was not changed: {what} is read-only. Make it writable (chmod u+w), or, if another program"
                " writes it, add what --print shows there"
            )


def _check_unchanged(found: FoundFile, copy: Path | None) -> None:
    """Look again, at the last moment.

    Raises:
        ChangedMeanwhileError: Another process has written it.
    """
    if read_file(found.path) != found:
        if copy is not None and found.data is not None:
            with suppress(OSError):
                copy.unlink()
        raise ChangedMeanwhileError(f"{found.path} was changed by another program at the same moment; try again")


def _read_moment(copy: Path) -> tuple[str, int]:
    """When a copy was made, as its name says: date and time, and its number in that second."""
    day, time_of_day, number = (*copy.name.rpartition(".toolstead-")[2].removesuffix(".bak").split("-"), "1", "1")[:3]
    return f"{day}-{time_of_day}", int(number) if number.isdecimal() else 1


def _escape(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
