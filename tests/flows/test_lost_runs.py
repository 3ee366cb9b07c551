"""A process is killed in the middle of its runs; see `tests/programs/killed_runs.py` for what has to hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.contracts.postgres_server import running_server
from tests.programs.killed_runs import Place, postgres_place, rounds


async def test_a_killed_process_leaves_a_sqlite_database_with_every_message_and_an_end_for_every_run(
    tmp_path: Path,
) -> None:
    await _play(Place(tmp_path), 12)


@pytest.mark.requires("postgres")
async def test_a_killed_process_leaves_a_postgres_database_with_every_message_and_an_end_for_every_run(
    tmp_path: Path,
) -> None:
    with running_server() as socket:
        async with postgres_place(socket, tmp_path, "killed") as place:
            await _play(place, 5)


async def _play(place: Place, count: int) -> None:
    statuses: Counter[str] = Counter()
    async for one in rounds(place, count, seed=7):
        print(one)
        statuses += one.statuses
    assert statuses.keys() == {"lost", "completed"}
