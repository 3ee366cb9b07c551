"""The approval routes: what waits for a person, and their decision. Both are for people alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from toolstead.adapters.rest.asgi import Answer, Handler, Request, Sendable
from toolstead.adapters.rest.body import BodyError, decoder
from toolstead.adapters.rest.guard import RETRY_AFTER
from toolstead.adapters.rest.openapi import body_of, operation, path_parameter, returns
from toolstead.adapters.rest.problem import APPROVAL_DECIDED, BAD_BODY, BAD_JSON, STORAGE, UNKNOWN_APPROVAL, problem
from toolstead.adapters.rest.result_json import encode_anything
from toolstead.adapters.rest.routing import Endpoint
from toolstead.errors import ApprovalDecidedError, InvalidApprovalError, NotFoundError, StorageError
from toolstead.orchestrator.approvals import Approvals
from toolstead.schema.visible import escaped
from toolstead.types.approval import Approval, ApprovalDecision


class ApprovalBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The body of a decision."""

    decision: ApprovalDecision
    input: dict[str, Any] | None = None
    reason: str | None = None


class ApprovalRoutes:
    """Approvals over HTTP."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._read = decoder(ApprovalBody)

    def endpoints(self) -> list[Endpoint]:
        """The routes, in the order the documentation shows them."""
        listing, decide = _told(self.listing), _told(self.decide)
        return [
            Endpoint(method="GET", path="/api/approvals", handler=listing, operation=_LIST, private=True),
            Endpoint(method="POST", path="/api/approvals/{id}", handler=decide, operation=_DECIDE, private=True),
        ]

    async def listing(self, _: Request) -> Answer:
        """`GET /api/approvals`."""
        waiting = await self._approvals.pending()
        return Answer(200, encode_anything({"approvals": [_shown(approval) for approval in waiting]}))

    async def decide(self, request: Request) -> Answer:
        """`POST /api/approvals/{id}`."""
        body = self._read(await request.body(), request.path)
        decided = await self._approvals.decide(
            request.params["id"], body.decision, input=body.input, reason=body.reason or ""
        )
        return Answer(200, encode_anything(_shown(decided)))


def _shown(approval: Approval) -> dict[str, Any]:
    """An approval, and how to show it: nothing in it may hide from the person who decides."""
    text = json.dumps(approval.input, ensure_ascii=False, indent=2)
    readable = {"input": escaped(text, "value"), "reason": escaped(approval.reason, "value")}
    return {**approval.to_json(), "shown": readable}


def _told(handler: Callable[[Request], Awaitable[Answer]]) -> Handler:
    """A handler whose foreseen failures are problem documents."""

    async def answer(request: Request) -> Sendable | None:
        if any("\0" in value for value in request.params.values()):  # which not every database could look for
            return problem(UNKNOWN_APPROVAL, "No id has a null character in it.", instance=request.path)
        try:
            return await handler(request)
        except BodyError as error:
            return error.answer
        except NotFoundError as error:
            detail = f"There is no approval {error.id[:200]!r}; GET /api/approvals lists those that wait."
            return problem(UNKNOWN_APPROVAL, detail, instance=request.path)
        except ApprovalDecidedError as error:
            return problem(
                APPROVAL_DECIDED,
                _sentence(error),
                instance=request.path,
                decision=error.decision,
                reason=error.reason,
            )
        except InvalidApprovalError as error:
            lines = "\n".join(f"/{error.field}: {one}" for one in error.problems)
            return problem(BAD_BODY, lines, instance=request.path)
        except StorageError as error:
            return problem(STORAGE, _sentence(error), instance=request.path, headers=(RETRY_AFTER,))

    return answer


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


_EXAMPLE: dict[str, Any] = {
    "id": "approval_1",
    "callId": "call_1",
    "tool": "mail__send",
    "input": {"to": "everybody@example.com"},
    "reason": "it goes to more than ten people",
    "askedBy": "careful",
    "threadId": "thread_1",
    "runId": "run_1",
    "taskId": None,
    "requestedAt": 1790000001.5,
    "expiresAt": 1790000301.5,
    "decision": None,
    "decidedInput": None,
    "decisionReason": "",
    "decidedAt": None,
    "shown": {"input": '{\n  "to": "everybody@example.com"\n}', "reason": "it goes to more than ten people"},
}
_DECIDED = {
    **_EXAMPLE,
    "decision": "allow",
    "decidedInput": {"to": "ada@example.com"},
    "decisionReason": "to her alone",
    "decidedAt": 1790000011.5,
}

_LIST = operation(
    "listApprovals",
    "List what waits for a person",
    "The calls that a plugin wants a person to decide about, of every process on the database.",
    responses=returns("ApprovalList", "What waits.", STORAGE, example={"approvals": [_EXAMPLE]}),
)
_DECIDE = operation(
    "decideApproval",
    "Allow or deny a call that waits",
    "The first decision counts. `input` goes on with other arguments, which must fit the tool; the reason of a no is "
    "for the model to read.",
    parameters=[path_parameter("id", "The approval's id.", "approval_1")],
    requestBody=body_of(
        "ApprovalRequest",
        {"decision": "allow", "input": {"to": "ada@example.com"}, "reason": "to her alone"},
        required=True,
    ),
    responses=returns(
        "Approval",
        "The approval as it was decided.",
        BAD_JSON,
        BAD_BODY,
        UNKNOWN_APPROVAL,
        APPROVAL_DECIDED,
        STORAGE,
        example=_DECIDED,
    ),
)
