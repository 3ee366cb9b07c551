"""The agents of a stead: which exist, what each may see and call, and the tools that their files define.

`Wiring.open_agents` makes them when they are first needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import msgspec

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.agents.agent_folder import AgentFolder
from toolstead.agents.catalogue import AgentCatalogue, AgentChanges, describe_finding
from toolstead.agents.prompt_tool import CHILD_INSTRUCTIONS, RunChild, name_child
from toolstead.agents.references import check_delegates, check_references
from toolstead.agents.spawned_agent import describe_problem, name_spawned, narrow_agent, read_spawned
from toolstead.agents.validator import VALIDATOR_AGENT
from toolstead.app.agent_parts import AgentParts, PartsMaker
from toolstead.app.agent_reading import create_reader, find_scope
from toolstead.app.approved_markdown import ApprovedMarkdown
from toolstead.app.spawned_agents import SpawnedAgent, SpawnedAgents, digest_markdown
from toolstead.app.watching import PollingWatcher
from toolstead.errors import InvalidAgentError, RefusedError, UnknownAgentError
from toolstead.tools.generation import ToolReason, ViewRule
from toolstead.types.agent import NO_LIMITS, Agent, AgentLimits, Finding, PromptTool

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.settings import LimitSettings, Settings
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.tools.registry import Registry

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
DELEGATING = "delegate_agent"
"""The tool with which an agent delegates; without it, the agents that it could delegate to are not described."""
SPAWNING = "spawn_agent"
LIMITS = AgentLimits.__struct_fields__
UNNAMED = "unnamed"
"""The name of a spawned agent whose markdown has none."""
MOST_GONE = 1_000
"""Views that are kept of agents and tools whose files are gone: a run of them may still go on."""
HIDDEN = {VALIDATOR_AGENT.name: VALIDATOR_AGENT}
"""Agents that only we ask: they stand in no list, and nobody can delegate to them."""


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
    ) -> None:
        """Read nothing yet.

        Args:
            places: Where the user's folder is.
            trust: What of the project may be loaded.
            registry: Whose views are set.
            settings: The current settings.
            run_child: Runs the children of tools that are prompts.
        """
        self.users = AgentFolder(places.user_content / "agents", "user")
        self._reader = create_reader()
        self.catalogue = AgentCatalogue([ApprovedMarkdown(trust, find_scope), self.users], self._reader)
        self._settings, self._registry = settings, registry
        self._maker = PartsMaker(run_child)
        self._loading = asyncio.Lock()
        self._parts: dict[str, AgentParts] = {}
        self._spawned = SpawnedAgents()
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
        """The agent of a name: of a file, a hidden or spawned one, or the child of a prompt tool (see `name_child`)."""
        if (found := HIDDEN.get(name) or self._find_whole(name)) is not None:
            return found
        parent, _, tool = name.rpartition("/")
        agent = self._find_whole(parent)
        definition = next((one for one in agent.custom_tools if one.name == tool), None) if agent is not None else None
        return None if agent is None or definition is None else _derive_child(agent, definition)

    def is_prompt_child(self, name: str) -> bool:
        """Whether the agent of a name works for calls of a tool that is a prompt."""
        return "/" in name and self._spawned.find_name(name) is None

    def find_findings(self) -> list[Finding]:
        """What the checks found in the files as they are now, tools and agents that match nothing included."""
        held = self._registry.current.held
        references = check_references(self.catalogue.agents, held, own_tools=CLAUDE_TOOLS)
        undefined = [finding for parts in self._parts.values() for finding in parts.findings]
        delegates = check_delegates(self._settings().multi_agent.agents, self.catalogue.agents)
        return [*self.catalogue.findings, *references, *undefined, *delegates]

    def read_agent(self, name: str) -> Agent:
        """The agent of a name. Raises UnknownAgentError."""
        if (found := self.catalogue.agents.get(name)) is None:
            raise UnknownAgentError(name, list(self.catalogue.agents))
        return found

    def explain_tools(self, agent: Agent, *, profile: str | None = None) -> list[ToolReason]:
        """Why the agent is offered each tool when it is the root of a tree, or is not; maybe under a profile."""
        depth = merge_limits(agent.limits, self._settings().limits).max_depth
        return self._registry.explain_view(agent.name, profile=profile, may_spawn=depth > 0, has_task=False)

    def list_helpers(self, agent: Agent) -> list[Agent]:
        """The agents that one may delegate to: those of its own list, else those of the settings.

        A spawned agent's list narrows that of the agent above it, and never has the file's agent itself in it.
        """
        first, *below = self._list_written(agent.name) or (agent,)
        named = self._settings().multi_agent.agents if first.agents is None else first.agents
        for given in below:
            named = named if given.agents is None else [name for name in named if name in given.agents]
        known, own = self.catalogue.agents, (agent.name, first.name)
        return [known[name] for name in dict.fromkeys(named) if name in known and name not in own]

    def may_delegate_to(self, name: str) -> list[str]:
        """The names of the agents that the one of a name may delegate to; none for one that is not there."""
        agent = self.find_agent(name)
        return [] if agent is None else [one.name for one in self.list_helpers(agent)]

    def list_delegates(self) -> list[str]:
        """The agents that the settings let everybody delegate to."""
        return [name for name in dict.fromkeys(self._settings().multi_agent.agents) if name in self.catalogue.agents]

    def may_spawn_markdown(self, name: str) -> bool:
        """Whether the agent of a name may start one that it gives as markdown: not with `agents: []`.

        The children of tools that are prompts have none either.
        """
        agent = self.find_agent(name)
        return agent is not None and agent.agents != ()

    def list_own_allowed(self, agent: Agent) -> tuple[tuple[str, ...], ...]:
        """The lists that must each name a runtime's own tool: that of the agent, and of each that it is below."""
        whole = agent.name.rpartition("/")[0] if self.is_prompt_child(agent.name) else agent.name
        lists = dict.fromkeys(one.tools for one in (*self._list_written(whole), agent))
        return tuple(patterns for patterns in lists if patterns is not None)

    def register_spawned(self, task_id: str, parent: str, markdown: str, *, was_accepted: bool = False) -> Agent:
        """Make an agent known that a model gives as markdown, and return it under the name that it runs under.

        The same arguments give the same agent, in every process: where a spawned agent is the parent, that one is
        registered first. Nothing happens where it is known already. Its model is that of its markdown alone: a
        caller that starts it passes the model and the runtime of the parent's run where it names none.

        Args:
            task_id: The task that it works on; another one of the same task takes its place.
            parent: The agent that gives it, by the name that it runs under.
            markdown: The frontmatter and the body, as in a file.
            was_accepted: It was registered for this task before, maybe by another process: what files and settings
                allow less by now narrows it, and is no reason to refuse it.

        Raises:
            UnknownAgentError: There is no such parent, or no more the file above it.
            RefusedError: The parent may start no agents.
            InvalidAgentError: The markdown is no agent, or has what a call cannot give.
        """
        digest = digest_markdown(markdown)
        known = self._spawned.find_same(task_id, parent, digest)
        if known is None:
            given = self._read_spawned(parent, markdown, was_accepted=was_accepted)
            root, *above = self._list_written(parent)
            name = name_spawned(root.name, given.name, task_id)
            lineage = (*above, msgspec.structs.replace(given, name=name))
            parts = self._make_spawned((root, *lineage))
            if parts.findings:
                raise InvalidAgentError([describe_problem(one.message, one.line, one.column) for one in parts.findings])
            known = SpawnedAgent(
                name=name, task_id=task_id, parent=parent, digest=digest, root=root.name, given=lineage, parts=parts
            )
            for gone in self._spawned.add(known):
                self._change_rules({}, gone.parts.rules)
            self._change_rules(parts.rules)
        if (agent := self._find_whole(known.name)) is None:
            raise UnknownAgentError(known.root, list(self.catalogue.agents))
        return agent

    def forget_spawned(self, name: str) -> None:
        """Forget a spawned agent, when its task has ended; a run that still goes on sees no tools any more."""
        if (known := self._spawned.find_name(name)) is not None:
            self._spawned.remove(known)
            self._change_rules({}, known.parts.rules)

    def _read_spawned(self, parent: str, markdown: str, *, was_accepted: bool) -> Agent:
        if (above := self.find_agent(parent)) is None:
            raise UnknownAgentError(parent, list(self.catalogue.agents))
        if not self.may_spawn_markdown(parent):
            why = "it works for one call of a tool" if self.is_prompt_child(parent) else "its `agents` is []"
            raise RefusedError(f"the agent {parent} may start no agents: {why}; do the work yourself")
        return read_spawned(
            markdown,
            name=UNNAMED,
            reader=self._reader,
            parent_limits=NO_LIMITS if was_accepted else self._limit_agent(above).limits,
            parent_max_turns=None if was_accepted else above.max_turns,
            parent_agents=None if was_accepted else self.may_delegate_to(parent),
            taken=() if was_accepted else self.catalogue.agents,
        )

    def _find_whole(self, name: str) -> Agent | None:
        """The agent of a file, or a spawned one as it runs now; None for one below a file that is gone."""
        written = self._list_written(name)
        return self._derive_spawned(written) if len(written) > 1 else next(iter(written), None)

    def _list_written(self, name: str) -> tuple[Agent, ...]:
        """What defines an agent: its file; for a spawned one also the markdown of each below that, its own last."""
        spawned = self._spawned.find_name(name)
        root = self.catalogue.agents.get(name if spawned is None else spawned.root)
        if root is None:
            return ()
        return (root,) if spawned is None else (root, *spawned.given)

    def _derive_spawned(self, written: Sequence[Agent]) -> Agent:
        """A spawned agent as it runs: within what each above it may do by its file and the settings of this moment."""
        return reduce(narrow_agent, written[1:], self._limit_agent(written[0]))

    def _limit_agent(self, agent: Agent) -> Agent:
        """The agent with every limit that it has in effect."""
        limits = merge_limits(agent.limits, self._settings().limits)
        return msgspec.structs.replace(agent, limits=AgentLimits(**{name: getattr(limits, name) for name in LIMITS}))

    def _set_rules(self) -> None:
        """Make the views of new and changed agents; the others keep theirs, with what they remember."""
        before, self._parts = self._parts, {}
        limits, agents = self._settings().limits, self.catalogue.agents
        for name, agent in {**agents, **HIDDEN}.items():
            seconds, known = agent.limits.run_timeout or limits.run_timeout, before.get(name)
            hidden = self._find_useless(agent)
            is_same = known is not None and known.is_made_of(agent, seconds) and known.hidden == hidden
            self._parts[name] = (
                known if known is not None and is_same else self._maker.make_parts(agent, seconds, hidden)
            )
        for spawned in self._spawned:
            # Below a file that is gone it keeps its view, as a run of that file does.
            if written := self._list_written(spawned.name):
                spawned.parts = self._make_spawned(written, spawned.parts)
        made = (*self._parts.values(), *(spawned.parts for spawned in self._spawned))
        rules = {name: rule for parts in made for name, rule in parts.rules.items()}
        # Without a rule, a run that outlives its file would see every tool.
        gone = {name: rule for name, rule in self._rules.items() if name not in rules and name not in agents}
        kept = dict(list(gone.items())[-MOST_GONE:])
        self._rules = {**kept, **rules}
        self._registry.set_view_rules(self._rules)

    def _find_useless(self, agent: Agent) -> Mapping[str, str]:
        """Tools that could never succeed for an agent, each with the reason."""
        if self.list_helpers(agent):
            return {}
        why = f"the agent {agent.name} may delegate to nobody"
        # Where the settings name nobody, nobody sees the one tool, and no rule is needed for it.
        hidden = {DELEGATING: why} if self._settings().multi_agent.agents else {}
        return hidden | {SPAWNING: why} if agent.agents == () else hidden

    def _make_spawned(self, written: Sequence[Agent], before: AgentParts | None = None) -> AgentParts:
        root, *given = written
        agent = self._derive_spawned(written)
        seconds = agent.limits.run_timeout or self._settings().limits.run_timeout
        if before is not None and before.is_made_of(root, seconds) and before.hidden == self._find_useless(agent):
            return before
        above = self._parts.get(root.name) or self._maker.make_parts(root, seconds)
        hidden = self._find_useless(agent)
        return self._maker.make_spawned_parts(agent, seconds, above=above, given=given, hidden=hidden)

    def _change_rules(self, rules: Mapping[str, ViewRule], gone: Collection[str] = ()) -> None:
        for name in gone:
            self._rules.pop(name, None)
        self._rules.update(rules)
        self._registry.change_view_rules(rules, gone=gone)

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
