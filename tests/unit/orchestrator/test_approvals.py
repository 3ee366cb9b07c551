"""Approvals: a call waits for a person; whatever goes wrong is a no. The store: `contracts/test_approvals`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from toolyard.adapters.storage.store import open_store
from toolyard.errors import ApprovalDecidedError, InvalidApprovalError, NotFoundError, StorageError
from toolyard.orchestrator import approvals as module
from toolyard.orchestrator.approvals import CLOSING, GONE, STOPPED, UNSTORED, WITHDRAWN, Approvals
from toolyard.orchestrator.event_log import LASTING, EventLog
from toolyard.orchestrator.store import EventFilter, NewEvent, Store
from toolyard.types.approval import Approval
from toolyard.types.call import Allow, Ask, Caller, Deny, Rewrite, ToolCall
from toolyard.types.event import Event
from toolyard.types.thread import Thread

PATIENCE = 20
ASK = Ask("it is a mail", timeout=600)
CALL = ToolCall(
    name="mail__send",
    input={"to": "ada", "copies": 1},
    caller=Caller(thread_id="t", run_id="r", task_id="k"),
    call_id="call_1",
)
OTHER = ToolCall(name="mail__send", input={}, caller=Caller(thread_id="t"))


class Flaky:
    """A store whose writing about approvals, or looking for them, fails when told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: set[str] = set()
        self.fails_after: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in self.failing | self.fails_after:
            return found

        async def broken(*given: Any, **more: Any) -> Any:
            if name in self.fails_after:
                await found(*given, **more)
            raise StorageError("the disk is full")

        return broken


class Process:
    """What one process has: its store, its log, its approvals."""

    def __init__(self, store: Store, problems_of: Callable[..., list[str]] | None = None) -> None:
        self.store = Flaky(store)
        self.log = EventLog()
        self.log.attach(cast("Store", self.store))
        given = {} if problems_of is None else {"problems_of": problems_of}
        self.approvals = Approvals(open_store=self.open, log=self.log, **given)

    async def open(self) -> Store:
        return cast("Store", self.store)

    def ask(self, call: ToolCall = CALL, ask: Ask = ASK) -> asyncio.Task[Allow | Deny | Rewrite]:
        return asyncio.create_task(self.approvals.ask(call, ask, "careful"))

    async def waiting(self, count: int = 1) -> list[Approval]:
        """What waits, once so many do."""
        async with asyncio.timeout(PATIENCE):
            while len(found := await self.store.pending_approvals()) != count:
                await asyncio.sleep(0.005)
        return found

    async def told(self) -> list[Event]:
        """The events of approvals, as they are stored."""
        return [one for one in await self.store.events(EventFilter()) if one.type.startswith("approval.")]

    async def outcome(self) -> list[tuple[str, str]]:
        """How each that was asked ended: exactly one end for each, and none for what nobody asked."""
        events = await self.told()
        asked = [one.data["approvalId"] for one in events if one.type == "approval.requested"]
        ended = {one.data["approvalId"]: one for one in events if one.type == "approval.resolved"}
        assert len(events) == len(asked) + len(ended)
        assert set(asked) == set(ended)
        return [(ended[one].data["decision"], ended[one].data["reason"]) for one in asked]

    async def close(self) -> None:
        self.store.failing.clear()
        self.store.fails_after.clear()
        await self.approvals.close()
        await self.log.detach()
        await self.store.close()


@asynccontextmanager
async def on(folder: Path, **more: Any) -> AsyncIterator[Process]:
    process = Process(await open_store(folder / "toolyard.db"), **more)
    try:
        yield process
    finally:
        await process.close()


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Process]:
    async with on(tmp_path) as process:
        yield process


@pytest.fixture
async def elsewhere(tmp_path: Path, here: Process) -> AsyncIterator[Process]:
    """Another process on the same database; as far as the database knows."""
    assert here
    async with on(tmp_path) as process:
        yield process


async def soon(task: asyncio.Task[Any]) -> Any:
    return await asyncio.wait_for(task, PATIENCE)


