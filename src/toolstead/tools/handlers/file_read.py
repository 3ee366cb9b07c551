"""The file-read handler: one file inside a folder, as text or as an image."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.confinement import open_inside, quote_path, resolve_inside
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.types.content import Image
from toolstead.types.result import ToolResult

LARGEST = 1_048_576
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadConfig:
    """The configuration of a file-read handler."""

    base_path: str
    max_size: int = LARGEST


class FileReadHandler:
    """Reads files inside one folder."""

    def __init__(self, config: FileReadConfig, surroundings: Surroundings) -> None:
        self._largest = config.max_size
        self._given = config.base_path
        self._surroundings = surroundings

    @functools.cached_property
    def _base_folder(self) -> Path:
        """The folder; found when it is first needed, because thousands of handlers are loaded at start."""
        given, pinned = self._given, self._surroundings.pinned
        if given == "~" or given.startswith("~/"):
            given = self._surroundings.environ.get("HOME", "~") + given[1:]
        base = self._surroundings.root / given
        return base if pinned is None else pinned.pin_path(base)

    def __eq__(self, other: object) -> bool:
        """Two that were loaded from the same text are equal."""
        if not isinstance(other, FileReadHandler):
            return NotImplemented
        return (self._base_folder, self._largest) == (other._base_folder, other._largest)

    def __hash__(self) -> int:
        return hash((self._base_folder, self._largest))

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str | ToolResult:
        """Read the file that `path` names."""
        return await asyncio.to_thread(self._read, input["path"])

    def preview_call(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The file that would be read."""
        return {
            "file": str(resolve_inside(self._base_folder, input["path"], named=self._base_name)),
            "maxSize": self._largest,
        }

    @property
    def _base_name(self) -> str:
        return f"the tool's folder {str(self._base_folder)!r}"

    def _find_folder(self) -> Path:
        if not self._base_folder.is_dir():
            raise ToolError(f"the folder {str(self._base_folder)!r} that this tool reads from does not exist")
        return self._base_folder

    def _read(self, path: str) -> str | ToolResult:
        private = self._surroundings.private
        with open_inside(self._find_folder(), path, named=self._base_name, private=private) as file:
            data = file.read(self._largest + 1)
            if len(data) > self._largest:
                size = max(os.fstat(file.fileno()).st_size, len(data))
                raise ToolError(f"{quote_path(path)} has {size:,} bytes; at most {self._largest:,} are read")
        for start, kind in _IMAGES:
            if data.startswith(start):
                return ToolResult(content=(Image(data=data, mime_type=kind),))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return ToolResult(content=(Image(data=data, mime_type="image/webp"),))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolError(f"{quote_path(path)} is neither UTF-8 text nor an image ({len(data):,} bytes)") from None
