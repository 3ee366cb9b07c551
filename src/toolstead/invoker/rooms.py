"""How many sessions may own a process at once, and who gets the next free room.

A room is taken before a process is started and given back after it has ended. Whoever may wait,
waits in order of arrival.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from dataclasses import dataclass, field


@dataclass(slots=True, order=True)
class Waiter:
    """Somebody in a line. The lower the ticket, the earlier the arrival.

    The future holds True when it is their turn, and False when nothing comes any more.
    """

    ticket: int
    turn: asyncio.Future[bool] = field(compare=False)


class Rooms:
    """A count with a line."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._line: list[Waiter] = []

    @property
    def first_ticket(self) -> int | None:
        """The ticket of whoever has waited longest."""
        return self._line[0].ticket if self._line else None

    def take(self) -> bool:
        """Take a free room; False when there is none."""
        if self.taken >= self.most:
            return False
        self.taken += 1
        return True

    async def wait(self, ticket: int) -> bool:
        """Wait for a room in order of arrival; False when the line was sent home."""
        waiter = Waiter(ticket, asyncio.get_running_loop().create_future())
        insort(self._line, waiter)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._line:
                self._line.remove(waiter)
            elif not waiter.turn.cancelled() and waiter.turn.result():
                self.give_back()  # it came at the moment of leaving: the next one has it
            raise

    def give_back(self) -> None:
        """Give a room to the first in line, or nobody."""
        while self._line:
            waiter = self._line.pop(0)
            if not waiter.turn.done():
                waiter.turn.set_result(True)
                return
        self.taken -= 1

    def send_home(self) -> None:
        """Tell everybody in line that nothing comes any more."""
        line, self._line = self._line, []
        for waiter in line:
            if not waiter.turn.done():
                waiter.turn.set_result(False)
