"""Shared files on the disk: written into a folder and nowhere else, and read from one."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from toolstead.errors import InvalidFileError
from toolstead.orchestrator.shared_files import check_path, check_text

LARGEST_FILE = 8 << 20
"""Bytes that the settings may allow at most."""
_MOST_NAMED = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ExportFolder:
    """A folder that files are written into; made when it is entered.

    Each part of a path is opened in the folder before it, and links are not followed, so that nothing is ever written
    outside, whatever lies in the folder or is put there meanwhile.
    """

    def __init__(self, folder: Path, *, replace: bool) -> None:
        """Open nothing yet; with `replace` files that are there are overwritten."""
        self._path = folder
        self._replace = replace
        self._folder = -1

    def __enter__(self) -> Self:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._folder = os.open(self._path, _FOLDER)
        except OSError as error:
            raise click.UsageError(f"{self._path}: {error.strerror or error}; name a folder") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._folder)

    def check_places(self, paths: Sequence[str]) -> None:
        """Refuse to begin where a file is there already, unless it may be replaced.

        Raises:
            click.UsageError: Some are there.
        """
        taken = [] if self._replace else [path for path in paths if os.path.lexists(self._path / path)]
        if taken:
            named = ", ".join(taken[:_MOST_NAMED]) + (", …" if len(taken) > _MOST_NAMED else "")
            raise click.UsageError(f"{self._path} has {named} already; --force overwrites, and nothing was written")

    def write_file(self, path: str, text: str) -> None:
        """Write one file.

        Raises:
            OSError: It cannot be written: a part is no folder, or a link, or the file is there.
        """
        *parents, name = path.split("/")
        with self._open_parent(parents) as parent:
            if not self._replace:
                _write_new(name, text, parent)
                return
            # A rename replaces a link itself, never the file that it leads to.
            draft = f".{secrets.token_hex(8)}.tmp"
            try:
                _write_new(draft, text, parent)
                os.replace(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=parent)
                raise

    @contextmanager
    def _open_parent(self, parents: Sequence[str]) -> Generator[int]:
        folder = os.dup(self._folder)
        try:
            for part in parents:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)


def read_source(source: Path) -> Iterator[tuple[str, str | None, str]]:
    """A file, or each file of a folder: its path, its text, or None with the reason why it cannot be imported.

    Links are not followed.
    """
    for path in _list_source(source):
        relative = path.name if path == source else path.relative_to(source).as_posix()
        try:
            yield check_path(relative), _read_text(path), ""
        except InvalidFileError as error:
            yield relative, None, error.reason
        except UnicodeDecodeError:
            yield relative, None, "it is no text in UTF-8, and only text can be shared"
        except OSError as error:
            yield relative, None, "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)


def _list_source(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for folder, folders, names in os.walk(source):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in sorted([*names, *links]))


def _read_text(path: Path) -> str:
    # Not blocking: to open a pipe would wait for its other end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no file")
        data = file.read(LARGEST_FILE + 1)
    text = data.decode()
    check_text(text, "content", LARGEST_FILE)
    return text


def _write_new(name: str, text: str, parent: int) -> None:
    with os.fdopen(os.open(name, _NEW_FILE, 0o666, dir_fd=parent), "wb") as file:
        file.write(text.encode())
