"""The registry: sources in, immutable generations out, and a signal when one follows another.

A reload builds the next generation aside and swaps it in. The holder of a name keeps it; a second
tool of that name is reported and set aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolyard.errors import DefinitionError, DuplicateToolError, UnknownToolError
from toolyard.plugins.contract import PluginContext, Tool
from toolyard.schema.compiled import Documents
from toolyard.tools.definition import RegisteredTool, define
from toolyard.tools.generation import Generation, differences, next_generation
from toolyard.tools.sources import Offer, Offers, ToolSource
from toolyard.tools.visibility import Visibility
from toolyard.types.tool import Changes, Problem, Provenance

logger = logging.getLogger(__name__)

PYTHON = "python"
Listener = Callable[["Swap"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One generation followed another."""

    generation: Generation
    changes: Changes
    problems: tuple[Problem, ...] = ()


class Registry:
    """Names → tools. Not thread-safe: it belongs to the event loop it is used on."""

    def __init__(
        self,
        sources: Sequence[ToolSource] = (),
        *,
        visibility: Visibility | None = None,
        documents: Documents | None = None,
    ) -> None:
        self.current = Generation()
        self._sources = tuple(sources)
        self._visibility = visibility or Visibility()
        self._documents = documents
        self._offered: dict[str, Mapping[str, RegisteredTool]] = {}
        self._problems: tuple[Problem, ...] = ()
        self._registered: dict[str, RegisteredTool] = {}
        self._listeners: list[Listener] = []
        self._loading = asyncio.Lock()

    async def reload(self) -> Swap:
        """Read every source anew, build the next generation aside, swap it in."""
        async with self._loading:
            loaded = [(source.name, await self._load(source)) for source in self._sources]
            offered: dict[str, Mapping[str, RegisteredTool]] = {}
            problems: list[Problem] = []
            for name, offers in loaded:
                problems.extend(offers.problems)
                offered[name] = self._define(offers.tools, problems)
            held = self._settle(offered, problems)
            self._offered, self._problems = offered, tuple(problems)
            return self._swap(held)

    def register(self, *tools: Tool, plugin_name: str = PYTHON, origin: str | None = None) -> Changes:
        """Add tools at run time: all of them, or none.

        Raises:
            DefinitionError: One is bad, or its name has a holder.
        """
        context = PluginContext(name=plugin_name, logger=logging.getLogger(f"toolyard.plugin.{plugin_name}"))
        fresh: dict[str, RegisteredTool] = {}
        for tool in tools:
            module = origin or getattr(getattr(tool, "handler", None), "__module__", None) or PYTHON
            provenance = Provenance(source="plugin", origin=module, plugin_name=plugin_name)
            registered = define(tool, provenance, context, documents=self._documents)
            holder = self.current.held.get(tool.name) or fresh.get(tool.name)
            if holder is not None:
                raise DuplicateToolError(tool=tool.name, holder=_describe(holder))
            fresh[tool.name] = registered
        self._registered.update(fresh)
        return self._swap({**self.current.held, **fresh}).changes

    def unregister(self, *names: str) -> Changes:
        """Take away tools that were added at run time.

        Raises:
            UnknownToolError: None of that name was added at run time.
        """
        for name in names:
            if name not in self._registered:
                raise UnknownToolError(name, tuple(self._registered)[:2])
        for name in names:
            del self._registered[name]
        gone = frozenset(names)
        return self._swap({name: tool for name, tool in self.current.held.items() if name not in gone}).changes

    def set_visibility(self, visibility: Visibility) -> Changes:
        """Apply other allow, block and switch rules."""
        if visibility == self._visibility:
            return Changes()
        self._visibility = visibility
        return self._swap(self.current.held).changes

    def switch(self, disabled: frozenset[str]) -> Changes:
        """Apply other switches, keeping the allow-list and block-list."""
        return self.set_visibility(replace(self._visibility, disabled=disabled))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of every swap, on the event loop; the answer ends the subscription."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    async def _load(self, source: ToolSource) -> Offers:
        try:
            return await source.load()
        except Exception as error:
            logger.exception("source %s could not be read", source.name)
            return Offers(problems=[Problem(source=source.name, message=f"could not be read: {error}")])

    def _define(self, offers: Sequence[Offer], problems: list[Problem]) -> dict[str, RegisteredTool]:
        defined: dict[str, RegisteredTool] = {}
        for offer in offers:
            origin = offer.provenance.origin
            try:
                registered = define(offer.tool, offer.provenance, offer.context, documents=self._documents)
                if offer.tool.name in defined:
                    raise DuplicateToolError(tool=offer.tool.name, holder=_describe(defined[offer.tool.name]))
            except DefinitionError as error:
                logger.warning("%s: %s", origin, error)
                problems.append(
                    Problem(source=origin, tool_name=error.tool, message=f"{error.field}: {error.reason}")
                )
                continue
            defined[offer.tool.name] = registered
        return defined

    def _settle(
        self, offered: Mapping[str, Mapping[str, RegisteredTool]], problems: list[Problem]
    ) -> dict[str, RegisteredTool]:
        """Decide who holds each name: who held it before, else the first in the sources' order."""
        claims: dict[str, list[RegisteredTool]] = {}
        for tools in (*offered.values(), self._registered):
            for name, tool in tools.items():
                claims.setdefault(name, []).append(tool)
        held: dict[str, RegisteredTool] = {}
        for name, claimants in claims.items():
            before = self.current.held.get(name)
            winner = claimants[0]
            if len(claimants) > 1 and before is not None and winner.info.provenance.source != "builtin":
                kept = [tool for tool in claimants if tool.info.provenance == before.info.provenance]
                winner = kept[0] if kept else winner
            held[name] = winner
            for loser in claimants:
                if loser is not winner:
                    error = DuplicateToolError(tool=name, holder=_describe(winner))
                    logger.warning("%s: %s", loser.info.provenance.origin, error)
                    problems.append(
                        Problem(source=loser.info.provenance.origin, tool_name=name, message=f"name: {error.reason}")
                    )
        return held

    def _swap(self, held: Mapping[str, RegisteredTool]) -> Swap:
        before = self.current
        after = next_generation(before, held=held, visibility=self._visibility, problems=self._problems)
        swap = Swap(generation=after, changes=differences(before, after), problems=after.problems)
        self.current = after
        if swap.changes or before.number == 0:
            for listener in tuple(self._listeners):
                listener(swap)
        return swap


def _describe(tool: RegisteredTool) -> str:
    provenance = tool.info.provenance
    owner = provenance.plugin_name or provenance.agent_name
    return f"{provenance.source} {owner} ({provenance.origin})" if owner else f"{provenance.source} {provenance.origin}"
