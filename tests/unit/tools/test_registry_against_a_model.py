"""The registry against a simple model: whatever is done in whatever order, both agree."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from toolstead.errors import DuplicateToolError, ToolsteadError, UnknownToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.generation import Visibility
from toolstead.tools.registry import Registry
from toolstead.tools.sources import Offers, SourceChanges
from toolstead.types.tool import Changes, Provenance

PYTHON = "python"
BUILTIN = "builtin"
SOURCES = ("first", BUILTIN, "last")

tool_names = st.sampled_from(["a", "b", "c", "ab", "B"])
some_names = st.lists(tool_names, unique=True, max_size=4)
patterns = st.lists(st.sampled_from(["*", "a", "a*", "?", "[ab]", "b"]), max_size=3)


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


def tool(name: str, version: int) -> Tool:
    return Tool(name=name, description=f"Version {version}.", handler=handler)


class Shelf:
    """A source that offers what the machine says, whole or by what changed, or breaks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.offered: dict[str, int] = {}
        self.broken = False
        self._handed: dict[str, tuple[int, RegisteredTool]] = {}

    async def load(self) -> Offers:
        self._break()
        self._handed = {name: self._handed_or_new(name, version) for name, version in self.offered.items()}
        return Offers(tools=[made for _, made in self._handed.values()])

    async def refresh(self, paths: Collection[Path] | None = None) -> SourceChanges:
        self._break()
        gone = {name: old for name, old in self._handed.items() if self.offered.get(name) != old[0]}
        self._handed = {name: old for name, old in self._handed.items() if name not in gone}
        fresh = {
            name: self._handed_or_new(name, version)
            for name, version in self.offered.items()
            if name not in self._handed
        }
        self._handed |= fresh
        return SourceChanges(gone=[old for _, old in gone.values()], fresh=[new for _, new in fresh.values()])

    def _break(self) -> None:
        if self.broken:
            raise OSError("broken on purpose")

    def _handed_or_new(self, name: str, version: int) -> tuple[int, RegisteredTool]:
        handed = self._handed.get(name)
        if handed is not None and handed[0] == version:
            return handed
        provenance = Provenance(source="builtin" if self.name == BUILTIN else "plugin", origin=self.name)
        return version, define_tool(tool(name, version), provenance, PluginContext(name=self.name))


