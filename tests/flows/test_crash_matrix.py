"""Delegated work outlives its processes: a sample of the crash matrix, see `tests/programs/crash_matrix.py`."""

from __future__ import annotations

import random

import pytest

from tests.programs.crash_matrix import (
    Databases,
    Plan,
    count_writes,
    find_unnoticed,
    list_strikes,
    open_databases,
    play_rounds,
)
from tests.programs.crash_processes import Blow, Strike

PLAN = Plan(sweep_seconds=0.1)
JOBS = 2


def play(database: str, blows: dict[Blow, int]) -> None:
    """Strike so many times, spread over the scenario; each time everything must be right in the end."""
    with open_databases(database) as databases:
        writes, dice = count_writes(databases, PLAN), random.Random(7)
        strikes = [one for blow, count in blows.items() for one in list_strikes(writes, blow, count, dice)]
        check(databases, strikes)


def check(databases: Databases, strikes: list[Strike]) -> None:
    rounds = list(play_rounds(databases, PLAN, strikes, jobs=JOBS, seed=7))
    assert [str(one) for one in rounds if one.problems] == []
    assert any(one.changed for one in rounds), "no claim changed hands: nothing was tried"


def test_a_killed_process_leaves_delegated_work_in_sqlite_that_another_one_finishes() -> None:
    play("sqlite", {"KILL": 8})


def test_a_process_that_stops_or_is_taken_for_dead_leaves_work_that_another_one_finishes() -> None:
    play("sqlite", {"TERM": 3, "STOP": 3})


def test_each_protection_is_missed_when_it_is_removed() -> None:
    with open_databases("sqlite") as databases:
        assert find_unnoticed(databases, PLAN, jobs=JOBS) == []


@pytest.mark.requires("postgres")
def test_a_killed_process_leaves_delegated_work_in_postgres_that_another_one_finishes() -> None:
    play("postgres", {"KILL": 4})


@pytest.mark.requires("postgres")
def test_delegated_work_waits_for_postgres_while_it_is_away() -> None:
    with open_databases("postgres") as databases:
        strike = Strike(blow="OUTAGE", operation="end_runs", number=2)
        [one] = play_rounds(databases, PLAN, [strike], jobs=1, seed=7)
        assert one.problems == []
        assert one.names, "the database was never away"
