"""The registry: sources in, immutable generations out, and a signal when one follows another.

A reload builds the next generation aside and swaps it in. The holder of a name keeps it; a second
tool of that name is reported and quarantined.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from toolstead.errors import DefinitionError, DuplicateToolError, ToolsteadError, UnknownToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.schema.compiled import Documents
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.generation import (
    EVERYTHING,
    Generation,
    NameMemory,
    ToolReason,
    ToolView,
    ViewRule,
    Visibility,
    amend_generation,
    compare_generations,
    describe_quarantined,
    nearest_names,
    next_generation,
)
from toolstead.tools.sources import Offer, RefreshingSource, ToolSource
from toolstead.types.call import Caller
from toolstead.types.tool import Changes, Problem, Provenance, Reloaded

logger = logging.getLogger(__name__)

PYTHON = "python"
MOST_POSITIONS = 50
"""Contested names whose places are looked up in their files: this is done on the event loop."""
MOST_NARROWED = 1_000
"""Views of agents under profiles that are remembered."""
Listener = Callable[["Swap"], None]


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of one generation by the next; or of the profiles' rules, and then the generation stays.

    Attributes:
        changes: What changed for whoever is under no profile.
        changes_profiles: Whether it is the profiles that changed.
        changes_lists: Whether a client may see another list of tools now.
    """

    generation: Generation
    changes: Changes
    problems: tuple[Problem, ...] = ()
    changes_profiles: bool = False
    changes_lists: bool = False

    def to_reloaded(self) -> Reloaded:
        """As the outcome of a reload."""
        return Reloaded(
            success=not self.problems,
            tool_count=len(self.generation.tools),
            errors=self.problems,
            changes=self.changes,
        )


class _Load(msgspec.Struct, kw_only=True):
    """What a source gave: its tools by identity, two of one name included, and what was quarantined."""

    source: ToolSource
    tools: dict[int, RegisteredTool] = msgspec.field(default_factory=dict[int, RegisteredTool])
    problems: Sequence[Problem] = ()


