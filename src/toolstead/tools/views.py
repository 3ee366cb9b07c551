"""An agent's view of the tools: it may call exactly what it may see. Without a rule it sees every visible tool.

    registry.current ──────────────────────────────▸ the default view: a `Generation` is one
          └── rule of an agent: filter, then add ──▸ the view of that agent

Offering (lists, providers' definitions, MCP servers of runtimes) and dispatching ask for the same view, so a tool
that an agent is not offered cannot be called by it either, nor through a tool that calls tools on its behalf.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolstead.tools.definition import RegisteredTool
from toolstead.tools.generation import Generation, ToolView
from toolstead.tools.visibility import Visibility


class ViewRule(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent sees.

    Attributes:
        visibility: Which tools of the default view.
        own: Tools that only this agent sees; a name that the registry holds stays the registry's.
    """

    visibility: Visibility = msgspec.field(default_factory=Visibility)
    own: Mapping[str, RegisteredTool] = msgspec.field(default_factory=dict[str, RegisteredTool])


class ToolViews:
    """The views of agents that have a rule, each built once for each generation."""

    def __init__(self) -> None:
        self._rules: Mapping[str, ViewRule] = {}
        self._built: dict[str, tuple[Generation, ToolView]] = {}

    def set_rules(self, rules: Mapping[str, ViewRule]) -> None:
        """Set the agents that have a rule, by their names; from the next lookup on."""
        self._rules, self._built = dict(rules), {}

    def find_view(self, generation: Generation, agent: str) -> ToolView:
        """This agent's view of a generation; the same object while nothing changes."""
        rule = self._rules.get(agent)
        if rule is None:
            return generation
        built = self._built.get(agent)
        if built is None or built[0] is not generation:
            built = self._built[agent] = (generation, _build_view(generation, rule))
        return built[1]


def _build_view(generation: Generation, rule: ViewRule) -> ToolView:
    find_reason = rule.visibility.reason_hidden
    tools = {name: tool for name, tool in generation.tools.items() if find_reason(name) is None}
    own = {name: tool for name, tool in rule.own.items() if name not in generation.held}
    return ToolView(number=generation.number, tools=tools | own)
