"""How many sessions may own a process at once, and which slot gets the next free room.

A room is taken before a process is started and given back after it has ended. A caller that may wait
waits in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Rooms:
    """A count with a queue. A future in the queue gets True with a room, and False when none will come."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._queue: deque[asyncio.Future[bool]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether a caller waits for a room; removes those that left."""
        while self._queue and self._queue[0].done():
            self._queue.popleft()
        return bool(self._queue)

    def take(self) -> bool:
        """Take a free room; False when there is none."""
        if self.taken >= self.most:
            return False
        self.taken += 1
        return True

    async def wait(self) -> bool:
        """Wait for a room in order of arrival; False when none will come."""
        room: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append(room)
        try:
            return await room
        except asyncio.CancelledError:
            if not room.cancelled() and room.result():
                self.give_back()  # it came at the moment of leaving: the next one has it
            raise

    def give_back(self) -> None:
        """Give a room to the first in the queue, or back to the count."""
        if self.is_wanted:
            self._queue.popleft().set_result(True)
        else:
            self.taken -= 1

    def send_home(self) -> None:
        """Refuse every caller in the queue."""
        while self.is_wanted:
            self._queue.popleft().set_result(False)
