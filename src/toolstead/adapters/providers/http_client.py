"""The HTTP client of one model connection: timeouts, connection pool and proxy.

SDKs read proxies, certificates and `.netrc` from their environment; here they are explicit arguments.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from toolstead.adapters.providers.catalogue import LOOPBACK, Lookup, Vendor, first_set
from toolstead.errors import RuntimeFailureError

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
"""Read timeout: some models think for minutes before their first token."""

_MOST_CONNECTIONS = 1000
_IDLE_CONNECTIONS = 100
_IDLE_SECONDS = 60.0  # a tool runs between two requests; a new TLS connection for each turn would cost more than it
_LIST_SECONDS = 3.0
_LONGEST_LIST = 2_000_000
_OPENED: ContextVar[list[httpx2.Response] | None] = ContextVar("opened", default=None)


class ListedModel(msgspec.Struct):
    """A model, as an API like OpenAI's lists it."""

    id: str


class ModelList(msgspec.Struct):
    """What such an API answers to the question which models it has."""

    data: list[ListedModel]


_decode_list = msgspec.json.Decoder(ModelList).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How one model is reached, and what error messages say of it.

    Attributes:
        key_name: The environment name that gave the key; empty when there is none.
        key_origin: Where the key was found, in words; empty where that is not known.
        key: The key, to be masked in messages; a placeholder when there is none.
    """

    vendor: Vendor
    model_name: str
    address: str
    key_name: str
    key: str
    client: httpx2.AsyncClient
    key_origin: str = ""

    @property
    def name(self) -> str:
        """`provider:name`, such as `anthropic:claude-sonnet-4-6`."""
        return f"{self.vendor.name}:{self.model_name}"

    @property
    def origin(self) -> str:
        """Where the API is, without what an address may hold besides: a user, a password, a path."""
        parts = urlsplit(self.address)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{host if parts.port is None else f'{host}:{parts.port}'}"

    @property
    def server_name(self) -> str:
        """The server in messages: with its address where any server may speak the API, and this is no usual one."""
        is_usual = self.address == self.vendor.url and urlsplit(self.address).hostname not in LOOPBACK
        is_named = is_usual or self.vendor.api != "chat"
        return self.vendor.title if is_named else f"{self.vendor.title} at {self.origin}"


def open_client(address: str, lookup: Lookup) -> httpx2.AsyncClient:
    """A client for one address.

    Raises:
        RuntimeFailureError: The address, the proxy or the certificates cannot be used.
    """
    import httpx2

    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RuntimeFailureError(f"a model API's address must begin with http:// or https://, not {address!r}")
    proxy_name, proxy = _find_proxy(parts.scheme, parts.hostname, lookup)
    try:
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(
                max_connections=_MOST_CONNECTIONS,
                max_keepalive_connections=_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
            proxy=proxy,
            verify=load_certificates(lookup),
            trust_env=False,
            event_hooks={"request": [_limit_time], "response": [_remember_response]},
        )
    except (ValueError, ImportError) as error:
        raise RuntimeFailureError(f"{proxy_name} cannot be used as a proxy: {error}") from error


@contextmanager
def remember_responses(opened: list[httpx2.Response]) -> Generator[None]:
    """Collect every response that is opened in the block, so that the caller can close it.

    Some SDKs leave the connection of an abandoned stream to the garbage collector.
    """
    token = _OPENED.set(opened)
    try:
        yield
    finally:
        _OPENED.reset(token)


async def list_models(connection: Connection) -> list[str]:
    """The models that an API like OpenAI's says it has; none where it does not say."""
    import httpx2

    address = f"{connection.address.rstrip('/')}/models"
    headers = {"Authorization": f"Bearer {connection.key}"}
    data = bytearray()
    try:
        async with asyncio.timeout(_LIST_SECONDS), connection.client.stream("GET", address, headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > _LONGEST_LIST:
                    return []
        return [one.id for one in _decode_list(bytes(data)).data] if answer.is_success else []
    except (httpx2.HTTPError, httpx2.StreamError, TimeoutError, msgspec.DecodeError) as error:
        logger.debug("%s does not say which models it has: %r", address, error)
        return []


async def _remember_response(response: httpx2.Response) -> None:
    opened = _OPENED.get()
    if opened is not None:
        opened.append(response)


async def _limit_time(request: httpx2.Request) -> None:
    """Enforce the timeouts, because an SDK may set its own with each request, or none."""
    request.extensions["timeout"] = {
        "connect": CONNECT_SECONDS,
        "read": READ_SECONDS,
        "write": READ_SECONDS,
        "pool": CONNECT_SECONDS,
    }


def _find_proxy(scheme: str, host: str, lookup: Lookup) -> tuple[str, str | None]:
    """The proxy for a host and the variable that set it; none for this machine and hosts in `NO_PROXY`."""
    if host in LOOPBACK or _is_excepted(host, lookup("NO_PROXY") or lookup("no_proxy") or ""):
        return "", None
    word = f"{scheme}_proxy"
    return first_set((word.upper(), word, "ALL_PROXY", "all_proxy"), lookup)


def _is_excepted(host: str, exceptions: str) -> bool:
    """Whether a comma-separated list has a host or one of its parent domains."""
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    names = [entry.removeprefix("*").removeprefix(".").partition(":")[0] for entry in entries]
    return "*" in entries or any(name and (host == name or host.endswith(f".{name}")) for name in names)


def load_certificates(lookup: Lookup) -> ssl.SSLContext:
    """The trusted certificate authorities: the default ones, or those of `SSL_CERT_FILE`.

    Raises:
        RuntimeFailureError: The file cannot be used.
    """
    path = lookup("SSL_CERT_FILE")
    if not path:
        return _usual_certificates()
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise RuntimeFailureError(f"SSL_CERT_FILE: {path!r} cannot be used: {error}") from error


@cache
def _usual_certificates() -> ssl.SSLContext:
    """Read once: that takes 30 ms, and every connection needs the same."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)
