"""The Codex process and the tool endpoint, shared by all sessions: opened with the first, closed with the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolstead.adapters.codex.app_server import AppServer, ThreadOwner
from toolstead.adapters.codex.program import CodexProgram
from toolstead.adapters.codex.tool_endpoint import CodexToolEndpoint
from toolstead.concurrency.owned_tasks import OwnedTasks


class Station:
    """One process, one endpoint, the number of their sessions, and the owner of each thread.

    Attributes:
        owners: The session that owns a thread, by the thread's id.
    """

    def __init__(self, server: AppServer, endpoint: CodexToolEndpoint) -> None:
        self.server = server
        self.endpoint = endpoint
        self.users = 0
        self.owners: dict[str, ThreadOwner] = {}

    async def claim_thread(self, thread_id: str, owner: ThreadOwner) -> None:
        """Claim a thread exclusively: Codex would let two sessions share it, with the tools of the first.

        Raises:
            RuntimeFailureError: Another session is using it.
        """
        while (other := self.owners.get(thread_id)) is not None and other is not owner:
            await other.give_up()
        self.owners[thread_id] = owner

    def release_thread(self, thread_id: str, owner: ThreadOwner) -> None:
        """Release a thread, unless it has another owner now."""
        if self.owners.get(thread_id) is owner:
            del self.owners[thread_id]


class Stations:
    """Gives sessions the current process and endpoint; replaces them when the process has died."""

    def __init__(self, prepare: Callable[[], CodexProgram], *, version: str) -> None:
        self._prepare = prepare
        self._version = version
        self._changing = asyncio.Lock()
        self._current: Station | None = None
        self._leaving = OwnedTasks()

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
        await asyncio.shield(self._leaving.start(self._leave_now(station), name="leaving the Codex process"))

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