async def test_a_call_waits_is_shown_and_goes_on_when_a_person_allows_it(here: Process) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    assert not asking.done()
    assert (waiting.tool, waiting.input, waiting.reason) == ("mail__send", {"to": "ada", "copies": 1}, "it is a mail")
    assert (waiting.asked_by, waiting.call_id, waiting.owner) == ("careful", "call_1", here.store.owner)
    assert (waiting.thread_id, waiting.run_id, waiting.task_id) == ("t", "r", "k")
    assert waiting.expires_at == waiting.requested_at + 600
    assert await here.approvals.pending() == [waiting]
    decided = await here.approvals.decide(waiting.id, "allow", reason="fine")
    assert await soon(asking) == Allow()
    assert (decided.decision, decided.decided_input, decided.decision_reason) == ("allow", None, "fine")
    assert await here.store.approval(waiting.id) == decided
    assert await here.approvals.pending() == []


async def test_the_events_say_what_was_asked_and_how_it_was_decided_where_the_call_belongs(here: Process) -> None:
    with here.log.stream() as stream:
        asking = here.ask()
        (waiting,) = await here.waiting()
        await here.approvals.decide(waiting.id, "deny", reason="no")
        await soon(asking)
    requested, resolved = [event async for event in stream]
    assert [requested, resolved] == await here.told()
    assert requested.data == {
        "approvalId": waiting.id,
        "callId": "call_1",
        "name": "mail__send",
        "input": {"to": "ada", "copies": 1},
        "reason": "it is a mail",
        "plugin": "careful",
        "expiresAt": waiting.expires_at,
    }
    assert resolved.data == {"approvalId": waiting.id, "decision": "deny", "reason": "no", "edited": False}
    assert {(one.thread_id, one.run_id, one.task_id) for one in (requested, resolved)} == {("t", "r", "k")}
    assert {one.type for one in (requested, resolved)} < LASTING


async def test_what_the_run_told_before_is_stored_before(here: Process) -> None:
    here.log.emit("tool_use", {"callId": "call_1"}, CALL.caller)
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "allow")
    await soon(asking)
    here.log.emit("tool_result", {"callId": "call_1"}, CALL.caller)
    await here.log.detach()
    types = [one.type for one in await here.store.events(EventFilter(run_id="r"))]
    assert types == ["tool_use", "approval.requested", "approval.resolved", "tool_result"]


async def test_what_the_run_told_before_is_not_lost_when_the_question_cannot_be_stored(here: Process) -> None:
    here.store.failing.add("add_approval")
    here.log.emit("tool_use", {"callId": "call_1"}, CALL.caller)
    assert isinstance(await soon(here.ask()), Deny)
    await here.log.detach()
    assert [one.type for one in await here.store.events(EventFilter(run_id="r"))] == ["tool_use"]


@pytest.mark.parametrize(("reason", "read"), [("not today", "not today"), ("", "a person said no")])
async def test_a_no_is_for_the_model_to_read(here: Process, reason: str, read: str) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "deny", reason=reason)
    assert await soon(asking) == Deny(read)


async def test_a_person_may_write_other_arguments(here: Process) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    decided = await here.approvals.decide(waiting.id, "allow", input={"to": "bob"})
    assert await soon(asking) == Rewrite({"to": "bob"})
    assert decided.decided_input == {"to": "bob"}
    assert (await here.told())[-1].data["edited"] is True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"copies": 1, "to": "ada"}, Allow()),
        ({"to": "ada", "copies": True}, Rewrite({"to": "ada", "copies": True})),
    ],
)
async def test_arguments_that_are_sent_back_as_they_were_change_nothing(here: Process, given: Any, said: Any) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "allow", input=given)
    answer = await soon(asking)
    assert type(answer) is type(said)
    assert repr(answer) == repr(said)


async def test_arguments_that_do_not_fit_the_tool_decide_nothing(tmp_path: Path) -> None:
    def problems_of(tool: str, input: Any) -> list[str]:
        return [f"{tool} wants text", "and more"] if input["to"] == 5 else []

    async with on(tmp_path, problems_of=problems_of) as here:
        asking = here.ask()
        (waiting,) = await here.waiting()
        with pytest.raises(InvalidApprovalError, match="input: mail__send wants text; input: and more"):
            await here.approvals.decide(waiting.id, "allow", input={"to": 5})
        assert await here.waiting() == [waiting]
        await here.approvals.decide(waiting.id, "allow", input={"to": "5"})
        assert await soon(asking) == Rewrite({"to": "5"})


