"""The agents of all sources: who holds each name, what is wrong in the files, and what a reload changed.

A deleted file takes its agent away. A file that became bad keeps its last good agent, marked stale, and its findings
are reported. Project over `.claude/agents` over the user over the built-in agent: the first of these holds a name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from toolstead.agents.agent_folder import AgentFile, AgentFolder, AgentSource
from toolstead.schema.visible import escape_unseen
from toolstead.types.agent import MAIN, Agent, AgentScope, Finding, Severity
from toolstead.types.sent import SentStruct

if TYPE_CHECKING:
    from toolstead.agents.agent_file import AgentReader, LoadedAgent

__all__ = ["BUILTIN", "AgentCatalogue", "AgentChanges", "AgentFile", "AgentFolder", "AgentSource", "describe_finding"]

BUILTIN = Agent(name=MAIN, description="Answers with every tool.")
_RANKS: dict[AgentScope, int] = {"project": 0, "claude": 1, "user": 2, "builtin": 3}
_OWNERS: dict[AgentScope, str] = {
    "project": "of the project",
    "claude": "of .claude/agents",
    "user": "of the user",
    "builtin": "that is built in",
}

logger = logging.getLogger(__name__)


class AgentChanges(SentStruct, frozen=True, kw_only=True):
    """What a reload changed; truthy when anything did.

    Attributes:
        added: Names that are new.
        removed: Names that are gone.
        changed: Names whose agent is another one now.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class _KeptAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was last seen.

    Attributes:
        source: The number of its source.
        scope: Where it comes from.
        content: What changes when its content does.
        agent: What it offers now: its own, or the last good one marked stale.
        findings: What was found in it now.
    """

    source: int
    scope: AgentScope
    content: object
    agent: Agent | None
    findings: tuple[Finding, ...]


class AgentCatalogue:
    """The agents of some sources.

    Attributes:
        agents: By name, sorted by name; `main` is always there.
        findings: What was found in the files as they are now.
    """

    def __init__(self, sources: Sequence[AgentSource], reader: AgentReader) -> None:
        """Make a catalogue that holds the built-in agent; `reload` reads the files.

        Args:
            sources: What offers files.
            reader: Reads one file.
        """
        self.agents: Mapping[str, Agent] = MappingProxyType({MAIN: BUILTIN})
        self.findings: tuple[Finding, ...] = ()
        self._sources = tuple(sources)
        self._reader = reader
        self._kept: dict[Path, _KeptAgent] = {}
        self._lock = asyncio.Lock()

    async def reload(self) -> AgentChanges:
        """Look at every file and read those that changed, in a worker thread."""
        async with self._lock:
            kept, folder_findings = await asyncio.to_thread(self._look_at_all)
            for gone in self._kept.keys() - kept.keys():
                logger.info("%s is gone, and its agent with it", gone)
            self._kept = kept
            agents, name_findings = _assign_names(kept)
            file_findings = [finding for file in kept.values() for finding in file.findings]
            self.findings = (*folder_findings, *file_findings, *name_findings)
            changes = _compare_agents(self.agents, agents)
            self.agents = MappingProxyType(agents)
            return changes

    def _look_at_all(self) -> tuple[dict[Path, _KeptAgent], list[Finding]]:
        """Every file as it is kept from now on, and what is wrong with folders; changes nothing here."""
        kept: dict[Path, _KeptAgent] = {}
        folder_findings: list[Finding] = []
        unread: set[int | Path] = set()
        for number, source in enumerate(self._sources):
            files = self._list_files(source)
            if files is None:
                unread.add(number)
            for file in files or ():
                if file.is_folder:
                    folder_findings.append(_refuse(file.path, file.problem))
                elif file.path not in kept:
                    kept[file.path] = self._look_at(file, number)
                if file.is_unread:
                    unread.add(file.path)
        for path, before in self._kept.items() if unread else ():
            if path not in kept and not unread.isdisjoint((before.source, *path.parents)):
                kept[path] = before
        return dict(sorted(kept.items(), key=lambda item: (_RANKS[item[1].scope], item[0]))), folder_findings

    def _list_files(self, source: AgentSource) -> Sequence[AgentFile] | None:
        """The files of a source; None when it failed."""
        try:
            return source.list_files()
        except Exception:
            logger.exception("a source of agents failed: its agents stay as they were")
            return None

    def _look_at(self, file: AgentFile, source: int) -> _KeptAgent:
        before = self._kept.get(file.path)
        content: object = file.problem if file.data is None else hash(file.data)
        if before is not None and before.content == content and before.scope == file.scope:
            return before
        agent, findings = self._read_file(file)
        is_bad = any(finding.severity == "error" for finding in findings)
        if agent is None and is_bad and before is not None and before.agent is not None:
            agent = msgspec.structs.replace(before.agent, stale=True)
            logger.warning("%s became bad: its last good agent stays, marked stale", file.path)
        return _KeptAgent(source=source, scope=file.scope, content=content, agent=agent, findings=findings)

    def _read_file(self, file: AgentFile) -> tuple[Agent | None, tuple[Finding, ...]]:
        if file.data is None:
            return None, (_refuse(file.path, file.problem),)
        try:
            loaded: LoadedAgent = self._reader.read(file.path, file.data, file.scope)
        except Exception:
            logger.exception("%s made the reader fail; please report this", file.path)
            return None, (_refuse(file.path, "the reader failed on this file; the log has the details"),)
        return loaded.agent, loaded.findings


def describe_finding(finding: Finding) -> str:
    """A finding in the format of compiler messages."""
    place = escape_unseen(finding.source)
    if finding.line is not None:
        place += f":{finding.line}:{finding.column or 1}"
    return f"{place}: {finding.severity}: {finding.message}"


def _refuse(path: Path, problem: str) -> Finding:
    return Finding(severity="error", source=str(path), message=problem, line=1, column=1)


def _assign_names(kept: Mapping[Path, _KeptAgent]) -> tuple[dict[str, Agent], list[Finding]]:
    """Who holds each name, and what is to say about the others: files come in the order of their precedence."""
    holders: dict[str, Agent] = {}
    findings: list[Finding] = []
    for agent in (*(file.agent for file in kept.values() if file.agent is not None), BUILTIN):
        holder = holders.setdefault(agent.name, agent)
        if holder is agent:
            continue
        name = agent.name
        if holder.scope == agent.scope:
            message = (
                f"name: `{name}` is held by {holder.origin} already; choose another name, or remove one of the two"
            )
            findings.append(_find_at_name(agent, "error", message))
        else:
            where = "" if agent.scope == "builtin" else f" ({agent.origin})"
            message = f"`{name}` replaces the agent {_OWNERS[agent.scope]}{where}"
            findings.append(_find_at_name(holder, "note", message))
    return dict(sorted(holders.items())), findings


def _find_at_name(agent: Agent, severity: Severity, message: str) -> Finding:
    line = agent.lines.get("name", 1)
    return Finding(severity=severity, source=agent.origin, message=message, line=line, column=1)


def _compare_agents(before: Mapping[str, Agent], after: Mapping[str, Agent]) -> AgentChanges:
    both = [name for name in after if name in before and before[name] is not after[name]]
    return AgentChanges(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(name for name in both if _encode_agent(before[name]) != _encode_agent(after[name])),
    )


def _encode_agent(agent: Agent) -> bytes:
    """What is compared, as JSON: `true` and `1` are equal in Python; where a key stands makes no difference."""
    return msgspec.json.encode(msgspec.structs.replace(agent, lines={}))
