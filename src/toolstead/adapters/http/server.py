"""The server: uvicorn, embedded once for everything that listens, on sockets of our own.

`serve` is the server of a whole program: it handles signals and shuts down in order: no new connections, streams
end, calls in flight get a grace period, then they are cancelled, then connections are closed; a second signal skips the
grace period. `listen` serves on a free loopback port inside another program, and closes what is left when its block
ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import cast

import uvicorn

from toolstead.adapters.http.application import HttpApplication
from toolstead.adapters.http.asgi import ASGIApp
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.port import format_address, open_sockets
from toolstead.adapters.http.protocol import BoundedProtocol
from toolstead.adapters.http.stopping import Stopping
from toolstead.concurrency.termination import take_signals

logger = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that calls in flight get to finish when the server ends."""
KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than clients keep theirs, so that the client closes first."""
STALLED = 30.0
"""Seconds after which a client that does not read its response is disconnected."""
_UNWIND = 2.0
"""Seconds that cancelled calls get to clean up."""
_UNREAD = 1.0
"""Seconds that a client gets to read its response when the server stops."""
_LOOK = 0.02


async def serve(
    app: HttpApplication,
    options: ServerOptions,
    *,
    lifespan: AbstractAsyncContextManager[None] | None = None,
    on_ready: Callable[[str], None],
    stop: asyncio.Event | None = None,
    grace: float = GRACE,
) -> None:
    """Serve until a signal, or until `stop` is set; returns with everything closed.

    Args:
        app: Answers.
        options: Where to listen.
        lifespan: Open while the server runs.
        on_ready: Called with the address once the server answers requests.
        stop: Ends the server when set. Without it SIGTERM and SIGINT do, and a second one ends it at once.
        grace: Seconds that calls in flight get to finish.

    Raises:
        ServeError: The bind needs a token, the address cannot be used, or the port is taken.
    """
    async with open_sockets(options) as sockets, lifespan or nullcontext():
        server = EmbeddedServer(app, sockets, stopping=app.stopping, stop=stop, grace=grace)
        with nullcontext() if stop is not None else take_signals(server.take_signal):
            await server.run_until_stopped(lambda: on_ready(format_address(options, sockets[0])))


@asynccontextmanager
async def serve_on_loopback(app: ASGIApp, *, protocol: type[BoundedProtocol] = BoundedProtocol) -> AsyncGenerator[int]:
    """Serve an application on a free port of 127.0.0.1, without signals; gives the port.

    Args:
        app: Answers; nothing guards it.
        protocol: What each connection is.
    """
    async with open_sockets(ServerOptions(port=0)) as sockets:
        server = EmbeddedServer(app, sockets, protocol=protocol)
        await server.open()
        try:
            yield sockets[0].getsockname()[1]
        finally:
            await server.shutdown()


class EmbeddedServer(uvicorn.Server):
    """uvicorn with our signal handling, limits and shutdown."""

    def __init__(
        self,
        app: ASGIApp,
        sockets: list[socket.socket],
        *,
        protocol: type[BoundedProtocol] = BoundedProtocol,
        stopping: Stopping | None = None,
        stop: asyncio.Event | None = None,
        grace: float = GRACE,
    ) -> None:
        """Prepare to serve.

        Args:
            app: Answers.
            sockets: Where it listens; the caller closes them.
            protocol: What each connection is.
            stopping: Ends streams, and calls that outlast the grace period; without it everything is aborted.
            stop: Ends the server when set.
            grace: Seconds that calls in flight get to finish.
        """
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,  # it would log `?token=`
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
            )
        )
        self.servers: list[asyncio.base_events.Server] = []
        self._sockets = sockets
        self._stopping = stopping
        self._stop = stop or asyncio.Event()
        self._hurry = asyncio.Event()
        self._grace = grace

    async def open(self) -> None:
        """Start answering."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=self._sockets)

    async def run_until_stopped(self, on_ready: Callable[[], None]) -> None:
        """Serve in the running loop until `stop` is set."""
        try:
            await self.open()
            on_ready()
            await self.main_loop()
        except asyncio.CancelledError:
            self._hurry.set()
            raise
        finally:
            await self.shutdown()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: update uvicorn's clock, disconnect late and stalled clients, check whether to stop."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._list_connections():
                connection.close_if_late(now)
                connection.break_off_if_stalled(now, STALLED)
        return await super().on_tick(counter) or self._stop.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down in order, and wait until nothing is left."""
        for server in self.servers:
            server.close()
        if self._stopping is not None:
            await self._end_requests(self._stopping)
        for connection in self._list_connections():
            connection.transport.abort()
        if not await self._wait_until_empty(_UNWIND):
            if self._stopping is None:
                for task in list(self.server_state.tasks):
                    task.cancel()
                await self._wait_until_empty(_UNWIND)
            if self.server_state.tasks:
                logger.error("%s requests ignored their cancellation", len(self.server_state.tasks))
        for server in self.servers:
            with suppress(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), _UNWIND)

    async def _end_requests(self, stopping: Stopping) -> None:
        """Let requests finish; cancel those that do not in time."""
        stopping.begin_stop()
        logger.info("stopping: %s requests have up to %g seconds", stopping.in_flight, self._grace)
        for connection in self._list_connections():
            connection.shutdown()
        if not await self._wait_until_empty(self._grace, unless=self._hurry):
            logger.warning("the server stops with %s unanswered requests; cancelling them", stopping.in_flight)
            stopping.cut_requests()
            await self._wait_until_empty(_UNWIND)

    def _list_connections(self) -> list[BoundedProtocol]:
        """The open connections."""
        return list(cast("set[BoundedProtocol]", self.server_state.connections))

    async def _wait_until_empty(self, seconds: float, *, unless: asyncio.Event | None = None) -> bool:
        """Wait until no connection and no request is left; False on timeout, or after a second signal."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while self.server_state.connections or self.server_state.tasks:
            now = clock()
            if now >= end or (unless is not None and unless.is_set()):
                return False
            for connection in self._list_connections():
                connection.break_off_if_stalled(now, _UNREAD)
            await asyncio.sleep(_LOOK)
        return True

    def take_signal(self) -> None:
        """Stop; a second one skips the grace period."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