@pytest.mark.parametrize(
    ("decision", "more", "said"),
    [
        ("maybe", {}, "decision: 'maybe' is none; 'allow' and 'deny' are"),
        (None, {}, "decision: None is none"),
        ("deny", {"input": {}}, "input: a call that is denied needs none"),
        ("allow", {"input": [1]}, "input: the tool's arguments must be an object"),
        ("allow", {"input": {"x": object()}}, "input: it must be a JSON object"),
        ("allow", {"input": {"x": "\ud800"}}, "input: it must be a JSON object"),
        ("allow", {"input": {"x": float("inf")}}, "input: it must be a JSON object"),
        ("deny", {"reason": "x" * 2_001}, "reason: it must be text of at most 2,000 characters"),
        ("deny", {"reason": 5}, "reason: it must be text"),
    ],
)
async def test_what_is_no_decision_decides_nothing(here: Process, decision: Any, more: Any, said: str) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    with pytest.raises(InvalidApprovalError, match=said):
        await here.approvals.decide(waiting.id, decision, **more)
    assert await here.waiting() == [waiting]
    await here.approvals.decide(waiting.id, "deny")
    await soon(asking)


async def test_a_second_decision_is_told_the_first(here: Process) -> None:
    with pytest.raises(NotFoundError, match="no approval 'nobody'"):
        await here.approvals.decide("nobody", "allow")
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "deny", reason="first")
    with pytest.raises(ApprovalDecidedError, match=r"is decided already: deny \(first\)") as caught:
        await here.approvals.decide(waiting.id, "allow")
    assert (caught.value.id, caught.value.decision, caught.value.reason) == (waiting.id, "deny", "first")
    assert await soon(asking) == Deny("first")


async def test_of_many_decisions_at_once_one_counts_and_the_call_follows_it(here: Process, elsewhere: Process) -> None:
    for number in range(5):
        asking = here.ask()
        (waiting,) = await here.waiting()
        answers = await asyncio.gather(
            *(
                process.approvals.decide(waiting.id, "allow" if one % 2 else "deny", reason=f"{number}-{one}")
                for one, process in enumerate([here, elsewhere] * 3)
            ),
            return_exceptions=True,
        )
        (decided,) = [one for one in answers if isinstance(one, Approval)]
        assert sum(isinstance(one, ApprovalDecidedError) for one in answers) == 5
        assert await soon(asking) == (Allow() if decided.decision == "allow" else Deny(decided.decision_reason))
    assert len(await here.outcome()) == 5


async def test_a_decision_of_another_process_reaches_the_call(here: Process, elsewhere: Process) -> None:
    asking, denied = here.ask(), here.ask(OTHER)
    waiting = await elsewhere.waiting(2)
    assert await elsewhere.approvals.pending() == waiting
    for one in waiting:
        if one.run_id:
            await elsewhere.approvals.decide(one.id, "allow", input={"to": "bob"})
        else:
            await elsewhere.approvals.decide(one.id, "deny", reason="from afar")
    assert await soon(asking) == Rewrite({"to": "bob"})
    assert await soon(denied) == Deny("from afar")
    assert len(await here.outcome()) == 2


async def test_a_decision_in_the_same_process_needs_no_look_at_the_database(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 1_000)
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "allow")
    assert await soon(asking) == Allow()


async def test_a_person_who_leaves_while_deciding_has_decided(here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 1_000)
    asking = here.ask()
    (waiting,) = await here.waiting()
    begun = asyncio.Event()
    resolve = here.store.resolve_approval

    async def noticed(*given: Any) -> Any:
        begun.set()
        return await resolve(*given)

    monkeypatch.setattr(here.store, "resolve_approval", noticed, raising=False)
    deciding = asyncio.create_task(here.approvals.decide(waiting.id, "allow"))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    deciding.cancel()
    assert await soon(asking) == Allow()
    assert deciding.cancelled()


async def test_nobodys_answer_in_time_is_a_no(here: Process) -> None:
    assert await soon(here.ask(ask=Ask("why", timeout=0.05))) == Deny("nobody answered within 0.05 seconds")
    assert await here.outcome() == [("deny", "nobody answered within 0.05 seconds")]
    assert await here.approvals.pending() == []


@pytest.mark.parametrize("timeout", [0, -1, 86_400.5, float("inf"), float("nan"), None, "5", True, [5]], ids=repr)
async def test_a_time_that_makes_no_sense_is_a_no_at_once(here: Process, timeout: Any) -> None:
    said = await soon(here.ask(ask=Ask("why", timeout=timeout)))
    assert said.reason.startswith(
        f"careful wants a person to decide within {timeout!r} seconds; it must be more than 0"
    )
    assert await here.told() == []


async def test_a_whole_day_may_be_waited_for(here: Process) -> None:
    asking = here.ask(ask=Ask("why", timeout=86_400))
    (waiting,) = await here.waiting()
    await here.approvals.decide(waiting.id, "allow")
    assert await soon(asking) == Allow()


