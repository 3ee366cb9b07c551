"""The agents of a stead: which exist, what each may see and call, and the tools that their files define.

`Wiring.open_agents` makes them when they are first needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.agents.agent_folder import AgentFile, AgentFolder
from toolstead.agents.catalogue import AgentCatalogue, AgentChanges, describe_finding
from toolstead.agents.prompt_tool import (
    CHILD_INSTRUCTIONS,
    FindProblems,
    PromptCalls,
    RunChild,
    create_prompt_tool,
    name_child,
)
from toolstead.agents.references import check_references
from toolstead.app.agent_reading import create_reader, find_scope
from toolstead.app.watching import PollingWatcher
from toolstead.errors import DefinitionError, TrustError, UnknownAgentError
from toolstead.plugins.contract import PluginContext
from toolstead.schema.compiled import compile_schema
from toolstead.schema.visible import escape_unseen
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.generation import ToolReason, ViewRule, Visibility
from toolstead.types.agent import Agent, AgentLimits, Finding, PromptTool
from toolstead.types.tool import Provenance

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.settings import LimitSettings, Settings
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.tools.registry import Registry

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
LIMITS = AgentLimits.__struct_fields__
MOST_GONE = 1_000
"""Views that are kept of agents and tools whose files are gone: a run of them may still go on."""
REPAIRED = 2.0
"""A call of a prompt tool may take as long as its run and the one that repairs the answer."""


class ApprovedAgents:
    """The agent files of a project, as they were approved."""

    def __init__(self, trust: ProjectTrust) -> None:
        self._trust = trust

    def list_files(self) -> Sequence[AgentFile]:
        """Every approved file; where one cannot be read, the reason."""
        trust = self._trust
        try:
            approval = trust.approvals.read(trust.project)  # read again: it may just have been revoked
        except TrustError as error:
            problem = str(error)
            return [AgentFile(path=trust.project, scope="project", problem=problem, is_folder=True, is_unread=True)]
        files: list[AgentFile] = []
        for within in sorted(approval.files) if approval is not None else ():
            if (scope := find_scope(within)) is None:
                continue
            shown = Path(escape_unseen(str(trust.project / within)))
            try:
                data = trust.approvals.approved_content(trust.project, within)
                files.append(AgentFile(path=shown, scope=scope, data=data or b""))
            except TrustError as error:
                files.append(AgentFile(path=shown, scope=scope, problem=str(error)))
        return files


class _AgentParts(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of one agent: the rules of its view and of its children's, by name; and what could not be made.

    Attributes:
        seconds: How long a run of it may take.
    """

    agent: Agent
    seconds: float
    rules: Mapping[str, ViewRule]
    findings: Sequence[Finding] = ()


