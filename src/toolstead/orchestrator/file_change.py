"""What a write to a shared file makes of the newest version: the next one, or a refusal.

A store calls it inside the transaction that writes, so that two writers can never both have the same newest version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolstead.errors import FileConflictError, InvalidFileError, NotFoundError
from toolstead.types.vfs import SharedFile

if TYPE_CHECKING:
    from toolstead.types.vfs import FileChange, FileLimits, FileVersion, TreeUsage

MOST_PLACES = 5
"""Places of a text that is not unique that are named."""

MOST_COUNTED = 100
"""Places that are counted: to find half a file of one letter in it takes long, and is found at every letter."""

ReadText = Callable[[int], "str | None"]
"""Reads the text of a version of the file; None where there is no such version."""


def make_version(
    change: FileChange, newest: FileVersion | None, usage: TreeUsage, limits: FileLimits, read_text: ReadText
) -> SharedFile:
    """The version that a change makes.

    Args:
        change: What to write.
        newest: The newest version of the path.
        usage: What the tree keeps already.
        limits: What it may keep.
        read_text: Reads an older text; called only where it is needed.

    Raises:
        FileConflictError: Another version than the expected one is the newest.
        InvalidFileError: A limit is reached, or the part to replace is not there exactly once.
        NotFoundError: There is no file to delete or to edit.
    """
    _check_expected(change, newest, read_text)
    is_there = newest is not None and not newest.deleted
    if not is_there and (change.content is None or change.replaces is not None):
        raise NotFoundError("file", change.path)
    content = change.content or ""
    if change.replaces is not None and newest is not None:
        text = read_text(newest.version) or ""
        content = _replace_once(change.path, newest.version, text, change.replaces, content)
    version = SharedFile(
        path=change.path,
        version=newest.version + 1 if newest is not None else 1,
        author=change.author,
        created_at=change.created_at,
        size=len(content.encode()),
        deleted=change.content is None,
        thread_id=change.thread_id,
        run_id=change.run_id,
        content=content,
    )
    _check_limits(version, usage, limits, is_new=newest is None)
    return version


def _check_expected(change: FileChange, newest: FileVersion | None, read_text: ReadText) -> None:
    expected = change.expected_version
    is_gone = newest is None or newest.deleted
    if expected is None or (expected == 0 and is_gone) or (newest is not None and expected == newest.version):
        return
    raise FileConflictError(
        path=change.path,
        expected=expected,
        version=newest.version if newest is not None else 0,
        author=newest.author if newest is not None else "",
        deleted=newest is not None and newest.deleted,
        texts=(read_text(expected) if expected else "", (newest is not None and read_text(newest.version)) or ""),
    )


def _replace_once(path: str, version: int, text: str, old: str, new: str) -> str:
    """The text with the one place of `old` replaced. Places may overlap: "aa" is twice in "aaa"."""
    first = text.find(old)
    if first < 0:
        raise InvalidFileError(
            "old",
            f"it is not in {path!r} (version {version}); it must match exactly, spaces and line breaks included, so"
            " read the file and copy the part",
        )
    if text.find(old, first + 1) < 0:
        return f"{text[:first]}{new}{text[first + len(old) :]}"
    places = [first]
    while len(places) <= MOST_COUNTED and (at := text.find(old, places[-1] + 1)) >= 0:
        places.append(at)
    often = f"more than {len(places) - 1}" if len(places) > MOST_COUNTED else str(len(places))
    lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:MOST_PLACES])
    raise InvalidFileError(
        "old",
        f"it is {often} times in {path!r} (version {version}), beginning on lines"
        f" {lines}{', …' if len(places) > MOST_PLACES else ''}; give more of the text around the place that you mean",
    )


def _check_limits(version: SharedFile, usage: TreeUsage, limits: FileLimits, *, is_new: bool) -> None:
    if version.size > limits.max_file:
        reason = f"{version.path!r} would have {version.size:,} bytes, and a file may have {limits.max_file:,}"
        raise InvalidFileError("max_file", f"{reason}; write it in several files")
    for name, after, most, what in (
        ("max_files", usage.files + is_new, limits.max_files, "paths, deleted ones included"),
        ("max_versions", usage.versions + 1, limits.max_versions, "versions"),
        ("max_total", usage.bytes + version.size, limits.max_total, "bytes, older versions included"),
    ):
        if after > most:
            raise InvalidFileError(
                name,
                f"with {version.path!r} the files of this thread tree would have {after:,} {what}, and {most:,} are"
                f" allowed; go on in another thread, or raise {name} under [plugins.vfs]",
            )
