"""Looks for the files that a gate names: paths and globs inside one folder, however the links in it lead.

A glob is matched part by part, as a shell does: `*` matches no hidden file, `**` any number of folders, and no linked
one. The search is bounded in entries and in time, because nobody knows what a task has made.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from toolstead.errors import RefusedError, ToolError
from toolstead.tools.confinement import resolve_inside

MOST_ENTRIES = 200_000
LONGEST_SEARCH = 20.0
"""Seconds."""
_WILD = frozenset("*?[")


class LongSearchError(Exception):
    """The search took too long; the text says what would be right."""


def find_missing(folder: Path, patterns: Sequence[str]) -> list[str]:
    """For each path or glob without a match inside the folder, a sentence that says so. Blocks, so not for a loop.

    Raises:
        LongSearchError: There is too much to look at.
    """
    search = _FileSearch(folder)
    return [reason for reason in map(search.explain_missing, patterns) if reason]


class _FileSearch:
    """One search: its bounds are for all patterns together."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._left = MOST_ENTRIES
        self._deadline = time.monotonic() + LONGEST_SEARCH
        self._has_led_out = False

    def explain_missing(self, pattern: str) -> str:
        """Why nothing matches; empty when something does."""
        self._has_led_out = False
        waiting = [(self._folder, PurePosixPath(pattern).parts)]
        while waiting:
            place, parts = waiting.pop()
            for path, rest in self._list_next(place, parts):
                if (where := self._settle_link(path)) is None:
                    continue
                if not rest:
                    return ""
                waiting.append((where, rest))
        if self._has_led_out:
            return f"{pattern}: a link leads out of the task's folder; the file itself must be there"
        return f"{pattern}: {'nothing matches it' if _is_wild(pattern) else 'it is not there'}"

    def _settle_link(self, path: str) -> str | None:
        """The real path of something in a folder whose path is real; None where nothing is, or it lies outside."""
        try:
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                return path
            where = str(resolve_inside(Path(self._folder), path, named="the task's folder"))
        except RefusedError:
            self._has_led_out = True
            return None
        except (ToolError, OSError):  # it is not there, or is gone by now
            return None
        return where if os.path.exists(where) else None  # noqa: PTH110 - a Path raises where it may not look

    def _list_next(self, place: str, parts: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Where the first of the parts may lead from a folder, each with the parts that remain."""
        first, rest = parts[0], parts[1:]
        if not _is_wild(first):
            yield f"{place}/{first}", rest
            return
        if first == "**" and rest:
            yield from self._list_next(place, rest)
        for entry in self._list_entries(place):
            if entry.name.startswith(".") and not first.startswith("."):
                continue
            if first != "**":
                if fnmatchcase(entry.name, first):
                    yield f"{place}/{entry.name}", rest
            elif not rest:
                yield f"{place}/{entry.name}", ()
            elif entry.is_dir(follow_symlinks=False):
                yield f"{place}/{entry.name}", parts

    def _list_entries(self, place: str) -> Iterator[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(place) as entries:  # what is no folder has none
            for entry in entries:
                self._left -= 1
                if self._left < 0 or time.monotonic() > self._deadline:
                    raise LongSearchError(
                        f"more than {MOST_ENTRIES:,} files or {LONGEST_SEARCH:g} seconds were needed to look for it;"
                        " name a folder in the pattern"
                    )
                yield entry


def _is_wild(text: str) -> bool:
    return not _WILD.isdisjoint(text)
