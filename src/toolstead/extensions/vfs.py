"""The `vfs` plugin: `vfs_read`, `vfs_write`, `vfs_edit`, `vfs_list`, `vfs_delete`: files that agents share.

The files are in the database, not on the disk. All agents of a thread tree see the same ones: what a parent writes, the
agents below it read. The power `ctx.files` keeps every version; here are the words for the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.errors import FileConflictError, NotFoundError, RefusedError, ToolError
from toolstead.nearest_names import suggest
from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations
from toolstead.types.vfs import FileLimits, FileVersion

MOST_SHOWN = 200_000
"""Bytes of a file that one call shows; below what a caller is shown of any tool."""

MOST_LISTED = 500

_PATH = {"type": "string", "description": "The file, such as notes/plan.md: relative, with / between parts."}


def _describe_input(required: tuple[str, ...], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


async def _read(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    first, last = int(input.get("startLine", 1)), int(input["endLine"]) if "endLine" in input else None
    if last is not None and last < first:
        raise ToolError(f"endLine {last} is before startLine {first}; give the first line and then the last one")
    try:
        file = await ctx.files.read(input["path"], meta=meta)
    except NotFoundError as error:
        raise await _explain_missing(ctx, meta, error) from None
    about = f"{file.path}, version {file.version} by {file.author}"
    lines = file.content.split("\n")
    if not lines[-1]:
        del lines[-1]  # the text after the last line break is no line
    if not lines and first == 1:
        return ToolResult(content=(Text(f"[{about}: the file is empty]"),))
    if first > len(lines):
        raise ToolError(f"{file.path!r} has {_count(len(lines), 'line')}, so there is no line {first:,}")
    chosen, cut = _bound_lines(lines[first - 1 : last])
    end = first + len(chosen) - 1
    note = f"[{about}: lines {first:,} to {end:,} of {len(lines):,}{cut}]"
    return ToolResult(content=(Text("\n".join(chosen)), Text(note)))


async def _write(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    expected = int(input["expectedVersion"]) if "expectedVersion" in input else None
    try:
        written = await ctx.files.write(input["path"], input["content"], expected_version=expected, meta=meta)
    except FileConflictError as error:
        raise _explain_conflict(error) from None
    return f"Wrote {_describe_version(written)}"


async def _edit(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    try:
        return f"Wrote {_describe_version(await ctx.files.edit(input['path'], input['old'], input['new'], meta=meta))}"
    except NotFoundError as error:
        raise await _explain_missing(ctx, meta, error) from None


async def _delete(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    try:
        deleted = await ctx.files.delete(input["path"], meta=meta)
    except NotFoundError as error:
        raise await _explain_missing(ctx, meta, error) from None
    return f"Deleted {deleted.path} (version {deleted.version}); a person can restore version {deleted.version - 1}"


async def _list(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    prefix = input.get("prefix", "")
    found = await ctx.files.list(prefix, meta=meta)
    if not found:
        return f"There is no file whose path begins with {prefix!r}." if prefix else "There are no files yet."
    shown = [_describe_version(file) for file in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        shown.append(f"[{len(found) - MOST_LISTED:,} more; give a prefix]")
    return "\n".join(shown)


def _describe_version(file: FileVersion) -> str:
    return f"{file.path} (version {file.version}, {_count(file.size, 'byte')}, by {file.author})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _bound_lines(lines: list[str]) -> tuple[list[str], str]:
    """As many whole lines as may be shown, and where to go on; of a first line that is too long, its beginning."""
    left = MOST_SHOWN
    for at, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            if at:
                return lines[:at], "; that is all that one call shows, so go on with the next line"
            start = line.encode()[:MOST_SHOWN].decode("utf-8", "ignore")
            return [start], f"; the line is longer than {MOST_SHOWN:,} bytes and cut"
    return lines, ""


def _explain_conflict(error: FileConflictError) -> RefusedError:
    """What changed since the version that the writer knew, and how to go on."""
    if not error.version:
        return error
    if error.deleted:
        return RefusedError(f"{error}. To create it again, write it with expectedVersion {error.version}.")
    since = "What changed since" if error.expected and error.texts[0] is not None else "Its text"
    how = f"Merge this into your text, and write it with expectedVersion {error.version}."
    return RefusedError(f"{error}. {since}:\n\n{error.diff or '(the same)'}\n\n{how}")


async def _explain_missing(ctx: PluginContext, meta: ToolMeta, error: NotFoundError) -> ToolError:
    known = [file.path for file in await ctx.files.list(meta=meta)]
    hint = suggest(error.id, known, otherwise="vfs_list shows those that there are" if known else "there are none yet")
    return ToolError(f"there is no file {error.id!r} here; {hint}")


def _annotate(*, read_only: bool, destructive: bool = False, idempotent: bool = False) -> Annotations:
    return Annotations(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=False)


plugin = Plugin(
    name="vfs",
    version="1.0.0",
    settings=FileLimits,
    tools=(
        Tool(
            name="vfs_read",
            title="Read a shared file",
            description="Read a text file that you share with the other agents of this conversation. For a part of it, "
            "give the first and last line (1-based, both included). The answer ends with the version, which vfs_write "
            "takes as expectedVersion.",
            schema=_describe_input(
                ("path",),
                path=_PATH,
                startLine={"type": "integer", "minimum": 1, "description": "The first line to show; 1 if absent."},
                endLine={
                    "type": "integer",
                    "minimum": 1,
                    "description": "The last line to show; the file's last if absent.",
                },
            ),
            handler=_read,
            annotations=_annotate(read_only=True, idempotent=True),
        ),
        Tool(
            name="vfs_write",
            title="Write a shared file",
            description="Write a text file that you share with the other agents of this conversation: all of its text, "
            "as a new version. Give expectedVersion when others may write it too: it is then refused if there is a "
            "newer version, with what changed.",
            schema=_describe_input(
                ("path", "content"),
                path=_PATH,
                content={"type": "string", "description": "The whole text."},
                expectedVersion={
                    "type": "integer",
                    "minimum": 0,
                    "description": "The version that you read; 0 for a file that must not exist yet.",
                },
            ),
            handler=_write,
            annotations=_annotate(read_only=False),
        ),
        Tool(
            name="vfs_edit",
            title="Edit a shared file",
            description="Replace one part of a shared file, as a new version. The old text must be there exactly once.",
            schema=_describe_input(
                ("path", "old", "new"),
                path=_PATH,
                old={
                    "type": "string",
                    "minLength": 1,
                    "description": "The text to replace, exactly as it stands, with enough around it to be unique.",
                },
                new={"type": "string", "description": "The text in its place."},
            ),
            handler=_edit,
            annotations=_annotate(read_only=False),
        ),
        Tool(
            name="vfs_list",
            title="List shared files",
            description="List the files that you share with the other agents of this conversation, with version, size "
            "and author.",
            schema=_describe_input(
                (),
                prefix={"type": "string", "description": "Only files whose path begins so, such as notes/."},
            ),
            handler=_list,
            annotations=_annotate(read_only=True, idempotent=True),
        ),
        Tool(
            name="vfs_delete",
            title="Delete a shared file",
            description="Delete a file that you share with the other agents of this conversation. Its versions are "
            "kept, and a person can restore it.",
            schema=_describe_input(("path",), path=_PATH),
            handler=_delete,
            annotations=_annotate(read_only=False, destructive=True),
        ),
    ),
)
