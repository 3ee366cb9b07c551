"""A spawned agent: one that a model gives as markdown in a call.

It is read like a file, and never has more power than its parent, the agent that called. `read_spawned` refuses what
would give it more, so that the model learns of it; `narrow_agent` takes it away wherever the agent is used, also when
the parent's file or the settings allowed more at the time of reading. `app` decides on its view.

| of the markdown | refused | absent |
|---|---|---|
| `gates`, `runtime` | always | none; the runtime of the parent's run |
| Claude Code's own tools in `tools` | always | those that the parent may use |
| other `tools` | never: they narrow its parent's view | what the parent may use, without its custom ones |
| `agents` | whom the parent may not delegate to | the parent's list |
| `max_turns`, `limits` | each above the parent's | the parent's |
| `name` | one of an agent in a file | the caller's |
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolstead.agents.agent_builder import LIMITS
from toolstead.agents.agent_fields import find_name_problem
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.findings import FindingReport
from toolstead.agents.yaml_nodes import YamlNode
from toolstead.errors import InvalidAgentError
from toolstead.nearest_names import suggest
from toolstead.schema.explanation import shorten_text
from toolstead.types.agent import Agent, AgentLimits

LARGEST_MARKDOWN = 65_536
"""Bytes."""
MOST_PATTERNS = 100
"""Names and patterns of tools, those of its custom tools included. Each is compiled and compared with every tool on the
event loop: 1,000 long ones would take 0.2 s, and 2 s with 10,000 tools."""

logger = logging.getLogger(__name__)


def name_spawned(root: str, name: str, task_id: str) -> str:
    """The name under which a spawned agent runs; no file can define it, since it has a `/`.

    It names the agent of a file at the top and not every parent between, so that it stays short at any depth; the
    task makes it unique.

    Args:
        root: The agent of a file that it was spawned below, at whatever depth.
        name: What its markdown calls it.
        task_id: The task that it works on.
    """
    return f"{root}/{name}@{task_id}"


def read_spawned(
    markdown: str,
    *,
    name: str,
    reader: AgentReader,
    parent_limits: AgentLimits,
    parent_max_turns: int | None,
    parent_agents: Collection[str] | None,
    taken: Collection[str],
) -> Agent:
    """Read an agent that a call gives.

    What it leaves open stays open in the agent that is returned; `narrow_agent` fills that in.

    Args:
        markdown: The frontmatter and the body, as in a file.
        name: Its name where the frontmatter has none.
        reader: Reads files.
        parent_limits: The limits that its parent has in effect; None for one that is not compared.
        parent_max_turns: The requests to the model that its parent may make in a run; None where nothing says.
        parent_agents: Whom its parent may delegate to; None compares no names.
        taken: Names that it may not have.

    Raises:
        InvalidAgentError: It is no agent, or has what a call cannot give; with every error, and its line and column.
    """
    data = markdown.encode("utf-8", "surrogatepass")
    if len(data) > LARGEST_MARKDOWN:
        size = f"{len(data):,} bytes of markdown, at most {LARGEST_MARKDOWN:,}"
        raise InvalidAgentError([describe_problem(f"{size}; shorten it, or put long text into a file")])
    if (problem := find_name_problem(name)) is not None:
        raise InvalidAgentError([describe_problem(f"name: {problem}")])
    bounds = _ParentBounds(
        limits=parent_limits, max_turns=parent_max_turns, agents=parent_agents, taken=taken, own_tools=reader.own_tools
    )
    loaded = reader.read(Path(f"{name}.md"), data, "user", bounds.check_frontmatter)
    problems = [
        describe_problem(finding.message, finding.line, finding.column)
        for finding in loaded.findings
        if finding.severity == "error"
    ]
    if loaded.agent is None:
        raise InvalidAgentError(problems)
    for finding in loaded.findings:
        logger.info("the spawned agent %s: %s", loaded.agent.name, finding.message)
    return loaded.agent


def describe_problem(message: str, line: int | None = 1, column: int | None = 1) -> str:
    """A problem of a markdown, with its place there."""
    return f"line {line or 1}, column {column or 1}: {message}"


def narrow_agent(parent: Agent, given: Agent) -> Agent:
    """A spawned agent as it runs: what its markdown says, within what its parent may do.

    Args:
        parent: The parent as it runs, with every limit in effect.
        given: What `read_spawned` returned.
    """
    turns = [most for most in (parent.max_turns, given.max_turns) if most is not None]
    return msgspec.structs.replace(
        given,
        tools=parent.tools if given.tools is None else given.tools,
        disallowed_tools=tuple(dict.fromkeys((*parent.disallowed_tools, *given.disallowed_tools))),
        agents=_narrow_names(parent.agents, given.agents),
        max_turns=min(turns, default=None),
        limits=AgentLimits(**{limit: _find_least(parent.limits, given.limits, limit) for limit in LIMITS}),
        scope=parent.scope,
        origin=parent.origin,
        lines={},
    )


def _narrow_names(above: tuple[str, ...] | None, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if above is None or own is None:
        return above if own is None else own
    return tuple(name for name in own if name in above)


def _find_least(above: AgentLimits, own: AgentLimits, limit: str) -> Any:
    given = [value for value in (getattr(above, limit), getattr(own, limit)) if value is not None]
    return min(given, default=None)


class _ParentBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Reports what a frontmatter has that a call cannot give; implements `FrontmatterCheck`."""

    limits: AgentLimits
    max_turns: int | None
    agents: Collection[str] | None
    taken: Collection[str]
    own_tools: Collection[str]

    def check_frontmatter(self, root: YamlNode, report: FindingReport) -> None:
        members = root.members or {}
        if "gates" in members:
            message = "gates: only the files of people say which commands check a task, and no call; remove it"
            report.add_error(root.keys["gates"], message)
        if "runtime" in members:
            message = "runtime: a call cannot choose it; remove it: the parent's is used, or the one that runs `model`"
            report.add_error(root.keys["runtime"], message)
        name = members.get("name")
        if name is not None and isinstance(name.value, str) and name.value in self.taken:
            message = f"name: an agent of a file is called `{name.value}`; choose another name, or start that agent"
            report.add_error(name.start, message)
        self._check_tools(members, report)
        self._check_agents(members.get("agents"), report)
        self._check_number(members.get("max_turns"), "max_turns", self.max_turns, report)
        limits = members.get("limits")
        for limit, node in (limits.members or {}).items() if limits is not None else ():
            if limit in LIMITS:
                self._check_number(node, f"limits.{limit}", getattr(self.limits, limit), report)

    def _check_tools(self, members: dict[str, YamlNode], report: FindingReport) -> None:
        for count, (field, item) in enumerate(_list_patterns(members)):
            if count == MOST_PATTERNS:
                message = f"{field}: an agent that a call gives names at most {MOST_PATTERNS} tools and patterns in all"
                report.add_error(item.start, f"{message}; write a pattern such as `git-*`")
                return
            own = item.value.partition("(")[0] if isinstance(item.value, str) else ""
            if own in self.own_tools and not field.startswith("disallowed_tools"):
                message = f"{field}: `{own}` is Claude Code's own tool, which a call cannot give; remove it"
                report.add_error(item.start, message)

    def _check_agents(self, node: YamlNode | None, report: FindingReport) -> None:
        allowed = self.agents
        for at, item in enumerate(node.items or () if node is not None and allowed is not None else ()):
            name = item.value
            if allowed is None or not isinstance(name, str) or name in allowed:
                continue
            known = ", ".join(sorted(allowed)) or "nobody"
            hint = suggest(name, allowed, show=lambda near: f"`{near}`")
            report.add_error(
                item.start,
                f"agents.{at}: its parent may not delegate to `{shorten_text(name, 64)}`, so it may not either; "
                f"{f'{hint} ' if hint else ''}Its parent may delegate to: {shorten_text(known, 300)}",
            )

    def _check_number(self, node: YamlNode | None, field: str, most: float | None, report: FindingReport) -> None:
        if node is None or most is None or isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return
        if node.value > most:
            report.add_error(
                node.start, f"{field}: {node.value:,} is above its parent's {most:,}; write {most} or less"
            )


def _list_patterns(members: dict[str, YamlNode]) -> Iterator[tuple[str, YamlNode]]:
    """Every item that names tools or defines one, with its place."""
    for key in ("tools", "disallowed_tools"):
        for at, item in enumerate(_list_items(members, key)):
            yield f"{key}.{at}", item
            for below, pattern in enumerate(_list_items(item.members or {}, "tools")):
                yield f"{key}.{at}.tools.{below}", pattern


def _list_items(members: dict[str, YamlNode], key: str) -> Sequence[YamlNode]:
    return (members[key].items or ()) if key in members else ()
