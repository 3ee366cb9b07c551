"""The JSON shapes of approvals, as JSON Schema; beside `shapes`, which has those of tools."""

from __future__ import annotations

from typing import Any, get_args

from toolstead.adapters.rest.shapes import Shape, list_of, object_of, ref, text
from toolstead.orchestrator.resolutions import LONGEST_REASON
from toolstead.types.approval import ApprovalDecision

_DECISIONS: list[Any] = list(get_args(ApprovalDecision))


def _maybe(shape: Shape) -> Shape:
    return {**shape, "type": [shape["type"], "null"]}


def _moment(description: str) -> Shape:
    return {"type": "number", "description": f"{description}, in seconds since 1970."}


APPROVAL_SHAPES: dict[str, Shape] = {
    "Approval": object_of(
        "A tool call that waits for a person, or did.",
        {
            "id": text("Its id."),
            "callId": text("The call's id, as events have it."),
            "tool": text("The tool that is to be called."),
            "input": {"type": "object", "description": "The arguments it would be called with."},
            "reason": text("Why a person should look at it."),
            "askedBy": text("The plugin that wants it."),
            "threadId": text("The thread of the call."),
            "runId": _maybe(text("The run that calls, where one does.")),
            "taskId": _maybe(text("The task that calls, where one does.")),
            "requestedAt": _moment("When it was asked"),
            "expiresAt": _moment("When it will be denied, unless somebody decided"),
            "decision": {
                "type": ["string", "null"],
                "enum": [*_DECISIONS, None],
                "description": "Null while it waits.",
            },
            "decidedInput": {
                "type": ["object", "null"],
                "description": "The arguments that were written instead; null when they stayed as they were.",
            },
            "decisionReason": text("What was said about the decision; may be empty."),
            "decidedAt": _maybe(_moment("When it was decided")),
            "shown": object_of(
                "How to show it to the person who decides.",
                {
                    "input": text("The arguments as JSON text, with every character that would not be seen escaped."),
                    "reason": text("The reason, likewise."),
                },
            ),
        },
    ),
    "ApprovalList": object_of("What waits for a person.", {"approvals": list_of(ref("Approval"), "The oldest first.")}),
    "ApprovalRequest": {
        **object_of(
            "A person's decision.",
            {"decision": {"type": "string", "enum": _DECISIONS, "description": "Whether the call may go on."}},
            {
                "input": {
                    "type": ["object", "null"],
                    "description": "Arguments to go on with instead; they must fit the tool. Only with `allow`.",
                },
                "reason": {
                    **_maybe(text("Why; a model reads it when its call is denied.")),
                    "maxLength": LONGEST_REASON,
                },
            },
        ),
        "additionalProperties": False,
    },
}
