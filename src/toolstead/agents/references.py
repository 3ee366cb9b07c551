"""What agents say about tools and about each other: patterns and names that lead nowhere.

All findings are warnings: a tool or an agent may come later, and the rest of the agent works without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from toolstead.nearest_names import suggest
from toolstead.types.agent import Agent, Finding

MOST_SUGGESTIONS = 20
"""Findings that suggest the nearest name: to find it among 10,000 takes a third of a second."""
DELEGATES = "multi_agent.agents"
"""The setting that names whom every agent may delegate to."""
_WILD = frozenset("*?[")


def check_references(
    agents: Mapping[str, Agent], tool_names: Collection[str], *, own_tools: Collection[str]
) -> list[Finding]:
    """Find names that lead nowhere.

    Args:
        agents: The agents by name.
        tool_names: The names of the registered tools.
        own_tools: The names of Claude Code's own tools.
    """
    check = _ReferenceCheck(agents, tool_names, own_tools)
    for agent in agents.values():
        if agent.scope != "builtin":
            check.check_agent(agent)
    return check.findings


def check_delegates(named: Sequence[str], agents: Collection[str]) -> list[Finding]:
    """Find the names in the settings' list of agents that lead nowhere."""
    missing = [name for name in dict.fromkeys(named) if name not in agents]
    return [
        Finding(
            severity="warning",
            source=DELEGATES,
            message=f"there is no agent `{name}`; "
            + suggest(
                name, sorted(agents), show=lambda near: f"`{near}`", otherwise="`toolstead agents list` shows them"
            ),
        )
        for name in missing[:MOST_SUGGESTIONS]
    ]


class _ReferenceCheck:
    """Looks at one agent after the other."""

    def __init__(self, agents: Mapping[str, Agent], tool_names: Collection[str], own_tools: Collection[str]) -> None:
        self.findings: list[Finding] = []
        self._agents = agents
        self._tool_names = frozenset(tool_names)
        self._own_tools = frozenset(own_tools)
        self._matched: dict[str, bool] = {}

    def check_agent(self, agent: Agent) -> None:
        custom = {tool.name for tool in agent.custom_tools}
        for field, patterns in (("tools", agent.tools or ()), ("disallowed_tools", agent.disallowed_tools)):
            for pattern in patterns:
                if not self._matches(pattern, custom):
                    self._add_unmatched(agent, f"{field}.{pattern}", field, pattern, custom)
        for tool in agent.custom_tools:
            where = f"tools.{tool.name}"
            if tool.name in self._tool_names:
                message = f"a registered tool is called `{tool.name}` too, so this one is not offered; rename it"
                self._add(agent, where, f"custom tool `{tool.name}`: {message}")
            for pattern in tool.tools or ():
                if not self._matches(pattern, frozenset()):
                    self._add_unmatched(agent, where, f"custom tool `{tool.name}`: tools", pattern, frozenset())
        for name in agent.agents or ():
            self._check_agent_name(agent, name)

    def _check_agent_name(self, agent: Agent, name: str) -> None:
        if name == agent.name:
            self._add(agent, f"agents.{name}", f"agents: `{name}` is this agent itself; remove it")
        elif name not in self._agents:
            hint = self._suggest(name, self._agents.keys() - {agent.name})
            self._add(agent, f"agents.{name}", f"agents: there is no agent `{name}`{hint}")

    def _matches(self, pattern: str, custom: Collection[str]) -> bool:
        if pattern in self._tool_names or pattern in custom or pattern.partition("(")[0] in self._own_tools:
            return True
        if _WILD.isdisjoint(pattern):
            return False
        if pattern not in self._matched:
            self._matched[pattern] = any(fnmatchcase(name, pattern) for name in self._tool_names | self._own_tools)
        return self._matched[pattern] or any(fnmatchcase(name, pattern) for name in custom)

    def _add_unmatched(self, agent: Agent, key: str, field: str, pattern: str, custom: Collection[str]) -> None:
        known = {*self._tool_names, *custom, *(self._own_tools if agent.scope == "claude" else ())}
        self._add(agent, key, f"{field}: `{pattern}` matches no tool{self._suggest(pattern, known)}")

    def _suggest(self, name: str, known: Collection[str]) -> str:
        if len(self.findings) >= MOST_SUGGESTIONS:
            return ""
        hint = suggest(name, sorted(known), show=lambda near: f"`{near}`")
        return f"; {hint}" if hint else ""

    def _add(self, agent: Agent, key: str, message: str) -> None:
        line = agent.lines.get(key, agent.lines.get(key.partition(".")[0], 1))
        self.findings.append(Finding(severity="warning", source=agent.origin, message=message, line=line, column=1))