async def test_a_reason_that_is_no_text_is_a_no(here: Process) -> None:
    said = await soon(here.ask(ask=Ask(cast("str", None))))
    assert said == Deny("careful wants a person to decide, and does not say why in words")


async def test_arguments_that_cannot_be_shown_are_a_no(here: Process) -> None:
    for odd in (object(), {1: object()}, "\ud800", float("nan")):
        said = await soon(here.ask(ToolCall(name="x", input={"x": odd}, caller=Caller())))
        assert said.reason.startswith(
            "careful wants a person to decide (it is a mail), and nobody can be asked: input:"
        )
    assert await here.told() == []


async def test_what_the_person_saw_does_not_change_afterwards(here: Process) -> None:
    given: dict[str, Any] = {"to": ["ada"]}
    asking = here.ask(ToolCall(name="x", input=given, caller=Caller()))
    (waiting,) = await here.waiting()
    given["to"].append("everybody")
    assert (await here.approvals.pending())[0].input == {"to": ["ada"]}
    await here.approvals.decide(waiting.id, "allow")
    await soon(asking)


async def test_too_many_that_wait_are_refused(here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    first, second = here.ask(), here.ask()
    waiting = await here.waiting(2)
    assert await soon(here.ask()) == Deny(
        "careful wants a person to decide (it is a mail), and 2 calls wait for one already"
    )
    await here.approvals.decide(waiting[0].id, "allow")
    await asyncio.wait([first, second], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    third = here.ask()
    for one in await here.waiting(2):
        await here.approvals.decide(one.id, "allow")
    assert [await soon(one) for one in (first, second, third)] == [Allow()] * 3


class TestLeaving:
    async def test_a_caller_who_leaves_withdraws_the_question(self, here: Process) -> None:
        asking = here.ask()
        (waiting,) = await here.waiting()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asking)
        assert await here.outcome() == [("deny", WITHDRAWN)]  # already, so it comes before the run's own end
        with pytest.raises(ApprovalDecidedError, match="withdrawn: the caller left"):
            await here.approvals.decide(waiting.id, "allow")

    async def test_one_who_leaves_while_the_question_is_being_stored_withdraws_it(
        self, here: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = asyncio.Event()
        add = here.store.add_approval

        async def noticed(*given: Any) -> Any:
            begun.set()
            return await add(*given)

        monkeypatch.setattr(here.store, "add_approval", noticed, raising=False)
        with here.log.stream() as stream:
            asking = here.ask()
            await asyncio.wait_for(begun.wait(), PATIENCE)
            asking.cancel()
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
            raise StorageError("toolyard.db cannot be opened")

        approvals = Approvals(open_store=closed, log=EventLog())
        assert await approvals.ask(CALL, ASK, "careful") == Deny(
            "careful wants a person to decide (it is a mail), and nobody can be asked: toolyard.db cannot be opened"
        )
        for failing in (approvals.pending(), approvals.recover(), approvals.decide("x", "allow")):
            with pytest.raises(StorageError):
                await failing
        await approvals.close()

    async def test_a_question_that_cannot_be_stored_is_a_no_that_says_so(self, here: Process) -> None:
        here.store.failing.add("add_approval")
        assert await soon(here.ask()) == Deny(
            "careful wants a person to decide (it is a mail), and nobody can be asked: the disk is full"
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
        said = await approvals.ask(CALL, ASK, "careful")
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
        assert await soon(asking) == Deny("nobody answered within 0.2 seconds")
        assert f"that approval {waiting.id} is denied waits for the database: the disk is full" in caplog.text
        with pytest.raises(StorageError):
            await here.approvals.decide(waiting.id, "allow")
        here.store.failing.clear()
        with pytest.raises(ApprovalDecidedError, match="nobody answered"):
            await here.approvals.decide(waiting.id, "allow")
        assert await here.outcome() == [("deny", "nobody answered within 0.2 seconds")]

    async def test_what_is_not_stored_yet_is_not_shown_as_waiting(self, here: Process) -> None:
        asking = here.ask(ask=Ask("why", timeout=0.05))
        here.store.failing.add("resolve_approval")
        assert isinstance(await soon(asking), Deny)
        here.store.failing.clear()
        assert await here.approvals.pending() == []
        assert len(await here.outcome()) == 1

    async def test_what_is_owed_counts_as_waiting(self, here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_WAITING", 1)
        here.store.failing.add("resolve_approval")
        assert isinstance(await soon(here.ask(ask=Ask("why", timeout=0.05))), Deny)
        assert "1 calls wait for one already" in (await soon(here.ask())).reason

    async def test_looking_goes_on_after_a_failure_which_is_said_once(
        self, here: Process, elsewhere: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
        looks: list[int] = []
        here.store.failing.add("pending_ids")
        asking = here.ask()
        (waiting,) = await here.waiting()
        pay = here.approvals._pay

        async def counted() -> None:
            looks.append(1)
            await pay()

        monkeypatch.setattr(here.approvals, "_pay", counted)
        await elsewhere.approvals.decide(waiting.id, "allow")
        async with asyncio.timeout(PATIENCE):
            while len(looks) < 5:
                await asyncio.sleep(0.01)
        assert caplog.text.count("decisions of people cannot be looked for: the disk is full") == 1
        here.store.failing.clear()
        assert await soon(asking) == Allow()

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
            asking = asyncio.create_task(approvals.ask(CALL, ASK, "careful"))
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
        assert await here.outcome() == [("deny", "nobody answered within 0.05 seconds")]

    async def test_closing_without_a_database_leaves_it_to_the_next_start(
        self, tmp_path: Path, here: Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        asking = here.ask()
        await here.waiting()
        here.store.failing.add("resolve_approval")
        await here.approvals.close()
        assert await soon(asking) == Deny(CLOSING)
        assert "1 approvals will be denied at the next start: the disk is full" in caplog.text
        await here.log.detach()
        await here.store.close()
        async with on(tmp_path) as after:
            await after.approvals.recover()
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
        dead = Process(await open_store(tmp_path / "toolyard.db"))
        asked = await self._left_by(dead)
        mine = here.ask()
        await here.waiting(2)
        with here.log.stream() as stream:
            await here.approvals.recover()
            await here.approvals.recover()
        (told,) = [event async for event in stream]
        assert told.data == {"approvalId": asked.id, "decision": "deny", "reason": STOPPED, "edited": False}
        assert (told.thread_id, told.run_id, told.task_id) == ("t", "r", "k")
        (waiting,) = await here.waiting()
        await here.approvals.decide(waiting.id, "allow")
        assert await soon(mine) == Allow()
        assert await here.outcome() == [("deny", STOPPED), ("allow", "")]

    async def test_nobody_is_shown_what_a_dead_process_asked(self, tmp_path: Path, here: Process) -> None:
        await self._left_by(Process(await open_store(tmp_path / "toolyard.db")))
        assert await here.approvals.pending() == []
        assert await here.outcome() == [("deny", STOPPED)]

    async def test_nobody_can_allow_what_a_dead_process_asked(self, tmp_path: Path, here: Process) -> None:
        asked = await self._left_by(Process(await open_store(tmp_path / "toolyard.db")))
        with pytest.raises(ApprovalDecidedError, match=STOPPED):
            await here.approvals.decide(asked.id, "allow")
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
        await process.log.detach()
        await process.store.close()
        return asked


def test_an_approval_is_spelled_in_camel_case() -> None:
    approval = Approval(
        id="a",
        call_id="c",
        tool="x",
        input={"some_key": 1},
        reason="why",
        asked_by="careful",
        thread_id="t",
        requested_at=1.0,
        expires_at=2.0,
        owner="me",
        decision="allow",
        decided_input={},
        decided_at=1.5,
    )
    assert approval.to_json() == {
        "id": "a",
        "callId": "c",
        "tool": "x",
        "input": {"some_key": 1},
        "reason": "why",
        "askedBy": "careful",
        "threadId": "t",
        "runId": None,
        "taskId": None,
        "requestedAt": 1.0,
        "expiresAt": 2.0,
        "decision": "allow",
        "decidedInput": {},
        "decisionReason": "",
        "decidedAt": 1.5,
    }


async def test_events_of_approvals_and_plugins_are_kept_without_a_run() -> None:
    log = EventLog()
    for kind in sorted(LASTING):
        log.emit(kind, {})
    log.emit("message", {})
    assert [event.type for event in log.recent] == sorted(LASTING)


def test_the_parts_fit_the_dispatchers_port() -> None:
    from toolyard.tools.gates import Approve

    async def stored(_: Sequence[NewEvent]) -> Store:
        raise NotImplementedError

    approve: Approve = Approvals(open_store=cast("Any", stored), log=EventLog()).ask
    assert approve
