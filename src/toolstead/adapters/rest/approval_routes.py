"""The approval routes: list pending approvals and decide them. Both need the private token."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.body import body_decoder
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON
from toolstead.adapters.http.routing import Endpoint
from toolstead.adapters.rest.answers import ApprovalAnswer, ApprovalList, ReadableCall
from toolstead.adapters.rest.openapi import body_of, describe_answer, describe_operation, path_parameter
from toolstead.adapters.rest.problem_kinds import APPROVAL_DECIDED, STORAGE, UNKNOWN_APPROVAL
from toolstead.adapters.rest.refusals import explain_failures
from toolstead.adapters.rest.result_json import encode_anything
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


class ApprovalRoutes:
    """Approvals over HTTP."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._read = body_decoder(ApprovalBody)

    def list_endpoints(self) -> list[Endpoint]:
        """The routes, in the order the documentation shows them."""
        listing, decide = (
            explain_failures(one, unknown=UNKNOWN_APPROVAL) for one in (self.list_approvals, self.decide_approval)
        )
        return [
            Endpoint(method="GET", path="/api/approvals", handler=listing, operation=_LIST, private=True),
            Endpoint(method="POST", path="/api/approvals/{id}", handler=decide, operation=_DECIDE, private=True),
        ]

    async def list_approvals(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/approvals`."""
        waiting = await self._approvals.pending_approvals()
        return HttpResponse(
            200, encode_anything(ApprovalList(approvals=[_show_approval(approval) for approval in waiting]).to_json())
        )

    async def decide_approval(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/approvals/{id}`."""
        body = self._read(await request.read_body(), request.path)
        decided = await self._approvals.decide_approval(
            request.params["id"], body.decision, input=body.input, reason=body.reason or ""
        )
        return HttpResponse(200, encode_anything(_show_approval(decided).to_json()))


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

_LIST = describe_operation(
    "listApprovals",
    "List the pending approvals",
    "The calls that wait for a person's decision, from every process on the database.",
    responses=describe_answer(
        ApprovalList, "What waits.", STORAGE, example={"approvals": [_show_approval(_WAITING).to_json()]}
    ),
)
_DECIDE = describe_operation(
    "decideApproval",
    "Allow or deny a pending call",
    "The first decision counts. `input` replaces the arguments, and must fit the tool's schema; the model reads the "
    "reason of a denial.",
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
)
