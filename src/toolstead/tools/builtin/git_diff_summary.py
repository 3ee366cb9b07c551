"""`git-diff-summary`: how much is changed in which file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.builtin.repository_memory import RepositoryMemory
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

if TYPE_CHECKING:
    from toolstead.processes.program_run import ProgramResult
    from toolstead.tools.builtin.git import StandIn

_DESCRIPTION = """\
Summarise the uncommitted changes of the project, as `git diff --stat` prints it: each changed file with the number of \
changed lines, and the totals. Without `staged` it compares the work tree with the index; new files that were never \
added are not part of it (git-status lists them). Changes nothing."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "staged": {
            "type": "boolean",
            "default": False,
            "description": "True: what is staged for the next commit. False: what is changed but not staged.",
        }
    },
    "additionalProperties": False,
}
_CUT_NAME = b"\n ..."
_WIDE = ("--stat=400", "--stat-graph-width=40")


def git_diff_summary_tool(repositories: RepositoryMemory) -> Tool:
    """The tool, for a project.

    Args:
        repositories: Finds the repository; nothing outside the project is shown.
    """

    async def summarise(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> ToolResult:
        # With it comes all that running a program needs, and only a call pays for it.
        from toolstead.tools.builtin.git import MOST_OUTPUT, open_stand_in, whole_lines

        staged = bool(input.get("staged", False))
        async with open_stand_in(await repositories.find_repository()) as stand_in:
            changed = [] if staged else await stand_in.changed_files()
            finished = await _summarise_diff(stand_in, staged)
            notes = await stand_in.note_on_filters(changed)
        summary = whole_lines(finished)
        if not summary:
            return ToolResult(content=(Text("no staged changes" if staged else "no unstaged changes"),))
        if finished.cut:
            notes.append(f"[the summary is longer than {MOST_OUTPUT:,} bytes and cut here]")
        return ToolResult(content=(Text(summary), *map(Text, notes)))

    return Tool(
        name="git-diff-summary",
        title="Git diff summary",
        description=_DESCRIPTION,
        schema=_SCHEMA,
        handler=summarise,
        annotations=Annotations(read_only=True, open_world=False),
    )


async def _summarise_diff(stand_in: StandIn, staged: bool) -> ProgramResult:
    """Git's summary; where it would cut long names to fit 80 columns, a wider one."""
    command = ["diff", "--relative", "--ignore-submodules=dirty", *(["--cached"] if staged else [])]
    finished = await stand_in.run(*command, "--stat")
    return await stand_in.run(*command, *_WIDE) if _CUT_NAME in b"\n" + finished.stdout else finished
