"""The MCP client as a tool sees it: logging, elicitation and sampling.

Handshake clients accept requests while a call runs, if they declared the capability. The modern protocol version has
no such requests: there a question ends the client's own request, and the answer comes with its next one
(`suspended_calls`). Log messages work in both, if enabled.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, get_args

import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import ValidationError

from toolstead.adapters.mcp.approval_ways import takes_forms
from toolstead.adapters.mcp.wire import is_modern
from toolstead.errors import NoClientError
from toolstead.schema.visible import escape_unseen
from toolstead.types.content import whole_json, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import JSONSchema

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

_LEVELS: tuple[mcp_types.LoggingLevel, ...] = get_args(mcp_types.LoggingLevel)
_LONGEST_NAME = 100
_LEVEL = "toolstead.log-level"
_DEFAULT_LEVEL = "info"

_ASKING = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
_LENDING = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability())
_NOT_ASKED = "this client cannot be asked"
_NOT_LENT = "this client's model cannot be used"

AskModern = Callable[[mcp_types.InputRequest, "str | None"], Awaitable[mcp_types.InputResponse]]
"""Asks a modern client, under a key where one is given. Raises `NoClientError`."""


def connection_of(request: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a message: it lasts as long as the client, a session only as long as the request.

    Reads a private attribute of the SDK, the only one that is needed.
    """
    return request.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way


def client_name(request: ServerRequestContext[Any, Any]) -> str | None:
    """The name that a message's client gives itself; None if it gave none."""
    params = request.session.client_params
    return None if params is None else params.client_info.name


def elicitation_of(request: ServerRequestContext[Any, Any]) -> Mapping[str, Any] | None:
    """What a message's client declares as `elicitation`; None for nothing."""
    declared = connection_of(request).client_capabilities
    if declared is None or declared.elicitation is None:
        return None
    return declared.elicitation.model_dump(by_alias=True, exclude_none=True)


