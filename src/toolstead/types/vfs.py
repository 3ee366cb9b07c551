"""The files that the agents of a thread tree share, and every version of them."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from toolstead.types.sent import SentStruct

USER = "user"
"""The author of what a person writes, over REST or on the command line."""

Bound = Annotated[int, msgspec.Meta(ge=1)]


class FileVersion(SentStruct, frozen=True, kw_only=True):
    """One version of a shared file, without its text.

    Attributes:
        path: The file's path.
        version: Its number: 1 is the first of its path, and none is ever given twice.
        author: The agent that wrote it; `user` for a person, `client` for a call that comes from no agent.
        created_at: When it was written, in seconds since 1970.
        size: Bytes of its text in UTF-8.
        deleted: Whether this version is the deletion of the file.
        thread_id: The thread in which it was written.
        run_id: The run that wrote it, if one did.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"deleted", "run_id"})

    path: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    author: str
    created_at: float
    size: Annotated[int, msgspec.Meta(ge=0)]
    deleted: bool = False
    thread_id: str
    run_id: str | None = None


class SharedFile(FileVersion, frozen=True, kw_only=True):
    """One version of a shared file, with its text.

    Attributes:
        content: The text; empty for a deletion.
    """

    content: str

    def without_content(self) -> FileVersion:
        """The same version without its text."""
        return FileVersion(**{name: getattr(self, name) for name in FileVersion.__struct_fields__})


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A write to a shared file, which makes its next version.

    Attributes:
        content: The new text; None deletes the file.
        replaces: The part of the newest text that `content` replaces; None for all of it.
        expected_version: The version that must be the newest; 0 for a file that must not exist; None for any.
    """

    path: str
    content: str | None
    author: str
    thread_id: str
    run_id: str | None = None
    created_at: float
    replaces: str | None = None
    expected_version: int | None = None


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a thread tree may keep: the table `[plugins.vfs]`. Older versions and deleted files count too.

    Attributes:
        max_file: Bytes of one file.
        max_total: Bytes of all versions together.
        max_files: Paths.
        max_versions: Versions of all files together.
    """

    max_file: Annotated[int, msgspec.Meta(ge=1, le=8 << 20)] = 1 << 20
    max_total: Bound = 256 << 20
    max_files: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 2_000
    max_versions: Bound = 50_000


class TreeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much a thread tree keeps.

    Attributes:
        files: Paths, deleted ones included.
        versions: Versions of all files.
        bytes: Bytes of all versions.
    """

    files: int = 0
    versions: int = 0
    bytes: int = 0
