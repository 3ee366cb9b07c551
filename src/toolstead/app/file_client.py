"""The shared files as a part of the client interface: of a stead in this process, or behind its HTTP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from toolstead.types.vfs import USER

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead

VERSIONS_TOGETHER = 1_000
"""Versions that one page of a history has."""


class InProcessFiles:
    """The shared files of a stead that is open in this process."""

    def __init__(self, stead: Toolstead) -> None:
        self._stead = stead

    async def list_files(self, thread_id: str, prefix: str = "") -> list[dict[str, Any]]:
        """The newest version of each file, sorted by path."""
        files = await self._stead.shared_files()
        return [file.to_json() for file in await files.list_files(thread_id, prefix)]

    async def read_file(self, thread_id: str, path: str, version: int | None = None) -> dict[str, Any]:
        """A file with its newest text, or that of a version, which may be a deletion."""
        return (await (await self._stead.shared_files()).read_file(thread_id, path, version=version)).to_json()

    async def list_versions(self, thread_id: str, path: str, limit: int) -> list[dict[str, Any]]:
        """A file's versions, the newest first."""
        files = await self._stead.shared_files()
        found: list[dict[str, Any]] = []
        before: int | None = None
        while len(found) < limit and before != 1:
            wanted = min(limit - len(found), VERSIONS_TOGETHER)
            page = await files.list_versions(thread_id, path, limit=wanted, before=before)
            found += [file.to_json() for file in page]
            before = page[-1].version
        return found

    async def write_file(
        self, thread_id: str, path: str, content: str, expected_version: int | None = None
    ) -> dict[str, Any]:
        """Write a file's next version, as the user."""
        files = await self._stead.shared_files()
        written = await files.write_file(thread_id, path, content, author=USER, expected_version=expected_version)
        return written.to_json()


class HttpFiles:
    """The shared files behind a server."""

    def __init__(
        self, send_request: Callable[..., Awaitable[Any]], check_keys: Callable[[Any, set[str]], dict[str, Any]]
    ) -> None:
        """Keep what is sent with.

        Args:
            send_request: Gives the JSON that a route answers: method, path and body.
            check_keys: Refuses an answer that lacks one of these members.
        """
        self._send_request = send_request
        self._check_keys = check_keys

    async def list_files(self, thread_id: str, prefix: str = "") -> list[dict[str, Any]]:
        """See `InProcessFiles`."""
        answer = await self._send_request("GET", _build_path("", thread=thread_id, prefix=prefix))
        return self._check_keys(answer, {"files"})["files"]

    async def read_file(self, thread_id: str, path: str, version: int | None = None) -> dict[str, Any]:
        """See `InProcessFiles`."""
        address = _build_path("/file", thread=thread_id, path=path, version=version)
        return self._check_keys(await self._send_request("GET", address), {"version", "content"})

    async def list_versions(self, thread_id: str, path: str, limit: int) -> list[dict[str, Any]]:
        """See `InProcessFiles`."""
        found: list[dict[str, Any]] = []
        before: int | None = None
        while len(found) < limit:
            wanted = min(limit - len(found), VERSIONS_TOGETHER)
            address = _build_path("/log", thread=thread_id, path=path, limit=wanted, before=before)
            answer = self._check_keys(await self._send_request("GET", address), {"versions"})
            found += answer["versions"]
            if (before := answer.get("next")) is None:
                break
        return found

    async def write_file(
        self, thread_id: str, path: str, content: str, expected_version: int | None = None
    ) -> dict[str, Any]:
        """See `InProcessFiles`."""
        body = {"content": content, **({} if expected_version is None else {"expectedVersion": expected_version})}
        address = _build_path("/file", thread=thread_id, path=path)
        return self._check_keys(await self._send_request("PUT", address, body), {"version"})


def _build_path(route: str, **query: str | int | None) -> str:
    # Half a character, which no encoding has, may come from the command line; the server refuses it.
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"/api/vfs{route}?{urlencode(given, errors='surrogatepass')}"
