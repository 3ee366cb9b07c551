"""The guarded client: pooled HTTP requests that reach only what the guard lets them reach.

Every request, the ones a redirect leads to included, is checked by `http_guard` first and goes to
the addresses that were checked. Cookies are not kept, the environment's proxies and `.netrc` are
not read, and what a caller sends in its headers stays with the origin it was meant for. The app
owns one; http tools and everything else that fetches on a model's behalf use it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from toolstead.errors import RefusedError, SettingsError, ToolError
from toolstead.tools.handlers.http_guard import AddressGuard, AllowedHosts, Resolver, system_resolver
from toolstead.tools.handlers.http_url import LONGEST_URL, Url, parse_url

if TYPE_CHECKING:
    import httpx2

    from toolstead.tools.handlers.http_network import HttpNetwork

logger = logging.getLogger(__name__)

MOST_REDIRECTS = 5
MOST_CONNECTIONS = 64
MOST_IDLE = 16

_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PROXIES = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """One request.

    Attributes:
        method: In upper case.
        url: The address.
        headers: The caller's own headers; another origin never sees them.
        body: JSON, ready to be sent.
    """

    method: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes | None = field(default=None, repr=False)


class GuardedClient(AbstractAsyncContextManager["GuardedClient", None]):
    """Sends requests. One for each stead; safe for any number of requests at once."""

    def __init__(
        self,
        *,
        proxy: str = "",
        resolver: Resolver = system_resolver,
        ssl_context: ssl.SSLContext | None = None,
        max_connections: int = MOST_CONNECTIONS,
        max_idle: int = MOST_IDLE,
        user_agent: str = "toolstead",
    ) -> None:
        """Make a client; nothing is opened yet.

        Args:
            proxy: `http://[user:password@]host:port` of a proxy; empty for none. With one, names are resolved there.
            resolver: Turns names into addresses.
            ssl_context: The certificates to trust; the system's by default.
            max_connections: How many connections there are at most; further requests wait.
            max_idle: How many of them are kept for later.
            user_agent: Who we say we are, unless a request's own headers say otherwise.

        Raises:
            SettingsError: The proxy's address cannot be used.
        """
        if proxy and not proxy.lower().startswith(_PROXIES):
            reason = "a proxy's address begins with http:// or https://"
            raise SettingsError(key="tools.proxy", origin="settings", reason=reason)
        self._user_agent = user_agent
        self._guard = AddressGuard(resolver=resolver, by_name=bool(proxy))
        self._create_network = functools.partial(
            _create_network,
            proxy=proxy,
            ssl_context=ssl_context,
            max_connections=max_connections,
            max_idle=max_idle,
        )
        self._network: HttpNetwork | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; requests after this one are refused."""
        self._closed = True
        if self._network is not None:
            await self._network.aclose()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._network.connections if self._network is not None else 0

    @asynccontextmanager
    async def stream_response(
        self, request: OutgoingRequest, *, allowed: AllowedHosts | None = None
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Send a request and follow its redirects; the body is read by the caller, and closed at the end.

        There is no time limit in here: put an `asyncio.timeout` around it.

        Args:
            request: The request.
            allowed: Hosts that may be reached although they are not of the public internet.

        Raises:
            RefusedError: The address, or one that a redirect leads to, may not be reached.
            ToolError: It could not be reached, or gave no answer that can be read.
        """
        hosts = allowed if allowed is not None else AllowedHosts()
        response = await self._send(request, hosts)
        try:
            for _ in range(MOST_REDIRECTS):
                location = response.headers.get("location") if response.status_code in _REDIRECTS else None
                if location is None:
                    break
                await response.aclose()
                request = follow_redirect(request, response.status_code, location)
                response = await self._send(request, hosts)
            else:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    raise ToolError(f"{request.url.place} redirects more than {MOST_REDIRECTS} times")
            _check_encoding(response, request.url)
            yield response
        finally:
            await response.aclose()

    async def _send(self, request: OutgoingRequest, allowed: AllowedHosts) -> httpx2.Response:
        method, url = request.method, request.url
        if len(str(url)) > LONGEST_URL:
            raise ToolError(f"the address is {len(str(url)):,} characters long; at most {LONGEST_URL:,} are sent")
        addresses = await self._guard.check_host(url.host, url.port, allowed)
        network = await self._open_network()
        started = time.perf_counter()
        response = await network.send(method, url, addresses, self._wire_headers(request), request.body)
        took = (time.perf_counter() - started) * 1000
        logger.debug("%s %s: %s in %.0f ms", method, url.place, response.status_code, took)
        return response

    def _wire_headers(self, request: OutgoingRequest) -> list[tuple[str, str]]:
        """The headers to send; the caller's override the defaults."""
        own = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": self._user_agent}
        if request.body is not None:
            own |= {"content-type": "application/json", "content-length": str(len(request.body))}
        own |= {name.lower(): value for name, value in request.headers.items()}
        return [("host", request.url.place), *own.items()]

    async def _open_network(self) -> HttpNetwork:
        async with self._opening:
            if self._network is None:  # in a worker: it takes half a second, and the loop has other work
                self._network = await asyncio.to_thread(self._create_network)
        if self._closed:
            raise ToolError("no request can be sent: this stead is closing")
        return self._network


def _create_network(**settings: Any) -> HttpNetwork:
    from toolstead.tools.handlers.http_network import HttpNetwork

    return HttpNetwork(**settings)


def follow_redirect(request: OutgoingRequest, status: int, location: str) -> OutgoingRequest:
    """The request that a redirect asks for, as browsers make it.

    303, and 301 or 302 after a POST, become a GET without a body. The headers stay behind when it
    leads to another origin, and a body never goes to one, except from http to https of the same host.

    Raises:
        RefusedError: It leads from https to http, to no http(s) address, or takes a body to another origin.
    """
    came_from = request.url
    try:
        url = parse_url(urljoin(str(came_from), location))
    except ValueError as error:
        raise RefusedError(f"{came_from.place} redirects to an address that is refused: {error}") from None
    if came_from.scheme == "https" and url.scheme != "https":
        raise RefusedError(f"{came_from.place} redirects from https to http ({url.place}), which is refused")
    if (status == 303 and request.method not in {"GET", "HEAD"}) or (status in {301, 302} and request.method == "POST"):
        request = replace(request, method="GET", body=None)
    if url.origin == came_from.origin:
        return replace(request, url=url)
    secured = came_from.origin == ("http", url.host, 80) and url.port == 443
    if request.body is not None and not secured:
        raise RefusedError(
            f"{came_from.place} redirects to {url.scheme}://{url.place}, and a body is not sent on to another origin; "
            "write that address into the tool if it is meant"
        )
    return replace(request, url=url, headers={})


def _check_encoding(response: httpx2.Response, url: Url) -> None:
    """Accept one layer of a requested encoding; nested layers could inflate without bound."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise ToolError(f"{url.place} answered in the encoding {encoding[:40]!r}; only gzip and deflate are read")
