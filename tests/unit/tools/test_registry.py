"""The registry: who holds a name, what a reload keeps, what changes are told, and to whom."""

from __future__ import annotations

import asyncio
import difflib
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools.shelf import Shelf, handler, held_by, hidden, holder, names, offer, problems, tool
from toolstead.errors import DefinitionError, DuplicateToolError, UnknownToolError
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.schema import compiled
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import MOST_COMPARED, Visibility
from toolstead.tools.registry import Registry, Swap
from toolstead.tools.sources import FixedSource, Offers
from toolstead.types.tool import Changes, Problem, Provenance

HERE = handler.__module__
"""Where the tools of these tests come from, as the registry tells it."""


async def other_handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "other"


# --- registering at run time


@pytest.mark.promise("R3")
async def test_tools_are_listed_in_the_order_they_came_and_a_new_one_stands_behind_them() -> None:
    first, second = Shelf("b.json", "z", "y"), Shelf("a.json", "x")
    registry = Registry([first, second])
    await registry.reload()
    registry.register(tool("w"), tool("v"))
    assert names(registry) == ["z", "y", "x", "w", "v"]
    registry.apply_switches(frozenset({"y"}))
    registry.apply_switches(frozenset())
    first.put("u", offer("y", "b.json", description="Changed."), "z")
    await registry.reload()
    registry.unregister("w")
    assert names(registry) == ["z", "y", "x", "v", "u"]


def test_registered_tools_are_added_together_and_told_as_such() -> None:
    registry = Registry()
    assert registry.register(tool("a"), tool("b")) == Changes(added=("a", "b"))
    info = registry.current.tools["a"].info
    assert (info.provenance.source, info.provenance.plugin_name, info.provenance.origin) == (
        "plugin",
        "python",
        HERE,
    )
    registry.register(tool("c"), plugin_name="shouty", origin="shouty.py")
    assert registry.current.tools["c"].info.provenance == Provenance(
        source="plugin", origin="shouty.py", plugin_name="shouty"
    )
    assert registry.current.tools["c"].context.logger.name == "toolstead.plugin.shouty"


@pytest.mark.promise("R4")
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (tool("b", timeout=0), "tool 'b': timeout: seconds above 0, not 0"),
        (tool("old"), f"tool 'old': {held_by(f'plugin python ({HERE})')}"),
        (tool("a"), f"tool 'a': {held_by(f'plugin python ({HERE})')}"),
        ("no tool", "tool 'no tool': tool: a Tool is needed"),
    ],
)
def test_of_several_tools_all_are_registered_or_none(bad: Any, said: str) -> None:
    registry = Registry()
    registry.register(tool("old"))
    before = registry.current
    with pytest.raises(DefinitionError) as caught:
        registry.register(tool("a"), bad, tool("c"))
    assert str(caught.value).startswith(said)
    assert registry.current is before
    registry.register(tool("a"), tool("c"))


@pytest.mark.promise("R4")
async def test_a_name_that_a_source_holds_is_refused_naming_the_holder() -> None:
    registry = Registry([Shelf("git.py", "git-status", source="builtin"), Shelf("notes.json", "add-note")])
    await registry.reload()
    with pytest.raises(DuplicateToolError) as caught:
        registry.register(tool("git-status"))
    assert caught.value.holder == "builtin git.py"
    registry.apply_switches(frozenset({"add-note"}))
    with pytest.raises(DuplicateToolError, match=r"already held by plugin notes \(notes\.json\)"):
        registry.register(tool("add-note"))


async def test_unregistering_takes_away_all_or_none_and_only_what_was_registered() -> None:
    registry = Registry([Shelf("s.json", "fixed")])
    await registry.reload()
    registry.register(tool("list-notes"), tool("add-note"))
    before = registry.current
    with pytest.raises(UnknownToolError, match=r"unknown tool 'list-note'; did you mean 'list-notes'\?") as caught:
        registry.unregister("add-note", "list-note")
    assert caught.value.nearest == ("list-notes",)
    with pytest.raises(UnknownToolError, match=r"unknown tool 'fixed'$"):
        registry.unregister("fixed")
    assert registry.current is before
    assert registry.unregister("add-note", "add-note") == Changes(removed=("add-note",))
    with pytest.raises(UnknownToolError):
        registry.unregister("add-note")
    assert names(registry) == ["fixed", "list-notes"]


def test_nothing_registered_or_unregistered_is_no_new_generation() -> None:
    registry = Registry()
    assert (registry.register(), registry.unregister(), registry.current.number) == (Changes(), Changes(), 0)


