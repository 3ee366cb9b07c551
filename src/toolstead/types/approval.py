"""A question to a person about a tool call, and how it was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from toolstead.types.sent import SentStruct

ApprovalDecision = Literal["allow", "deny"]


class Approval(SentStruct, frozen=True, kw_only=True):
    """A tool call that waits for a person, or did.

    Attributes:
        id: Its id.
        call_id: The call's id, as events have it.
        tool: The tool that is to be called.
        input: The arguments it would be called with, as they were when the person was asked.
        reason: Why a person should look at it.
        asked_by: The plugin that wants it.
        thread_id: The thread of the call.
        run_id: The run that calls, where one does.
        task_id: The task that calls, where one does.
        requested_at: When it was asked, in seconds since 1970.
        expires_at: When it is denied unless it was decided before, in seconds since 1970.
        owner: The process in which the call waits; when it is dead, the call is gone.
        decision: Null while it waits.
        decided_input: The arguments that were written instead; null when they stayed as they were.
        decision_reason: The reason given for the decision; may be empty.
        decided_at: When it was decided, in seconds since 1970.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"owner"})

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
