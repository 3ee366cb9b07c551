"""A question to a person about a tool call, and how it was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

ApprovalDecision = Literal["allow", "deny"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that waits for a person, or did.

    Attributes:
        tool: The tool's name.
        input: The arguments as they were when the person was asked.
        reason: Why the gate wants a person to look at it.
        asked_by: The gate that asked: a plugin's name.
        owner: The process in which the call waits; when it is dead, nobody waits any more.
        decision: None while it is open.
        decided_input: The arguments that the person wrote instead; None when they stay as they are.
        decision_reason: What the person, or whoever decided in their place, said about it.
    """

    id: str
    call_id: str
    tool: str
    input: Mapping[str, Any]
    reason: str
    asked_by: str
    thread_id: str
    requested_at: float
    expires_at: float
    owner: str
    run_id: str | None = None
    task_id: str | None = None
    decision: ApprovalDecision | None = None
    decided_input: Mapping[str, Any] | None = None
    decision_reason: str = ""
    decided_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers have."""
        return {
            "id": self.id,
            "callId": self.call_id,
            "tool": self.tool,
            "input": dict(self.input),
            "reason": self.reason,
            "askedBy": self.asked_by,
            "threadId": self.thread_id,
            "runId": self.run_id,
            "taskId": self.task_id,
            "requestedAt": self.requested_at,
            "expiresAt": self.expires_at,
            "decision": self.decision,
            "decidedInput": None if self.decided_input is None else dict(self.decided_input),
            "decisionReason": self.decision_reason,
            "decidedAt": self.decided_at,
        }
