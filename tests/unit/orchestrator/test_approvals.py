"""Approvals: a call waits for a person, who decides once. The store's part: `contracts/test_approvals`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.orchestrator.approval_process import CALL, OTHER, Process, on, soon
from tests.waiting import PATIENCE
from toolstead.errors import ApprovalDecidedError, InvalidApprovalError, NotFoundError
from toolstead.orchestrator import approvals as module
from toolstead.orchestrator.event_log import LASTING, EventLog
from toolstead.orchestrator.log_store import EventFilter
from toolstead.types.approval import Approval
from toolstead.types.call import Allow, Ask, Caller, Deny, Rewrite, ToolCall


async def test_a_call_waits_is_shown_and_goes_on_when_a_person_allows_it(here: Process) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    assert not asking.done()
    assert (waiting.tool, waiting.input, waiting.reason) == ("mail__send", {"to": "ada", "copies": 1}, "it is a mail")
    assert (waiting.asked_by, waiting.call_id, waiting.owner) == ("careful", "call_1", here.store.owner)
    assert (waiting.thread_id, waiting.run_id, waiting.task_id) == ("t", "r", "k")
    assert waiting.expires_at == waiting.requested_at + 600
    assert await here.approvals.pending_approvals() == [waiting]
    decided = await here.approvals.decide_approval(waiting.id, "allow", reason="fine")
    assert await soon(asking) == Allow()
    assert (decided.decision, decided.decided_input, decided.decision_reason) == ("allow", None, "fine")
    assert await here.store.read_approval(waiting.id) == decided
    assert await here.approvals.pending_approvals() == []


async def test_the_events_say_what_was_asked_and_how_it_was_decided_where_the_call_belongs(here: Process) -> None:
    with here.log.open_stream() as stream:
        asking = here.ask()
        (waiting,) = await here.waiting()
        await here.approvals.decide_approval(waiting.id, "deny", reason="no")
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
    await here.approvals.decide_approval(waiting.id, "allow")
    await soon(asking)
    here.log.emit("tool_result", {"callId": "call_1"}, CALL.caller)
    await here.log.detach_store()
    types = [one.type for one in await here.store.list_events(EventFilter(run_id="r"))]
    assert types == ["tool_use", "approval.requested", "approval.resolved", "tool_result"]


async def test_what_the_run_told_before_is_stored_before_though_it_had_to_wait(here: Process) -> None:
    here.store.failing.add("append_events")
    here.log.emit("tool_use", {"callId": "call_1"}, CALL.caller)
    asking = here.ask()
    (waiting,) = await here.waiting()
    types = [one.type for one in await here.store.list_events(EventFilter(run_id="r"))]
    assert types == ["tool_use", "approval.requested"]
    await here.approvals.decide_approval(waiting.id, "allow")
    await soon(asking)


async def test_what_the_run_told_before_is_not_lost_when_the_question_cannot_be_stored(here: Process) -> None:
    here.store.failing |= {"add_approval", "append_events"}
    here.log.emit("tool_use", {"callId": "call_1"}, CALL.caller)
    assert isinstance(await soon(here.ask()), Deny)
    here.store.failing.clear()
    await here.log.detach_store()
    assert [one.type for one in await here.store.list_events(EventFilter(run_id="r"))] == ["tool_use"]


@pytest.mark.parametrize(("reason", "read"), [("not today", "not today"), ("", "a person denied it")])
async def test_a_no_is_for_the_model_to_read(here: Process, reason: str, read: str) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide_approval(waiting.id, "deny", reason=reason)
    assert await soon(asking) == Deny(read)


async def test_a_person_may_write_other_arguments(here: Process) -> None:
    asking = here.ask()
    (waiting,) = await here.waiting()
    decided = await here.approvals.decide_approval(waiting.id, "allow", input={"to": "bob"})
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
    await here.approvals.decide_approval(waiting.id, "allow", input=given)
    answer = await soon(asking)
    assert type(answer) is type(said)
    assert repr(answer) == repr(said)


async def test_arguments_that_do_not_fit_the_tool_decide_nothing(tmp_path: Path) -> None:
    async def problems_of(tool: str, input: Any) -> list[str]:
        return [f"{tool} wants text", "and more"] if input["to"] == 5 else []

    async with on(tmp_path, problems_of=problems_of) as here:
        asking = here.ask()
        (waiting,) = await here.waiting()
        with pytest.raises(InvalidApprovalError, match="input: mail__send wants text; input: and more"):
            await here.approvals.decide_approval(waiting.id, "allow", input={"to": 5})
        assert await here.waiting() == [waiting]
        await here.approvals.decide_approval(waiting.id, "allow", input={"to": "5"})
        assert await soon(asking) == Rewrite({"to": "5"})
        with pytest.raises(ApprovalDecidedError):  # which is what counts, whatever the arguments are
            await here.approvals.decide_approval(waiting.id, "allow", input={"to": 5})


@pytest.mark.parametrize(
    ("decision", "more", "said"),
    [
        ("maybe", {}, "decision: it must be 'allow' or 'deny', not 'maybe'"),
        (None, {}, "decision: it must be 'allow' or 'deny', not None"),
        ("deny", {"input": {}}, "input: a denied call takes none"),
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
        await here.approvals.decide_approval(waiting.id, decision, **more)
    assert await here.waiting() == [waiting]
    await here.approvals.decide_approval(waiting.id, "deny")
    await soon(asking)


async def test_a_second_decision_is_told_the_first(here: Process) -> None:
    with pytest.raises(NotFoundError, match="no approval 'nobody'"):
        await here.approvals.decide_approval("nobody", "allow")
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide_approval(waiting.id, "deny", reason="first")
    with pytest.raises(ApprovalDecidedError, match=r"is decided already: deny \(first\)") as caught:
        await here.approvals.decide_approval(waiting.id, "allow")
    assert (caught.value.id, caught.value.decision, caught.value.reason) == (waiting.id, "deny", "first")
    assert await soon(asking) == Deny("first")


async def test_of_many_decisions_at_once_one_counts_and_the_call_follows_it(here: Process, elsewhere: Process) -> None:
    for number in range(5):
        asking = here.ask()
        (waiting,) = await here.waiting()
        answers = await asyncio.gather(
            *(
                process.approvals.decide_approval(waiting.id, "allow" if one % 2 else "deny", reason=f"{number}-{one}")
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
    assert await elsewhere.approvals.pending_approvals() == waiting
    for one in waiting:
        if one.run_id:
            await elsewhere.approvals.decide_approval(one.id, "allow", input={"to": "bob"})
        else:
            await elsewhere.approvals.decide_approval(one.id, "deny", reason="from afar")
    assert await soon(asking) == Rewrite({"to": "bob"})
    assert await soon(denied) == Deny("from afar")
    assert len(await here.outcome()) == 2


async def test_a_decision_in_the_same_process_needs_no_look_at_the_database(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 1_000)
    asking = here.ask()
    (waiting,) = await here.waiting()
    await here.approvals.decide_approval(waiting.id, "allow")
    assert await soon(asking) == Allow()


async def test_a_person_who_leaves_while_deciding_has_decided(here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 1_000)
    asking = here.ask()
    (waiting,) = await here.waiting()
    begun = asyncio.Event()
    resolve = here.store.resolve_approval

    async def noticed(*given: Any) -> Any:
        begun.set()
        return await resolve(*given)

    monkeypatch.setattr(here.store, "resolve_approval", noticed, raising=False)
    deciding = asyncio.create_task(here.approvals.decide_approval(waiting.id, "allow"))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    deciding.cancel()
    assert await soon(asking) == Allow()
    assert deciding.cancelled()


async def test_nobodys_answer_in_time_is_a_no(here: Process) -> None:
    assert await soon(here.ask(ask=Ask("why", timeout=0.05))) == Deny("no answer within 0.05 seconds")
    assert await here.outcome() == [("deny", "no answer within 0.05 seconds")]
    assert await here.approvals.pending_approvals() == []


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
    await here.approvals.decide_approval(waiting.id, "allow")
    assert await soon(asking) == Allow()


async def test_a_reason_that_is_no_text_is_a_no(here: Process) -> None:
    said = await soon(here.ask(ask=Ask(cast("str", None))))
    assert said == Deny("careful wants a person to decide, and gives no reason")


async def test_arguments_that_cannot_be_shown_are_a_no(here: Process) -> None:
    for odd in (object(), {1: object()}, "\ud800", float("nan")):
        said = await soon(here.ask(ToolCall(name="x", input={"x": odd}, caller=Caller())))
        assert said.reason.startswith(
            "careful wants a person to decide (it is a mail), and no person can be asked: input:"
        )
    assert await here.told() == []


async def test_what_the_person_saw_does_not_change_afterwards(here: Process) -> None:
    given: dict[str, Any] = {"to": ["ada"]}
    asking = here.ask(ToolCall(name="x", input=given, caller=Caller()))
    (waiting,) = await here.waiting()
    given["to"].append("everybody")
    assert (await here.approvals.pending_approvals())[0].input == {"to": ["ada"]}
    await here.approvals.decide_approval(waiting.id, "allow")
    await soon(asking)


async def test_too_many_that_wait_are_refused(here: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    first, second = here.ask(), here.ask()
    waiting = await here.waiting(2)
    assert await soon(here.ask()) == Deny(
        "careful wants a person to decide (it is a mail), and 2 calls wait for one already"
    )
    await here.approvals.decide_approval(waiting[0].id, "allow")
    await asyncio.wait([first, second], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    third = here.ask()
    for one in await here.waiting(2):
        await here.approvals.decide_approval(one.id, "allow")
    assert [await soon(one) for one in (first, second, third)] == [Allow()] * 3


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
    assert [event.type for event in log.recent_events] == sorted(LASTING)
