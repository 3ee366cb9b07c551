"""The approval routes: list pending approvals and decide them. Both need the private token."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON
from toolstead.adapters.rest.answers import ApprovalAnswer, ApprovalList, ReadableCall
from toolstead.adapters.rest.openapi import body_of, describe_answer, path_parameter, route
from toolstead.adapters.rest.problems import APPROVAL_DECIDED, STORAGE, UNKNOWN_APPROVAL
from toolstead.orchestrator.approvals import LONGEST_REASON, Approvals
from toolstead.schema.visible import escape_unseen
from toolstead.types.approval import Approval, ApprovalDecision


class ApprovalBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A person's decision.

    Attributes:
        decision: Whether the call may run.
        input: Arguments to use instead; they must fit the tool. Only with `allow`.
        reason: Why; a model reads it when its call is denied.
    """

    decision: ApprovalDecision
    input: dict[str, Any] | None = None
    reason: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": LONGEST_REASON})] | None = None


def _show_approval(approval: Approval) -> ApprovalAnswer:
    """An approval with its display form, in which no character is invisible to the person who decides."""
    text = json.dumps(approval.input, ensure_ascii=False, indent=2)
    readable = ReadableCall(input=escape_unseen(text, "value"), reason=escape_unseen(approval.reason, "value"))
    return ApprovalAnswer(approval=approval, shown=readable)


_WAITING = Approval(
    id="approval_1",
    call_id="call_1",
    tool="mail__send",
    input={"to": "everybody@example.com"},
    reason="it goes to more than ten people",
    asked_by="careful",
    thread_id="thread_1",
    run_id="run_1",
    requested_at=1790000001.5,
    expires_at=1790000301.5,
    owner="",
)
_DECIDED = msgspec.structs.replace(
    _WAITING,
    decision="allow",
    decided_input={"to": "ada@example.com"},
    decision_reason="to her alone",
    decided_at=1790000011.5,
)


class ApprovalRoutes:
    """Approvals over HTTP."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @route(
        "GET",
        "/api/approvals",
        "listApprovals",
        "List the pending approvals",
        "The calls that wait for a person's decision, from every process on the database.",
        responses=describe_answer(
            ApprovalList, "What waits.", STORAGE, example={"approvals": [_show_approval(_WAITING).to_json()]}
        ),
        private=True,
    )
    async def list_approvals(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/approvals`."""
        waiting = await self._approvals.pending_approvals()
        return HttpResponse.of_json(
            ApprovalList(approvals=[_show_approval(approval) for approval in waiting]).to_json()
        )

    @route(
        "POST",
        "/api/approvals/{id}",
        "decideApproval",
        "Allow or deny a pending call",
        "The first decision counts. `input` replaces the arguments, and must fit the tool's schema; the model reads "
        "the reason of a denial.",
        parameters=[path_parameter("id", "The approval's id.", "approval_1")],
        requestBody=body_of(
            ApprovalBody,
            {"decision": "allow", "input": {"to": "ada@example.com"}, "reason": "to her alone"},
            required=True,
        ),
        responses=describe_answer(
            ApprovalAnswer,
            "The decided approval.",
            BAD_JSON,
            BAD_BODY,
            UNKNOWN_APPROVAL,
            APPROVAL_DECIDED,
            STORAGE,
            example=_show_approval(_DECIDED).to_json(),
        ),
        private=True,
    )
    async def decide_approval(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/approvals/{id}`."""
        body = await decode_body(request, ApprovalBody)
        decided = await self._approvals.decide_approval(
            request.params["id"], body.decision, input=body.input, reason=body.reason or ""
        )
        return HttpResponse.of_json(_show_approval(decided).to_json())
