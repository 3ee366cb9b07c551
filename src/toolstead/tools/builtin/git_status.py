"""`git-status`: what differs between the last commit, the index and the work tree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.builtin.repository_memory import RepositoryMemory
from toolstead.tools.confinement import quote_path, resolve_inside
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

_DESCRIPTION = """\
Show which files of the project are changed, staged, untracked or in conflict, as `git status --porcelain` prints it: \
two letters (index, work tree) and a path relative to the project's root. Changes nothing."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "A folder or file inside the project to limit the answer to; the whole project if absent.",
        }
    },
    "additionalProperties": False,
}


def git_status_tool(root: Path, repositories: RepositoryMemory) -> Tool:
    """The tool, for a project.

    Args:
        root: The project's root; no path leads out of it.
        repositories: Finds the repository it lies in.
    """

    async def show_status(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> ToolResult:
        # With it comes all that running a program needs, and only a call pays for it.
        from toolstead.tools.builtin.git import MOST_OUTPUT, open_stand_in, whole_lines

        path = input.get("path", ".")
        pathspecs = _build_pathspecs(root, path)
        async with open_stand_in(await repositories.find_repository()) as stand_in:
            changed = await stand_in.changed_files()
            finished = await stand_in.run("status", "--short", "--ignore-submodules=dirty", "--", *pathspecs)
            notes = await stand_in.note_on_filters(changed)
        listed = whole_lines(finished)
        if not listed:
            return ToolResult(content=(Text(_nothing_text(root, path, pathspecs)),))
        if finished.cut:
            notes.append(f"[the list is longer than {MOST_OUTPUT:,} bytes and cut here; ask with a path]")
        return ToolResult(content=(Text(listed), *map(Text, notes)))

    return Tool(
        name="git-status",
        title="Git status",
        description=_DESCRIPTION,
        schema=_SCHEMA,
        handler=show_status,
        annotations=Annotations(read_only=True, open_world=False),
    )


def _build_pathspecs(root: Path, path: str) -> list[str]:
    """What git is to look at: where the path leads, and, if it is a link, the link itself too."""
    folder = Path(os.path.realpath(root))
    places = {resolve_inside(root, path)}
    parent, name = os.path.split(path.rstrip("/"))
    if name not in ("", ".", ".."):
        places.add(Path(os.path.realpath(folder / parent)) / name)
    return sorted(str(place.relative_to(folder)) for place in places if place.is_relative_to(folder))


def _nothing_text(root: Path, path: str, pathspecs: Sequence[str]) -> str:
    if not any(os.path.lexists(root / place) for place in pathspecs):
        raise ToolError(f"there is nothing at {quote_path(path)} in the project, and git knows of no change there")
    return "nothing to commit, working tree clean" + ("" if pathspecs == ["."] else f" under {quote_path(path)}")
