"""The HTTP application: routes behind the guard, `/mcp` beside them, one top frame around all.

`create_app` is the table of contents; `server` serves what it makes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path
from typing import cast

from toolstead.adapters.rest.approval_routes import ApprovalRoutes
from toolstead.adapters.rest.asgi import Answer, ASGIApp, Message, Receive, Scope, Send
from toolstead.adapters.rest.event_routes import EventRoutes
from toolstead.adapters.rest.guard import CLOSE, RETRY_AFTER, Guard
from toolstead.adapters.rest.openapi import Document
from toolstead.adapters.rest.options import ServerOptions
from toolstead.adapters.rest.pages import Pages, State, no_state
from toolstead.adapters.rest.plugin_routes import PluginControl, PluginRoutes
from toolstead.adapters.rest.private import PrivateDoor
from toolstead.adapters.rest.problem import CRASH, STOPPING, problem
from toolstead.adapters.rest.refusals import Opened
from toolstead.adapters.rest.routing import Routes
from toolstead.adapters.rest.run_routes import ReadResult, RunRoutes
from toolstead.adapters.rest.stopping import Stopping
from toolstead.adapters.rest.thread_routes import ThreadRoutes
from toolstead.adapters.rest.tool_routes import ToolRoutes
from toolstead.orchestrator.approvals import Approvals
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry

logger = logging.getLogger(__name__)

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
        version: Toolstead's version, as health and the documentation tell it.
        mcp: Answers `/mcp`, behind the same guard.
        stopping: Shared with doors that must know when the server ends; a new one unless given.
        conversations: Opens threads and runs; without it there are no such routes.
        project: The folder in which runs work; the current one unless given.
        results: Reads what is kept behind a handle; the database does unless given.
        state: The runtime and the sessions, as health tells them.
        plugins: Shows and switches plugins; without it there are no such routes.
        approvals: What waits for a person; without it there are no such routes.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """
    stopping = stopping or Stopping()
    pages = Pages(registry, version, state)
    endpoints = ToolRoutes(registry, dispatcher).endpoints()
    if conversations is not None:
        endpoints += ThreadRoutes(conversations).endpoints()
        endpoints += RunRoutes(conversations, project=project or Path.cwd(), results=results).endpoints()
        endpoints += EventRoutes(conversations, stopping).endpoints()
    if plugins is not None:
        endpoints += PluginRoutes(plugins).endpoints()
    if approvals is not None:
        endpoints += ApprovalRoutes(approvals).endpoints()
    endpoints += pages.endpoints()
    document = pages.describe(endpoints, with_token=bool(options.token), with_mcp=mcp is not None)
    routes = Routes(endpoints, private=PrivateDoor(options))
    return RestApp(routes, document=document, options=options, mcp=mcp, stopping=stopping)


class RestApp:
    """The whole door as one ASGI application.

    Attributes:
        routes: The route table.
        document: The OpenAPI document.
        stopping: Who is being answered, and whether the end has begun.
    """

    def __init__(
        self, routes: Routes, *, document: Document, options: ServerOptions, mcp: ASGIApp | None, stopping: Stopping
    ) -> None:
        self.routes = routes
        self.document = document
        self.stopping = stopping
        self._mcp = mcp
        self._guard = Guard(self._inside, options, stopping)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens: the top frame of this surface."""
        if scope["type"] != "http":
            await _answer_other(scope, receive, send)
            return
        task = cast("asyncio.Task[None]", asyncio.current_task())
        exchange = _Exchange(send)
        self.stopping.enter(task, stream=scope["path"] == MCP_PATH and _is_stream(scope))
        try:
            await self._guard(scope, receive, exchange.send)
        except asyncio.CancelledError:
            if not self.stopping.was_cut(task):
                raise
            task.uncancel()
            await exchange.end(_cut(scope))
        except Exception:
            crash = f"http_{secrets.token_hex(6)}"
            logger.exception("crash %s: %s %r", crash, scope["method"], scope["path"][:200])
            if exchange.begun:
                raise  # the server breaks the connection off, so that half an answer is not taken for a whole one
            await _crash(scope, crash).send(send)
        finally:
            self.stopping.leave(task)

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._mcp is not None and scope["path"] == MCP_PATH:
            await self._mcp(scope, receive, send)
        else:
            await self.routes(scope, receive, send)


class _Exchange:
    """How far an answer has come, so that a failure can still end it properly."""

    __slots__ = ("_ended", "_send", "begun")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ended = False
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
        elif not message.get("more_body", False):
            self._ended = True
        await self._send(message)

    async def end(self, answer: Answer) -> None:
        """Give this answer if none has begun; a stream that has begun is ended."""
        if not self.begun:
            await answer.send(self._send)
        elif not self._ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _is_stream(scope: Scope) -> bool:
    """Whether an MCP request stays open until somebody ends it; the newer era says so in a header."""
    return scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in scope["headers"]


def _crash(scope: Scope, crash: str) -> Answer:
    detail = f"Something went wrong inside the server; its log has the details under {crash}."
    return problem(CRASH, detail, instance=scope["path"], id=crash)


def _cut(scope: Scope) -> Answer:
    detail = "The server stopped before this request was answered; what it asked for may or may not have happened."
    return problem(STOPPING, detail, instance=scope["path"], headers=(RETRY_AFTER, CLOSE))


async def _answer_other(scope: Scope, receive: Receive, send: Send) -> None:
    """What is not HTTP: servers that announce start and end, and WebSockets, of which there are none."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
