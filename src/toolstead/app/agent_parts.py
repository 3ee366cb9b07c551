"""What is made of an agent: the rules of its view and of its children's, and the tools that are prompts of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from toolstead.agents.prompt_tool import PromptCalls, RunChild, create_prompt_tool, name_child
from toolstead.errors import DefinitionError
from toolstead.plugins.contract import PluginContext
from toolstead.schema.compiled import compile_schema
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.generation import EVERYTHING, ViewRule, Visibility
from toolstead.types.agent import Agent, Finding, PromptTool
from toolstead.types.tool import Provenance

REPAIRED = 2.0
"""A call of a prompt tool may take as long as its run and the one that repairs the answer."""


class AgentParts(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of one agent.

    Attributes:
        source: The agent of a file that they were made of: it, or the one that it was spawned below.
        seconds: How long a run of it may take.
        rules: Those of its view and of its children's, by name.
        findings: What could not be made.
        hidden: Tools that could never succeed for it, each with the reason.
    """

    source: Agent
    seconds: float
    rules: Mapping[str, ViewRule]
    findings: Sequence[Finding] = ()
    hidden: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    def is_made_of(self, source: Agent, seconds: float) -> bool:
        """Whether they would be made of the same; the same object, because equal ones may differ as `true` and `1`."""
        return self.source is source and self.seconds == seconds


class PartsMaker:
    """Makes the parts of agents, given what runs their prompt tools."""

    def __init__(self, run_child: RunChild) -> None:
        self._run_child = run_child

    def make_parts(self, agent: Agent, seconds: float, hidden: Mapping[str, str] | None = None) -> AgentParts:
        """Make those of a file's agent, whose run may take some seconds; some tools are hidden from it."""
        visibility = (*visibility_of(agent), *_hide_tools(hidden))
        own, findings = self._define_prompt_tools(agent, seconds, agent.lines)
        rules = {agent.name: ViewRule(visibility=visibility, own=own)} if visibility or own else {}
        rules |= _make_child_rules(agent, visibility) if own else {}
        return AgentParts(source=agent, seconds=seconds, rules=rules, findings=findings, hidden=hidden or {})

    def make_spawned_parts(
        self,
        agent: Agent,
        seconds: float,
        *,
        above: AgentParts,
        given: Sequence[Agent],
        hidden: Mapping[str, str] | None = None,
    ) -> AgentParts:
        """Make those of a spawned agent: it sees what everybody's lists show, from the file's agent down to its own.

        Args:
            agent: The agent, as it runs.
            seconds: How long a run of it may take.
            above: Those of the file's agent that it was spawned below.
            given: What the markdown says of each agent below that, its own last.
            hidden: Tools that could never succeed for it, each with the reason.
        """
        rule = above.rules.get(above.source.name, EVERYTHING)
        written = (one for each in given for one in visibility_of(each))
        visibility = (*rule.visibility, *written, *_hide_tools(hidden))
        own, findings = self._define_prompt_tools(agent, seconds, given[-1].lines)
        # Its own tools start agents too; without one, `agents: []` leaves nothing to start.
        may_spawn = agent.agents != () or bool(own)
        # Always a rule, also one that hides nothing: without a rule it would see nothing.
        rules = {agent.name: ViewRule(visibility=visibility, own=own, may_spawn=may_spawn)}
        rules |= _make_child_rules(agent, visibility)
        return AgentParts(source=above.source, seconds=seconds, rules=rules, findings=findings, hidden=hidden or {})

    def _define_prompt_tools(
        self, agent: Agent, seconds: float, lines: Mapping[str, int]
    ) -> tuple[dict[str, RegisteredTool], list[Finding]]:
        own: dict[str, RegisteredTool] = {}
        findings: list[Finding] = []
        for one in agent.custom_tools:
            try:
                own[one.name] = self._define_prompt_tool(agent, one, seconds)
            except DefinitionError as error:
                line = lines.get(f"tools.{one.name}", 1)
                findings.append(Finding(severity="error", source=agent.origin, message=str(error), line=line, column=1))
        return own, findings

    def _define_prompt_tool(self, agent: Agent, definition: PromptTool, seconds: float) -> RegisteredTool:
        schema = definition.result_schema
        compiled = None if schema is None else compile_schema(schema, tool=definition.name, field="result_schema")
        calls = PromptCalls(
            definition=definition,
            run_child=self._run_child,
            result_schema=compiled,
        )
        return define_tool(
            create_prompt_tool(calls, timeout=seconds * REPAIRED),
            Provenance(source="agent", origin=agent.origin, agent_name=agent.name),
            PluginContext(name=agent.name),
        )


def visibility_of(agent: Agent) -> tuple[Visibility, ...]:
    """What an agent's lists say about tools; nothing when it has none."""
    if agent.tools is None and not agent.disallowed_tools:
        return ()
    return (
        Visibility(
            allowed=("*",) if agent.tools is None else agent.tools,
            blocked=agent.disallowed_tools,
            allowed_by=f"`tools` of the agent {agent.name}",
            blocked_by=f"`disallowed_tools` of the agent {agent.name}",
        ),
    )


def _hide_tools(hidden: Mapping[str, str] | None) -> tuple[Visibility, ...]:
    return (Visibility(unavailable=hidden),) if hidden else ()


def _make_child_rules(agent: Agent, visibility: Sequence[Visibility]) -> dict[str, ViewRule]:
    """The views of those who work for calls of the agent's own tools."""
    rules: dict[str, ViewRule] = {}
    for tool in agent.custom_tools:
        narrowed = () if tool.tools is None else (_narrow_child(agent, tool.name, tool.tools),)
        rules[name_child(agent.name, tool.name)] = ViewRule(visibility=(*visibility, *narrowed), may_spawn=False)
    return rules


def _narrow_child(agent: Agent, tool: str, patterns: Sequence[str]) -> Visibility:
    return Visibility(allowed=patterns, allowed_by=f"`tools` of {agent.name}'s tool {tool}")
