"""What every store promises, on SQLite and on Postgres alike. Other processes: `test_store_processes`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, lost, message, new_id, run, thread
from toolstead.errors import NotFoundError, RowRefusedError, StorageError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store
from toolstead.types.event import NewEvent
from toolstead.types.plugin_row import PluginRow
from toolstead.types.result import KeptResult
from toolstead.types.run import NOTHING_USED, RunError, Usage
from toolstead.types.thread import ThreadFilter

ALL = EventFilter()


class TestThreads:
    async def test_a_thread_is_kept_whole(self, store: Store) -> None:
        kept = thread(
            title="On birds ✓",
            agent="main",
            runtime="kernel",
            model="m",
            parent_thread_id="p",
            session_id="s",
            created_at=12.25,
        )
        await store.create_thread(kept)
        assert await store.read_thread(kept.id) == kept

    async def test_a_thread_that_is_there_stays_as_it_is(self, store: Store) -> None:
        first = thread("t", title="first")
        await store.create_thread(first)
        await store.create_thread(replace(first, title="second"))
        assert (await store.read_thread("t")).title == "first"

    async def test_an_unknown_thread_is_named(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match=r"^no thread 'nobody'$"):
            await store.read_thread("nobody")

    async def test_threads_come_newest_first_and_in_pages(self, store: Store) -> None:
        for name in "abcde":
            await store.create_thread(thread(name))
        first = await store.list_threads(limit=2)
        second = await store.list_threads(limit=2, before=first[-1].id)
        rest = await store.list_threads(before=second[-1].id)
        assert [[one.id for one in page] for page in (first, second, rest)] == [["e", "d"], ["c", "b"], ["a"]]

    async def test_a_thread_that_is_used_again_comes_first_and_says_how_it_stands(self, store: Store) -> None:
        for name in "abc":
            await store.create_thread(thread(name, created_at=5.0))
        for name in "ab":
            await store.accept_message(message(name), run(name, store.owner, id=f"run_{name}"))
        begun = await store.read_run("run_a")
        await store.begin_run(begun, 1500.0)
        await store.end_run("run_a", ending("failed", ended_at=1600.0))
        found = [(one.id, one.status, one.used_at) for one in await store.list_threads()]
        assert found == [("b", "queued", 1000.0), ("a", "failed", 1600.0), ("c", None, 5.0)]
        assert [one.id for one in await store.list_threads(before="b")] == ["a", "c"]

    async def test_threads_are_chosen_by_project_parent_and_beginning(self, store: Store) -> None:
        await store.create_thread(thread("t_a", project="/p"))
        await store.create_thread(thread("t_b", project="/p", parent_thread_id="t_a"))
        await store.create_thread(thread("txa", project="/q"))
        await store.create_thread(thread("old"))

        async def found(**chosen: Any) -> list[str]:
            return [one.id for one in await store.list_threads(ThreadFilter(**chosen))]

        assert await found(project="/p") == ["t_b", "t_a"]
        assert await found(project="/p", are_roots=True) == ["t_a"]
        assert await found(are_roots=True) == ["old", "txa", "t_a"]
        assert await found(prefix="t_") == ["t_b", "t_a"]
        assert await found(prefix="T_") == []

    async def test_a_page_after_an_unknown_thread_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="'gone'"):
            await store.list_threads(before="gone")

    async def test_a_thread_is_changed_only_where_it_is_said(self, store: Store) -> None:
        await store.create_thread(thread("t", title="old", agent="a", session_id="s"))
        changed = await store.update_thread("t", title="new", session_id=None)
        assert (changed.title, changed.agent, changed.session_id) == ("new", "a", None)
        assert await store.read_thread("t") == changed
        assert await store.update_thread("t") == changed

    async def test_what_cannot_be_changed_is_named(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        with pytest.raises(ValueError, match="created_at cannot be changed; agent, model"):
            await store.update_thread("t", created_at="5")
        with pytest.raises(NotFoundError):
            await store.update_thread("nobody", title="x")

    async def test_a_deleted_thread_takes_everything_with_it_and_nothing_else(self, store: Store) -> None:
        for name in ("gone", "stays"):
            told = [event(thread_id=name), event(run_id=f"run-{name}")]
            asked = run(name, store.owner, id=f"run-{name}")
            await store.accept_message(message(name), asked, idempotency_key="k", events=told)
        await store.delete_thread("gone")

        with pytest.raises(NotFoundError):
            await store.read_thread("gone")
        with pytest.raises(NotFoundError):
            await store.read_run("run-gone")
        assert await store.list_messages("gone") == []
        assert {(one.thread_id, one.run_id) for one in await store.list_events(ALL)} == {
            ("stays", None),
            (None, "run-stays"),
        }
        again = await store.accept_message(message("gone"), run("gone", store.owner), idempotency_key="k")
        kept = await store.accept_message(message("stays"), run("stays", store.owner), idempotency_key="k")
        assert (again.fresh, kept.fresh) == (True, False)
        with pytest.raises(NotFoundError, match="'nobody'"):
            await store.delete_thread("nobody")


class TestMessages:
    async def test_messages_come_in_the_order_they_were_stored(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        said = [message("t", text, kind="result", run_id="r") for text in ("one", "two", "three")]
        said[1] = replace(said[1], id="0-earlier-than-all")
        for one in said:
            await store.add_message(one)
        assert await store.list_messages("t") == said
        assert await store.list_messages("t", limit=2) == said[1:]
        assert await store.list_messages("t", limit=0) == []
        assert await store.list_messages("nobody") == []

    async def test_messages_come_in_pages_by_number_and_by_bytes(self, store: Store) -> None:
        for name in ("t", "other"):
            await store.create_thread(thread(name))
        said = [message("t", text) for text in ("a", "é" * 600, "b" * 300, "c", "d" * 5_000, "e" * 5_000, "f")]
        for one in said:
            await store.add_message(one)
            await store.add_message(message("other", "x" * 2_000))

        async def page(after: int | None = None, **bounds: int) -> tuple[list[str], bool]:
            last = None if after is None else said[after].id
            found = await store.list_message_page("t", after=last, **bounds)
            return [one.content[:1] for one in found.messages], found.has_more

        assert (await store.list_message_page("t")).messages == said
        assert await page() == (list("aébcdef"), False)
        assert await page(limit=7) == (list("aébcdef"), False)
        assert await page(limit=3) == (list("aéb"), True)
        assert await page(2, limit=3) == (list("cde"), True)
        assert await page(5, limit=3) == (["f"], False)
        assert await page(6, limit=3) == ([], False)
        assert await page(max_bytes=1_201) == (list("aé"), True), "a letter with an accent has two bytes"
        assert await page(max_bytes=1_200) == (["a"], True)
        assert await page(3, max_bytes=1_000) == (["d"], True), "one that is too large comes alone"
        assert await page(4, max_bytes=5_001) == (list("ef"), False)
        assert (await store.list_message_page("nobody")).messages == []
        foreign = (await store.list_messages("other"))[0].id
        for after in (foreign, "nobody"):
            with pytest.raises(NotFoundError, match=f"no message '{after}'"):
                await store.list_message_page("t", after=after)

    async def test_a_message_for_no_thread_is_refused_with_its_events(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no thread 'nobody'"):
            await store.add_message(message("nobody"), [event()])
        assert await store.list_events(ALL) == []

    async def test_a_message_comes_with_its_events(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        told = (await store.add_message(message("t"), [event("message", thread_id="t", data={"x": [1, None]})])).events
        assert await store.list_events(ALL) == told

    async def test_a_message_is_stored_once(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        first = message("t")
        await store.add_message(first)
        with pytest.raises(StorageError, match="does not take this row"):
            await store.add_message(replace(first, content="other"), [event()])
        assert await store.list_messages("t") == [first]
        assert await store.list_events(ALL) == []

    async def test_what_no_database_can_hold_is_replaced_by_a_mark(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        odd = "a\0b\ud800c 🐦 é"
        await store.add_message(message("t", odd), [event(data={"text": odd, "list": [odd], odd: 1})])
        assert [one.content for one in await store.list_messages("t")] == ["a\ufffdb\ufffdc 🐦 é"]
        (stored,) = await store.list_events(ALL)
        assert stored.data["list"] == ["a\ufffdb\ufffdc 🐦 é"]
        await store.append_events([event(data={"text": "a\0b"})])
        assert (await store.list_events(ALL))[-1].data == {"text": "a\0b"}  # JSON has a way to write it

    async def test_a_long_message_is_kept_whole(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        await store.add_message(message("t", "long ✓ " * 200_000))
        assert (await store.list_messages("t"))[0].content == "long ✓ " * 200_000


class TestRuns:
    async def test_a_message_and_its_run_are_accepted_together(self, store: Store) -> None:
        said = message("new")
        asked = run("new", store.owner, prompt="do", agent="a", runtime="r", model="m", parent_run_id="p")
        accepted = await store.accept_message(said, asked, events=[event(thread_id="new", run_id=asked.id)])
        assert (accepted.message_id, accepted.run_id, accepted.fresh) == (said.id, asked.id, True)
        assert await store.list_messages("new") == [said]
        assert await store.read_run(asked.id) == asked
        assert await store.list_events(ALL) == accepted.events
        made = await store.read_thread("new")
        assert (made.created_at, made.agent, made.runtime, made.model) == (said.created_at, "a", "r", "m")

    async def test_a_thread_that_is_there_is_not_changed_by_a_message(self, store: Store) -> None:
        there = thread("t", title="mine", agent="own")
        await store.create_thread(there)
        await store.accept_message(message("t"), run("t", store.owner, agent="other"))
        assert await store.read_thread("t") == there

    async def test_a_message_and_a_run_of_two_threads_are_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="must be of one thread"):
            await store.accept_message(message("one"), run("two", store.owner))

    async def test_a_key_that_was_used_gives_what_it_was_used_for(self, store: Store) -> None:
        first = await store.accept_message(message("t"), run("t", store.owner), idempotency_key="k", events=[event()])
        second = await store.accept_message(message("t"), run("t", store.owner), idempotency_key="k", events=[event()])
        assert (second.message_id, second.run_id) == (first.message_id, first.run_id)
        assert (second.fresh, list(second.events)) == (False, [])
        other = await store.accept_message(message("u"), run("u", store.owner), idempotency_key="k")
        assert other.fresh
        assert len(await store.list_messages("t")) == len(await store.list_events(ALL)) == 1

    async def test_of_equal_keys_at_once_one_is_fresh(self, store: Store) -> None:
        posts = [
            store.accept_message(message("t"), run("t", store.owner), idempotency_key=f"k{number % 5}")
            for number in range(100)
        ]
        accepted = await asyncio.gather(*posts)
        assert sum(one.fresh for one in accepted) == len({one.run_id for one in accepted}) == 5
        assert len(await store.list_messages("t")) == len(await store.list_runs(thread_id="t")) == 5

    async def test_a_run_begins_once(self, store: Store) -> None:
        asked = run("t", store.owner)
        await store.accept_message(message("t"), asked)
        begun = await asyncio.gather(*(store.begin_run(asked, 1500.0, [event("run.started")]) for _ in range(5)))
        assert sorted(one is None for one in begun) == [False, True, True, True, True]
        assert await store.read_run(asked.id) == replace(asked, status="running", started_at=1500.0)
        assert len(await store.list_events(ALL)) == 1

    async def test_a_run_gets_its_end_once_with_answer_and_event(self, store: Store) -> None:
        asked = run("t", store.owner)
        await store.accept_message(message("t"), asked)
        await store.begin_run(asked, 1500.0)
        answer = message("t", "done", "assistant", run_id=asked.id)
        used = Usage(input_tokens=3, output_tokens=2**40, cost=0.125)
        good = ending(result="done", usage=used, answer=answer, session_id="s2", events=[event("completed")])
        bad = ending("failed", [event("error")], error=RunError(code="x", message="why"), answer=message("t"))
        first, second, third = await asyncio.gather(
            store.end_run(asked.id, good), store.end_run(asked.id, bad), store.begin_run(asked, 1.0, [event()])
        )
        assert (first is None, second, third) == (False, None, None)
        assert await store.read_run(asked.id) == replace(
            asked, status="completed", started_at=1500.0, ended_at=2000.0, result="done", usage=used
        )
        assert [one.type for one in await store.list_events(ALL)] == ["completed"]
        assert (await store.list_messages("t"))[1:] == [answer]
        assert (await store.read_thread("t")).session_id == "s2"

    async def test_a_failed_run_says_why(self, store: Store) -> None:
        asked = run("t", store.owner)
        await store.accept_message(message("t"), asked)
        why = RunError(code="timeout", message="it took too long")
        assert await store.end_run(asked.id, ending("timeout", error=why)) == []
        ended = await store.read_run(asked.id)
        assert (ended.status, ended.error, ended.usage, ended.has_ended) == ("timeout", why, NOTHING_USED, True)

    async def test_a_run_that_is_gone_neither_begins_nor_ends(self, store: Store) -> None:
        assert await store.begin_run(run("t", store.owner), 1.0, [event()]) is None
        assert await store.end_run("nobody", ending(events=[event()])) is None
        assert await store.list_events(ALL) == []
        with pytest.raises(NotFoundError, match="no run 'nobody'"):
            await store.read_run("nobody")

    async def test_an_answer_for_no_thread_is_refused_and_the_run_goes_on(self, store: Store) -> None:
        asked = run("t", store.owner)
        await store.accept_message(message("t"), asked)
        with pytest.raises(StorageError, match="does not take this row"):
            await store.end_run(asked.id, ending(answer=message("nowhere"), events=[event()]))
        assert not (await store.read_run(asked.id)).has_ended
        assert await store.list_events(ALL) == []

    async def test_runs_come_newest_first_by_thread_and_unfinished(self, store: Store) -> None:
        asked = [run(name, store.owner) for name in ("t", "u", "t", "t")]
        for one in asked:
            await store.accept_message(message(one.thread_id), one)
        await store.end_run(asked[2].id, ending())
        assert [one.id for one in await store.list_runs()] == [one.id for one in reversed(asked)]
        of_thread = await store.list_runs(thread_id="t")
        assert [one.id for one in of_thread] == [asked[3].id, asked[2].id, asked[0].id]
        assert [one.id for one in await store.list_runs(thread_id="t", unfinished=True)] == [asked[3].id, asked[0].id]
        assert [one.id for one in await store.list_runs(unfinished=True, limit=1)] == [asked[3].id]


class TestRecovery:
    async def test_own_runs_and_those_of_a_living_store_are_left_alone(self, place: Place) -> None:
        first, second = await place.open(), await place.open()
        assert first.owner != second.owner
        for store in (first, second):
            await store.accept_message(message("t"), run("t", store.owner))
        assert await first.recover_runs(lost) == await second.recover_runs(lost) == []
        assert len(await first.list_runs(unfinished=True)) == 2

    async def test_runs_of_a_store_that_closed_are_ended_with_their_event(self, place: Place) -> None:
        first, second = await place.open(), await place.open()
        queued, running, done, living = (run("t", first.owner) for _ in range(4))
        living = replace(living, owner=second.owner)
        for one in (running, queued, done, living):
            await first.accept_message(message("t"), one)
        await first.begin_run(running, 1.0)
        await first.end_run(done.id, ending())
        await first.close()

        recovered = await second.recover_runs(lost)
        assert [one.id for one, _ in recovered] == [running.id, queued.id]
        for ended, told in recovered:
            assert await second.read_run(ended.id) == ended
            assert ended.status == "lost"
            assert await second.list_events(EventFilter(run_id=ended.id)) == told
            assert [one.type for one in told] == ["error"]
        assert not (await second.read_run(living.id)).has_ended
        assert await second.recover_runs(lost) == []

    async def test_two_that_recover_at_once_end_a_run_once(self, place: Place) -> None:
        dead, first, second = await place.open(), await place.open(), await place.open()
        asked = [run("t", dead.owner) for _ in range(20)]
        await asyncio.gather(*(dead.accept_message(message("t"), one) for one in asked))
        await dead.close()
        both = await asyncio.gather(first.recover_runs(lost), second.recover_runs(lost))
        ended = [one.id for part in both for one, _ in part]
        assert sorted(ended) == sorted(one.id for one in asked)
        assert len(await first.list_events(EventFilter(types=frozenset({"error"})))) == 20

    async def test_an_owner_that_is_alive_cannot_be_taken(self, place: Place) -> None:
        await place.open(owner="worker-1")
        with pytest.raises(StorageError, match=r"'worker-1'.*choose another"):
            await place.open(owner="worker-1")

    async def test_who_comes_back_under_its_old_name_recovers_what_it_left(self, place: Place) -> None:
        before = await place.open(owner="worker-1")
        old = run("t", "worker-1")
        await before.accept_message(message("t"), old)
        await before.close()
        after = await place.open(owner="worker-1")
        new = run("t", "worker-1")
        await after.accept_message(message("t"), new)
        assert [one.id for one, _ in await after.recover_runs(lost)] == [old.id]
        assert not (await after.read_run(new.id)).has_ended

    async def test_an_owner_that_is_no_plain_name_is_refused(self, place: Place) -> None:
        with pytest.raises(StorageError, match=r"'\.\./x' must be up to 100 letters"):
            await place.open(owner="../x")


class TestEvents:
    async def test_events_come_in_the_order_of_their_ids(self, store: Store) -> None:
        told = await store.append_events([event(str(number), data={"n": number}) for number in range(5)])
        told += await store.append_events([event("last", task_id="task", thread_id="t", run_id="r", time=5.5)])
        assert [one.id for one in told] == sorted({one.id for one in told})
        assert await store.list_events(ALL) == told
        assert await store.list_events(ALL, after=told[2].id) == told[3:]
        assert await store.list_events(ALL, after=told[1].id, limit=2) == told[2:4]
        assert await store.list_events(ALL, after=told[0].id, until=told[2].id) == told[1:3]
        assert await store.event_position() == told[-1].id
        assert await store.append_events([]) == []

    async def test_the_position_of_an_empty_log_is_before_every_event(self, store: Store) -> None:
        start = await store.event_position()
        told = await store.append_events([event("first")])
        assert start < told[0].id
        assert await store.list_events(ALL, after=start) == told
        assert await store.list_events(ALL, until=start) == []

    async def test_an_empty_log_has_no_events(self, store: Store) -> None:
        assert await store.list_events(ALL) == []

    async def test_events_are_filtered_by_everything_that_is_said(self, store: Store) -> None:
        await store.append_events(
            [
                event("a", thread_id="t", run_id="r"),
                event("b", thread_id="t", run_id="r"),
                event("a", thread_id="t"),
                event("a", task_id="k"),
            ]
        )
        stored = await store.list_events(ALL)
        for wanted, numbers in (
            (EventFilter(thread_id="t"), [0, 1, 2]),
            (EventFilter(run_id="r"), [0, 1]),
            (EventFilter(task_id="k"), [3]),
            (EventFilter(types=frozenset({"a"})), [0, 2, 3]),
            (EventFilter(thread_id="t", types=frozenset({"a", "x"})), [0, 2]),
            (EventFilter(run_id="r", types=frozenset({"b"})), [1]),
            (EventFilter(types=frozenset()), []),
        ):
            assert await store.list_events(wanted) == [stored[number] for number in numbers]

    @pytest.mark.parametrize("id", ["", "12", "x" * 16, "-000000000000001", "9" * 30, "١" * 16])
    async def test_what_never_was_an_id_is_refused(self, store: Store, id: str) -> None:
        with pytest.raises(NotFoundError, match="no event"):
            await store.list_events(ALL, after=id)

    async def test_ids_go_on_after_the_newest_were_deleted_and_the_store_reopened(self, place: Place) -> None:
        store = await place.open()
        await store.create_thread(thread("t"))
        first = await store.append_events([event(thread_id="t")])
        await store.delete_thread("t")
        await store.close()
        store = await place.open()
        second = await store.append_events([event()])
        assert first[0].id < second[0].id
        assert await store.list_events(ALL, after=first[0].id) == second

    async def test_a_reader_that_goes_on_after_its_last_id_misses_nothing(self, place: Place) -> None:
        stores = [await place.open() for _ in range(3)]
        done = asyncio.Event()
        seen: list[str] = []

        async def follow() -> None:
            while True:
                last_round = done.is_set()
                while page := await stores[2].list_events(ALL, after=seen[-1] if seen else None, limit=7):
                    seen.extend(one.id for one in page)
                if last_round:
                    return

        async def tell(number: int) -> None:
            for _ in range(10):
                await stores[number % 2].append_events([event(), event()])

        reader = asyncio.create_task(follow())
        await asyncio.gather(*(tell(number) for number in range(10)))
        done.set()
        await reader
        assert len(seen) == 200
        assert seen == sorted(set(seen)) == [one.id for one in await stores[0].list_events(ALL)]

    async def test_what_is_changed_after_telling_is_not_stored(self, store: Store) -> None:
        data = {"list": [1]}
        told = asyncio.create_task(store.append_events([NewEvent(type="x", time=1.0, data=data)]))
        await asyncio.sleep(0)
        data["list"].append(2)
        await told
        assert (await store.list_events(ALL))[0].data == {"list": [1]}

    async def test_data_that_is_no_json_is_refused_at_once(self, store: Store) -> None:
        with pytest.raises(TypeError, match="must be JSON"):
            await store.append_events([event(data={"x": object()})])


class TestKept:
    async def test_a_result_is_kept_by_its_handle(self, store: Store) -> None:
        whole = KeptResult(content=bytes(range(256)) * 1000, tool="reads", thread_id="t")
        await store.keep_result("h", whole)
        assert await store.read_result("h") == whole
        await store.keep_result("h", KeptResult(content=b""))
        assert await store.read_result("h") == KeptResult(content=b"")
        with pytest.raises(NotFoundError, match="no result 'x'"):
            await store.read_result("x")

    async def test_what_is_set_of_a_plugin_is_replaced_only_by_who_knows_it(self, store: Store) -> None:
        assert await store.list_plugins() == {}
        off, both = PluginRow(enabled=False), PluginRow(enabled=False, settings={"model": "haiku", "n": [1]})
        assert await store.replace_plugin("a", PluginRow(), off)
        assert not await store.replace_plugin("a", PluginRow(), PluginRow(enabled=True))
        assert await store.replace_plugin("a", off, both)
        assert not await store.replace_plugin("a", off, PluginRow(enabled=True))
        assert await store.replace_plugin("b", PluginRow(), PluginRow(settings={}))
        assert not await store.replace_plugin("c", off, both)
        assert await store.replace_plugin("c", PluginRow(), PluginRow())
        assert await store.list_plugins() == {"a": both, "b": PluginRow(settings={})}
        assert (await store.list_plugins())["a"].enabled is False
        assert await store.replace_plugin("a", both, PluginRow(settings=both.settings))
        assert (await store.list_plugins())["a"] == PluginRow(settings=both.settings)
        assert await store.replace_plugin("b", PluginRow(settings={}), PluginRow())
        assert (await store.reset_plugin("a"), await store.reset_plugin("a")) == (True, False)
        assert await store.list_plugins() == {}

    async def test_of_many_who_change_a_plugin_at_once_each_change_is_kept(self, place: Place) -> None:
        stores = [await place.open() for _ in range(4)]

        async def count(store: Store, key: str) -> int:
            attempts = 0
            for number in range(10):
                while True:
                    attempts += 1
                    before = (await store.list_plugins()).get("p", PluginRow())
                    after = PluginRow(settings={**(before.settings or {}), f"{key}-{number}": 1})
                    if await store.replace_plugin("p", before, after):
                        break
            return attempts

        attempts = await asyncio.gather(*(count(store, str(n)) for n, store in enumerate(stores)))
        kept = (await stores[0].list_plugins())["p"].settings
        assert sorted(kept or {}) == sorted(f"{n}-{number}" for n in range(4) for number in range(10))
        assert sum(attempts) > 40, "nobody met anybody"

    async def test_a_plugin_has_a_space_of_its_own(self, store: Store) -> None:
        await store.set_value("one", "k", b"\0\xff")
        await store.set_value("two", "k", b"2")
        await store.set_value("one", "k", b"")
        assert [await store.get_value(space, "k") for space in ("one", "two", "three")] == [b"", b"2", None]
        assert (await store.delete_value("one", "k"), await store.delete_value("one", "k")) == (True, False)
        assert await store.get_value("two", "k") == b"2"

    async def test_keys_are_found_by_their_exact_beginning(self, store: Store) -> None:
        for key in ("a_1", "a%2", "A_3", "aé", "b", "é"):
            await store.set_value("s", key, b"")
        assert await store.list_keys("s") == ["A_3", "a%2", "a_1", "aé", "b", "é"]
        assert await store.list_keys("s", "a") == ["a%2", "a_1", "aé"]
        assert await store.list_keys("s", "a_") == ["a_1"]
        assert await store.list_keys("s", "é") == ["é"]
        assert await store.list_keys("other") == []


class TestExpiry:
    async def test_old_events_go_but_not_those_of_an_unfinished_run(self, store: Store) -> None:
        open_run, done = run("t", store.owner), run("t", store.owner)
        for one in (open_run, done):
            await store.accept_message(message("t"), one, events=[event("old", run_id=one.id, time=10.0)])
        await store.end_run(done.id, ending(events=[event("new", run_id=done.id, time=100.0)]))
        await store.append_events([event("old", time=10.0), event("new", time=50.0)])
        assert await store.expire_rows(50.0, ["events"]) == 2
        assert [(one.type, one.run_id) for one in await store.list_events(ALL)] == [
            ("old", open_run.id),
            ("new", done.id),
            ("new", None),
        ]

    async def test_more_than_one_step_expires(self, store: Store) -> None:
        await store.append_events([event(time=10.0) for _ in range(4_500)])
        assert await store.expire_rows(11.0) == 4_500
        assert await store.list_events(ALL) == []

    async def test_old_results_and_keys_go(self, store: Store) -> None:
        await store.keep_result("h", KeptResult(content=b"x"))
        asked = run("t", store.owner)
        await store.accept_message(message("t", created_at=10.0), asked, idempotency_key="k")
        assert await store.expire_rows(5_000_000_000.0, ["keys"]) == 0  # its run is unfinished
        await store.end_run(asked.id, ending())
        assert await store.expire_rows(5.0) == 0
        assert await store.expire_rows(5_000_000_000.0, ["results"]) == 1
        assert await store.expire_rows(5_000_000_000.0, ["keys"]) == 1
        with pytest.raises(NotFoundError):
            await store.read_result("h")
        assert (await store.accept_message(message("t"), run("t", store.owner), idempotency_key="k")).fresh

    async def test_what_does_not_expire_is_named(self, store: Store) -> None:
        with pytest.raises(ValueError, match="threads do not expire; approvals, events, keys, results, steps do"):
            await store.expire_rows(1.0, ["threads"])


class TestWriting:
    async def test_hundreds_of_conversations_at_once_are_all_kept(self, store: Store) -> None:
        async def converse(name: str) -> None:
            for _ in range(2):
                asked = run(name, store.owner)
                assert (await store.accept_message(message(name), asked, events=[event(run_id=asked.id)])).fresh
                assert await store.begin_run(asked, 1.0, [event(run_id=asked.id)]) is not None
                answer = message(name, "done", "assistant")
                assert await store.end_run(asked.id, ending(answer=answer, events=[event(run_id=asked.id)])) is not None

        names = [new_id("thread") for _ in range(200)]
        await asyncio.gather(*(converse(name) for name in names))
        assert await store.list_runs(unfinished=True) == []
        for name in names[::20]:
            assert len(await store.list_messages(name)) == 4
        assert len({one.id for one in await store.list_events(ALL, limit=5_000)}) == 1_200

    async def test_one_that_fails_fails_alone_and_order_is_kept(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        twice = message("t", "first")
        await store.add_message(twice)
        special: dict[int, Coroutine[Any, Any, Any]] = {
            7: store.add_message(twice, [event("refused by the database")]),
            23: store.add_message(message("nobody"), [event("refused by us")]),
            31: store.set_value("s", "k", b"v"),
        }
        writes = [
            special.get(number) or store.add_message(message("t", str(number)), [event(str(number))])
            for number in range(40)
        ]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert {number: type(one) for number, one in enumerate(outcomes) if isinstance(one, Exception)} == {
            7: RowRefusedError,
            23: NotFoundError,
        }
        kept = [str(number) for number in range(40) if number not in {7, 23, 31}]
        assert [one.content for one in await store.list_messages("t")] == ["first", *kept]
        assert [one.type for one in await store.list_events(ALL)] == kept
        assert await store.get_value("s", "k") == b"v"

    async def test_a_value_that_the_driver_refuses_fails_alone(self, store: Store) -> None:
        outcomes = await asyncio.gather(
            store.append_events([event("a")]),
            store.set_value("s", "k", cast("bytes", object())),
            store.create_thread(thread("bad \ud800 id")),
            store.append_events([event("b")]),
            return_exceptions=True,
        )
        assert [isinstance(one, Exception) for one in outcomes] == [False, True, True, False], outcomes
        assert {type(one) for one in outcomes[1:3]} == {RowRefusedError}
        assert "does not take this row" in str(outcomes[1])
        assert [one.type for one in await store.list_events(ALL)] == ["a", "b"]

    async def test_a_write_whose_caller_stops_waiting_is_written(self, store: Store) -> None:
        await store.create_thread(thread("t"))
        waiting = asyncio.create_task(store.add_message(message("t")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await store.create_thread(thread("later"))
        assert len(await store.list_messages("t")) == 1

    async def test_what_was_submitted_before_closing_is_kept_and_later_writes_are_refused(self, place: Place) -> None:
        store = await place.open()
        writes = [asyncio.create_task(store.append_events([event()])) for _ in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*writes)
        with pytest.raises(StorageError, match="is closed here; what is written"):
            await store.append_events([event()])
        with pytest.raises(StorageError, match="is closed here; open it again"):
            await store.list_events(ALL)
        assert len(await (await place.open()).list_events(ALL)) == 20


async def test_events_come_in_pages_that_are_bounded_in_bytes(store: Store) -> None:
    texts = ["small", *["x" * 3_900_000] * 5, "y" * 9_000_000, "last"]
    await store.append_events([NewEvent(type="message", time=1.0, data={"text": text}) for text in texts])
    found: list[str] = []
    pages: list[int] = []
    after: str | None = None
    while True:
        page = await store.list_events(EventFilter(), after=after, limit=100)
        pages.append(len(page))
        found.extend(event.data["text"] for event in page)
        if page.is_last:
            break
        after = page[-1].id
    assert found == texts
    assert pages == [3, 2, 1, 1, 1]
