"""Tools as a part of the client interface: of a stead in this process, or behind its HTTP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolstead.errors import ServeError
from toolstead.types.result import Failure

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.plugins.tool_meta import Progress

WRONG_ARGUMENTS = "Invalid arguments for "
"""How the answer begins to a call whose arguments do not fit; over HTTP nothing else says it."""


class InProcessTools:
    """The tools of a stead that is open in this process."""

    def __init__(self, stead: Toolstead) -> None:
        self.stead = stead

    async def list_tools(self) -> dict[str, Any]:
        """Every tool, those that are switched off too, and what is quarantined; as `GET /api/tools` has them.

        Each tool has `enabled` besides. What waits for approval is not in `quarantined`: every command reports it.
        `notes` say what else cannot be called here, and why.
        """
        registry = self.stead.registry
        shown = [(tool, True) for tool in registry.list_tools()] + [(tool, False) for tool in registry.list_disabled()]
        waiting = self.stead.waiting
        return {
            "tools": [{**tool.to_json(), "enabled": is_enabled} for tool, is_enabled in shown],
            "quarantined": [problem.to_json() for problem in registry.quarantined if problem not in waiting],
            "notes": [f"file-reader is switched off: {self.stead.wide_root}"] if self.stead.wide_root else [],
        }

    async def read_tool(self, name: str, *, callable_only: bool = True) -> dict[str, Any]:
        """One tool.

        Args:
            name: Its name.
            callable_only: Refuse one that is switched off.

        Raises:
            UnknownToolError: There is none, or it cannot be called; the text says why, or which name is like it.
        """
        registry = self.stead.registry
        info = registry.get_tool_info(name)
        if info is not None:
            return {**info.to_json(), "enabled": True}
        for tool in () if callable_only else registry.list_disabled():
            if tool.name == name:
                return {**tool.to_json(), "enabled": False}
        raise registry.unknown_tool(name)

    def describe_handler(self, name: str) -> str:
        """What a tool from a file runs, with its placeholders; empty for any other tool."""
        tool = self.stead.registry.get(name)
        describe: Callable[[], str] | None = getattr(tool.handler, "describe", None) if tool is not None else None
        return "" if describe is None else describe()

    async def preview_call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool from a file would run for these arguments.

        Raises:
            ToolError: It is no tool from a file, or the arguments do not fit.
        """
        return self.stead.registry.preview_call(name, arguments)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, on_progress: Progress | None = None
    ) -> tuple[dict[str, Any], bool]:
        """Call a tool; its result as REST gives it, and whether the arguments did not fit.

        Raises:
            UnknownToolError: There is none, or it cannot be called.
        """
        result = await self.stead.call(name, arguments, on_progress=on_progress)
        return result.to_json(), result.failure is Failure.INVALID_ARGUMENTS


class HttpTools:
    """The tools behind a server."""

    def __init__(
        self,
        send_request: Callable[..., Awaitable[Any]],
        check_keys: Callable[[Any, set[str]], dict[str, Any]],
    ) -> None:
        """Keep what is sent with.

        Args:
            send_request: Gives the JSON that a route answers: method, path and body.
            check_keys: Refuses an answer that lacks one of these members.
        """
        self._send_request, self._check_keys = send_request, check_keys

    async def list_tools(self) -> dict[str, Any]:
        """See `InProcessTools`; a server lists only what can be called."""
        answer = self._check_keys(await self._send_request("GET", "/api/tools"), {"tools", "quarantined"})
        return {
            "tools": [{**self._check_tool(tool), "enabled": True} for tool in answer["tools"]],
            "quarantined": answer["quarantined"],
            "notes": [],
        }

    async def read_tool(self, name: str, *, callable_only: bool = True) -> dict[str, Any]:
        """See `InProcessTools`."""
        del callable_only  # a server shows no other
        return {**self._check_tool(await self._send_request("GET", _build_path(name))), "enabled": True}

    async def preview_call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A server shows no such thing.

        Raises:
            ServeError: Always.
        """
        raise ServeError(f"a server does not show what a call would run; without --url: toolstead tools show {name}")

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, on_progress: Progress | None = None
    ) -> tuple[dict[str, Any], bool]:
        """See `InProcessTools`; a server sends no progress."""
        del on_progress
        answer = await self._send_request("POST", _build_path(name, "/call"), {"input": dict(arguments)})
        result = self._check_keys(answer, {"content", "isError"})
        texts = [str(part.get("text")) for part in result["content"]]
        return result, result["isError"] and texts[:1] != [] and texts[0].startswith(WRONG_ARGUMENTS)

    def _check_tool(self, tool: Any) -> dict[str, Any]:
        return self._check_keys(tool, {"name", "description", "source", "inputSchema"})


def _build_path(name: str, route: str = "") -> str:
    return f"/api/tools/{quote(name, safe='', errors='surrogatepass')}{route}"
