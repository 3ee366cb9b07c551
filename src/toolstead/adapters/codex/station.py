"""The program and the endpoint with our tools, shared by all sessions: opened with the first, closed with the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from toolstead.adapters.codex.app_server import AppServer
from toolstead.adapters.codex.program import CodexProgram
from toolstead.adapters.codex.tool_endpoint import CodexToolEndpoint


class ThreadHolder(Protocol):
    """Whoever has a thread of Codex for itself."""

    async def give_up(self) -> None:
        """Let somebody else have it.

        Raises:
            RuntimeFailureError: It is in use.
        """
        ...


class Station:
    """One process, one endpoint, how many sessions they serve, and whose each thread is."""

    def __init__(self, server: AppServer, endpoint: CodexToolEndpoint) -> None:
        self.server = server
        self.endpoint = endpoint
        self.users = 0
        self._holders: dict[str, ThreadHolder] = {}

    async def claim_thread(self, thread_id: str, holder: ThreadHolder) -> None:
        """Have a thread for oneself: Codex would let two share it, with the tools of the first.

        Raises:
            RuntimeFailureError: Somebody else uses it just now.
        """
        while (other := self._holders.get(thread_id)) is not None and other is not holder:
            await other.give_up()
        self.hold_thread(thread_id, holder)

    def hold_thread(self, thread_id: str, holder: ThreadHolder) -> None:
        """Have a thread that nobody else can have yet."""
        self._holders[thread_id] = holder

    def let_go(self, thread_id: str, holder: ThreadHolder) -> None:
        """Have it no more."""
        if self._holders.get(thread_id) is holder:
            del self._holders[thread_id]


class Stations:
    """Gives sessions the station of the moment; one whose process has died is replaced."""

    def __init__(self, prepare: Callable[[], CodexProgram], *, version: str) -> None:
        self._prepare = prepare
        self._version = version
        self._changing = asyncio.Lock()
        self._current: Station | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def enter_station(self) -> Station:
        """A station that works; to be left again.

        Raises:
            RuntimeFailureError: The program is not there, or does not start.
        """
        async with self._changing:
            station = self._current
            if station is None or not station.server.is_alive:
                station = self._current = await self._open()
            station.users += 1
            return station

    async def leave_station(self, station: Station) -> None:
        """A session has ended; with the last one everything does. Also when whoever waits for it is cancelled."""
        leaving = asyncio.create_task(self._leave_now(station))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        await asyncio.shield(leaving)

    async def _leave_now(self, station: Station) -> None:
        async with self._changing:
            station.users -= 1
            if station.users > 0:
                return
            if self._current is station:
                self._current = None
            await station.server.close()
            await station.endpoint.close()

    async def _open(self) -> Station:
        program = await asyncio.to_thread(self._prepare)
        endpoint = CodexToolEndpoint(version=self._version)
        try:
            await endpoint.open()
            server = await AppServer.start(program, version=self._version)
        except BaseException:
            await endpoint.close()
            raise
        return Station(server, endpoint)
