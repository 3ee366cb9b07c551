"""Idle sessions: the longest idle first, and a timer that ends them.

One timer for all, armed only while there is something to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from toolstead.invoker.slot import Slot


class IdleSessions:
    """The idle slots in the order in which they became idle."""

    def __init__(self, *, ttl: float, clock: Callable[[], float], expired: Callable[[Slot], object]) -> None:
        self._ttl = ttl
        self._clock = clock
        self._expired = expired
        self._slots: dict[Slot, None] = {}
        self._with_room: dict[Slot, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots))

    @property
    def rooms_taken(self) -> int:
        """How many of them own a process."""
        return len(self._with_room)

    @property
    def oldest(self) -> Slot | None:
        """The longest idle one."""
        return next(iter(self._slots), None)

    @property
    def oldest_with_room(self) -> Slot | None:
        """The longest idle one that owns a process."""
        return next(iter(self._with_room), None)

    def add(self, slot: Slot) -> None:
        """A slot is idle; it was touched when its last invocation ended."""
        self._slots[slot] = None
        if slot.has_room:
            self._with_room[slot] = None
        self._arm_timer()

    def discard(self, slot: Slot) -> None:
        """It is not idle any more, or gone."""
        self._slots.pop(slot, None)
        self._with_room.pop(slot, None)

    def note_use(self, slot: Slot) -> None:
        """An invocation ended in it just now, or it was opened ahead of one."""
        slot.idle_since = self._clock()

    def is_due(self, slot: Slot) -> bool:
        """Whether it has been idle too long, noticed or not."""
        return self._clock() - slot.idle_since >= self._ttl

    def expire(self) -> None:
        """End what has been idle too long."""
        for slot in self:
            if not self.is_due(slot):
                break
            self._expired(slot)
        self._arm_timer()

    def stop(self) -> None:
        """Disarm the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm_timer(self) -> None:
        if self._timer is None and self._slots:
            first = next(iter(self._slots))
            seconds = max(0.0, first.idle_since + self._ttl - self._clock())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.expire()
