"""Checks agents' files without using them: those of the user and the project as they are now, or named ones.

What is checked here is not loaded, so a project's files need no approval to be read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.agent_folder import AgentFile, AgentFolder, read_regular
from toolstead.agents.catalogue import AgentCatalogue
from toolstead.agents.references import check_delegates, check_references
from toolstead.app.agent_reading import FOLDERS, create_reader
from toolstead.app.places import Places
from toolstead.types.agent import AgentScope, Finding


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found.

    Attributes:
        files: How many files were read.
        agents: The names of the good agents.
        findings: What was found, in the order of files and lines.
    """

    files: int
    agents: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether a file is kept out."""
        return any(finding.severity == "error" for finding in self.findings)


class _ListedFiles:
    """Some files as a source, read once."""

    def __init__(self, files: Sequence[AgentFile]) -> None:
        self._files = files

    def list_files(self) -> Sequence[AgentFile]:
        return self._files


async def check_agent_files(
    places: Places, tool_names: Collection[str], paths: Sequence[Path] = (), delegates: Sequence[str] = ()
) -> AgentCheck:
    """Check files.

    Args:
        places: Where the user's and the project's folders are.
        tool_names: The names of the registered tools.
        paths: Files and folders; without any, the user's folder and the project's.
        delegates: The agents that the settings name.
    """
    reader = _make_reader()
    usual = [AgentFolder(places.user / "agents", "user")]
    usual += [AgentFolder(places.project / folder, scope) for folder, scope in FOLDERS.items()]
    files = [file for folder in usual for file in folder.list_files()]
    known = AgentCatalogue([_ListedFiles(files)], reader)
    await known.reload()
    checked = known
    if paths:
        files = [file for path in paths for file in _list_path(path, places)]
        checked = AgentCatalogue([_ListedFiles(files)], reader)
        await checked.reload()
    sources = {str(file.path) for file in files}
    referring = check_references({**known.agents, **checked.agents}, tool_names, own_tools=CLAUDE_TOOLS)
    found = [*checked.findings, *(finding for finding in referring if finding.source in sources)]
    found.sort(key=lambda finding: (finding.source, finding.line or 0, finding.column or 0))
    found += check_delegates(delegates, known.agents)
    return AgentCheck(
        files=sum(not file.is_folder for file in files),
        agents=tuple(name for name, agent in checked.agents.items() if agent.scope != "builtin"),
        findings=tuple(found),
    )


def check_draft(path: Path, data: bytes, *, in_project: bool) -> tuple[Finding, ...]:
    """What the check finds in a file that is not written yet."""
    return _make_reader().read(path, data, "project" if in_project else "user").findings


def _make_reader() -> AgentReader:
    return create_reader()


def _list_path(path: Path, places: Places) -> Sequence[AgentFile]:
    """A file, or those of a folder."""
    scope = _find_scope(path, places)
    if path.is_dir():
        return AgentFolder(path, scope).list_files()
    try:
        return [AgentFile(path=path, scope=scope, data=read_regular(path))]
    except OSError as error:
        return [AgentFile(path=path, scope=scope, problem=f"cannot be read: {error.strerror or error}")]


def _find_scope(path: Path, places: Places) -> AgentScope:
    """Where a file would come from: files for Claude Code are known by their folder, wherever that is."""
    steps = [*path.parts, ""]
    if any(steps[at : at + 2] == [".claude", "agents"] for at in range(len(steps))):
        return "claude"
    return "project" if path.is_relative_to(places.project / ".toolstead" / "agents") else "user"
