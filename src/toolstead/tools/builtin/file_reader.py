"""`file-reader`: the text of a file, or some of its lines, however large it is."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.confinement import QuickFolder, open_inside, quote_path
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

NAME = "file-reader"
MOST_SHOWN = 200_000
"""Bytes of a file that one call shows; below what a caller is shown of any tool."""

_STEP = 65_536

_DESCRIPTION = f"""\
Read a text file of the project. For a part of it, give the first and last line (1-based, both included); without them \
it begins at the first line. One call shows at most {MOST_SHOWN:,} bytes and then says at which line to go on. \
Changes nothing."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the project's root, such as src/main.py."},
        "startLine": {"type": "integer", "minimum": 1, "description": "The first line to show; 1 if absent."},
        "endLine": {
            "type": "integer",
            "minimum": 1,
            "description": "The last line to show; the file's last if absent.",
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def file_reader_tool(root: Path, private: Path | None = None) -> Tool:
    """The tool, for a project.

    Args:
        root: The project's root; no path leads out of it.
        private: A folder that nothing is read from, wherever it lies.
    """
    folder = QuickFolder(root, private=private)

    async def read_lines(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> ToolResult:
        path = input["path"]
        first = int(input.get("startLine", 1))
        last = int(input["endLine"]) if "endLine" in input else None
        if last is not None and last < first:
            raise ToolError(f"endLine {last} is before startLine {first}; give the first line and then the last one")
        # 32 µs of CPU instead of 150 µs by way of a worker thread; over HTTP 8,400 calls a second instead of 3,700.
        data = folder.read_at_once(path, _STEP)
        if data is not None:
            return _show_lines((_check_text(data, path, data),) if data else (), path, first, last)
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(_read, folder, path, first, last, given_up)
        finally:
            given_up.set()

    return Tool(
        name=NAME,
        title="File reader",
        description=_DESCRIPTION,
        schema=_SCHEMA,
        handler=read_lines,
        annotations=Annotations(read_only=True, open_world=False),
    )


def _read(folder: QuickFolder, path: str, first: int, last: int | None, given_up: threading.Event) -> ToolResult:
    folder.survey()
    with open_inside(folder.base, path, private=folder.private) as file:
        return _show_lines(_read_chunks(file, path, given_up), path, first, last)


def _show_lines(chunks: Iterable[bytes], path: str, first: int, last: int | None) -> ToolResult:
    data, count = _take_lines(chunks, first, last)
    if not data:
        if count == 0 and first == 1:
            return ToolResult(content=(Text("[the file is empty]"),))
        lines = "1 line" if count == 1 else f"{count:,} lines"
        raise ToolError(f"{quote_path(path)} has {lines}, so there is no line {first:,}")
    shown, note = _bound_lines(data, first)
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        text = shown.decode("utf-8", "replace")
        note = f"{note} [bytes that are no UTF-8 are shown as �]".lstrip()
    return ToolResult(content=(Text(text), *([Text(note)] if note else [])))


def _read_chunks(file: BinaryIO, path: str, given_up: threading.Event) -> Iterator[bytes]:
    while not given_up.is_set() and (chunk := file.read(_STEP)):
        yield _check_text(chunk, path, file)


def _check_text(chunk: bytes, path: str, file: BinaryIO | bytes) -> bytes:
    """A part of a file, if it is text; a null byte is in no text."""
    if b"\0" in chunk:
        size = len(file) if isinstance(file, bytes) else os.fstat(file.fileno()).st_size
        raise ToolError(f"{quote_path(path)} is no text but binary ({size:,} bytes); only text can be shown")
    return chunk


def _take_lines(chunks: Iterable[bytes], first: int, last: int | None) -> tuple[bytes, int | None]:
    """The wanted lines, hardly more than may be shown, and how many the file has, where its end was reached."""
    before, ended, data = 0, True, bytearray()
    for chunk in chunks:
        end = len(chunk) if last is None else _offset_after(chunk, last - before)
        data += chunk[_offset_after(chunk, first - 1 - before) : end]
        before += chunk.count(b"\n")
        ended = chunk.endswith(b"\n")
        if (last is not None and before >= last) or len(data) > MOST_SHOWN:
            return bytes(data), None
    return bytes(data), before + (0 if ended else 1)


def _offset_after(chunk: bytes, lines: int) -> int:
    """Where the line after so many lines begins; the end of the chunk where it has fewer."""
    if lines <= 0:
        return 0
    if lines > chunk.count(b"\n"):
        return len(chunk)
    before, end = 0, len(chunk)
    while end - before > 1:  # the line break that is looked for lies between them
        middle = (before + end) // 2
        found = chunk.count(b"\n", before, middle)
        if found >= lines:
            end = middle
        else:
            before, lines = middle, lines - found
    return end


def _bound_lines(data: bytes, first: int) -> tuple[bytes, str]:
    """As many whole lines as may be shown, and where to go on."""
    if len(data) <= MOST_SHOWN:
        return data, ""
    end = data.rfind(b"\n", 0, MOST_SHOWN) + 1
    if end:
        following = first + data.count(b"\n", 0, end)
        return data[:end], f"[cut after {end:,} bytes; go on with startLine {following}]"
    end = MOST_SHOWN
    while data[end] & 0xC0 == 0x80:  # not in the middle of a character
        end -= 1
    return data[:end], f"[line {first} is longer than {MOST_SHOWN:,} bytes and cut; the next one is {first + 1}]"
