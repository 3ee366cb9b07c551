"""Approvals when something goes wrong: callers leave, databases fail, processes end. It is a no, told exactly once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.orchestrator.approval_process import ASK, CALL, OTHER, Process, on, soon
from tests.waiting import PATIENCE
from toolstead.adapters.storage.store import open_store
from toolstead.errors import ApprovalDecidedError, StorageError
from toolstead.orchestrator import approvals as module
from toolstead.orchestrator.approvals import CLOSING, GONE, STOPPED, UNSTORED, WITHDRAWN, Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.store import Store
from toolstead.types.approval import Approval
from toolstead.types.call import Allow, Ask, Deny
from toolstead.types.thread import Thread


class TestLeaving:
    async def test_a_caller_who_leaves_withdraws_the_question(self, here: Process) -> None:
        asking = here.ask()
        (waiting,) = await here.waiting()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        assert await here.outcome() == [("deny", WITHDRAWN)]  # already, so it comes before the run's own end
        with pytest.raises(ApprovalDecidedError, match="withdrawn: the caller left"):
            await here.approvals.decide_approval(waiting.id, "allow")

    async def test_one_who_leaves_while_the_question_is_being_stored_withdraws_it(
        self, here: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        add = here.store.add_approval

        async def noticed(*given: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await add(*given)

        monkeypatch.setattr(here.store, "add_approval", noticed, raising=False)
        with here.log.open_stream() as stream:
            asking = here.ask()
            await asyncio.wait_for(begun.wait(), PATIENCE)
            asking.cancel()
            for _ in range(5):  # whoever would not wait for the question to be stored has withdrawn nothing by then
                await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await soon(asking)
        assert await here.outcome() == [("deny", WITHDRAWN)]
        assert [event.type async for event in stream] == ["approval.requested", "approval.resolved"]

    async def test_one_who_does_not_even_wait_for_that_is_not_held(
        self, here: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        resolve = here.store.resolve_approval

        async def slow(*given: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await resolve(*given)

        monkeypatch.setattr(here.store, "resolve_approval", slow, raising=False)
        asking = here.ask()
        await here.waiting()
        asking.cancel()
        await asyncio.wait_for(begun.wait(), PATIENCE)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        go_on.set()
        await here.approvals.close()
        assert await here.outcome() == [("deny", WITHDRAWN)]

    async def test_the_cancellation_goes_on_though_the_database_is_gone(self, here: Process) -> None:
        asking = here.ask()
        await here.waiting()
        here.store.failing.add("resolve_approval")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        here.store.failing.clear()
        await here.waiting(0)
        assert await here.outcome() == [("deny", WITHDRAWN)]

    async def test_one_who_leaves_before_anything_is_stored_leaves_nothing(self, here: Process) -> None:
        asking = here.ask()
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        await here.outcome()
        await here.waiting(0)


class TestDatabaseTroubles:
    async def test_a_database_that_cannot_be_opened_is_a_no_that_says_so(self) -> None:
        async def closed() -> Store:
            raise StorageError("toolstead.db cannot be opened")

        approvals = Approvals(open_store=closed, log=EventLog())
        assert await approvals.ask_person(CALL, ASK, "careful") == Deny(
            "careful wants a person to decide (it is a mail), and no person can be asked: toolstead.db cannot be opened"
        )
        for failing in (
            approvals.pending_approvals(),
            approvals.recover_approvals(),
            approvals.decide_approval("x", "allow"),
        ):
            with pytest.raises(StorageError):
                await failing
        await approvals.close()

    async def test_a_question_that_cannot_be_stored_is_a_no_that_says_so(self, here: Process) -> None:
        here.store.failing.add("add_approval")
        assert await soon(here.ask()) == Deny(
            "careful wants a person to decide (it is a mail), and no person can be asked: the disk is full"
        )
        assert await here.told() == []

    async def test_a_question_that_was_stored_though_the_line_was_cut_does_not_stay_open(self, here: Process) -> None:
        here.store.fails_after.add("add_approval")
        assert isinstance(await soon(here.ask()), Deny)
        await here.waiting(0)
        assert await here.outcome() == [("deny", UNSTORED)]

    async def test_whatever_else_goes_wrong_is_a_no_with_a_traceback_in_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def broken() -> Store:
            raise ZeroDivisionError

        approvals = Approvals(open_store=broken, log=EventLog())
        said = await approvals.ask_person(CALL, ASK, "careful")
        assert said == Deny(
            "careful wants a person to decide (it is a mail), and asking failed; the log has the details"
        )
        assert "ZeroDivisionError" in caplog.text

    async def test_a_deadline_passes_though_the_database_is_gone_and_is_stored_when_it_is_back(
        self, here: Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        asking = here.ask(ask=Ask("why", timeout=0.2))
        (waiting,) = await here.waiting()
        here.store.failing |= {"resolve_approval", "pending_ids"}
        assert await soon(asking) == Deny("no answer within 0.2 seconds")
        assert f"the denial of approval {waiting.id} waits for the database: the disk is full" in caplog.text
        with pytest.raises(StorageError):
            await here.approvals.decide_approval(waiting.id, "allow")
        here.store.failing.clear()
        with pytest.raises(ApprovalDecidedError, match="no answer"):
            await here.approvals.decide_approval(waiting.id, "allow")
        assert await here.outcome() == [("deny", "no answer within 0.2 seconds")]

    async def test_what_is_not_stored_yet_is_not_shown_as_waiting(self, here: Process) -> None:
        asking = here.ask(ask=Ask("why", timeout=0.05))
        here.store.failing.add("resolve_approval")
        assert isinstance(await soon(asking), Deny)
        here.store.failing.clear()
        assert await here.approvals.pending_approvals() == []
        assert len(await here.outcome()) == 1

    async def test_what_is_owed_counts_as_waiting(self, here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_WAITING", 1)
        here.store.failing.add("resolve_approval")
        assert isinstance(await soon(here.ask(ask=Ask("why", timeout=0.05))), Deny)
        assert "1 calls wait for one already" in (await soon(here.ask())).reason
        here.store.failing.clear()
        assert await here.approvals.pending_approvals() == []
        asking = here.ask()
        (waiting,) = await here.waiting()
        await here.approvals.decide_approval(waiting.id, "allow")
        assert await soon(asking) == Allow()

    async def test_looking_goes_on_after_a_failure_which_is_said_once(
        self, here: Process, elsewhere: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
        looks: list[int] = []
        here.store.failing.add("pending_ids")
        asking = here.ask()
        (waiting,) = await here.waiting()
        pay = here.approvals._store_unstored

        async def counted() -> None:
            looks.append(1)
            await pay()

        monkeypatch.setattr(here.approvals, "_store_unstored", counted)
        await elsewhere.approvals.decide_approval(waiting.id, "allow")
        async with asyncio.timeout(PATIENCE):
            while len(looks) < 5:
                await asyncio.sleep(0.01)
        assert caplog.text.count("decisions of people cannot be read: the disk is full") == 1
        here.store.failing.clear()
        assert await soon(asking) == Allow()

    async def test_a_question_that_is_still_being_stored_is_not_taken_for_one_that_is_gone(
        self, here: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
        first = here.ask(OTHER)
        (earlier,) = await here.waiting()
        go_on = asyncio.Event()
        add, pending_ids = here.store.add_approval, here.store.pending_ids
        looks: list[int] = []

        async def slow(*given: Any) -> Any:
            await go_on.wait()
            return await add(*given)

        async def counted(*given: Any) -> Any:
            looks.append(1)
            return await pending_ids(*given)

        monkeypatch.setattr(here.store, "add_approval", slow, raising=False)
        monkeypatch.setattr(here.store, "pending_ids", counted, raising=False)
        second = here.ask()
        async with asyncio.timeout(PATIENCE):
            while len(looks) < 3:
                await asyncio.sleep(0.01)
        go_on.set()
        for one in await here.waiting(2):
            await here.approvals.decide_approval(one.id, "deny" if one.id == earlier.id else "allow")
        assert [await soon(first), await soon(second)] == [Deny("a person denied it"), Allow()]

    async def test_a_question_that_went_with_its_thread_is_a_no(self, here: Process) -> None:
        await here.store.create_thread(Thread(id="t", created_at=1.0))
        asking = here.ask()
        await here.waiting()
        await here.store.delete_thread("t")
        assert await soon(asking) == Deny(GONE)
        assert await here.told() == []


class TestEnds:
    async def test_closing_denies_what_waits_and_what_comes(self, here: Process) -> None:
        asking = [here.ask() for _ in range(3)]
        await here.waiting(3)
        await here.approvals.close()
        assert [await soon(one) for one in (*asking, here.ask())] == [Deny(CLOSING)] * 4
        assert await here.outcome() == [("deny", CLOSING)] * 3

    async def test_what_was_decided_elsewhere_counts_also_for_one_that_is_just_closing(
        self, here: Process, elsewhere: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "POLL_SECONDS", 1_000)
        asking = here.ask()
        (waiting,) = await here.waiting()
        await elsewhere.approvals.decide_approval(waiting.id, "allow")
        await here.approvals.close()
        assert await soon(asking) == Allow()

    async def test_what_is_decided_elsewhere_while_it_closes_counts(
        self, here: Process, elsewhere: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
        go_on = asyncio.Event()
        resolve = here.store.resolve_approval

        async def slow(*given: Any) -> Any:
            await go_on.wait()
            return await resolve(*given)

        monkeypatch.setattr(here.store, "resolve_approval", slow, raising=False)
        asking = here.ask()
        (waiting,) = await here.waiting()
        async with asyncio.timeout(PATIENCE):
            while here.approvals._watching is None:  # the row is there a moment before the call knows it
                await asyncio.sleep(0.005)
        closing = asyncio.create_task(here.approvals.close())
        await elsewhere.approvals.decide_approval(waiting.id, "allow")
        try:
            assert await soon(asking) == Allow()
        finally:
            go_on.set()
            await soon(closing)
        assert await here.outcome() == [("allow", "")]

    async def test_what_is_asked_after_closing_opens_no_database(self) -> None:
        async def open_again() -> Store:
            raise AssertionError("it was opened")

        approvals = Approvals(open_store=open_again, log=EventLog())
        await approvals.close()
        assert await approvals.ask_person(CALL, ASK, "careful") == Deny(CLOSING)

    async def test_closing_while_questions_are_on_their_way_leaves_none_open(self, here: Process) -> None:
        asking = [here.ask() for _ in range(20)]
        await asyncio.sleep(0)
        late = here.ask()  # it begins only when the closing has begun
        await here.approvals.close()
        assert [await soon(one) for one in (*asking, late)] == [Deny(CLOSING)] * 21
        assert await here.store.pending_approvals() == []
        await here.outcome()

    async def test_one_that_waits_for_the_database_to_open_while_it_closes_is_not_asked(self, tmp_path: Path) -> None:
        async with on(tmp_path) as here:
            opened = asyncio.Event()

            async def slowly() -> Store:
                await opened.wait()
                return await here.open()

            approvals = Approvals(open_store=slowly, log=here.log)
            asking = asyncio.create_task(approvals.ask_person(CALL, ASK, "careful"))
            await asyncio.sleep(0)
            await approvals.close()
            opened.set()
            assert await soon(asking) == Deny(CLOSING)
            assert await here.told() == []

    async def test_closing_tries_once_more_to_store_what_is_owed(self, here: Process) -> None:
        here.store.failing.add("resolve_approval")
        assert isinstance(await soon(here.ask(ask=Ask("why", timeout=0.05))), Deny)
        here.store.failing.clear()
        await here.approvals.close()
        assert await here.outcome() == [("deny", "no answer within 0.05 seconds")]

    async def test_closing_without_a_database_leaves_it_to_the_next_start(
        self, tmp_path: Path, here: Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        asking = here.ask()
        await here.waiting()
        here.store.failing.add("resolve_approval")
        await here.approvals.close()
        assert await soon(asking) == Deny(CLOSING)
        assert "1 approvals will be denied at the next start: the disk is full" in caplog.text
        await here.log.detach_store()
        await here.store.close()
        async with on(tmp_path) as after:
            await after.approvals.recover_approvals()
            assert await after.outcome() == [("deny", STOPPED)]

    async def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        before = asyncio.all_tasks()
        async with on(tmp_path) as here:
            asking = here.ask()
            await here.waiting()
        await soon(asking)
        assert asyncio.all_tasks() <= before | {asyncio.current_task()}


class TestRestarts:
    async def test_what_a_dead_process_asked_is_denied_once(self, tmp_path: Path, here: Process) -> None:
        dead = Process(await open_store(tmp_path / "toolstead.db"))
        asked = await self._left_by(dead)
        mine = here.ask()
        await here.waiting(2)
        with here.log.open_stream(["approval.resolved"]) as stream:
            await here.approvals.recover_approvals()
            await here.approvals.recover_approvals()
        (told,) = [event async for event in stream]
        assert told.data == {"approvalId": asked.id, "decision": "deny", "reason": STOPPED, "edited": False}
        assert (told.thread_id, told.run_id, told.task_id) == ("t", "r", "k")
        (waiting,) = await here.waiting()
        await here.approvals.decide_approval(waiting.id, "allow")
        assert await soon(mine) == Allow()
        assert await here.outcome() == [("deny", STOPPED), ("allow", "")]

    async def test_nobody_is_shown_what_a_dead_process_asked(self, tmp_path: Path, here: Process) -> None:
        await self._left_by(Process(await open_store(tmp_path / "toolstead.db")))
        assert await here.approvals.pending_approvals() == []
        assert await here.outcome() == [("deny", STOPPED)]

    async def test_nobody_can_allow_what_a_dead_process_asked(self, tmp_path: Path, here: Process) -> None:
        asked = await self._left_by(Process(await open_store(tmp_path / "toolstead.db")))
        with pytest.raises(ApprovalDecidedError, match=STOPPED):
            await here.approvals.decide_approval(asked.id, "allow")
        assert await here.outcome() == [("deny", STOPPED)]

    async def _left_by(self, process: Process) -> Approval:
        """What a process leaves that is gone without a word: its lock is free, its question open."""
        asking = process.ask()
        (asked,) = await process.waiting()
        process.store.failing |= {"resolve_approval", "pending_ids"}
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        await process.approvals.close()
        await process.log.detach_store()
        await process.store.close()
        return asked
