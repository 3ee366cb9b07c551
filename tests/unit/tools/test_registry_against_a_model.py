"""The registry against a simple model: whatever is done in whatever order, both agree."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from toolyard.errors import DuplicateToolError, UnknownToolError
from toolyard.plugins.contract import PluginContext, Tool, ToolMeta
from toolyard.tools.registry import Registry
from toolyard.tools.sources import Offer, Offers
from toolyard.tools.visibility import Visibility
from toolyard.types.tool import Changes, Provenance

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
    """A source that offers what the machine says, or breaks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.offered: dict[str, int] = {}
        self.broken = False

    async def load(self) -> Offers:
        if self.broken:
            raise OSError("broken on purpose")
        kind = "builtin" if self.name == BUILTIN else "plugin"
        provenance = Provenance(source=kind, origin=self.name)
        context = PluginContext(name=self.name)
        return Offers(
            tools=[
                Offer(tool=tool(name, n), provenance=provenance, context=context) for name, n in self.offered.items()
            ]
        )


class Model:
    """Who holds which name in which version, decided the slow way."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, int]] = {owner: {} for owner in (*SOURCES, PYTHON)}
        self.broken: set[str] = set()
        self.owner: dict[str, str] = {}
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

    @property
    def held(self) -> dict[str, tuple[str, int]]:
        return {
            name: (owner, version)
            for owner, claims in self.claims.items()
            for name, version in claims.items()
            if self.owner[name] == owner
        }

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
        self.registry = Registry(list(self.shelves.values()))
        self.model = Model()
        self.versions = 0
        self.number = 0

    def teardown(self) -> None:
        self.runner.close()

    def version(self) -> int:
        self.versions += 1
        return self.versions

    def expect(self, before: dict[str, tuple[str, int]], changes: Changes) -> None:
        after = self.model.visible
        assert changes.added == tuple(name for name in after if name not in before)
        assert changes.removed == tuple(name for name in before if name not in after)
        assert changes.changed == tuple(name for name in after if name in before and before[name] != after[name])

    @rule(source=st.sampled_from(SOURCES), names=some_names)
    def offer(self, source: str, names: list[str]) -> None:
        offered = self.shelves[source].offered
        self.shelves[source].offered = {name: offered.get(name) or self.version() for name in names}

    @rule(source=st.sampled_from(SOURCES))
    def edit(self, source: str) -> None:
        offered = self.shelves[source].offered
        self.shelves[source].offered = {name: self.version() for name in offered}

    @rule(source=st.sampled_from(SOURCES), broken=st.booleans())
    def break_or_mend(self, source: str, broken: bool) -> None:
        self.shelves[source].broken = broken

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
        self.expect(before, self.registry.switch(self.model.disabled))

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
