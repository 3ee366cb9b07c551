"""A stead behind its HTTP server: implements the client interface with the REST routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2
import msgspec

from toolstead.app.client import OnEvent, RunOptions
from toolstead.errors import ServeError

SECONDS = 60.0
"""How long a server may take for one answer; a stream of events may be silent for longer."""

_PLUGIN = frozenset({"name", "version", "enabled", "state", "tools", "settings"})
_RELOAD = frozenset({"success", "toolCount", "errors", "added", "removed", "changed"})


class NobodyListensError(ServeError):
    """The server has gone."""


class HttpClient:
    """A running server; open it with `async with`. What it refuses is a `ServeError` with its own message.

    Attributes:
        url: Its address.
    """

    lost_server = None

    def __init__(self, url: str, token: str) -> None:
        """Prepare a client; connect to nothing yet.

        Raises:
            ServeError: The address is not valid.
        """
        if not url.startswith(("http://", "https://")):
            raise ServeError(f"{url}: an address begins with http:// or https://")
        self.url = url.rstrip("/")
        # A token goes to the address it is for, and nowhere else: no proxies, no redirects.
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=SECONDS,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def is_listening(self) -> bool:
        """Whether the server is there; one that died may still be on the list.

        Raises:
            ServeError: Something else answers at its address.
        """
        try:
            await self.describe_state()
        except NobodyListensError:
            return False
        return True

    async def describe_state(self) -> Mapping[str, Any]:
        """See `SteadClient`."""
        return await self._send_request("GET", "/api/health")

    async def reload_tools(self) -> dict[str, Any]:
        """See `SteadClient`."""
        return self._check_keys(await self._send_request("POST", "/api/tools/reload", {}), _RELOAD)

    async def list_plugins(self) -> list[dict[str, Any]]:
        """See `SteadClient`."""
        found: Any = self._check_keys(await self._send_request("GET", "/api/plugins"), {"plugins"})["plugins"]
        if not isinstance(found, list):
            raise self._foreign_server()
        return [self._check_keys(plugin, _PLUGIN) for plugin in cast("list[Any]", found)]

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """See `SteadClient`."""
        body = {"enabled": enabled, **({"settings": dict(settings)} if settings is not None else {})}
        return self._check_keys(await self._send_request("PATCH", f"/api/plugins/{_quote_id(name)}", body), _PLUGIN)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """See `SteadClient`."""
        return self._check_keys(await self._send_request("POST", f"/api/plugins/{_quote_id(name)}/reset"), _PLUGIN)

    async def list_threads(self, limit: int) -> list[dict[str, Any]]:
        """See `SteadClient`."""
        return self._check_keys(await self._send_request("GET", f"/api/threads?limit={limit}"), {"threads"})["threads"]

    async def read_thread(self, id: str) -> dict[str, Any]:
        """See `SteadClient`."""
        return await self._send_request("GET", f"/api/threads/{_quote_id(id)}")

    async def rename_thread(self, id: str, title: str) -> None:
        """See `SteadClient`."""
        await self._send_request("PATCH", f"/api/threads/{_quote_id(id)}", {"title": title})

    async def delete_thread(self, id: str) -> None:
        """See `SteadClient`."""
        await self._send_request("DELETE", f"/api/threads/{_quote_id(id)}")

    async def run_agent(self, prompt: str, options: RunOptions, on_event: OnEvent) -> dict[str, Any]:
        """See `SteadClient`."""
        body = {"prompt": prompt, **msgspec.to_builtins(options)}
        run = f"/api/runs/{self._check_keys(await self._send_request('POST', '/api/runs', body), {'runId'})['runId']}"
        try:
            async with self._open("GET", f"{run}/events", accept="text/event-stream", seconds=None) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data:"):
                        event = json.loads(line[5:])
                        on_event(event["type"], event["data"])
        except asyncio.CancelledError:
            await self._send_request("POST", f"{run}/cancel", {})
            raise
        return await self._send_request("GET", run)

    async def _send_request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that a route answers; None for an answer without a body.

        Raises:
            NobodyListensError: The server is gone.
            ServeError: It cannot be reached, or refused; its own message is in the text.
        """
        async with self._open(method, path, body) as response:
            data = await response.aread()
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise self._foreign_server(path) from None

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: Any = None, *, accept: str = "*/*", seconds: float | None = SECONDS
    ) -> AsyncGenerator[httpx2.Response]:
        address = f"{self.url}{path}"
        headers = {"Accept": accept, **({"Content-Type": "application/json"} if body is not None else {})}
        # Not by the library, which raises for what is no JSON, such as half a character: the server says that better.
        data = json.dumps(body).encode() if body is not None else None
        try:
            async with self._client.stream(method, address, content=data, headers=headers, timeout=seconds) as response:
                if not response.is_success:
                    detail = _read_detail(await response.aread())
                    raise ServeError(f"{address} answered {response.status_code}: {detail}")
                yield response
        except (httpx2.ConnectError, httpx2.TimeoutException, httpx2.InvalidURL) as error:
            if _is_refused(error):
                raise NobodyListensError(f"{self.url} cannot be reached: no server listens there") from None
            raise ServeError(f"{address} cannot be reached: {_describe_cause(error)}") from None
        except httpx2.TransportError as error:
            raise ServeError(f"{address} broke off in the middle of its answer: {error!r}") from None

    def _check_keys(self, answer: Any, keys: frozenset[str] | set[str]) -> dict[str, Any]:
        if not isinstance(answer, dict) or not keys.issubset(cast("dict[str, Any]", answer)):
            raise self._foreign_server()
        return cast("dict[str, Any]", answer)

    def _foreign_server(self, path: str = "") -> ServeError:
        return ServeError(f"{self.url}{path} answered, but not as a Toolstead server does")


def _quote_id(id: str) -> str:
    return quote(id, safe="")


def _read_detail(data: bytes) -> str:
    try:
        document: Any = json.loads(data)
        return str(document["detail"])
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace")[:500]


def _find_causes(error: BaseException | None) -> list[BaseException]:
    """An error and those it came from: the libraries wrap the system's error, once for each address."""
    if error is None:
        return []
    several: Any = getattr(error, "exceptions", None)  # of an exception group
    return [
        error,
        *(cause for one in several or (error.__cause__ or error.__context__,) for cause in _find_causes(one)),
    ]


def _is_refused(error: BaseException) -> bool:
    return any(isinstance(cause, ConnectionRefusedError) for cause in _find_causes(error))


def _describe_cause(error: BaseException) -> str:
    """The system's own error message, where there is one."""
    said = [str(cause) for cause in _find_causes(error) if isinstance(cause, OSError) and str(cause)]
    return said[-1] if said else str(error) or type(error).__name__
