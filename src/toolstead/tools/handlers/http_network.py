"""The network under the guarded client: one pool of connections, each to an address that was checked.

A connection is kept under its name *and* its addresses, so one is used again only for a request
whose own check gave the same addresses, and never for another name at the same address, whose
certificate was not checked. `httpcore2` costs 0.4 s to import: `http_client` imports this module
with the first request.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from errno import errorcode
from typing import Any, cast

import httpcore2
import httpx2

from toolstead.errors import ToolError
from toolstead.tools.handlers.http_url import IDEMPOTENT, Url

logger = logging.getLogger(__name__)

HELD_BACK = 1.5
"""Seconds after which the next address of a name is tried, where there is one."""

_IDLE_SECONDS = 4.0  # below the five after which many servers close
_BETWEEN = "|"


class HttpNetwork:
    """A bounded pool of connections."""

    def __init__(
        self, *, proxy: str = "", ssl_context: ssl.SSLContext | None = None, max_connections: int, max_idle: int
    ) -> None:
        # It logs the headers of every answer at DEBUG, and an answer may repeat a secret.
        wordy = logging.getLogger("httpcore2")
        if wordy.level == logging.NOTSET:
            wordy.setLevel(logging.INFO)
        self._through_proxy = bool(proxy)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or httpx2.create_ssl_context(),
            proxy=_proxy_of(proxy) if proxy else None,
            network_backend=_CheckedAddresses(),
            max_connections=max_connections,
            max_keepalive_connections=max_idle,
            keepalive_expiry=_IDLE_SECONDS,
        )

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._pool.connections)

    async def send(
        self, method: str, url: Url, addresses: Sequence[str], headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> httpx2.Response:
        """Send a request; the answer's body is read, or closed, by the caller.

        Raises:
            ToolError: It could not be sent, or nothing came back.
        """
        host = url.shown_host if self._through_proxy else f"{','.join(addresses)}{_BETWEEN}{url.host}"
        request = httpcore2.Request(
            method,
            httpcore2.URL(scheme=url.scheme, host=host, port=url.port, target=url.target),
            headers=list(headers),
            content=body,
            extensions={"sni_hostname": url.host},
        )
        try:
            answer = await self._exchange_request(request, again=method in IDEMPOTENT)
        except (httpcore2.RemoteProtocolError, httpcore2.ReadError) as error:
            raise ToolError(f"{url.place} gave no HTTP answer: {_failure_reason(error)}") from error
        except httpcore2.ProxyError as error:
            raise ToolError(f"the proxy cannot reach {url.place}: {error}") from error
        except httpcore2.LocalProtocolError as error:
            raise ToolError(f"the request to {url.place} cannot be sent: {error}") from error
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
            raise ToolError(f"no connection to {url.place}: {_failure_reason(error)}") from error
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(url, answer),
            request=httpx2.Request(method, str(url)),
        )

    async def _exchange_request(self, request: httpcore2.Request, *, again: bool) -> httpcore2.Response:
        """Send it; retry once when the server closed a kept connection without an answer."""
        try:
            return await self._pool.handle_async_request(request)
        except (httpcore2.RemoteProtocolError, httpcore2.ReadError):
            if not again:
                raise
        logger.debug("%s: the server closed the connection; retrying once", request.method.decode("ascii"))
        return await self._pool.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _CheckedAddresses(httpcore2.AsyncNetworkBackend):
    """Connects to addresses only. It is given no name to resolve but a proxy's, so nothing is resolved twice."""

    def __init__(self) -> None:
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())  # a stub without anyio

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = host.partition(_BETWEEN)[0].split(",")
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                stream = await self._network.connect_tcp(address, port, HELD_BACK, local_address, socket_options)
                return _Stream(stream)
        return _Stream(await self._network.connect_tcp(last, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


@dataclass(eq=False)
class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that is closed when its TLS handshake is cancelled; underneath, it would stay open."""

    stream: httpcore2.AsyncNetworkStream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self.stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self.stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Stream(await self.stream.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            await self.stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


@dataclass(eq=False)
class _Body(httpx2.AsyncByteStream):
    """An answer's body, its errors as sentences."""

    url: Url
    answer: httpcore2.Response

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(self.answer.aiter_stream()) as parts:
                async for part in parts:
                    yield part
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
            raise ToolError(f"the answer of {self.url.place} broke off: {_failure_reason(error)}") from error

    async def aclose(self) -> None:
        await self.answer.aclose()


def _proxy_of(address: str) -> httpcore2.Proxy:
    proxy = httpx2.Proxy(address)
    url = proxy.url
    return httpcore2.Proxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        auth=proxy.raw_auth,
        ssl_context=httpx2.create_ssl_context() if url.scheme == "https" else None,
    )


def _failure_reason(error: BaseException) -> str:
    """Why a connection failed, from the innermost error that the system or TLS gave."""
    found: BaseException | None = error
    reason = ""
    while found is not None:
        match found:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted ({found.verify_message})"
            case ssl.SSLError():
                return f"TLS failed ({found.reason or found})"
            case OSError(errno=int(code)) if code in errorcode:
                reason = os.strerror(code)
            case _:
                reason = reason or str(found)
        inner: Any = found.args[0] if found.args and isinstance(found.args[0], BaseException) else None
        found = inner or found.__cause__
    return reason or type(error).__name__