class Registry:
    """Names → tools. Not thread-safe: it belongs to the event loop it is used on."""

    def __init__(
        self,
        sources: Sequence[ToolSource] = (),
        *,
        visibility: Visibility | None = None,
        documents: Documents | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        context_for: Callable[[str], PluginContext] | None = None,
    ) -> None:
        """Make an empty registry; `reload` fills it.

        Args:
            sources: In the order in which names are taken.
            visibility: Which tools are shown.
            documents: Documents by address that tools' `$ref`s may name.
            prepare: Awaited before everything is read anew, while nothing is locked.
            context_for: Makes the context of tools that are added at run time, from their plugin's name.
        """
        self.current = Generation()
        self._visibility = visibility or Visibility()
        self._documents = documents
        self._loads = {id(source): _Load(source=source) for source in sources}  # a load keeps its source alive
        self._rules: dict[str, ViewRule] = {}
        self._views: dict[str, tuple[Generation, ToolView]] = {}
        self._profile_rules: dict[str, Visibility] = {}
        self._profiles: dict[str, NameMemory] = {}
        self._narrowed: dict[tuple[str | None, str], tuple[ToolView, ToolView]] = {}
        self._contested = False
        self._registered: dict[str, RegisteredTool] = {}
        self._listeners: dict[object, Listener] = {}
        self._unannounced: deque[Swap] = deque()
        self._announcing = False
        self._loading = asyncio.Lock()
        self._prepare = prepare
        self._context_for = context_for or _plain_context

    async def reload(self) -> Swap:
        """Read every source anew, build the next generation aside, swap it in.

        A source that cannot be read keeps the tools it gave last, and the problem is reported.
        """
        began = self.current
        if self._prepare is not None:
            await self._prepare()
        async with self._loading:
            self._loads = {key: await self._load(load) for key, load in self._loads.items()}
            prepared = self.current
            swap = self._swap_generation()
        # Changes made while it was prepared were announced then; the caller's report includes them.
        return (
            swap
            if prepared is began
            else msgspec.structs.replace(swap, changes=compare_generations(began, swap.generation))
        )

    async def refresh(self, source: RefreshingSource, paths: Collection[Path] | None = None) -> Swap:
        """Update one source; the cost grows with what changed, not with what there is.

        A source that fails to report changes is read whole.

        Args:
            source: One of the registry's.
            paths: A hint for a source of files: only these may have changed.
        """
        async with self._loading:
            load = self._loads.get(id(source))
            if load is None:  # it was removed, and its watcher does not know yet
                return Swap(generation=self.current, changes=Changes(), problems=self.current.problems)
            try:
                delta = await source.refresh(paths)
            except Exception:
                logger.exception("source %s could not be updated in part, so it is read whole", source.name)
                self._loads[id(source)] = await self._load(load)
                return self._swap_generation()
            for tool in delta.gone:
                load.tools.pop(id(tool), None)
            load.tools.update({id(tool): tool for tool in delta.fresh})
            load.problems = delta.problems
            return self._amend_generation(delta.gone, delta.fresh)

    async def add_source(self, source: ToolSource) -> Swap:
        """Read another source, whose names come after those of the others, and take its tools in.

        Raises:
            ToolsteadError: It is already registered.
        """
        async with self._loading:
            if id(source) in self._loads:
                raise ToolsteadError(f"the source of tools {source.name!r} is already registered")
            load = self._loads[id(source)] = await self._load(_Load(source=source))
            return self._amend_generation((), load.tools.values())

    async def remove_source(self, source: ToolSource) -> Swap:
        """Take a source away with all its tools and problems; where others wait for its names, they get them now.

        Raises:
            ToolsteadError: It is not there.
        """
        async with self._loading:
            load = self._loads.pop(id(source), None)
            if load is None:
                raise ToolsteadError(f"there is no such source of tools: {source.name!r}")
            return self._amend_generation(load.tools.values(), ())

    def register(self, *tools: Tool, plugin_name: str = PYTHON, origin: str | None = None) -> Changes:
        """Add tools at run time: all of them, or none.

        Raises:
            DefinitionError: One is bad, or its name has a holder.
        """
        context = self._context_for(plugin_name)
        fresh: dict[str, RegisteredTool] = {}
        for tool in tools:
            module = origin or getattr(getattr(tool, "handler", None), "__module__", None) or PYTHON
            provenance = Provenance(source="plugin", origin=module, plugin_name=plugin_name)
            registered = define_tool(tool, provenance, context, documents=self._documents)
            holder = self.current.held.get(tool.name) or fresh.get(tool.name)
            if holder is not None:
                raise DuplicateToolError(tool=tool.name, holder=_describe_tool(holder))
            fresh[tool.name] = registered
        if not fresh:
            return Changes()
        self._registered.update(fresh)
        return self._amend_generation((), fresh.values()).changes

    def unregister(self, *names: str) -> Changes:
        """Take away tools that were added at run time: all of them, or none.

        Where a source waits with a tool of the same name, that one gets the name now.

        Raises:
            UnknownToolError: None of that name was added at run time.
        """
        for name in names:
            if name not in self._registered:
                raise UnknownToolError(name, nearest_names(name, self._registered))
        if not names:
            return Changes()
        wanted = frozenset(names)
        leaving = wanted if len(wanted) == 1 else [name for name in self._registered if name in wanted]
        return self._amend_generation([self._registered.pop(name) for name in leaving], ()).changes

    def set_visibility(self, visibility: Visibility) -> Changes:
        """Apply other allow, block and switch rules."""
        if visibility == self._visibility:
            return Changes()
        self._visibility = visibility
        return self._swap_generation().changes

    def apply_switches(self, disabled: frozenset[str]) -> Changes:
        """Apply other switches, keeping the allow-list and block-list."""
        return self.set_visibility(replace(self._visibility, disabled=disabled))

    def set_unavailable(self, reasons: Mapping[str, str]) -> Changes:
        """Hide the tools that cannot work now, by name with the reason, keeping all other rules."""
        return self.set_visibility(replace(self._visibility, unavailable=dict(reasons)))

    def restrict(self, *, allowed: Sequence[str], blocked: Sequence[str]) -> Changes:
        """Apply another allow-list and block-list, keeping the switches."""
        return self.set_visibility(replace(self._visibility, allowed=tuple(allowed), blocked=tuple(blocked)))

    def set_view_rules(self, rules: Mapping[str, ViewRule]) -> None:
        """Set the views of some agents, by their names; from the next lookup on."""
        self._rules, self._views = dict(rules), {}

    def change_view_rules(self, rules: Mapping[str, ViewRule], *, gone: Collection[str] = ()) -> None:
        """Set the views of some agents and remove those of others, by their names; the rest stay as they are."""
        for name in (*gone, *rules):
            self._rules.pop(name, None)
            self._views.pop(name, None)
        self._rules.update(rules)

    def set_profiles(self, rules: Mapping[str, Visibility]) -> None:
        """Set the rules of the profiles, by their names; from the next lookup on."""
        if rules == self._profile_rules:
            return
        self._profile_rules = dict(rules)
        self._profiles = {name: NameMemory(rule) for name, rule in rules.items()}
        self._narrowed = {}
        if self.current.number:  # else nobody was shown anything yet
            current = self.current
            self._unannounced.append(
                Swap(
                    generation=current,
                    changes=Changes(),
                    problems=current.problems,
                    changes_profiles=True,
                    changes_lists=True,
                )
            )
            self._notify_listeners()

    def find_profile(self, name: str) -> Mapping[str, str | None] | None:
        """Why a profile hides each name, None where it does not; another object when its rules change.

        None for a profile that is not there (any more).
        """
        return self._profiles.get(name)

    def find_callers_view(self, caller: Caller) -> ToolView:
        """What a caller may see and call now, whichever interface it calls through."""
        view = self.find_view(caller.agent_id, profile=caller.profile, may_spawn=caller.may_spawn)
        if caller.run_id is not None:
            return view if caller.task_id is not None else view.without_parent
        return view if caller.client_thread is None else view.for_clients

    def find_view(
        self, agent: str | None, *, profile: str | None = None, may_spawn: bool = True, has_task: bool = True
    ) -> ToolView:
        """What an agent may see and call now: the same object while nothing changes; None means the default view.

        Under a profile it is only what that profile names too: nothing, where the profile is not there any more.

        A run that may start no agents does not see the tools that do, and one that works on no delegated task not
        those that report to whoever delegated. An agent below another one (`parent/child`)
        whose rule is gone sees nothing: that rule narrowed it, and the default view would be more than it ever had.
        """
        view: ToolView = self.current
        rule = None if agent is None else self._rules.get(agent)
        if agent is not None and rule is not None:
            built = self._views.get(agent)
            if built is None or built[0] is not view:
                built = self._views[agent] = (self.current, rule.build_view(self.current))
            view = built[1]
        elif agent is not None and "/" in agent:
            view = view.without_tools
        if profile is not None:
            view = self._narrow_view(view, agent, profile)
        view = view if has_task else view.without_parent
        return view if may_spawn else view.without_spawning

    def _narrow_view(self, view: ToolView, agent: str | None, profile: str) -> ToolView:
        if (memory := self._profiles.get(profile)) is None:
            return view.without_tools
        known = self._narrowed.get((agent, profile))
        if known is None or known[0] is not view:
            if len(self._narrowed) >= MOST_NARROWED:
                self._narrowed.clear()
            known = self._narrowed[agent, profile] = (view, view.narrow_view(memory))
        return known[1]

    def explain_view(
        self, agent: str, *, profile: str | None = None, may_spawn: bool = True, has_task: bool = True
    ) -> list[ToolReason]:
        """Why each tool is in the view that `find_view` gives for the same arguments, or is not.

        After the tools that the agent could be offered come those that no change of its lists would show: the custom
        tools of others, and what is quarantined.
        """
        view = self.find_view(agent, profile=profile, may_spawn=may_spawn, has_task=has_task)
        reasons = self.find_rule(agent).explain_tools(self.current, may_spawn=may_spawn)
        found = {one.name: self._explain_tool(one, view, profile) for one in reasons}
        for other, rule in self._rules.items():
            for name in rule.own if "/" not in other else ():
                why = f"it is a custom tool of the agent {other}, which alone sees it"
                found.setdefault(name, ToolReason(name=name, is_offered=False, reason=why))
        for problem in self.current.problems:
            if (name := problem.tool_name) is not None:
                why = describe_quarantined(problem)
                found.setdefault(name, ToolReason(name=name, is_offered=False, reason=why))
        return list(found.values())

    def _explain_tool(self, found: ToolReason, view: ToolView, profile: str | None) -> ToolReason:
        """The reason for what the view itself says: more than an agent's rule narrows it."""
        name, is_offered = found.name, found.name in view.tools
        if is_offered == found.is_offered:
            return found
        why = "only an agent that works on a delegated task sees it"
        if profile is not None:
            memory = self._profiles.get(profile)
            why = f"there is no profile {profile!r}" if memory is None else memory[name] or why
        return ToolReason(name=name, is_offered=is_offered, reason=why)

    def find_rule(self, agent: str) -> ViewRule:
        """What decides on an agent's view."""
        return self._rules.get(agent, EVERYTHING)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Subscribe, on the event loop, to every swap that changed the tools, the profiles or what is quarantined.

        Returns a function that ends the subscription. A listener that raises is logged; the others are still called.
        """
        key = object()
        self._listeners[key] = listener

        def end_subscription() -> None:
            self._listeners.pop(key, None)

        return end_subscription

    async def _load(self, last: _Load) -> _Load:
        source = last.source
        try:
            offers = await source.load()
            problems = list(offers.problems)
            tools = {id(tool): tool for tool in self._define_offers(offers.tools, problems)}
            return _Load(source=source, tools=tools, problems=problems)
        except Exception as error:
            logger.exception("source %s could not be read; it keeps the %s tools it had", source.name, len(last.tools))
            reason = f"could not be read: {str(error) or type(error).__name__}"
            return _Load(source=source, tools=last.tools, problems=[Problem(source=source.name, message=reason)])

    def _define_offers(
        self, offers: Sequence[Offer | RegisteredTool], problems: list[Problem]
    ) -> Sequence[RegisteredTool]:
        defined: list[RegisteredTool] = []
        for offer in offers:
            if isinstance(offer, RegisteredTool):
                defined.append(offer)
                continue
            origin = offer.provenance.origin
            try:
                defined.append(define_tool(offer.tool, offer.provenance, offer.context, documents=self._documents))
            except DefinitionError as error:
                logger.warning("%s: %s", origin, error)
                problems.append(Problem(source=origin, tool_name=error.tool, message=f"{error.field}: {error.reason}"))
        return defined

    def _settle_names(self) -> tuple[dict[str, RegisteredTool], list[Problem]]:
        """Decide which tool holds each name, in the order the names were taken; every other one is a problem."""
        loads = self._loads.values()
        offered = [*(tool for load in loads for tool in load.tools.values()), *self._registered.values()]
        problems = [problem for load in loads for problem in load.problems]
        held: dict[str, RegisteredTool] = {}
        contested: dict[str, list[RegisteredTool]] = {}
        for tool in offered:
            first = held.setdefault(tool.info.name, tool)
            if first is not tool:
                contested.setdefault(tool.info.name, [first]).append(tool)
        self._contested = bool(contested)
        places = MOST_POSITIONS
        for name, claimants in contested.items():
            held[name] = winner = _choose_winner(claimants, self.current.held.get(name))
            for loser in claimants:
                if loser is not winner:
                    refused = loser.refuse_name(_describe_tool(winner), find_position=places > 0)
                    problems.append(refused)
                    places -= 1
        # Old names keep their places in the list, and new ones follow them, so that listing again is stable.
        kept = {name: held[name] for name in self.current.held if name in held}
        return kept | held, problems

    def _amend_generation(self, gone: Collection[RegisteredTool], fresh: Collection[RegisteredTool]) -> Swap:
        """Swap in what differs only in some tools; where names are contested, settle everything anew."""
        before = self.current
        problems = [problem for load in self._loads.values() for problem in load.problems]
        amended = None if self._contested else amend_generation(before, gone, fresh, self._visibility, problems)
        if amended is None:
            return self._swap_generation()
        names = tuple(dict.fromkeys(tool.info.name for tool in (*gone, *fresh)))
        return self._swap_in(before, amended, compare_generations(before, amended, names))

    def _swap_generation(self) -> Swap:
        before = self.current
        held, problems = self._settle_names()
        known = {*before.problems, *(problem for load in self._loads.values() for problem in load.problems)}
        for problem in problems:
            if problem not in known:  # the others were logged where they arose
                logger.warning("%s: tool %r: %s", problem.source, problem.tool_name, problem.message)
        after = next_generation(before, held=held, visibility=self._visibility, problems=problems)
        return self._swap_in(before, after, compare_generations(before, after))

    def _swap_in(self, before: Generation, after: Generation, changes: Changes) -> Swap:
        differs = any(not after.tools[name].is_listed_as(before.tools[name]) for name in changes.changed)
        lists = differs or bool(changes.added or changes.removed)
        swap = Swap(generation=after, changes=changes, problems=after.problems, changes_lists=lists)
        self.current = after
        if swap.changes or after.problems != before.problems or before.number == 0:
            self._unannounced.append(swap)
            self._notify_listeners()
        return swap

    def _notify_listeners(self) -> None:
        """Notify every listener of every swap, in order, also of one that a listener caused."""
        if self._announcing:
            return
        self._announcing = True
        try:
            while self._unannounced:
                swap = self._unannounced.popleft()
                for key, listener in tuple(self._listeners.items()):
                    try:
                        if key in self._listeners:  # else it unsubscribed while the others were called
                            listener(swap)
                    except Exception:
                        logger.exception("a listener failed on generation %s", swap.generation.number)
        finally:
            self._announcing = False


def _plain_context(name: str) -> PluginContext:
    return PluginContext(name=name, logger=logging.getLogger(f"toolstead.plugin.{name}"))


def _choose_winner(claimants: Sequence[RegisteredTool], before: RegisteredTool | None) -> RegisteredTool:
    """A built-in before all others; then who held the name before; then the first in order."""
    entitled = [tool for tool in claimants if tool.info.provenance.source == "builtin"] or claimants
    origin = None if before is None else before.info.provenance.origin
    return next((tool for tool in entitled if tool.info.provenance.origin == origin), entitled[0])


def _describe_tool(tool: RegisteredTool) -> str:
    provenance = tool.info.provenance
    owner = provenance.plugin_name or provenance.agent_name
    return f"{provenance.source} {owner} ({provenance.origin})" if owner else f"{provenance.source} {provenance.origin}"
