"""The program and the door to our tools, shared by all sessions: opened for the first one, closed after the last.

Above: `runtime`, `session`. Below: `app_server`, `door`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolyard.adapters.codex.app_server import AppServer
from toolyard.adapters.codex.door import ToolDoor
from toolyard.adapters.codex.program import Program


class Station:
    """One process, one door, and how many sessions they serve."""

    def __init__(self, server: AppServer, door: ToolDoor) -> None:
        self.server = server
        self.door = door
        self.users = 0


class Stations:
    """Gives sessions the station of the moment; one whose process has died is replaced."""

    def __init__(self, prepare: Callable[[], Program], *, version: str) -> None:
        self._prepare = prepare
        self._version = version
        self._changing = asyncio.Lock()
        self._current: Station | None = None

    async def enter(self) -> Station:
        """A station that works; to be left again.

        Raises:
            RuntimeFailureError: The program is not there, or does not start.
        """
        async with self._changing:
            station = self._current
            if station is None or not station.server.alive:
                station = self._current = await self._open()
            station.users += 1
            return station

    async def leave(self, station: Station) -> None:
        """A session has ended; with the last one everything does."""
        async with self._changing:
            station.users -= 1
            if station.users > 0:
                return
            if self._current is station:
                self._current = None
            await station.server.close()
            await station.door.close()

    async def _open(self) -> Station:
        program = await asyncio.to_thread(self._prepare)
        door = ToolDoor(version=self._version)
        await door.open()
        try:
            server = await AppServer.start(program, version=self._version)
        except BaseException:
            await door.close()
            raise
        return Station(server, door)