class SteadAgents:
    """Finds agents, and keeps their views up to date.

    Attributes:
        catalogue: The agents as their files define them.
    """

    def __init__(
        self,
        places: Places,
        trust: ProjectTrust,
        registry: Registry,
        *,
        settings: Callable[[], Settings],
        run_child: RunChild,
        find_problems: FindProblems,
    ) -> None:
        """Read nothing yet.

        Args:
            places: Where the user's folder is.
            trust: What of the project may be loaded.
            registry: Whose views are set.
            settings: The current settings.
            run_child: Runs the children of tools that are prompts.
            find_problems: Validates their answers.
        """
        self.users = AgentFolder(places.user / "agents", "user")
        self.catalogue = AgentCatalogue([ApprovedAgents(trust), self.users], create_reader())
        self._settings, self._registry = settings, registry
        self._run_child, self._find_problems = run_child, find_problems
        self._loading = asyncio.Lock()
        self._parts: dict[str, _AgentParts] = {}
        self._rules: dict[str, ViewRule] = {}
        self._logged: frozenset[Finding] = frozenset()

    async def reload(self) -> AgentChanges:
        """Read the files again, and set the views."""
        async with self._loading:
            changes = await self.catalogue.reload()
            self._set_rules()
            self._log_findings()
            return changes

    def find_agent(self, name: str) -> Agent | None:
        """The agent of a name; also the child of a tool that is a prompt, under the name that `name_child` gives it."""
        if (found := self.catalogue.agents.get(name)) is not None:
            return found
        parent, _, tool = name.partition("/")
        agent = self.catalogue.agents.get(parent)
        definition = next((one for one in agent.custom_tools if one.name == tool), None) if agent is not None else None
        return None if agent is None or definition is None else _derive_child(agent, definition)

    def find_findings(self) -> list[Finding]:
        """What the checks found in the files as they are now, tools and agents that match nothing included."""
        held = self._registry.current.held
        references = check_references(self.catalogue.agents, held, own_tools=CLAUDE_TOOLS)
        undefined = [finding for parts in self._parts.values() for finding in parts.findings]
        return [*self.catalogue.findings, *references, *undefined]

    def read_agent(self, name: str) -> Agent:
        """The agent of a name. Raises UnknownAgentError."""
        if (found := self.catalogue.agents.get(name)) is None:
            raise UnknownAgentError(name, list(self.catalogue.agents))
        return found

    def explain_tools(self, agent: Agent) -> list[ToolReason]:
        """Why the agent is offered each tool when it is the root of a tree, or is not."""
        depth = merge_limits(agent.limits, self._settings().limits).max_depth
        return self._registry.find_rule(agent.name).explain_tools(self._registry.current, may_spawn=depth > 0)

    def list_helpers(self, agent: Agent) -> list[Agent]:
        """The agents that one may delegate to: those of its own list, else those of the settings."""
        named = self._settings().multi_agent.agents if agent.agents is None else agent.agents
        known = self.catalogue.agents
        return [known[name] for name in dict.fromkeys(named) if name in known and name != agent.name]

    def list_own_allowed(self, agent: Agent) -> tuple[tuple[str, ...], ...]:
        """The lists that must each name a runtime's own tool: that of the agent; for a child also that of its tool."""
        parent = self.catalogue.agents.get(agent.name.partition("/")[0], agent)
        lists = dict.fromkeys((parent.tools, agent.tools))
        return tuple(patterns for patterns in lists if patterns is not None)

    def _set_rules(self) -> None:
        """Make the views of new and changed agents; the others keep theirs, with what they remember."""
        before, self._parts = self._parts, {}
        limits, agents = self._settings().limits, self.catalogue.agents
        for name, agent in agents.items():
            seconds, known = agent.limits.run_timeout or limits.run_timeout, before.get(name)
            # The same object: equal ones may differ where `true` and `1` do.
            is_same = known is not None and known.agent is agent and known.seconds == seconds
            self._parts[name] = known if known is not None and is_same else self._make_parts(agent, seconds)
        rules = {name: rule for parts in self._parts.values() for name, rule in parts.rules.items()}
        # Without a rule, a run that outlives its file would see every tool.
        gone = {name: rule for name, rule in self._rules.items() if name not in rules and name not in agents}
        kept = dict(list(gone.items())[-MOST_GONE:])
        self._rules = {**kept, **rules}
        self._registry.set_view_rules(self._rules)

    def _make_parts(self, agent: Agent, seconds: float) -> _AgentParts:
        visibility = _visibility_of(agent)
        own: dict[str, RegisteredTool] = {}
        findings: list[Finding] = []
        for one in agent.custom_tools:
            try:
                own[one.name] = self._define_prompt_tool(agent, one, seconds)
            except DefinitionError as error:
                findings.append(Finding(severity="error", source=agent.origin, message=str(error)))
        rules: dict[str, ViewRule] = {}
        if visibility or own:
            rules[agent.name] = ViewRule(visibility=visibility, own=own)
        for definition in agent.custom_tools if own else ():
            narrowed = () if definition.tools is None else (_narrow_child(agent, definition.name, definition.tools),)
            rules[name_child(agent.name, definition.name)] = ViewRule(
                visibility=(*visibility, *narrowed), may_spawn=False
            )
        return _AgentParts(agent=agent, seconds=seconds, rules=rules, findings=findings)

    def _define_prompt_tool(self, agent: Agent, definition: PromptTool, seconds: float) -> RegisteredTool:
        schema = definition.result_schema
        compiled = None if schema is None else compile_schema(schema, tool=definition.name, field="result_schema")
        calls = PromptCalls(
            definition=definition,
            run_child=self._run_child,
            result_schema=compiled,
            find_problems=self._find_problems,
        )
        return define_tool(
            create_prompt_tool(calls, timeout=seconds * REPAIRED),
            Provenance(source="agent", origin=agent.origin, agent_name=agent.name),
            PluginContext(name=agent.name),
        )

    def _log_findings(self) -> None:
        found = self.find_findings()
        for finding in found:
            if finding not in self._logged:
                level = {"error": logging.WARNING, "warning": logging.WARNING}.get(finding.severity, logging.DEBUG)
                logger.log(level, "%s", describe_finding(finding))
        self._logged = frozenset(found)


class AgentWatcher(PollingWatcher):
    """Polls the user's agents while a stead is open; those of the project come with what is approved."""

    def __init__(self, agents: SteadAgents) -> None:
        super().__init__("agents", POLL_SECONDS)
        self._agents = agents
        self._seen = agents.users.stamp()

    async def check(self) -> None:
        """Read the files again when one changed."""
        seen = await asyncio.to_thread(self._agents.users.stamp)
        if seen != self._seen:
            self._seen = seen
            await self._agents.reload()


@lru_cache(maxsize=256)  # asked twice for every run
def merge_limits(own: AgentLimits, settings: LimitSettings) -> LimitSettings:
    """The limits of an agent: its own, else those of the settings."""
    return msgspec.structs.replace(
        settings, **{name: value for name in LIMITS if (value := getattr(own, name)) is not None}
    )


def _visibility_of(agent: Agent) -> tuple[Visibility, ...]:
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


def _narrow_child(agent: Agent, tool: str, patterns: Sequence[str]) -> Visibility:
    return Visibility(allowed=patterns, allowed_by=f"`tools` of {agent.name}'s tool {tool}")


def _derive_child(agent: Agent, definition: PromptTool) -> Agent:
    """The agent that works for a call of a tool that is a prompt: it has what its agent has, and no tool of its own."""
    tools = agent.tools if definition.tools is None else definition.tools
    return Agent(
        name=name_child(agent.name, definition.name),
        description=definition.description,
        instructions=CHILD_INSTRUCTIONS,
        model=definition.model,
        tools=tools,
        disallowed_tools=agent.disallowed_tools,
        agents=(),
        max_turns=agent.max_turns,
        limits=agent.limits,
        result_schema=definition.result_schema,
        scope=agent.scope,
        origin=agent.origin,
    )
