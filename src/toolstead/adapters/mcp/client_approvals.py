"""An approval, asked of the person at an MCP client, beside every other place where it can be decided."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from toolstead.adapters.mcp.approval_ways import PAGE_PATH, ApprovalWays
from toolstead.adapters.mcp.caller_side import McpCallerSide
from toolstead.schema.visible import escape_unseen
from toolstead.types.approval import Approval, ApprovalDecision
from toolstead.types.tool import JSONSchema

logger = logging.getLogger(__name__)

LONGEST_SHOWN: Final = 8_000
"""Characters of a call in a form; nobody is asked to allow what is not shown."""
LONGEST_REASON: Final = 500
_FORM: Final[JSONSchema] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "May this call run?", "enum": ["allow", "deny"]},
        "reason": {"type": "string", "title": "Why? The model reads it when you deny", "maxLength": LONGEST_REASON},
    },
    "required": ["decision"],
}


class McpApprovingClient:
    """The client of one call, as approvals see it."""

    def __init__(self, client: McpCallerSide, ways: ApprovalWays) -> None:
        self._client = client
        self._ways = ways

    async def ask_approval(self, approval: Approval) -> tuple[ApprovalDecision, str] | None:
        """Ask the person at the client: with a form the decision; with a link, or without either, None.

        Raises:
            NoClientError: The client refused, or its answer is malformed.
        """
        match self._ways.find_way(self._client.elicitation):
            case "page":
                await self._show_page(approval)
            case "form":
                return await self._ask_form(approval)
            case None:
                logger.debug("approval %s: the client is not asked: no way is offered to it", approval.id)
        return None

    async def _show_page(self, approval: Approval) -> None:
        origin = self._ways.public_url or self._client.origin
        if origin is None:
            return
        message = f"{_introduce_call(approval)} Open the page to see the call, and to allow or deny it."
        # Whatever the client answers decides nothing: the page does, for whoever has the private token.
        action = await self._client.elicit_page(message, f"{origin}{PAGE_PATH}{approval.id}", id=approval.id)
        logger.info("approval %s: the client answered %r to the link", approval.id, action)

    async def _ask_form(self, approval: Approval) -> tuple[ApprovalDecision, str] | None:
        text = json.dumps(approval.input, ensure_ascii=False, indent=2)
        shown = f"{_introduce_call(approval)}\n\n{escape_unseen(approval.tool)} {escape_unseen(text, 'value')}"
        if len(shown) > LONGEST_SHOWN:
            logger.warning(
                "approval %s is not asked at the client: it has %s characters, a form at most %s",
                approval.id,
                len(shown),
                LONGEST_SHOWN,
            )
            return None
        answer = await self._client.elicit(shown, _FORM, key=approval.id)
        content: Mapping[str, Any] = answer.get("content") or {}
        reason = str(content.get("reason") or "")[:LONGEST_REASON]
        match answer["action"], content.get("decision"):
            case "accept", "allow":
                return "allow", f"allowed by form at the client {self._client.shown_name}"
            case ("accept", "deny") | ("decline", _):
                return "deny", reason or f"denied at the client {self._client.shown_name}"
            case _:
                logger.info("approval %s: the form at the client was left undecided", approval.id)
                return None


def _introduce_call(approval: Approval) -> str:
    reason = escape_unseen(approval.reason, "value")
    asked_by = escape_unseen(approval.asked_by)
    return f"A call of {escape_unseen(approval.tool)} waits for a person; {asked_by} wants it: {reason}."
