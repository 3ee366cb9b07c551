"""A thread that two orchestrators on one database share: turns, ends, sessions. See `test_two_processes`, too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.flows.talking import World, bounded, talking
from tests.unit.invoker.bench import BenchRuntime, Gate
from toolstead.adapters.storage.store import open_store
from toolstead.errors import StorageError
from toolstead.orchestrator import recovery
from toolstead.types.run import Run
from toolstead.types.thread import Message, Thread


async def looked(world: World) -> None:
    """Wait until somebody in this world looks at a run that it does not hold."""
    async with asyncio.timeout(30):
        while not world.store.asked["read_run"]:
            await asyncio.sleep(0.01)


async def test_a_run_that_waits_for_another_process_can_be_cancelled_and_its_time_does_not_run(tmp_path: Path) -> None:
    async with (
        talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as one,
        talking(tmp_path, BenchRuntime()) as other,
    ):
        running = await one.post("first")
        await bounded(gate.begun.wait())
        cancelled, patient = await other.post("cancelled"), await other.post("patient", timeout=0.2)
        await looked(other)
        assert (await other.store.read_run(cancelled)).status == "queued"
        assert (await bounded(other.orchestrator.cancel(cancelled))).status == "cancelled"
        seen = other.store.asked["read_run"]
        async with asyncio.timeout(30):
            while other.store.asked["read_run"] < seen + 6:  # much longer than it may take
                await asyncio.sleep(0.01)
        gate.let.set()
        assert (await one.end_of(running)).status == "completed"
        assert (await other.end_of(patient)).status == "completed"
        for run_id in (running, cancelled, patient):
            await other.check_end(run_id)


async def test_closing_does_not_wait_for_another_process(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as one:
        running = await one.post("first")
        await bounded(gate.begun.wait())
        async with talking(tmp_path, BenchRuntime()) as other:
            waiting = await other.post("second")
            await looked(other)
        assert (await one.store.read_run(waiting)).status == "stopped"
        gate.let.set()
        assert (await one.end_of(running)).status == "completed"


async def test_the_end_of_another_processs_run_is_waited_for(tmp_path: Path) -> None:
    async with (
        talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as one,
        talking(tmp_path, BenchRuntime()) as other,
    ):
        running = await one.post("first")
        await bounded(gate.begun.wait())
        ending = asyncio.create_task(other.orchestrator.wait(running))
        await looked(other)
        assert not ending.done()
        gate.let.set()
        assert (await bounded(ending)).result == "let"


async def test_a_run_whose_process_died_is_found_as_lost_by_whoever_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RECOVER_SECONDS", 1000)
    dead = await open_store(tmp_path / "toolstead.db")
    async with talking(tmp_path, BenchRuntime()) as world:
        run = Run(id="run_1", thread_id="t", prompt="Hi", created_at=1.0, owner=dead.owner)
        message = Message(id="msg_1", thread_id="t", role="user", content="Hi", created_at=1.0, run_id="run_1")
        await dead.accept_message(message, run)
        behind = await world.post("behind")
        await looked(world)
        await dead.close()  # it went without a word
        assert (await world.end_of("run_1")).status == "lost"
        assert (await world.end_of(behind)).status == "completed"


async def test_cancelling_a_run_whose_process_died_finds_it_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RECOVER_SECONDS", 1000)
    dead = await open_store(tmp_path / "toolstead.db")
    async with talking(tmp_path, BenchRuntime()) as world:
        run = Run(id="run_1", thread_id="t", prompt="Hi", created_at=1.0, owner=dead.owner)
        message = Message(id="msg_1", thread_id="t", role="user", content="Hi", created_at=1.0, run_id="run_1")
        await dead.accept_message(message, run)
        cancelling = asyncio.create_task(world.orchestrator.cancel("run_1"))
        async with asyncio.timeout(30):
            while ("store", "add_command") not in world.noted:
                await asyncio.sleep(0.01)
        assert [one.kind for one in await dead.list_commands()] == ["cancel"]
        await dead.close()  # it went without a word
        assert (await bounded(cancelling)).status == "lost"


async def test_a_conversation_that_went_on_elsewhere_is_resumed_as_the_store_has_it(tmp_path: Path) -> None:
    ours, theirs = BenchRuntime(), BenchRuntime()
    async with talking(tmp_path, ours) as one, talking(tmp_path, theirs) as other:
        await one.ask("1")
        await one.ask("2")
        assert one.hooks.warmth == ["cold", "warm"]
        theirs.lost.add("id-1")
        await other.store.update_thread("t", session_id="bench:theirs")  # as a runtime that changes its ids
        await other.ask("3")
        await one.ask("4")
        assert (one.hooks.warmth[2:], ours.resumes) == (["resumed"], [None, "theirs"])
        assert [session.turns for session in ours.sessions] == [["1", "2"], ["4"]]
        assert ours.sessions[0].closes == 1
        await one.ask("5")
        assert one.hooks.warmth[3:] == ["warm"]


async def test_a_message_that_came_before_the_other_process_was_done_is_resumed_as_the_store_has_it(
    tmp_path: Path,
) -> None:
    ours, theirs = BenchRuntime(), BenchRuntime(act=(gate := Gate()))
    async with talking(tmp_path, ours) as one, talking(tmp_path, theirs) as other:
        await one.ask("1")
        await other.post("2")
        await bounded(gate.begun.wait())
        waiting = [await one.post("3"), await one.post("4")]
        await looked(one)
        await other.store.update_thread("t", session_id="bench:theirs")
        gate.let.set()
        for run_id in waiting:
            await one.end_of(run_id)
        assert (one.hooks.warmth, ours.resumes) == (["cold", "resumed", "warm"], [None, "theirs"])


async def test_a_session_opened_ahead_is_kept_unless_the_conversation_goes_on_elsewhere(tmp_path: Path) -> None:
    ours = BenchRuntime()
    async with talking(tmp_path, ours) as one, talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as other:
        gate.let.set()
        await other.ask("1")
        assert await bounded(one.orchestrator.prewarm("t")) == (True, "bench")
        await one.ask("2")
        assert (one.hooks.warmth, len(ours.sessions)) == (["warm"], 1)  # what was opened ahead is used
        await other.ask("3")
        assert await bounded(one.orchestrator.prewarm("t")) == (True, "bench")
        assert (len(ours.sessions), ours.sessions[0].closes) == (2, 1)  # the one that missed a message is not taken
        await other.ask("4")
        await one.ask("5")
        assert (one.hooks.warmth[1:], len(ours.sessions)) == (["resumed"], 3)
        gate.let.clear()
        gate.begun.clear()
        running = await other.post("6")
        await bounded(gate.begun.wait())
        assert await bounded(one.orchestrator.prewarm("t")) == (False, "bench")
        gate.let.set()
        await other.end_of(running)


async def test_a_thread_that_was_deleted_elsewhere_leaves_no_conversation_behind(tmp_path: Path) -> None:
    ours = BenchRuntime()
    async with talking(tmp_path, ours) as one:
        await one.ask("1")
        await one.store.delete_thread("t")  # as another process does it
        await one.ask("2")
        assert (one.hooks.warmth, ours.resumes) == (["cold", "cold"], [None, None])


async def test_after_a_beginning_that_was_cut_off_no_old_session_is_used(tmp_path: Path) -> None:
    ours = BenchRuntime()
    async with talking(tmp_path, ours) as one, talking(tmp_path, BenchRuntime()) as other:
        await one.ask("1")
        await other.ask("2")
        begin = one.store._store.begin_run
        cut = True

        async def begin_run(*given: Any, **named: Any) -> Any:
            nonlocal cut
            outcome = await begin(*given, **named)
            if cut:
                cut = False
                raise StorageError("the line was cut during the commit")
            return outcome

        one.store._store = cast("Any", _Instead(one.store._store, begin_run=begin_run))
        assert (await one.ask("3")).status == "failed"
        await one.ask("4")
        assert one.hooks.warmth == ["cold", "resumed"]


class _Instead:
    """A store with some methods of a test's own."""

    def __init__(self, store: Any, **methods: Any) -> None:
        self._inner = store
        for name, method in methods.items():
            setattr(self, name, method)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_run_that_may_be_stored_though_its_caller_was_told_no_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RECOVER_SECONDS", 1000)
    async with talking(tmp_path, BenchRuntime()) as one, talking(tmp_path, BenchRuntime()) as other:
        accept = one.store._store.accept_message

        async def cut_off(*given: Any, **named: Any) -> Any:
            await accept(*given, **named)
            one.store._store = one.store._store._inner
            raise StorageError("the line was cut during the commit")

        one.store._store = cast("Any", _Instead(one.store._store, accept_message=cut_off))
        with pytest.raises(StorageError, match="cut"):
            await one.post("in doubt")
        behind = await other.post("elsewhere")
        assert (await one.ask("here")).status == "completed"
        assert (await other.end_of(behind)).status == "completed"
        doubtful = next(run for run in await one.store.list_runs(thread_id="t") if run.prompt == "in doubt")
        ended = await one.check_end(doubtful.id)
        assert (ended.status, ended.error.code if ended.error else "") == ("failed", "storage")


async def test_a_caller_who_leaves_does_not_get_its_message_before_older_ones(tmp_path: Path) -> None:
    """What was being stored goes on by itself, perhaps to its turn before one that was stored earlier."""
    runtime = BenchRuntime()
    async with talking(tmp_path, runtime) as world:
        for number in range(20):
            name = f"t{number}"
            await world.store.create_thread(Thread(id=name, created_at=1.0))
            accepts = world.store.asked["accept_message"]
            posts = [asyncio.create_task(world.post(text, name)) for text in ("one", "two", "three")]
            async with asyncio.timeout(30):
                while world.store.asked["accept_message"] < accepts + 3:
                    await asyncio.sleep(0)
            posts[number % 3].cancel()
            await bounded(asyncio.gather(*posts, return_exceptions=True))
            async with asyncio.timeout(30):
                while await world.store.list_runs(thread_id=name, unfinished=True):
                    await asyncio.sleep(0.01)
            messages = await world.store.list_messages(name)
            asked = [one.content for one in messages if one.role == "user"]
            assert [one.content for one in messages if one.role == "assistant"] == asked
            assert len(asked) == 3
