"""`/approvals/{id}`: one call that waits for a person, as a page with two buttons.

Clients are given its address, and a browser opens it. It shows nothing and decides nothing without the private token,
which a person enters once (the guard moves it into a cookie). No script; forms lead to this server only.
"""

from __future__ import annotations

import json
from contextlib import suppress
from html import escape
from typing import Final
from urllib.parse import quote

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.guard import PrivateAccess
from toolstead.adapters.http.html_page import render_html
from toolstead.adapters.rest.openapi import path_parameter, route
from toolstead.errors import ApprovalDecidedError, NotFoundError
from toolstead.orchestrator.approvals import Approvals
from toolstead.schema.visible import escape_unseen
from toolstead.types.approval import Approval, ApprovalDecision

_HTML: Final = {"content": {"text/html": {"schema": {"type": "string"}}}}
_ID: Final = path_parameter("id", "The approval's id.", "approval_1")
_DECIDED: Final = {"303": {"description": "Back to the page, which shows the decision."}}


class ApprovalPage:
    """The page of one approval, and what its buttons do."""

    def __init__(self, approvals: Approvals, private: PrivateAccess) -> None:
        self._approvals = approvals
        self._private = private

    @route(
        "GET",
        "/approvals/{id}",
        "approvalPage",
        "See a call that waits, and decide",
        "For browsers. Without the private token or its cookie it only asks for that token.",
        parameters=[_ID],
        responses={
            "200": {"description": "The call, with two buttons while it waits.", **_HTML},
            "403": {"description": "A form for the private token.", **_HTML},
            "404": {"description": "There is no such approval.", **_HTML},
        },
    )
    async def show_page(self, request: HttpRequest) -> HttpResponse:
        """`GET /approvals/{id}`."""
        if not self._private.is_admitted(request):
            return render_html(403, "This page needs the private token", _TOKEN_FORM)
        try:
            approval = await self._approvals.read_approval(request.params["id"])
        except NotFoundError:
            text = "<p>There is no such approval (any more): decided ones are deleted with their thread.</p>"
            return render_html(404, "No such approval", text)
        return render_html(200, f"A call of {escape_unseen(approval.tool)}", _render_call(approval))

    @route(
        "POST",
        "/approvals/{id}/allow",
        "allowOnPage",
        "Allow a call with the page's button",
        "Without a body. Programs use `POST /api/approvals/{id}`.",
        parameters=[_ID],
        responses=_DECIDED,
        private=True,
    )
    async def allow_call(self, request: HttpRequest) -> HttpResponse:
        """`POST /approvals/{id}/allow`."""
        return await self._decide(request, "allow")

    @route(
        "POST",
        "/approvals/{id}/deny",
        "denyOnPage",
        "Deny a call with the page's button",
        "As `allow`.",
        parameters=[_ID],
        responses=_DECIDED,
        private=True,
    )
    async def deny_call(self, request: HttpRequest) -> HttpResponse:
        """`POST /approvals/{id}/deny`."""
        return await self._decide(request, "deny")

    async def _decide(self, request: HttpRequest, decision: ApprovalDecision) -> HttpResponse:
        approval_id = request.params["id"]
        with suppress(ApprovalDecidedError):  # the page shows who was first
            await self._approvals.decide_approval(approval_id, decision)
        place = f"/approvals/{quote(approval_id, safe='')}"
        return HttpResponse(303, b"", ((b"location", place.encode()), (b"cache-control", b"no-store")))


_TOKEN_FORM: Final = (
    "<p>Only a person decides here. Enter the private token of this server: it is in <code>server.json</code> in the "
    "data folder of Toolstead, readable for you alone. This browser keeps a cookie of it.</p>"
    '<form method="get"><input type="password" name="token" autocomplete="off" aria-label="Private token">'
    "<button>Continue</button></form>"
    "<p>If you have entered it before: reload this page, because a browser does not send the cookie along when "
    "another site links here.</p>"
)


def _render_call(approval: Approval) -> str:
    text = json.dumps(approval.input, ensure_ascii=False, indent=2)
    shown = (
        f"<p>{escape(escape_unseen(approval.asked_by))} wants a person to decide: "
        f"{escape(escape_unseen(approval.reason, 'value'))}</p><pre>{escape(escape_unseen(text, 'value'))}</pre>"
    )
    if approval.decision is not None:
        reason = escape(escape_unseen(approval.decision_reason, "value"))
        edited = " with other arguments" if approval.decided_input is not None else ""
        return f"{shown}<p><strong>Decided: {approval.decision}{edited}.</strong> {reason}</p>"
    place = f"/approvals/{quote(approval.id, safe='')}"
    buttons = "".join(
        f'<form method="post" action="{place}/{decision}"><button>{decision.capitalize()}</button></form>'
        for decision in ("deny", "allow")
    )
    return f"{shown}{buttons}<p>Without a decision in time it is denied.</p>"