async def test_generations_count_up_and_an_old_one_never_changes() -> None:
    registry = Registry([Shelf("s.json", "a")])
    seen = [registry.current]
    seen += [(await registry.reload()).generation for _ in range(2)]
    registry.register(tool("b"))
    seen.append(registry.current)
    registry.apply_switches(frozenset({"a"}))
    seen.append(registry.current)
    registry.unregister("b")
    seen.append(registry.current)
    assert [generation.number for generation in seen] == [0, 1, 2, 3, 4, 5]
    assert [list(generation.tools) for generation in seen] == [[], ["a"], ["a"], ["a", "b"], ["b"], []]


def test_finding_and_suggesting_knows_only_what_can_be_called() -> None:
    registry = Registry(visibility=Visibility(blocked=["secret-*"]))
    registry.register(tool("list-notes"), tool("secret-notes"))
    assert registry.current.find_tool("list-notes").info.name == "list-notes"
    for bad in ("secret-notes", "secret-note", "", "x" * 1_000_000):
        with pytest.raises(UnknownToolError) as caught:
            registry.current.find_tool(bad)
        assert "secret-notes" not in caught.value.nearest
        assert len(str(caught.value)) < 400
    with pytest.raises(UnknownToolError):
        registry.current.find_tool(["unhashable"])  # pyright: ignore[reportArgumentType] - callers send anything


def test_the_nearest_name_is_found_among_very_many() -> None:
    registry = Registry()
    registry.register(*(tool(f"tool-number-{n}") for n in range(MOST_COMPARED * 3)), tool("list-notes"))
    assert registry.current.unknown_tool("lst-notes").nearest == ("list-notes",)
    assert registry.current.unknown_tool("tool-numbr-250").nearest[0] == "tool-number-250"


def test_a_huge_name_is_not_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *_, **__: compared.append(word) or [])
    Registry().current.unknown_tool("x" * 1_000_000)
    assert compared == ["x" * 64]


def test_registering_ten_thousand_tools_at_once_stays_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compiling: list[str] = []
    hides, compile_schema = Visibility.reason_hidden, compiled.compile_schema

    def counted_hides(self: Visibility, name: str) -> str | None:
        asked.append(name)
        return hides(self, name)

    def counted_compile(schema: Any, *, tool: str, **rest: Any) -> Any:
        compiling.append(tool)
        return compile_schema(schema, tool=tool, **rest)

    monkeypatch.setattr(Visibility, "reason_hidden", counted_hides)
    monkeypatch.setattr(compiled, "compile_schema", counted_compile)
    registry, told = Registry(), list[Swap]()
    registry.subscribe(told.append)
    changes = registry.register(*(tool(f"t{n}") for n in range(10_000)))
    assert (len(changes.added), len(asked), len(compiling), len(told)) == (10_000, 10_000, 10_000, 1)
    registry.register(tool("one-more"))
    assert (len(asked), len(compiling)) == (10_001, 10_001)


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_unregistering_very_many_tools_at_once_stays_linear() -> None:
    registry = Registry()
    registry.register(*(tool(f"t{n}") for n in range(2_000)))
    changes = registry.unregister(*(Counted(f"t{n}") for n in reversed(range(2_000))))
    assert changes.removed[:2] == ("t0", "t1")
    assert len(changes.removed) == 2_000
    assert Counted.compared < 20 * 2_000


# --- reloading