class McpCallerSide:
    """The back channel of one call to its client."""

    def __init__(self, request: ServerRequestContext[Any, Any], *, ask: AskModern | None, patience: float) -> None:
        """Create it for a call.

        Args:
            request: The request that the call answers.
            ask: Asks a modern client; None towards a handshake client.
            patience: Seconds that a handshake client has to answer; whoever asks a modern one bounds that.
        """
        self._request = request
        self._ask = ask
        self._patience = patience
        self._is_attached = True
        self._lacking: mcp_types.ClientCapabilities | None = None
        self._refusal = ""

    @property
    def elicitation(self) -> Mapping[str, Any] | None:
        """What the client declares as `elicitation`; None for nothing."""
        return elicitation_of(self._request)

    @property
    def shown_name(self) -> str:
        """The name that the client gives itself, for people to read."""
        return repr(escape_unseen((client_name(self._request) or "without a name")[:_LONGEST_NAME]))

    @property
    def origin(self) -> str | None:
        """This server's address, as the client's request names it; None on stdio. The guard has checked the name."""
        request = self._request.request
        return None if request is None else f"{request.url.scheme}://{request.headers['host']}"

    def attach(self, request: ServerRequestContext[Any, Any]) -> None:
        """Follow the call to its next request."""
        self._request, self._is_attached = request, True

    def detach(self) -> None:
        """Note that the request has ended, and the call has not."""
        self._is_attached = False

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send the client a progress notification, if it requested progress."""
        if self._can_send("progress"):
            shown = None if message is None else whole_text(message)
            await self._request.session.report_progress(progress, total, shown)

    async def log(self, level: str, text: str) -> None:
        """Send the client a log message on the call's own stream, if its level is enabled.

        Raises:
            ValueError: There is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(f"unknown log level {level!r}; use one of {', '.join(_LEVELS)}")
        if not self._wants_level(level) or not self._can_send("a log message"):
            return
        with warnings.catch_warnings():
            # The 2026 revision deprecates logging, and handshake clients still read it.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await self._request.session.send_log_message(  # pyright: ignore[reportDeprecated] - as above
                level, whole_text(text), related_request_id=self._request.request_id
            )

    async def elicit(self, message: str, schema: JSONSchema, *, key: str | None = None) -> Mapping[str, Any]:
        """Ask the client's user.

        Raises:
            NoClientError: The client does not support elicitation, or refused, or did not answer in time.
        """
        self._need_capability(_ASKING, f"{_NOT_ASKED}: it did not declare `elicitation`")
        if not takes_forms(self.elicitation or {}):
            raise NoClientError(f"{_NOT_ASKED}: it declared `elicitation` for links only, not for forms")
        form = mcp_types.ElicitRequestFormParams(message=whole_text(message), requested_schema=whole_json(schema))
        if self._ask is not None:
            answer = await self._ask(mcp_types.ElicitRequest(params=form), key)
            if not isinstance(answer, mcp_types.ElicitResult):
                raise NoClientError(f"{_NOT_ASKED}: its answer is malformed")
        else:
            session, related = self._request.session, self._request.request_id
            work = session.elicit_form(form.message, form.requested_schema, related_request_id=related)
            answer = await self._wait_for(work, _NOT_ASKED)
        return {"action": answer.action, **({} if answer.content is None else {"content": answer.content})}

    async def elicit_page(self, message: str, url: str, *, id: str) -> str:
        """Ask the client to open a page for its user: `accept`, `decline` or `cancel`.

        Raises:
            NoClientError: The client refused, or its answer is malformed.
        """
        if self._ask is not None:
            link = mcp_types.ElicitRequestURLParams(message=whole_text(message), url=url)
            answer = await self._ask(mcp_types.ElicitRequest(params=link), id)
            if not isinstance(answer, mcp_types.ElicitResult):
                raise NoClientError(f"{_NOT_ASKED}: its answer is malformed")
        else:
            session, related = self._request.session, self._request.request_id
            work = session.elicit_url(whole_text(message), url, id, related_request_id=related)
            answer = await self._wait_for(work, _NOT_ASKED)
        return answer.action

    async def sample(self, prompt: str, max_tokens: int, *, key: str | None = None) -> str:
        """Have the client's model answer.

        Raises:
            NoClientError: The client does not support sampling, or refused, or did not answer in time.
        """
        self._need_capability(_LENDING, f"{_NOT_LENT}: it did not declare `sampling`")
        text = mcp_types.TextContent(type="text", text=whole_text(prompt))
        message = mcp_types.SamplingMessage(role="user", content=text)
        if self._ask is not None:
            params = mcp_types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
            answer = await self._ask(mcp_types.CreateMessageRequest(params=params), key)
            if not isinstance(answer, mcp_types.CreateMessageResult):
                raise NoClientError(f"{_NOT_LENT}: its answer is malformed")
        else:
            with warnings.catch_warnings():
                # Deprecated by the 2026 revision like logging; the handshake versions have nothing else.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                work = self._request.session.create_message(  # pyright: ignore[reportDeprecated] - as above
                    [message], max_tokens=max_tokens, related_request_id=self._request.request_id
                )
                answer = await self._wait_for(work, _NOT_LENT)
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

    def _can_send(self, what: str) -> bool:
        """Whether a request of the client is open, on whose stream something can be sent."""
        if not self._is_attached:
            logger.debug("dropped %s: the call waits for its client's answer, and no request is open", what)
        return self._is_attached

    async def _wait_for(self, work: Awaitable[_T], refusal: str) -> _T:
        """A handshake client's answer.

        Raises:
            NoClientError: It refused, or its answer is none, or there was none in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                return await work
        except MCPError as error:
            raise NoClientError(f"{refusal}: {error}") from None
        except ValidationError:
            raise NoClientError(f"{refusal}: its answer is malformed") from None
        except TimeoutError:
            logger.warning("%s: it did not answer within %g seconds", refusal, self._patience)
            raise NoClientError(f"{refusal}: it did not answer within {self._patience:g} seconds") from None


async def set_log_level(
    request: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams
) -> mcp_types.EmptyResult:
    """Handler of `logging/setLevel`: the lowest level of log messages for this connection."""
    connection_of(request).state[_LEVEL] = params.level
    return mcp_types.EmptyResult()
