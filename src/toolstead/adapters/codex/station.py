"""The Codex process and the tool endpoint, shared by all sessions: opened with the first, closed with the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from toolstead.adapters.codex.app_server import AppServer
from toolstead.adapters.codex.program import CodexProgram
from toolstead.adapters.codex.tool_endpoint import CodexToolEndpoint


class ThreadHolder(Protocol):
    """The exclusive owner of a Codex thread."""

    async def give_up(self) -> None:
        """Release the thread to another session.

        Raises:
            RuntimeFailureError: It is in use.
        """
        ...


class Station:
    """One process, one endpoint, the number of their sessions, and the owner of each thread."""

    def __init__(self, server: AppServer, endpoint: CodexToolEndpoint) -> None:
        self.server = server
        self.endpoint = endpoint
        self.users = 0
        self._holders: dict[str, ThreadHolder] = {}

    async def claim_thread(self, thread_id: str, holder: ThreadHolder) -> None:
        """Claim a thread exclusively: Codex would let two sessions share it, with the tools of the first.

        Raises:
            RuntimeFailureError: Another session is using it.
        """
        while (other := self._holders.get(thread_id)) is not None and other is not holder:
            await other.give_up()
        self.hold_thread(thread_id, holder)

    def hold_thread(self, thread_id: str, holder: ThreadHolder) -> None:
        """Claim a new thread, which no other session can own yet."""
        self._holders[thread_id] = holder

    def let_go(self, thread_id: str, holder: ThreadHolder) -> None:
        """Release a thread."""
        if self._holders.get(thread_id) is holder:
            del self._holders[thread_id]


class Stations:
    """Gives sessions the current process and endpoint; replaces them when the process has died."""

    def __init__(self, prepare: Callable[[], CodexProgram], *, version: str) -> None:
        self._prepare = prepare
        self._version = version
        self._changing = asyncio.Lock()
        self._current: Station | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def enter_station(self) -> Station:
        """Enter a working station; the session must leave it again.

        Raises:
            RuntimeFailureError: The program is missing, or does not start.
        """
        async with self._changing:
            station = self._current
            if station is None or not station.server.is_alive:
                station = self._current = await self._open()
            station.users += 1
            return station

    async def leave_station(self, station: Station) -> None:
        """Leave; the last session closes everything, even if the caller is cancelled."""
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
