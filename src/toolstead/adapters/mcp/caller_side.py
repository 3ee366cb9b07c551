"""The MCP client as a tool sees it: logging, elicitation and sampling.

Handshake clients accept requests while a call runs, if they declared the capability. The modern protocol version has
no back channel, so every request to the client is an error there. Log messages work in both,
if enabled.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, get_args

import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, NoBackChannelError
from pydantic import ValidationError

from toolstead.adapters.mcp.wire import is_modern
from toolstead.errors import NoClientError
from toolstead.types.content import whole_json, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import JSONSchema

_LEVELS: tuple[mcp_types.LoggingLevel, ...] = get_args(mcp_types.LoggingLevel)
_LEVEL = "toolstead.log-level"
_DEFAULT_LEVEL = "info"

_ASKING = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
_LENDING = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability())


def connection_of(request: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a message: it lasts as long as the client, a session only as long as the request.

    Reads a private attribute of the SDK, the only one that is needed.
    """
    return request.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way


class McpCallerSide:
    """The back channel of one call to its client."""

    def __init__(self, request: ServerRequestContext[Any, Any]) -> None:
        self._request = request
        self._lacking: mcp_types.ClientCapabilities | None = None
        self._refusal = ""

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send the client a progress notification, if it requested progress."""
        await self._request.session.report_progress(progress, total, None if message is None else whole_text(message))

    async def log(self, level: str, text: str) -> None:
        """Send the client a log message on the call's own stream, if its level is enabled.

        Raises:
            ValueError: There is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(f"unknown log level {level!r}; use one of {', '.join(_LEVELS)}")
        if not self._wants_level(level):
            return
        with warnings.catch_warnings():
            # The 2026 revision deprecates logging, and handshake clients still read it.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await self._request.session.send_log_message(  # pyright: ignore[reportDeprecated] - as above
                level, whole_text(text), related_request_id=self._request.request_id
            )

    async def elicit(self, message: str, schema: JSONSchema) -> Mapping[str, Any]:
        """Ask the client's user.

        Raises:
            NoClientError: The client does not support elicitation, or refused.
        """
        self._need_capability(_ASKING, "this client cannot be asked: it did not declare `elicitation`")
        try:
            answer = await self._request.session.elicit_form(
                whole_text(message), whole_json(schema), related_request_id=self._request.request_id
            )
        except (MCPError, ValidationError) as error:
            raise NoClientError(f"this client cannot be asked: {self._error_reason(error)}") from None
        return {"action": answer.action, **({} if answer.content is None else {"content": answer.content})}

    async def sample(self, prompt: str, max_tokens: int) -> str:
        """Have the client's model answer.

        Raises:
            NoClientError: The client does not support sampling, or refused.
        """
        self._need_capability(_LENDING, "this client's model cannot be used: it did not declare `sampling`")
        text = mcp_types.TextContent(type="text", text=whole_text(prompt))
        message = mcp_types.SamplingMessage(role="user", content=text)
        try:
            with warnings.catch_warnings():
                # Deprecated by the 2026 revision like logging; the handshake versions have nothing else.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                answer = await self._request.session.create_message(  # pyright: ignore[reportDeprecated] - as above
                    [message], max_tokens=max_tokens, related_request_id=self._request.request_id
                )
        except (MCPError, ValidationError) as error:
            raise NoClientError(f"this client's model cannot be used: {self._error_reason(error)}") from None
        return answer.content.text if isinstance(answer.content, mcp_types.TextContent) else ""

    def missing_capability(self, result: ToolResult) -> MCPError | None:
        """The newest protocol version's error for a tool that failed because the client lacks a capability.

        A tool that handled the refusal keeps its answer.
        """
        if self._lacking is None or not result.is_error or result.text != self._refusal:
            return None
        data = mcp_types.MissingRequiredClientCapabilityErrorData(required_capabilities=self._lacking)
        return MCPError(
            code=mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=self._refusal,
            data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )

    def _wants_level(self, level: mcp_types.LoggingLevel) -> bool:
        if is_modern(self._request.protocol_version):
            return True  # each request names its level, and the SDK filters by it
        wanted: mcp_types.LoggingLevel = connection_of(self._request).state.get(_LEVEL, _DEFAULT_LEVEL)
        return _LEVELS.index(level) >= _LEVELS.index(wanted)

    def _need_capability(self, capability: mcp_types.ClientCapabilities, refusal: str) -> None:
        if self._request.session.check_client_capability(capability):
            return
        if is_modern(self._request.protocol_version):
            self._lacking, self._refusal = capability, refusal
        raise NoClientError(refusal)

    def _error_reason(self, error: MCPError | ValidationError) -> str:
        if isinstance(error, NoBackChannelError):
            return f"revision {self._request.protocol_version} of the protocol has no back channel while a call runs"
        return str(error) if isinstance(error, MCPError) else "its answer is malformed"


async def set_log_level(
    request: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams
) -> mcp_types.EmptyResult:
    """Handler of `logging/setLevel`: the lowest level of log messages for this connection."""
    connection_of(request).state[_LEVEL] = params.level
    return mcp_types.EmptyResult()