@pytest.mark.promise("R4")
async def test_a_second_claimant_is_set_aside_and_told_who_holds_the_name(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Shelf("first.json", "a", "b"), Shelf("second.json", "b", "c")
    registry = Registry([first, second])
    swap = await registry.reload()
    assert names(registry) == ["a", "b", "c"]
    assert holder(registry, "b") == "first.json"
    assert problems(registry) == [("second.json", "b", held_by("plugin first (first.json)"))]
    assert swap.problems == registry.current.problems
    assert "second.json: tool 'b': name: the name is already held by plugin first (first.json)" in caplog.text


@pytest.mark.promise("R4")
async def test_the_holder_keeps_its_name_when_an_earlier_source_claims_it_later() -> None:
    early, late = Shelf("early.json"), Shelf("late.json", "x", "y")
    registry = Registry([early, late])
    await registry.reload()
    early.put("w", "x")
    assert (await registry.reload()).changes == Changes(added=("w",))
    assert holder(registry, "x") == "late.json"
    assert names(registry) == ["x", "y", "w"]
    assert problems(registry) == [("early.json", "x", held_by("plugin late (late.json)"))]
    late.put("y")
    assert (await registry.reload()).changes == Changes(changed=("x",))
    assert holder(registry, "x") == "early.json"
    assert problems(registry) == []


@pytest.mark.promise("R4")
async def test_the_holder_keeps_its_name_also_among_files_of_one_source() -> None:
    folder = Shelf("folder")
    folder.put(offer("x", "z.json"))
    registry = Registry([folder])
    await registry.reload()
    folder.put(offer("x", "a.json"), offer("x", "z.json"))
    await registry.reload()
    assert holder(registry, "x") == "z.json"
    assert problems(registry) == [("a.json", "x", held_by("plugin z (z.json)"))]


async def test_a_hidden_holder_keeps_its_name_too() -> None:
    early, late = Shelf("early.json"), Shelf("late.json", "x")
    registry = Registry([early, late], visibility=Visibility(disabled=frozenset({"x"})))
    await registry.reload()
    early.put("x")
    await registry.reload()
    assert holder(registry, "x") == "late.json"
    assert names(registry) == []


@pytest.mark.parametrize("first", [True, False])
async def test_nothing_shadows_a_builtin_wherever_it_stands(*, first: bool) -> None:
    builtin, plugin = Shelf("builtin", source="builtin"), Shelf("p.json", "git-status")
    registry = Registry([builtin, plugin] if first else [plugin, builtin])
    registry.register(tool("workspace-info"))
    await registry.reload()
    builtin.put("git-status", "workspace-info")
    await registry.reload()
    assert [holder(registry, name) for name in ("git-status", "workspace-info")] == ["builtin", "builtin"]
    assert {problem[:2] for problem in problems(registry)} == {("p.json", "git-status"), (HERE, "workspace-info")}
    registry.unregister("workspace-info")
    assert holder(registry, "workspace-info") == "builtin"
    assert [problem[1] for problem in problems(registry)] == ["git-status"]


async def test_who_waited_for_a_name_gets_it_when_the_holder_is_unregistered() -> None:
    shelf = Shelf("s.json")
    registry = Registry([shelf])
    registry.register(tool("x", handler=other_handler), origin="mine.py")
    shelf.put("x")
    await registry.reload()
    assert problems(registry) == [("s.json", "x", held_by("plugin python (mine.py)"))]
    assert registry.unregister("x") == Changes(changed=("x",))
    assert (holder(registry, "x"), problems(registry)) == ("s.json", [])


@pytest.mark.promise("R4")
async def test_a_bad_tool_is_set_aside_alone_and_the_rest_of_its_source_loads() -> None:
    shelf = Shelf("s.json")
    shelf.put("a", offer("bad name", "s.json"), offer("b", "s.json", schema={"type": "array"}), "c", "a")
    shelf.problems = [Problem(source="t.json", message="no JSON at all", line=3)]
    registry = Registry([shelf])
    swap = await registry.reload()
    assert names(registry) == ["a", "c"]
    assert [(one.source, one.tool_name, one.message[:20]) for one in swap.problems] == [
        ("t.json", None, "no JSON at all"),
        ("s.json", "bad name", "name: only letters, "),
        ("s.json", "b", "schema.type: argumen"),
        ("s.json", "a", "name: the name is al"),
    ]


class Broken:
    """Sources that break in other ways than by raising."""

    name = "broken"

    def __init__(self, given: Any) -> None:
        self.given = given

    async def load(self) -> Any:
        return self.given


@pytest.mark.promise("R4")
@pytest.mark.parametrize("given", [None, Offers(tools=[None]), Offers(tools=5)])  # pyright: ignore[reportArgumentType] - nonsense on purpose
async def test_a_source_that_gives_nonsense_is_set_aside_alone(given: Any) -> None:
    registry = Registry([Broken(given), Shelf("s.json", "a")])
    await registry.reload()
    assert names(registry) == ["a"]
    assert [problem[0] for problem in problems(registry)] == ["broken"]


@pytest.mark.promise("R6")
async def test_a_source_that_cannot_be_read_keeps_its_last_good_tools_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flaky, steady = Shelf("flaky", "a", "b"), Shelf("steady", "c")
    registry = Registry([flaky, steady])
    await registry.reload()
    before = registry.current.tools["a"]
    flaky.error = OSError("the disk is gone")
    steady.put("c", "d", "a")
    swap = await registry.reload()
    assert swap.changes == Changes(added=("d",))
    assert names(registry) == ["a", "b", "c", "d"]
    assert registry.current.tools["a"] is before
    assert problems(registry) == [
        ("flaky", None, "could not be read: the disk is gone"),
        ("steady", "a", held_by("plugin flaky (flaky)")),
    ]
    assert any(record.exc_info for record in caplog.records)
    flaky.error = KeyError()
    assert (await registry.reload()).problems[0].message == "could not be read: KeyError"
    flaky.error = None
    flaky.put("b")
    steady.put()
    assert (await registry.reload()).changes == Changes(removed=("a", "c", "d"))
    assert problems(registry) == []


async def test_a_source_that_never_could_be_read_is_reported_and_the_rest_loads() -> None:
    broken = Shelf("broken", "a")
    broken.error = RuntimeError("no")
    registry = Registry([broken, Shelf("s.json", "b")])
    await registry.reload()
    assert names(registry) == ["b"]
    assert problems(registry) == [("broken", None, "could not be read: no")]


async def test_two_sources_of_one_name_are_both_read() -> None:
    registry = Registry([Shelf("same", "a"), Shelf("same", "b")])
    await registry.reload()
    assert names(registry) == ["a", "b"]


async def test_reloads_at_the_same_time_wait_for_each_other() -> None:
    shelf = Shelf("s.json", "a")
    shelf.open.clear()
    registry = Registry([shelf])
    reloads = [asyncio.create_task(registry.reload()) for _ in range(3)]
    await asyncio.wait_for(shelf.reading.wait(), 5)
    await asyncio.sleep(0)
    assert shelf.reads == 1
    shelf.open.set()
    swaps = await asyncio.wait_for(asyncio.gather(*reloads), 5)
    assert [swap.generation.number for swap in swaps] == [1, 2, 3]
    assert shelf.reads == 3


async def test_what_is_registered_or_unregistered_during_a_reload_stays_so() -> None:
    shelf = Shelf("s.json", "a", "mine")
    registry = Registry([shelf])
    registry.register(tool("leaving"), tool("staying"))
    shelf.open.clear()
    reload = asyncio.create_task(registry.reload())
    await asyncio.wait_for(shelf.reading.wait(), 5)
    registry.register(tool("mine"))
    registry.unregister("leaving")
    registry.apply_switches(frozenset({"staying"}))
    assert names(registry) == ["mine"]
    shelf.open.set()
    swap = await asyncio.wait_for(reload, 5)
    assert swap.generation is registry.current
    assert list(registry.current.held) == ["staying", "mine", "a"]
    assert names(registry) == ["mine", "a"]
    assert holder(registry, "mine") == HERE
    assert problems(registry) == [("s.json", "mine", held_by(f"plugin python ({HERE})"))]


async def test_a_reload_that_is_cancelled_changes_nothing() -> None:
    shelf = Shelf("s.json", "a")
    registry = Registry([shelf])
    await registry.reload()
    before = registry.current
    shelf.put("b")
    shelf.open.clear()
    shelf.reading.clear()
    reload = asyncio.create_task(registry.reload())
    await asyncio.wait_for(shelf.reading.wait(), 5)
    reload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reload
    assert registry.current is before
    shelf.open.set()
    await asyncio.wait_for(registry.reload(), 5)
    assert names(registry) == ["b"]


async def test_a_reload_tells_what_was_added_removed_and_changed() -> None:
    shelf = Shelf("s.json", "same", "gone", "changed", "handled")
    registry = Registry([shelf])
    await registry.reload()
    shelf.put(
        "new",
        "same",
        offer("changed", "s.json", description="Other."),
        offer("handled", "s.json", handler=other_handler),
    )
    expected = Changes(added=("new",), removed=("gone",), changed=("changed", "handled"))
    assert (await registry.reload()).changes == expected
    assert not (await registry.reload()).changes


async def test_a_fixed_source_gives_the_same_tools_always() -> None:
    registry = Registry([FixedSource(name="builtin", offers=[offer("a", "a.py", "builtin")])])
    await registry.reload()
    assert not (await registry.reload()).changes
    assert names(registry) == ["a"]


# --- what is hidden


async def test_hidden_tools_are_neither_listed_nor_callable_but_known() -> None:
    registry = Registry(visibility=Visibility(blocked=["b*"]))
    registry.register(tool("a"), tool("b"))
    dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path("/"))
    assert (names(registry), list(registry.current.held)) == (["a"], ["a", "b"])
    with pytest.raises(UnknownToolError):
        await dispatcher.call("b")
    assert hidden(registry) == {"b": "blocked by 'b*' in tools.blocked"}
    assert registry.set_visibility(Visibility()) == Changes(added=("b",))
    assert (await dispatcher.call("b")).text == "ok"
    assert hidden(registry) == {}


