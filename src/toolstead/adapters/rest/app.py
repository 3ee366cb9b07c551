"""The REST application: every route, with `/mcp` mounted beside them behind the same guard.

`create_app` builds it; `adapters.http.server` serves it.
"""

from __future__ import annotations

from pathlib import Path

from toolstead.adapters.http.application import HttpApplication, Mount
from toolstead.adapters.http.asgi import ASGIApp, Scope
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.private import PrivateAccess
from toolstead.adapters.http.routing import Routes
from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.rest.approval_routes import ApprovalRoutes
from toolstead.adapters.rest.event_routes import EventRoutes
from toolstead.adapters.rest.openapi import Document
from toolstead.adapters.rest.pages import Pages, State, no_state
from toolstead.adapters.rest.plugin_routes import PluginControl, PluginRoutes
from toolstead.adapters.rest.refusals import Opened
from toolstead.adapters.rest.run_routes import ReadResult, RunRoutes
from toolstead.adapters.rest.thread_routes import ThreadRoutes
from toolstead.adapters.rest.tool_routes import ToolRoutes
from toolstead.orchestrator.approvals import Approvals
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry

MCP_PATH = "/mcp"


def create_app(
    *,
    registry: Registry,
    dispatcher: Dispatcher,
    options: ServerOptions,
    version: str,
    mcp: ASGIApp | None = None,
    stopping: Stopping | None = None,
    conversations: Opened | None = None,
    project: Path | None = None,
    results: ReadResult | None = None,
    state: State = no_state,
    plugins: PluginControl | None = None,
    approvals: Approvals | None = None,
) -> RestApp:
    """Build the application.

    Args:
        registry: Lists and reloads tools.
        dispatcher: Calls them.
        options: Who may call, and how much may be sent.
        version: Toolstead's version, for health and the documentation.
        mcp: Answers `/mcp`, behind the same guard.
        stopping: Shared with streams that must end with the server; a new one by default.
        conversations: Opens threads and runs; without it there are no such routes.
        project: The folder in which runs work; the current one by default.
        results: Reads the result of a handle; from the database by default.
        state: The runtime and the sessions, for health.
        plugins: Shows and switches plugins; without it there are no such routes.
        approvals: The pending approvals; without it there are no such routes.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """
    stopping = stopping or Stopping()
    pages = Pages(registry, version, state)
    endpoints = ToolRoutes(registry, dispatcher).list_endpoints()
    if conversations is not None:
        endpoints += ThreadRoutes(conversations).list_endpoints()
        endpoints += RunRoutes(conversations, project=project or Path.cwd(), results=results).list_endpoints()
        endpoints += EventRoutes(conversations, stopping).list_endpoints()
    if plugins is not None:
        endpoints += PluginRoutes(plugins).list_endpoints()
    if approvals is not None:
        endpoints += ApprovalRoutes(approvals).list_endpoints()
    endpoints += pages.list_endpoints()
    pages.describe_routes(endpoints, with_token=bool(options.token), with_mcp=mcp is not None)
    routes = Routes(endpoints, private=PrivateAccess(options))
    return RestApp(routes, pages=pages, options=options, mcp=mcp, stopping=stopping)


class RestApp(HttpApplication):
    """REST, its documentation and `/mcp` as one ASGI application."""

    def __init__(
        self, routes: Routes, *, pages: Pages, options: ServerOptions, mcp: ASGIApp | None, stopping: Stopping
    ) -> None:
        mounts = {} if mcp is None else {MCP_PATH: Mount(mcp, _is_mcp_stream)}
        super().__init__(routes, options=options, stopping=stopping, mounts=mounts, programs=(MCP_PATH, "/api/"))
        self._pages = pages

    @property
    def document(self) -> Document:
        """The OpenAPI document."""
        return self._pages.document


def _is_mcp_stream(scope: Scope) -> bool:
    """Whether an MCP request is a stream; newer protocol versions mark it in a header."""
    return scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in scope["headers"]
