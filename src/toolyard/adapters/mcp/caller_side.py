"""The MCP client as a tool sees it: to log to it, to ask its person, to use its model.

The handshake era can be asked while a call runs. The modern era has no way back, so there every
question is a clear error; log lines arrive in both where the client wants them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, NoBackChannelError

from toolyard.errors import NoClientError
from toolyard.types.tool import JSONSchema


class McpCallerSide:
    """One call's way back to its client."""

    def __init__(self, request: ServerRequestContext[Any, Any]) -> None:
        self._request = request

    async def log(self, level: str, text: str) -> None:
        """Show the client a log line, on the call's own stream."""
        with warnings.catch_warnings():
            # The 2026 revision deprecates logging, and handshake clients still read it.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await self._request.session.send_log_message(
                cast("mcp_types.LoggingLevel", level), text, related_request_id=self._request.request_id
            )

    async def elicit(self, message: str, schema: JSONSchema) -> Mapping[str, Any]:
        """Ask the person at the client.

        Raises:
            NoClientError: The client cannot be asked, or refused.
        """
        try:
            answer = await self._request.session.elicit_form(
                message, dict(schema), related_request_id=self._request.request_id
            )
        except (NoBackChannelError, MCPError) as error:
            raise NoClientError(f"this client cannot be asked: {error}") from None
        told: dict[str, Any] = {"action": answer.action}
        if answer.content is not None:
            told["content"] = answer.content
        return told

    async def sample(self, prompt: str, max_tokens: int) -> str:
        """Let the client's model answer.

        Raises:
            NoClientError: The client has no model to lend, or refused.
        """
        message = mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(type="text", text=prompt))
        try:
            with warnings.catch_warnings():
                # Deprecated by the 2026 revision like logging; the handshake era has nothing else.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                answer = await self._request.session.create_message(
                    [message], max_tokens=max_tokens, related_request_id=self._request.request_id
                )
        except (NoBackChannelError, MCPError) as error:
            raise NoClientError(f"this client's model cannot be used: {error}") from None
        return answer.content.text if isinstance(answer.content, mcp_types.TextContent) else ""