def test_switches_and_rules_say_what_they_changed() -> None:
    registry = Registry(visibility=Visibility(allowed=["a", "b"]))
    assert registry.register(tool("a"), tool("b"), tool("c")) == Changes(added=("a", "b"))
    assert registry.apply_switches(frozenset({"a", "c"})) == Changes(removed=("a",))
    number = registry.current.number
    assert registry.apply_switches(frozenset({"a", "c"})) == Changes()
    assert registry.current.number == number
    assert registry.apply_switches(frozenset({"b"})) == Changes(added=("a",), removed=("b",))
    assert registry.set_visibility(Visibility(blocked=["a"])) == Changes(added=("b", "c"), removed=("a",))
    assert registry.apply_switches(frozenset()) == Changes()
    assert names(registry) == ["b", "c"]


async def test_a_hidden_tool_that_is_registered_or_changes_is_no_change_to_a_caller() -> None:
    shelf = Shelf("s.json", "b")
    registry = Registry([shelf], visibility=Visibility(allowed=["a"]))
    await registry.reload()
    assert registry.register(tool("c")) == Changes()
    shelf.put(offer("b", "s.json", description="Other."))
    assert not (await registry.reload()).changes
    assert registry.unregister("c") == Changes()


# --- who is told


class Ears:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.swaps: list[Swap] = []

    def __call__(self, swap: Swap) -> None:
        self.swaps.append(swap)

    @property
    def numbers(self) -> list[int]:
        return [swap.generation.number for swap in self.swaps]


