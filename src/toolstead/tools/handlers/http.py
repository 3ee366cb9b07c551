"""The http handler: one request for each call, through the guarded client.

Arguments that stand in the address fill it; what is left becomes the JSON body, or the query of a
GET. A status of 400 and above is an error with the beginning of the body.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from toolstead.concurrency.suspended_coroutine import render_seconds
from toolstead.errors import RefusedError, ToolError
from toolstead.nearest_names import suggest
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_answer import read_answer
from toolstead.tools.handlers.http_client import GuardedClient, OutgoingRequest
from toolstead.tools.handlers.http_guard import AllowedHosts
from toolstead.tools.handlers.http_url import (
    IDEMPOTENT,
    Url,
    UrlTemplate,
    load_url,
    query_pairs,
)
from toolstead.tools.handlers.secrets import MASK, REFERENCE, Mask, expand_secrets
from toolstead.tools.handlers.template import Placeholder, TemplateError
from toolstead.types.result import Failure, ToolResult

logger = logging.getLogger(__name__)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
MOST_RETRIES = 2

_QUERY_METHODS = frozenset({"GET", "HEAD"})
_RETRIED = frozenset({429, 503})
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_JSON_TYPE = re.compile(r"application/(json|[\w.-]+\+json)\s*(;.*)?", re.IGNORECASE)
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"accept-encoding", "proxy-authorization", "proxy-connection"}
)
_CREDENTIALS = frozenset({"authorization", "cookie", "x-api-key"})
_T = TypeVar("_T")


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an http handler; the timeout is in seconds."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    timeout: float = 10.0
    allowed_hosts: Sequence[str] = ()
    max_output: int | None = None


def load_http(
    config: HttpConfig,
    *,
    properties: Collection[str],
    surroundings: Surroundings,
    client: GuardedClient,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> HttpHandler:
    """Check an http handler and make it ready.

    Args:
        config: The handler.
        properties: The names of the inputSchema's properties.
        surroundings: The environment, and what the user allows.
        client: Sends the requests.
        sleep: Waits before a retry.

    Raises:
        TemplateError: Something in it could not work, or would send a secret anywhere.
    """
    method = config.method.upper()
    if method not in METHODS:
        hint = suggest(method, METHODS, show=str, otherwise=f"there are: {', '.join(METHODS)}")
        raise TemplateError(f'"method": {config.method[:40]!r} is no method; {hint}')
    if not (math.isfinite(config.timeout) and config.timeout > 0):
        raise TemplateError(f'"timeout": a time above 0 is needed, not {config.timeout!r}')
    template = _parse_part('"url"', load_url, config.url, properties)
    secrets = _check_headers(config.headers, has_body=method not in _QUERY_METHODS) if config.headers else ()
    own_hosts = _parse_part('"allowedHosts"', AllowedHosts.parse_entries, config.allowed_hosts)
    all_hosts = _parse_part("[tools] allowed_hosts", AllowedHosts.parse_entries, surroundings.allowed_hosts)
    slot = template.origin if isinstance(template.origin, Placeholder) else None
    if slot is not None and not secrets and not any(name.lower() in _CREDENTIALS for name in config.headers):
        slot = None
    if slot is not None and not own_hosts:
        raise TemplateError(
            f'"headers" hold a secret, and {{{{{slot.name}}}}} decides who gets it; name the hosts that '
            'may in "allowedHosts", or write the host into the url'
        )
    return HttpHandler(
        config=config,
        method=method,
        template=template,
        secrets=secrets,
        bound_to=None if slot is None else own_hosts,
        allowed=own_hosts | all_hosts if all_hosts else own_hosts,
        surroundings=surroundings,
        client=client,
        sleep=sleep,
    )


class HttpHandler(msgspec.Struct, frozen=True, kw_only=True):
    """Sends one request for each call. A value: two that were loaded from the same text are equal.

    Attributes:
        config: What the file contains.
        method: In upper case.
        template: The address.
        secrets: The names that the headers take from the environment.
        bound_to: The only hosts that may be called, where an argument gives the origin and a header is secret.
        allowed: Hosts that may be reached whatever their address.
        surroundings: The environment, and what the user allows.
        client: Sends the requests.
        sleep: Waits before a retry.
    """

    config: HttpConfig
    method: str
    template: UrlTemplate
    secrets: tuple[str, ...]
    bound_to: AllowedHosts | None
    allowed: AllowedHosts
    surroundings: Surroundings
    client: GuardedClient
    sleep: Callable[[float], Awaitable[None]]

    def __hash__(self) -> int:
        return hash(self.config.url)

    def describe(self) -> str:
        """The method and the address, as the file has them."""
        return f"{self.method} {self.config.url}"

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        """Send the request for validated arguments."""
        mask = Mask.for_call(self.secrets, self.surroundings.environ, ctx.logger)
        request = self._build_request(input)
        end = asyncio.get_running_loop().time() + self.config.timeout
        deadline = asyncio.timeout_at(end)
        try:
            async with deadline:
                return await self._send_request(request, mask, end)
        except ToolError as error:
            raise type(error)(mask(str(error))) from None  # its cause may show a secret
        except TimeoutError:
            if not deadline.expired():
                raise
            text = f"{request.url.place} gave no complete answer within {render_seconds(self.config.timeout)}"
            return ToolResult.error(text, Failure.TIMEOUT)

    def preview_call(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The request that would be sent, secrets masked."""
        url, body = self._address_and_body(input)
        headers = {name: REFERENCE.sub(MASK, value) for name, value in self.config.headers.items()}
        return {"method": self.method, "url": str(url), "headers": headers, "body": body}

    async def _send_request(self, request: OutgoingRequest, mask: Mask, end: float) -> ToolResult:
        limit = self.config.max_output or self.surroundings.max_output
        for attempt in range(MOST_RETRIES + 1):
            async with self.client.stream_response(request, allowed=self.allowed) as response:
                delay = None
                if response.status_code in _RETRIED and self.method in IDEMPOTENT and attempt < MOST_RETRIES:
                    delay = retry_after(response.headers.get("retry-after", ""))
                if delay is None or delay >= end - asyncio.get_running_loop().time():
                    return await read_answer(response, method=self.method, limit=limit, mask=mask)
            logger.debug("%s %s: retrying in %.1f s", self.method, request.url.place, delay)
            await self.sleep(delay)
        raise AssertionError  # the last attempt always answers

    def _build_request(self, input: Mapping[str, Any]) -> OutgoingRequest:
        url, left = self._address_and_body(input)
        headers = {name: self._fill_header(name, value) for name, value in self.config.headers.items()}
        return OutgoingRequest(
            method=self.method, url=url, headers=headers, body=None if left is None else _json_bytes(left)
        )

    def _address_and_body(self, input: Mapping[str, Any]) -> tuple[Url, dict[str, Any] | None]:
        url = self.template.fill_url(input)
        if self.bound_to is not None and not self.bound_to.names_host(url.host, url.port):
            raise RefusedError(
                f'{url.place} is refused: this tool sends a secret, and only to the hosts in its "allowedHosts"'
            )
        used = self.template.used_parameters
        left = {name: value for name, value in input.items() if name not in used}
        if self.method in _QUERY_METHODS:
            return url.with_query(query_pairs(left)), None
        # Some servers refuse a DELETE with an empty body; all accept one without a body.
        return url, None if self.method == "DELETE" and not left else left

    def _fill_header(self, name: str, value: str) -> str:
        text = expand_secrets(value, self.surroundings.environ).strip(" \t")
        if not _VALUE.fullmatch(text):
            named = ", ".join(REFERENCE.findall(value))
            raise ToolError(f"the header {name} cannot be sent: {named} holds a line break or a character beyond ASCII")
        return text


