"""Where the scripted model APIs listen: uvicorn on a socket of our own, without signals, ended with its block."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger(__name__)

_UNWIND = 5.0
"""Seconds that requests get to notice that the server has ended."""
_KEEP_ALIVE = 75


class _Protocol(HttpToolsProtocol):
    """One connection, which an application can drop in the middle of an answer."""

    def on_message_begin(self) -> None:
        """Offer the means to drop it."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["extensions"] = {"drop": self._drop}

    def _drop(self) -> None:
        """Send what was written, and nothing more."""
        self.transport.close()


@asynccontextmanager
async def listen(app: Any) -> AsyncGenerator[int]:
    """Serve an ASGI application on a free port of 127.0.0.1; gives the port."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        bound.setblocking(False)
        await server.startup(sockets=[bound])
        try:
            yield bound.getsockname()[1]
        finally:
            await _end(server)


async def _end(server: uvicorn.Server) -> None:
    """Take no more requests, break off those under way, and wait until none is left."""
    for listener in server.servers:
        listener.close()
    tasks = set(server.server_state.tasks)
    for connection in list(server.server_state.connections):
        cast("_Protocol", connection).transport.abort()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_UNWIND)
        if left:
            logger.error("%s requests to the scripted model APIs do not end", len(left))
    for listener in server.servers:
        with suppress(TimeoutError):
            await asyncio.wait_for(listener.wait_closed(), _UNWIND)
