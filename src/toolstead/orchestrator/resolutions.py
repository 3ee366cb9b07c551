"""Decisions about approvals as values: which are valid, their events, and what they mean for the call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.errors import ApprovalDecidedError, InvalidApprovalError
from toolstead.orchestrator.store import Resolution
from toolstead.types.call import Allow, Deny, Rewrite
from toolstead.types.event import NewEvent

if TYPE_CHECKING:
    from toolstead.types.approval import Approval, ApprovalDecision

LONGEST_REASON = 2_000
UNSAID = "a person denied it"


def verdict_of(approval: Approval) -> Allow | Deny | Rewrite:
    """What a decision means for the call."""
    if approval.decision != "allow":
        return Deny(approval.decision_reason or UNSAID)
    return Allow() if approval.decided_input is None else Rewrite(approval.decided_input)


def build_resolution(
    approval: Approval, decision: ApprovalDecision, reason: str, input: Mapping[str, Any] | None = None
) -> Resolution:
    """A decision made now, with its event."""
    now = time.time()
    data = {"approvalId": approval.id, "decision": decision, "reason": reason, "edited": input is not None}
    told = approval_event("approval.resolved", approval, now, data)
    return Resolution(decision=decision, decided_at=now, decision_reason=reason, decided_input=input, events=[told])


def approval_event(type: str, approval: Approval, now: float, data: Mapping[str, Any]) -> NewEvent:
    """An event about an approval, in the run and thread of its call."""
    return NewEvent(
        type=type,
        time=now,
        data=data,
        thread_id=approval.thread_id,
        run_id=approval.run_id,
        task_id=approval.task_id,
    )


def check_decision(decision: str, input: object, reason: object) -> None:
    """Refuse what can be no decision, whatever it is about.

    Raises:
        InvalidApprovalError: It says what is wrong.
    """
    if decision not in ("allow", "deny"):
        raise InvalidApprovalError("decision", f"it must be 'allow' or 'deny', not {decision!r}")
    if input is not None and decision == "deny":
        raise InvalidApprovalError("input", "a denied call takes none; leave it out, or allow the call")
    if not isinstance(input, Mapping | None):
        raise InvalidApprovalError("input", "the tool's arguments must be an object")
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
        raise InvalidApprovalError("reason", f"it must be text of at most {LONGEST_REASON:,} characters")


def too_late(approval: Approval) -> ApprovalDecidedError:
    """The refusal of a second decision, which names the first."""
    return ApprovalDecidedError(id=approval.id, decision=approval.decision or "", reason=approval.decision_reason)


def as_json(input: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, as JSON has it.

    Raises:
        InvalidApprovalError: It is no JSON.
    """
    try:
        json.dumps(dict(input), allow_nan=False)  # msgspec would make null of what is no number
        return msgspec.json.decode(msgspec.json.encode(dict(input)), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidApprovalError("input", f"it must be a JSON object: {error}") from error


def sorted_text(input: Mapping[str, Any]) -> bytes:
    """The same text for the same arguments; `1` and `true` differ, though Python finds them equal."""
    return msgspec.json.encode(dict(input), order="sorted")
