"""The reads for people, on SQLite and on Postgres: runs in lists and trees, the event log and messages from the end."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, message, run, thread
from toolstead.adapters.storage import log_queries
from toolstead.errors import NotFoundError
from toolstead.orchestrator.log_store import LogFilter, RunFilter
from toolstead.orchestrator.store import Store
from toolstead.types.event import DELTA, Event, NewEvent
from toolstead.types.run import Run

EVERYTHING = LogFilter()


@pytest.fixture
async def store(place: Place) -> Store:
    return await place.open()


async def accept(store: Store, name: str, project: str = "/own", **fields: object) -> Run:
    """A run in a thread of its own that has its name."""
    accepted = run(name, store.owner, id=name, **fields)
    await store.accept_message(message(name), accepted, thread=thread(name, project=project))
    return accepted


async def walk_back(store: Store, wanted: LogFilter = EVERYTHING, *, limit: int = 7) -> list[Event]:
    """All pages, from the newest on; oldest first."""
    found: list[Event] = []
    before: str | None = None
    while True:
        page = await store.read_event_log(wanted, before=before, limit=limit)
        assert len(page.events) <= limit
        found = [*page.events, *found]
        if page.before is None:
            return found
        assert before is None or page.before < before
        before = page.before


async def walk_on(store: Store, wanted: LogFilter = EVERYTHING, *, limit: int = 7) -> list[Event]:
    """All pages, from the oldest on."""
    found: list[Event] = []
    after: str | None = "0" * 16
    while True:
        page = await store.read_event_log(wanted, after=after, limit=limit)
        assert len(page.events) <= limit
        found += page.events
        if page.after == after:
            return found
        after = page.after


def texts(events: Sequence[Event]) -> list[tuple[str | None, str]]:
    """What was said: of each run its letters and its other events, in order, whatever the pieces are."""
    found: list[tuple[str | None, str]] = []
    for one in events:
        said = one.data["text"] if one.type == DELTA else [one.data["number"]]
        found += [(one.run_id, letter) for letter in said]
    return sorted(found, key=lambda one: one[0] or "")


async def test_runs_come_in_pages_and_are_chosen_by_all_that_is_said(store: Store) -> None:
    await accept(store, "first", prompt="p" * 300)
    await accept(store, "alien", project="/other")
    await accept(store, "second", prompt="p" * 301)
    await accept(store, "child", parent_run_id="second", root_run_id="second", task_id="task_1", depth=1)
    await store.end_run("first", ending("failed"))
    await store.end_run("second", ending(result="r" * 9_000))

    async def names(before: str | None = None, limit: int = 9, **wanted: object) -> list[str]:
        chosen = RunFilter(project="/own", **wanted)
        return [one.id for one in await store.list_run_page(chosen, limit=limit, before=before)]

    assert await names() == ["child", "second", "first"]
    assert await names(limit=2) == ["child", "second"]
    assert await names(before="second") == ["first"]
    assert await names(before="alien") == ["first"]
    assert await names(is_active=True) == ["child"]
    assert await names(is_active=False) == ["second", "first"]
    assert await names(status="failed") == ["first"]
    assert await names(are_roots=True) == ["second", "first"]
    assert await names(thread_id="second") == ["second"]
    assert await names(thread_id="alien") == []
    with pytest.raises(NotFoundError, match="nobody"):
        await names(before="nobody")
    child, second, first = await store.list_run_page(RunFilter(project="/own"))
    assert (len(first.prompt), first.prompt[-1]) == (300, "p")
    assert (len(second.prompt), second.prompt[-2:]) == (301, "p…")
    assert second.result == "r" * 300 + "…"
    assert (first.root_run_id, second.root_run_id, child.root_run_id) == ("first", "second", "second")


async def test_a_tree_of_a_thousand_runs_is_given_whole_and_its_events_page_by_page(store: Store) -> None:
    await accept(store, "root")
    await accept(store, "other")
    for number in range(999):
        await accept(store, f"run-{number}", parent_run_id="root", root_run_id="root", depth=1)
    names = ["root", *(f"run-{number}" for number in range(999))]
    assert [one.id for one in await store.list_run_tree("root", project="/own")] == names
    assert [one.id for one in await store.list_run_tree("root", limit=3)] == names[:3]
    assert await store.list_run_tree("root", project="/other") == []
    assert [await store.find_root(name) for name in ("run-5", "root", "task_1")] == ["root", "root", "task_1"]

    numbers = iter(range(10_000))
    stored = await store.append_events(
        [event("usage", data={"number": next(numbers)}, thread_id=name, run_id=name) for name in [*names, "other"] * 3]
    )
    tree = LogFilter(root_run_id="root")
    wanted = [one.id for one in stored if one.run_id != "other"]
    assert [one.id for one in await walk_back(store, tree, limit=500)] == wanted
    assert [one.id for one in await walk_on(store, tree, limit=500)] == wanted


async def test_each_event_is_in_one_page_however_its_deltas_are_joined_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_queries, "LOOKED_AT", 10)
    chance = random.Random(7)
    runs = [await accept(store, f"run-{number}", root_run_id="run-0" if number else None) for number in range(4)]
    told: list[NewEvent] = []
    for number in range(300):
        of = chance.choice(runs)
        kind, data = (DELTA, {"text": f"{number:03}"}) if chance.random() < 0.7 else ("usage", {"number": f"{number}"})
        told.append(event(kind, data=data, thread_id=of.thread_id, run_id=of.id))
    stored = await store.append_events(told)
    tree = LogFilter(root_run_id="run-0")
    filters = [EVERYTHING, tree, LogFilter(run_id="run-1"), LogFilter(types=frozenset({DELTA}), root_run_id="run-0")]

    def expected(wanted: LogFilter) -> list[tuple[str | None, str]]:
        return texts(
            [
                one
                for one in stored
                if wanted.run_id in (None, one.run_id) and (wanted.types is None or one.type in wanted.types)
            ]
        )

    for wanted in filters:
        assert [one.id for one in await walk_back(store, wanted)] == [one.id for one in await walk_on(store, wanted)]
    halfway = await store.read_event_log(tree, limit=150)
    for ended in runs[:3]:
        await store.end_run(ended.id, ending())
    for wanted in filters:
        assert texts(await walk_back(store, wanted)) == expected(wanted), wanted
        assert texts(await walk_on(store, wanted)) == expected(wanted), wanted
    # A reader that had the newest half before the runs ended gets the other half, and nothing of the first.
    rest: list[Event] = []
    before = halfway.before
    while before is not None:
        page = await store.read_event_log(tree, before=before, limit=50)
        rest, before = [*page.events, *rest], page.before
    assert texts([*rest, *halfway.events]) == expected(tree)


async def test_a_page_looks_at_a_bounded_number_of_events_in_search_of_a_type_or_a_tool(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_queries, "LOOKED_AT", 50)
    await accept(store, "root")
    common = [event("usage", data={"number": number}, run_id="root") for number in range(120)]
    called = event("tool_use", data={"callId": "c", "name": 'grep "ü"', "input": {}}, run_id="root")
    mentioned = event("tool_use", data={"callId": "d", "name": "echo", "input": {"name": 'grep "ü"'}}, run_id="root")
    stored = await store.append_events([called, mentioned, *common])
    for wanted in (
        LogFilter(types=frozenset({"tool_use", "error"})),
        LogFilter(types=frozenset({"tool_use"}), run_id="root"),
        LogFilter(types=frozenset({"tool_use"}), root_run_id="root"),
    ):
        page = await store.read_event_log(wanted)
        assert (page.events, page.before) == ([], stored[-50].id)
        page = await store.read_event_log(wanted, after=stored[1].id)
        assert (page.events, page.after) == ([], stored[51].id)
        assert [one.id for one in await walk_back(store, wanted)] == [one.id for one in stored[:2]]
        assert [one.id for one in await walk_on(store, wanted)] == [one.id for one in stored[:2]]
    assert [one.id for one in await walk_back(store, LogFilter(tool='grep "ü"'))] == [stored[0].id]
    assert await walk_back(store, LogFilter(tool='grep "ü"', types=frozenset({"usage"}))) == []


async def test_a_page_of_large_events_ends_early_on_the_side_that_goes_on(store: Store) -> None:
    large = [event("usage", data={"number": number, "x": "x" * 3_000_000}) for number in range(5)]
    stored = await store.append_events(large)
    page = await store.read_event_log(EVERYTHING)
    assert ([one.id for one in page.events], page.before) == ([one.id for one in stored[3:]], stored[3].id)
    page = await store.read_event_log(EVERYTHING, after="0" * 16)
    assert ([one.id for one in page.events], page.after) == ([one.id for one in stored[:2]], stored[1].id)
    assert [one.id for one in await walk_back(store)] == [one.id for one in stored]
