"""What the event log, the log and a person read of an approval: its question, and its decision."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from toolstead.orchestrator.store import Resolution
from toolstead.schema.visible import escape_unseen
from toolstead.types.approval import Approval, ApprovalDecision
from toolstead.types.event import NewEvent


def build_resolution(
    approval: Approval, decision: ApprovalDecision, reason: str, input: Mapping[str, Any] | None = None
) -> Resolution:
    """A decision made now, with its event."""
    now = time.time()
    decided = msgspec.structs.replace(approval, decision=decision, decision_reason=reason, decided_input=input)
    return Resolution(
        decision=decision,
        decided_at=now,
        decision_reason=reason,
        decided_input=input,
        events=[create_event("approval.resolved", approval, now, describe_decision(decided))],
    )


def describe_question(approval: Approval) -> dict[str, Any]:
    """The data of `approval.requested`."""
    return {
        "approvalId": approval.id,
        "callId": approval.call_id,
        "name": approval.tool,
        "input": approval.input,
        "reason": approval.reason,
        "plugin": approval.asked_by,
        "expiresAt": approval.expires_at,
    }


def describe_decision(approval: Approval) -> dict[str, Any]:
    """The data of `approval.resolved`."""
    return {
        "approvalId": approval.id,
        "decision": approval.decision,
        "reason": approval.decision_reason,
        "edited": approval.decided_input is not None,
    }


def create_event(type: str, approval: Approval, now: float, data: Mapping[str, Any]) -> NewEvent:
    """An event about an approval, in the run and thread of its call."""
    return NewEvent(
        type=type,
        time=now,
        data=data,
        thread_id=approval.thread_id,
        run_id=approval.run_id,
        task_id=approval.task_id,
    )


def describe_waiting(approval: Approval) -> str:
    """One line for the log about a question: what waits, why, for how long, and the command that answers it.

    Without the arguments, which may be secret: the log is kept and read by others.
    """
    seconds = round(approval.expires_at - approval.requested_at, 3)
    return (
        f"a call of {escape_unseen(approval.tool)} waits for a person, at most {seconds:g} seconds;"
        f" {escape_unseen(approval.asked_by)} asks:"
        f" {escape_unseen(approval.reason)}; answer with: toolstead approvals allow {approval.id}"
    )