class Model:
    """Who holds which name in which version, decided the slow way."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, int]] = {owner: {} for owner in (*SOURCES, PYTHON)}
        self.broken: set[str] = set()
        self.owner: dict[str, str] = {}
        self.order: list[str] = []
        self.allowed: list[str] = ["*"]
        self.blocked: list[str] = []
        self.disabled: frozenset[str] = frozenset()

    def settle(self) -> None:
        former, self.owner = self.owner, {}
        for name in {name for claims in self.claims.values() for name in claims}:
            claimants = [owner for owner, claims in self.claims.items() if name in claims]
            if BUILTIN in claimants:
                self.owner[name] = BUILTIN
            elif former.get(name) in claimants:
                self.owner[name] = former[name]
            else:
                self.owner[name] = claimants[0]
        kept = [name for name in self.order if name in self.owner]
        self.order = [*kept, *dict.fromkeys(n for claims in self.claims.values() for n in claims if n not in kept)]

    @property
    def held(self) -> dict[str, tuple[str, int]]:
        return {name: (self.owner[name], self.claims[self.owner[name]][name]) for name in self.order}

    @property
    def visible(self) -> dict[str, tuple[str, int]]:
        return {
            name: held
            for name, held in self.held.items()
            if name not in self.disabled
            and not any(fnmatchcase(name, pattern) for pattern in self.blocked)
            and any(fnmatchcase(name, pattern) for pattern in self.allowed)
        }

    @property
    def set_aside(self) -> int:
        return sum(len(claims) for claims in self.claims.values()) - len(self.held) + len(self.broken)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.shelves = {name: Shelf(name) for name in SOURCES}
        self.away: dict[str, Shelf] = {}
        self.registry = Registry(list(self.shelves.values()))
        self.model = Model()
        self.versions = 0
        self.number = 0

    def teardown(self) -> None:
        self.runner.close()

    def shelf(self, name: str) -> Shelf:
        return self.shelves.get(name) or self.away[name]

    def version(self) -> int:
        self.versions += 1
        return self.versions

    def expect(self, before: dict[str, tuple[str, int]], changes: Changes) -> None:
        after = self.model.visible
        assert changes.added == tuple(name for name in after if name not in before)
        assert sorted(changes.removed) == sorted(name for name in before if name not in after)
        assert sorted(changes.changed) == sorted(n for n in after if n in before and before[n] != after[n])

    @rule(source=st.sampled_from(SOURCES), names=some_names)
    def offer(self, source: str, names: list[str]) -> None:
        shelf = self.shelf(source)
        shelf.offered = {name: shelf.offered.get(name) or self.version() for name in names}

    @rule(source=st.sampled_from(SOURCES))
    def edit(self, source: str) -> None:
        shelf = self.shelf(source)
        shelf.offered = {name: self.version() for name in shelf.offered}

    @rule(source=st.sampled_from(SOURCES), broken=st.booleans())
    def break_or_mend(self, source: str, broken: bool) -> None:
        self.shelf(source).broken = broken

    @rule()
    def reload(self) -> None:
        before = self.model.visible
        swap = self.runner.run(self.registry.reload())
        self.model.broken = {name for name, shelf in self.shelves.items() if shelf.broken}
        for name, shelf in self.shelves.items():
            if not shelf.broken:
                self.model.claims[name] = dict(shelf.offered)
        self.model.settle()
        self.expect(before, swap.changes)
        assert swap.generation is self.registry.current

    @rule(source=st.sampled_from(SOURCES))
    def refresh(self, source: str) -> None:
        if source in self.away:  # a watcher that comes too late
            assert not self.runner.run(self.registry.refresh(self.away[source])).changes
            return
        before = self.model.visible
        shelf, claims = self.shelves[source], self.model.claims[source]
        swap = self.runner.run(self.registry.refresh(shelf))
        if shelf.broken:
            self.model.broken.add(source)
        else:
            self.model.broken.discard(source)
            same = {name: version for name, version in claims.items() if shelf.offered.get(name) == version}
            self.model.claims[source] = same | shelf.offered
        self.model.settle()
        self.expect(before, swap.changes)

    @rule(source=st.sampled_from(SOURCES))
    def remove_source(self, source: str) -> None:
        if source not in self.shelves:
            with pytest.raises(ToolsteadError, match="no such"):
                self.runner.run(self.registry.remove_source(self.away[source]))
            return
        before = self.model.visible
        self.away[source] = self.shelves.pop(source)
        swap = self.runner.run(self.registry.remove_source(self.away[source]))
        del self.model.claims[source]
        self.model.broken.discard(source)
        self.model.settle()
        self.expect(before, swap.changes)

    @rule(source=st.sampled_from(SOURCES))
    def add_source(self, source: str) -> None:
        if source in self.shelves:
            with pytest.raises(ToolsteadError, match="already"):
                self.runner.run(self.registry.add_source(self.shelves[source]))
            return
        before = self.model.visible
        shelf = self.shelves[source] = self.away.pop(source)
        swap = self.runner.run(self.registry.add_source(shelf))
        python = self.model.claims.pop(PYTHON)  # what was registered comes after every source
        self.model.claims |= {source: {} if shelf.broken else dict(shelf.offered), PYTHON: python}
        if shelf.broken:
            self.model.broken.add(source)
        self.model.settle()
        self.expect(before, swap.changes)

    @rule(names=some_names)
    def register(self, names: list[str]) -> None:
        before = self.model.visible
        fresh = {name: self.version() for name in names}
        tools = [tool(name, version) for name, version in fresh.items()]
        if taken := fresh.keys() & self.model.held.keys():
            with pytest.raises(DuplicateToolError) as refused:
                self.registry.register(*tools)
            assert refused.value.tool in taken
            return
        changes = self.registry.register(*tools)
        self.model.claims[PYTHON] |= fresh
        self.model.settle()
        self.expect(before, changes)

    @rule(names=some_names)
    def unregister(self, names: list[str]) -> None:
        before = self.model.visible
        if unknown := set(names) - self.model.claims[PYTHON].keys():
            with pytest.raises(UnknownToolError) as refused:
                self.registry.unregister(*names)
            assert refused.value.name in unknown
            return
        changes = self.registry.unregister(*names)
        for name in names:
            del self.model.claims[PYTHON][name]
        self.model.settle()
        self.expect(before, changes)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        before = self.model.visible
        self.model.disabled = frozenset(data.draw(st.sets(st.sampled_from(sorted(self.model.held)))))
        self.expect(before, self.registry.apply_switches(self.model.disabled))

    @rule(allowed=patterns, blocked=patterns)
    def set_visibility(self, allowed: list[str], blocked: list[str]) -> None:
        before = self.model.visible
        self.model.allowed, self.model.blocked = allowed, blocked
        rules = Visibility(allowed=allowed, blocked=blocked, disabled=self.model.disabled)
        self.expect(before, self.registry.set_visibility(rules))

    @invariant()
    def both_agree(self) -> None:
        generation = self.registry.current
        seen = {
            name: ("python" if held.info.provenance.plugin_name else held.info.provenance.origin, held.info.description)
            for name, held in generation.held.items()
        }
        assert list(seen.items()) == [
            (name, (owner, f"Version {version}.")) for name, (owner, version) in self.model.held.items()
        ]
        assert list(generation.tools) == list(self.model.visible)
        assert generation.hidden.keys() == self.model.held.keys() - self.model.visible.keys()
        assert len(generation.problems) == self.model.set_aside
        assert generation.number >= self.number
        self.number = generation.number


TestRegistry = Machine.TestCase
TestRegistry.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