def retry_after(text: str) -> float | None:
    """The seconds a `Retry-After` header asks to wait: a number, or a date; None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return max((when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)


def _parse_part(where: str, parse: Callable[..., _T], *given: object) -> _T:
    try:
        return parse(*given)
    except ValueError as error:
        raise TemplateError(f"{where}: {error}") from None


def _check_headers(headers: Mapping[str, str], *, has_body: bool) -> tuple[str, ...]:
    """The secrets that the headers name.

    Raises:
        TemplateError: A header could not be sent, or is not the tool's to set.
    """
    seen: set[str] = set()
    for name, value in headers.items():
        lower, reason = name.lower(), ""
        if not _TOKEN.fullmatch(name):
            reason = "is not a header name"
        elif lower in seen:
            reason = "is given twice"
        elif lower in _OURS:
            reason = "is set by toolstead itself; leave it out"
        elif "{{" in value:
            reason = "has a placeholder; headers are fixed, or take ${NAME} from the environment"
        elif "${" in value and "${" in REFERENCE.sub("", value):
            reason = "has a ${…} that names no environment variable; write it as in ${NAME}"
        elif not _VALUE.fullmatch(value):
            reason = "holds a line break or a character beyond ASCII"
        elif lower == "content-type" and has_body and not _JSON_TYPE.fullmatch(value.strip()):
            reason = f"is {value[:80]!r}, but the body is JSON; leave it out"
        if reason:
            raise TemplateError(f'"headers": {name[:80]!r} {reason}')
        seen.add(lower)
    return tuple(dict.fromkeys(name for value in headers.values() for name in REFERENCE.findall(value)))


def _json_bytes(value: dict[str, Any]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the arguments cannot be sent as JSON: {error}") from None
