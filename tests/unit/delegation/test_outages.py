"""Steps wait while the database is away, and not longer than they may."""

from __future__ import annotations

import math

import pytest

from toolstead.delegation.outages import outlast_outage
from toolstead.errors import RowRefusedError, StorageError


class Hours:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return self.passed

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Database:
    """Fails until some time has passed."""

    def __init__(self, clock: Hours, until: float, error: type[StorageError] = StorageError) -> None:
        self._clock, self._until, self._error = clock, until, error
        self.tries = 0

    async def write(self) -> str:
        self.tries += 1
        if self._clock.passed < self._until:
            raise self._error("away")
        return "stored"


async def test_a_step_is_repeated_until_the_database_answers() -> None:
    clock = Hours()
    database = Database(clock, 100.0)
    assert await outlast_outage(database.write, clock, about="a test", seconds=math.inf) == "stored"
    assert 100.0 <= clock.passed < 106.0


async def test_it_gives_up_after_its_time() -> None:
    clock = Hours()
    with pytest.raises(StorageError):
        await outlast_outage(Database(clock, 100.0).write, clock, about="a test", seconds=30)
    assert clock.passed <= 30


async def test_what_the_database_refuses_is_not_tried_again() -> None:
    clock = Hours()
    database = Database(clock, 100.0, RowRefusedError)
    with pytest.raises(RowRefusedError):
        await outlast_outage(database.write, clock, about="a test")
    assert database.tries == 1


async def test_who_may_not_wait_does_not() -> None:
    clock = Hours()
    with pytest.raises(StorageError):
        await outlast_outage(Database(clock, 100.0).write, clock, about="a test", may_wait=lambda: False)
    assert clock.passed == 0.0