async def test_listeners_are_told_of_the_first_generation_and_of_what_changed() -> None:
    shelf, ears = Shelf("s.json"), Ears()
    registry = Registry([shelf])
    registry.subscribe(ears)
    await registry.reload()
    await registry.reload()
    shelf.put("a")
    await registry.reload()
    registry.register(tool("b"))
    assert ears.numbers == [1, 3, 4]
    assert [swap.changes for swap in ears.swaps] == [Changes(), Changes(added=("a",)), Changes(added=("b",))]


async def test_listeners_are_told_when_only_what_is_set_aside_changed() -> None:
    shelf, ears = Shelf("s.json", "a"), Ears()
    registry = Registry([shelf])
    await registry.reload()
    registry.subscribe(ears)
    shelf.error = OSError("gone")
    await registry.reload()
    await registry.reload()
    shelf.error = None
    await registry.reload()
    assert [(bool(swap.changes), len(swap.problems)) for swap in ears.swaps] == [(False, 1), (False, 0)]


def test_a_listener_that_raises_stops_neither_the_others_nor_the_change(caplog: pytest.LogCaptureFixture) -> None:
    def broken(swap: Swap) -> None:
        raise RuntimeError("deaf")

    registry, ears = Registry(), Ears()
    registry.subscribe(broken)
    registry.subscribe(ears)
    with caplog.at_level(logging.ERROR):
        assert registry.register(tool("a")) == Changes(added=("a",))
    assert (names(registry), ears.numbers) == (["a"], [1])
    (record,) = caplog.records
    assert record.getMessage() == "a listener failed on generation 1"
    assert record.exc_info is not None


def test_who_unsubscribes_is_told_no_more_even_while_the_others_are_told() -> None:
    registry, late = Registry(), Ears()
    ends: list[Any] = []
    registry.subscribe(lambda _: [end() for end in ends])  # pyright: ignore[reportArgumentType] - its answer is ignored
    ends.append(registry.subscribe(late))
    registry.register(tool("a"))
    assert late.numbers == []


def test_a_subscription_ends_once_and_ends_no_other() -> None:
    registry, ears = Registry(), Ears()
    first, second = registry.subscribe(ears), registry.subscribe(ears)
    registry.register(tool("a"))
    assert ears.numbers == [1, 1]
    first()
    first()
    registry.register(tool("b"))
    assert ears.numbers == [1, 1, 2]
    second()
    registry.register(tool("c"))
    assert ears.numbers == [1, 1, 2]


def test_a_listener_that_changes_the_registry_keeps_the_order_for_everybody() -> None:
    registry, ears = Registry(), Ears()

    def add_another(swap: Swap) -> None:
        if "b" not in swap.generation.held:
            registry.register(tool("b"))
            assert names(registry) == ["a", "b"]

    registry.subscribe(add_another)
    registry.subscribe(ears)
    registry.register(tool("a"))
    assert ears.numbers == [1, 2]
    assert [swap.changes.added for swap in ears.swaps] == [("a",), ("b",)]


def test_who_subscribes_while_others_are_told_hears_of_the_next_one() -> None:
    registry, late = Registry(), Ears()
    registry.subscribe(lambda swap: None if late.swaps or len(ends) else ends.append(registry.subscribe(late)))
    ends: list[Any] = []
    registry.register(tool("a"))
    registry.register(tool("b"))
    assert late.numbers == [2]
