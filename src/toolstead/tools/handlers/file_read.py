"""The file-read handler: one file inside a folder, as text or as an image."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolstead.errors import RefusedError, ToolError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.confinement import QuickFolder, open_inside, quote_path, resolve_inside
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.types.content import Image
from toolstead.types.result import ToolResult

LARGEST = 1_048_576
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadConfig:
    """The configuration of a file-read handler."""

    base_path: str
    max_size: int = LARGEST


@dataclass(frozen=True, slots=True)
class FileReadHandler:
    """Reads files inside one folder. Two that were loaded from the same text are equal."""

    config: FileReadConfig
    surroundings: Surroundings = field(hash=False)
    _opened: list[QuickFolder] = field(init=False, repr=False, compare=False, default_factory=list[QuickFolder])

    @property
    def _folder(self) -> QuickFolder:
        """The folder, found at the first call: of thousands of tools few are called."""
        if not self._opened:
            base, private = self.surroundings.find_pinned(self.config.base_path), self.surroundings.private
            if self.surroundings.wide_root and base.resolve() == self.surroundings.root:
                raise RefusedError(self.surroundings.wide_root)
            self._opened.append(QuickFolder(base, named=f"the tool's folder {str(base)!r}", private=private))
        return self._opened[0]

    def describe(self) -> str:
        """Which files, as the file has it."""
        return f"reads a file in {self.config.base_path}"

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str | ToolResult:
        """Read the file that `path` names."""
        path, most = input["path"], self.config.max_size
        # Without a worker thread, as in the built-in `file-reader`, where the gain is told.
        data = self._folder.read_at_once(path, most)
        return await asyncio.to_thread(self._read, path, most) if data is None else _show_content(path, data)

    def preview_call(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The file that would be read."""
        return {
            "file": str(resolve_inside(self._folder.base, input["path"], named=self._folder.named)),
            "maxSize": self.config.max_size,
        }

    def _read(self, path: str, most: int) -> str | ToolResult:
        folder = self._folder
        if not folder.base.is_dir():
            raise ToolError(f"the folder {str(folder.base)!r} that this tool reads from does not exist")
        folder.survey()
        with open_inside(folder.base, path, named=folder.named, private=folder.private) as file:
            data = file.read(most + 1)
            if len(data) > most:
                size = max(os.fstat(file.fileno()).st_size, len(data))
                raise ToolError(f"{quote_path(path)} has {size:,} bytes; at most {most:,} are read")
        return _show_content(path, data)


def _show_content(path: str, data: bytes) -> str | ToolResult:
    for start, kind in _IMAGES:
        if start.match(data):
            return ToolResult(content=(Image(data=data, mime_type=kind),))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{quote_path(path)} is neither UTF-8 text nor an image ({len(data):,} bytes)") from None
