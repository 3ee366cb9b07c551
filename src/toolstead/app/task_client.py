"""Delegated tasks as a part of the client interface: of a stead in this process, or behind its HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toolstead.app.stead_events import follow_stored_events
from toolstead.app.stead_tasks import LONGEST_PART, SteadTasks

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead


class InProcessTasks(SteadTasks):
    """The tasks of a stead that is open in this process."""

    def __init__(self, stead: Toolstead) -> None:
        super().__init__(stead.delegation, stead.places.project)
        self._stead = stead

    def follow_events(self, types: Collection[str]) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """Events of these types from now on, of every process and every project on the database."""
        return follow_stored_events(self._stead, types)


class HttpTasks:
    """The tasks behind a server."""

    def __init__(
        self,
        send_request: Callable[..., Awaitable[Any]],
        check_keys: Callable[[Any, set[str]], dict[str, Any]],
        follow_stream: Callable[[str], AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]],
    ) -> None:
        """Keep what is sent with.

        Args:
            send_request: Gives the JSON that a route answers: method, path and body.
            check_keys: Refuses an answer that lacks one of these members.
            follow_stream: Gives the events of the stream at a path.
        """
        self._send_request, self._check_keys, self._follow_stream = send_request, check_keys, follow_stream

    async def list_tasks(
        self, *, thread: str | None = None, root: str | None = None, is_open: bool | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """See `SteadTasks`."""
        wanted = None if is_open is None else str(is_open).lower()
        path = _build_path("", thread=thread, root=root, open=wanted, limit=limit)
        answer = await self._send_request("GET", path)
        return self._check_keys(answer, {"tasks"})["tasks"]

    async def read_task(self, id: str) -> dict[str, Any]:
        """See `SteadTasks`."""
        return self._check_keys(await self._send_request("GET", _build_path(id)), {"id", "attempts", "tree"})

    async def read_task_result(self, id: str, *, offset: int = 0, limit: int = LONGEST_PART) -> dict[str, Any]:
        """See `SteadTasks`."""
        answer = await self._send_request("GET", _build_path(id, "/result", offset=offset, limit=limit))
        return self._check_keys(answer, {"text", "offset", "size"})

    async def cancel_task(self, id: str) -> dict[str, Any]:
        """See `SteadTasks`."""
        return self._check_keys(await self._send_request("POST", _build_path(id, "/cancel"), {}), {"id", "outcome"})

    async def retry_task(self, id: str) -> dict[str, Any]:
        """See `SteadTasks`."""
        return self._check_keys(await self._send_request("POST", _build_path(id, "/retry"), {}), {"id", "retryOf"})

    def follow_events(self, types: Collection[str]) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """See `InProcessTasks`; it ends when the server stops."""
        return self._follow_stream(f"/api/events?{urlencode({'type': ','.join(types)})}")


def _build_path(id: str, route: str = "", **query: str | int | None) -> str:
    # Half a character, which no encoding has, may come from the command line; the server refuses it.
    given = {name: value for name, value in query.items() if value not in (None, "")}
    task = f"/{quote(id, safe='', errors='surrogatepass')}" if id else ""
    return f"/api/tasks{task}{route}" + (f"?{urlencode(given, errors='surrogatepass')}" if given else "")
