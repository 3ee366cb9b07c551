"""The server: uvicorn on sockets of our own, with an end that leaves nothing behind.

The end has an order: no new connections, streams end, calls in flight get a grace, then they are
cancelled, then connections are broken off. A second signal skips the grace.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from typing import Any, cast

import uvicorn

from toolstead.adapters.rest.app import RestApp
from toolstead.adapters.rest.options import ServerOptions
from toolstead.adapters.rest.port import address_of, open_sockets
from toolstead.adapters.rest.protocol import BoundedProtocol

logger = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that calls in flight get to finish when the server ends."""
KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than clients keep theirs, so that it is they who close."""
STALLED = 30.0
"""Seconds after which a client that takes nothing of what waits for it is cut off."""
_UNWIND = 2.0
"""Seconds that cancelled calls get to clean up."""
_UNREAD = 1.0
"""Seconds that a client gets to take something of what waits for it, when the server ends."""
_LOOK = 0.02


async def serve(
    app: RestApp,
    options: ServerOptions,
    *,
    lifespan: AbstractAsyncContextManager[None] | None = None,
    on_ready: Callable[[str], None],
    stop: asyncio.Event | None = None,
    grace: float = GRACE,
) -> None:
    """Serve until a signal, or until `stop` is set; returns with everything closed.

    Args:
        app: What `create_app` made.
        options: Where to listen.
        lifespan: Open while the server runs.
        on_ready: Told the address once requests are answered.
        stop: Ends the server when set. Without it SIGTERM and SIGINT do, and a second one ends it at once.
        grace: Seconds that calls in flight get to finish.

    Raises:
        ServeError: The bind needs a token, the address cannot be used, or the port is taken.
    """
    sockets = await open_sockets(options)
    server = _Server(app, sockets, stop or asyncio.Event(), grace=grace)
    try:
        async with lifespan or nullcontext():
            with nullcontext() if stop is not None else server.signals():
                await server.answer(lambda: on_ready(address_of(options, sockets[0])))
    finally:
        for bound in sockets:
            bound.close()


class _Server(uvicorn.Server):
    """uvicorn with our signals, our bounds and our end."""

    def __init__(self, app: RestApp, sockets: list[socket.socket], stop: asyncio.Event, *, grace: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,  # it would write `?token=` down
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
            )
        )
        self.servers: list[asyncio.base_events.Server] = []
        self._app = app
        self._sockets = sockets
        self._stop = stop
        self._hurry = asyncio.Event()
        self._grace = grace

    async def answer(self, ready: Callable[[], None]) -> None:
        """Serve in the running loop until told to stop."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        try:
            await self.startup(sockets=self._sockets)
            ready()
            await self.main_loop()
        except asyncio.CancelledError:
            self._hurry.set()
            raise
        finally:
            await self.shutdown()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: keep uvicorn's clock, send late and stalled clients away, look whether to stop."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._connections():
                connection.close_if_late(now)
                connection.break_off_if_stalled(now, STALLED)
        return await super().on_tick(counter) or self._stop.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in order, and wait until nothing is left."""
        for server in self.servers:
            server.close()
        self._app.stopping.begin()
        for connection in self._connections():
            connection.shutdown()
        if not await self._emptied(self._grace, unless=self._hurry):
            left = self._app.stopping.in_flight
            logger.warning("the server ends with %s requests unanswered; they are cancelled", left)
            self._app.stopping.cut()
            await self._emptied(_UNWIND)
        for connection in self._connections():
            connection.transport.abort()
        if not await self._emptied(_UNWIND):
            logger.error("%s requests do not end although they were cancelled", len(self.server_state.tasks))
        for server in self.servers:
            with suppress(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), _UNWIND)

    def _connections(self) -> list[BoundedProtocol]:
        """The open connections, as many as there are now."""
        return list(cast("set[BoundedProtocol]", self.server_state.connections))

    async def _emptied(self, seconds: float, *, unless: asyncio.Event | None = None) -> bool:
        """Wait until no connection and no request is left; False when time runs out, or in a hurry."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while self.server_state.connections or self.server_state.tasks:
            now = clock()
            if now >= end or (unless is not None and unless.is_set()):
                return False
            for connection in self._connections():
                connection.break_off_if_stalled(now, _UNREAD)
            await asyncio.sleep(_LOOK)
        return True

    @contextmanager
    def signals(self) -> Generator[None]:
        """Let SIGTERM and SIGINT end the server; what handled them before does so again afterwards."""
        loop = asyncio.get_running_loop()
        before: dict[int, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
