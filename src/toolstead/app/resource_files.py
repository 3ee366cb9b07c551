"""The files of a project that the settings name as resources: `[mcp] resources = ["README.md", "docs/*.md"]`.

Their addresses are `toolstead://files/<path>` and not `file://…`: a path on the server's machine says nothing to a
client on another one, and should not reach it. Only files inside the project are read, however links lead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from toolstead.errors import InvalidRequestError, NotFoundError, ToolError
from toolstead.tools.confinement import open_inside, quote_path
from toolstead.types.client_parts import ResourceInfo
from toolstead.types.content import EmbeddedResource

logger = logging.getLogger(__name__)

FILES = "toolstead://files/"
MOST_FILES = 1_000
MOST_ENTRIES = 20_000
"""Names that are looked at for one list: a pattern may lead anywhere in the project."""
LARGEST_FILE = 8 * 1024 * 1024

_MOST_SEGMENTS = 64
"""Names in a path, and segments in a pattern."""
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".md": "text/markdown",
        ".txt": "text/plain",
        ".rst": "text/x-rst",
        ".html": "text/html",
        ".csv": "text/csv",
        ".py": "text/x-python",
        ".js": "text/javascript",
        ".json": "application/json",
        ".toml": "application/toml",
        ".yaml": "application/yaml",
        ".yml": "application/yaml",
        ".xml": "application/xml",
        ".pdf": "application/pdf",
        ".svg": "image/svg+xml",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
        ".mp3": "audio/mpeg",
        ".wav": "audio/wav",
    }
)


class ResourceFiles:
    """The files that some patterns name in a project."""

    def __init__(self, root: Path, private: Path) -> None:
        """Name none yet.

        Args:
            root: The project's root; nothing is read outside it.
            private: A folder that nothing is read from, wherever it lies.
        """
        self.patterns: tuple[str, ...] = ()
        self._root = root
        self._private = private
        self._told: set[str] = set()

    def list_files(self) -> tuple[ResourceInfo, ...]:
        """The files in the order of their paths; in a worker thread."""
        if not self.patterns:
            return ()
        search = _Search(self._root)
        found = sorted({path for pattern in self.patterns for path in search.find_files(pattern)})
        if search.is_deep:
            self._warn("deep", f"files are looked for in {_MOST_SEGMENTS} folders within each other; some lie deeper")
        if search.is_cut:
            self._warn("entries", f"more than {MOST_ENTRIES:,} names were looked at; the rest of the project is not")
        if len(found) > MOST_FILES:
            self._warn("files", f"{len(found):,} files; only the first {MOST_FILES:,} are listed")
        return tuple(
            ResourceInfo(uri=FILES + quote(path), name=path, mime_type=_guess_type(path))
            for path in found[:MOST_FILES]
            if self._may_list(path)
        )

    def read(self, uri: str) -> EmbeddedResource:
        """Read a file; in a worker thread.

        Raises:
            NotFoundError: No pattern names such a file.
            InvalidRequestError: It leads outside the project, cannot be read, or is too large.
        """
        path = unquote(uri.removeprefix(FILES))
        if not any(_fits(path, pattern) for pattern in self.patterns):
            raise NotFoundError("resource", uri[:200])
        try:
            with open_inside(self._root, path, private=self._private) as file:
                data = file.read(LARGEST_FILE + 1)
        except ToolError as error:
            raise InvalidRequestError(f"{uri[:200]}: {error}") from None
        except OSError as error:
            raise InvalidRequestError(f"{uri[:200]}: cannot be read: {error.strerror}") from None
        if len(data) > LARGEST_FILE:
            raise InvalidRequestError(f"{uri[:200]}: it has more than {LARGEST_FILE:,} bytes, the most that is read")
        kind = _guess_type(path)
        if b"\0" not in data:
            try:
                return EmbeddedResource(uri=uri, content=data.decode(), mime_type=kind)
            except UnicodeDecodeError:
                pass
        return EmbeddedResource(uri=uri, content=data, mime_type=kind or "application/octet-stream")

    def _may_list(self, path: str) -> bool:
        """Whether a file may be read: a link may lead anywhere."""
        try:
            path.encode()
            open_inside(self._root, path, private=self._private).close()
        except UnicodeEncodeError:
            self._warn(path, f"{quote_path(path)}: the name is no UTF-8, so no address can have it; it is not listed")
            return False
        except ToolError as error:
            self._warn(path, f"{error}; it is not listed")
            return False
        return True

    def _warn(self, key: str, message: str) -> None:
        """Log something about the files once: they are listed again and again."""
        if key not in self._told and len(self._told) < MOST_FILES:
            self._told.add(key)
            logger.warning("mcp.resources: %s", message)


class _Search:
    """Finds files by patterns, and looks at so many names at most.

    Attributes:
        is_cut: Whether there were more.
        is_deep: Whether folders lie deeper than any path that is read.
    """

    def __init__(self, root: Path) -> None:
        self.is_cut = self.is_deep = False
        self._root = str(root)
        self._room = MOST_ENTRIES

    def find_files(self, pattern: str) -> list[str]:
        return self._find_below("", pattern.split("/")[:_MOST_SEGMENTS])

    def _find_below(self, folder: str, segments: Sequence[str]) -> list[str]:
        first, *rest = segments
        found = self._find_below(folder, rest) if first == "**" and rest else []
        for entry in self._list_folder(folder):
            path = f"{folder}{entry.name}"
            if first == "**":
                if _is_folder(entry, follow=False) and not entry.name.startswith("."):
                    found += self._find_below(f"{path}/", segments)
                elif not rest and _fits_name(entry.name, "*") and _is_file(entry):
                    found.append(path)
            elif not _fits_name(entry.name, first):
                continue
            elif not rest and _is_file(entry):
                found.append(path)
            elif rest and _is_folder(entry, follow=True):
                found += self._find_below(f"{path}/", rest)
        return found

    def _list_folder(self, folder: str) -> list[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        if folder.count("/") >= _MOST_SEGMENTS:  # a path has no more names; and each folder is a frame of the stack
            self.is_deep = True
            return entries
        try:
            with os.scandir(f"{self._root}/{folder}") as found:
                for entry in found:
                    if not self._room:
                        self.is_cut = True
                        break
                    self._room -= 1
                    entries.append(entry)
        except OSError:
            return []
        return sorted(entries, key=lambda entry: entry.name)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _fits_name(name: str, pattern: str) -> bool:
    """Whether a name fits, as in a shell: a hidden one only where the pattern begins with the dot."""
    return (pattern.startswith(".") or not name.startswith(".")) and fnmatchcase(name, pattern)


def _fits(path: str, pattern: str) -> bool:
    """Whether a path, which must be a plain one, fits a pattern."""
    names, segments = path.split("/"), pattern.split("/")
    if len(names) > _MOST_SEGMENTS or any(name in ("", ".", "..") for name in names):
        return False
    row = [True] + [False] * len(segments)  # whether the names so far fit so many segments
    for at, segment in enumerate(segments):
        row[at + 1] = segment == "**" and row[at]
    for name in names:
        following = [False] * len(row)
        for at, segment in enumerate(segments):
            if segment == "**":
                following[at + 1] = following[at] or (row[at + 1] and not name.startswith("."))
            else:
                following[at + 1] = row[at] and _fits_name(name, segment)
        row = following
    return row[-1]


def _guess_type(path: str) -> str | None:
    """The media type by the end of the name, the same on every machine."""
    return _TYPES.get(PurePosixPath(path).suffix.lower())
