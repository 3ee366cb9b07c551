"""The shared files of thread trees, as tools, REST and the command line use them: checks once, then the store.

Everything that is read or written passes `check_path`; everything that is written passes `check_text`. So what is in
the store can be shown, sent to a model and exported as files.
"""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolstead.errors import FileConflictError, InvalidFileError, NotFoundError
from toolstead.orchestrator.text_diff import render_diff
from toolstead.schema.visible import first_unseen
from toolstead.types.vfs import FileChange

if TYPE_CHECKING:
    from toolstead.orchestrator.store import Store
    from toolstead.types.vfs import FileLimits, FileVersion, SharedFile

LONGEST_PATH = 512
LONGEST_AUTHOR = 200
MOST_LISTED = 1_000
"""Versions that one page of a history has."""

_BINARY = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
"""What is in no text: control characters other than tab, line breaks and form feed, and halves of characters."""


class SharedFiles:
    """The files of thread trees. A thread names its tree: all threads of a tree have the same files."""

    def __init__(self, store: Store, read_limits: Callable[[], FileLimits]) -> None:
        """Keep the store.

        Args:
            store: Where the files are.
            read_limits: What a tree may keep, asked at each write.
        """
        self._store = store
        self._read_limits = read_limits

    async def read_file(self, thread_id: str, path: str, *, version: int | None = None) -> SharedFile:
        """A file's newest text, or that of a version, which may be a deletion.

        Raises:
            NotFoundError: There is no such file or version, or the file is deleted and no version was named.
            InvalidFileError: The path cannot be one.
        """
        path = check_path(path)
        found = await self._store.read_file(_check_thread(thread_id), path, version=version)
        if found is None or (found.deleted and version is None):
            raise NotFoundError("file", path if version is None else f"{path}, version {version}")
        return found

    async def list_files(self, thread_id: str, prefix: str = "") -> list[FileVersion]:
        """The newest version of each file, sorted by path; of those whose path begins so.

        Raises:
            InvalidFileError: The prefix cannot begin a path.
        """
        return await self._store.list_files(_check_thread(thread_id), _check_prefix(prefix))

    async def list_versions(
        self, thread_id: str, path: str, *, limit: int = 100, before: int | None = None
    ) -> list[FileVersion]:
        """A file's versions, the newest first, deletions included; with `before` only older ones than that.

        Raises:
            NotFoundError: There never was such a file.
            InvalidFileError: The path cannot be one.
        """
        path = check_path(path)
        limit = min(limit, MOST_LISTED)
        found = await self._store.list_file_versions(_check_thread(thread_id), path, limit=limit, before=before)
        if not found and before is None:
            raise NotFoundError("file", path)
        return found

    async def write_file(
        self,
        thread_id: str,
        path: str,
        content: str | None,
        *,
        author: str,
        run_id: str | None = None,
        expected_version: int | None = None,
        replaces: str | None = None,
    ) -> FileVersion:
        """Write a file's next version.

        Args:
            thread_id: A thread of the tree.
            path: The file.
            content: Its new text; None deletes it.
            author: Who writes.
            run_id: The run that writes, if one does.
            expected_version: The version that must be the newest; 0 for a file that must not exist.
            replaces: The part of the newest text that `content` replaces, which must be there exactly once.

        Raises:
            FileConflictError: Another version is the newest; its `diff` shows what changed since the expected one.
            InvalidFileError: The path or the text cannot be kept, a limit is reached, or the part is not unique.
            NotFoundError: There is no file to delete or to edit.
        """
        limits = self._read_limits()
        if content is not None:
            check_text(content, "content", limits.max_file)
        if replaces is not None:
            _check_part(replaces, content)
        change = FileChange(
            path=check_path(path),
            content=content,
            author=author[:LONGEST_AUTHOR],
            thread_id=_check_thread(thread_id),
            run_id=run_id,
            created_at=time.time(),
            expected_version=expected_version,
            replaces=replaces,
        )
        try:
            return await self._store.write_file(change, limits)
        except FileConflictError as error:
            # In a worker: to compare two texts may take some tenths of a second.
            error.diff = await asyncio.to_thread(_show_difference, error)
            raise


def check_path(path: str) -> str:
    """The path as it is kept: in Unicode's composed form, without `.` parts.

    Raises:
        InvalidFileError: It is absolute, leads upward, has empty parts or what a reader cannot see, or is too long.
    """
    _check_visible(path)
    if not path or len(path) > LONGEST_PATH:
        raise InvalidFileError("path", f"a path has 1 to {LONGEST_PATH} characters, and this one {len(path):,}")
    parts = unicodedata.normalize("NFC", path).split("/")
    if path.startswith("/"):
        raise InvalidFileError("path", f"{path!r} is absolute; paths are relative, such as notes/plan.md")
    if "\\" in path:
        raise InvalidFileError("path", f"{path!r} has a backslash; parts are separated by /, such as notes/plan.md")
    if ".." in parts:
        raise InvalidFileError("path", f"{path!r} has a part `..`; name the file itself, such as notes/plan.md")
    if "" in parts:
        raise InvalidFileError("path", f"{path!r} has an empty part; write one / between parts, and none at the end")
    kept = "/".join(part for part in parts if part != ".")
    if not kept or any(part != part.strip() for part in parts) or len(kept) > LONGEST_PATH:
        raise InvalidFileError("path", f"{path!r} names no file, or has spaces around a part, or is too long")
    return kept


def check_text(text: str, field: str, most: int) -> None:
    """Refuse what is no text, or has more than so many bytes.

    Raises:
        InvalidFileError: It is binary, or too large.
    """
    if found := _BINARY.search(text):
        code = f"U+{ord(found[0]):04X}"
        raise InvalidFileError(
            field,
            f"it has {code} at character {found.start() + 1:,}, which is in no text; only text can be kept here, so"
            " encode binary data first, in base64 for example",
        )
    if len(text) > most or len(text.encode()) > most:
        raise InvalidFileError(
            field, f"it has more than {most:,} bytes, and a file may have no more; write it in several files"
        )


def _check_part(old: str, new: str | None) -> None:
    if not old or old == new:
        raise InvalidFileError("old", "it must be a text that is not empty and differs from the new one")


def _check_prefix(prefix: str) -> str:
    _check_visible(prefix)
    if len(prefix) > LONGEST_PATH:
        raise InvalidFileError("prefix", f"it has {len(prefix):,} characters; a path has at most {LONGEST_PATH}")
    return unicodedata.normalize("NFC", prefix).removeprefix("./")


def _check_visible(path: str) -> None:
    if (hidden := first_unseen(path[: LONGEST_PATH + 1], "name")) is not None:
        raise InvalidFileError("path", hidden)


def _check_thread(thread_id: str) -> str:
    if not thread_id or "\0" in thread_id or len(thread_id) > LONGEST_AUTHOR:
        raise InvalidFileError("thread", f"a thread's id has 1 to {LONGEST_AUTHOR} characters and no null character")
    return thread_id


def _show_difference(error: FileConflictError) -> str:
    base, newest = error.texts
    names = (f"{error.path} (version {error.expected})", f"{error.path} (version {error.version})")
    return render_diff(base or "", newest, names)
