"""Group commit: who writes at the same time shares a transaction, and nobody else's failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection

from tests.contracts.samples import ending, event, message, run, thread
from toolstead.adapters.storage import queries, writer
from toolstead.adapters.storage.operations import end_runs
from toolstead.adapters.storage.store import SqlStore, open_store
from toolstead.errors import NotFoundError, StorageError
from toolstead.orchestrator.log_store import EventFilter

ALL = EventFilter()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    opened = cast("SqlStore", await open_store(tmp_path / "toolstead.db"))
    yield opened
    await opened.close()


@pytest.fixture
def transactions(store: SqlStore) -> list[int]:
    """One entry for each transaction."""
    database = cast("Any", store._database)
    write = database.write
    counted: list[int] = []

    async def count(work: Any) -> Any:
        counted.append(1)
        return await write(work)

    database.write = count
    return counted


async def test_writes_of_the_same_moment_share_a_transaction(store: SqlStore, transactions: list[int]) -> None:
    await asyncio.gather(*(store.append_events([event()]) for _ in range(300)))
    assert len(transactions) == 1


async def test_all_kinds_of_writes_share_it_in_order(store: SqlStore, transactions: list[int]) -> None:
    asked = run("t", store.owner)
    outcomes = await asyncio.gather(
        store.create_thread(thread("t", title="first")),
        store.update_thread("t", title="second"),
        store.accept_message(message("t"), asked),
        store.begin_run(asked, 1.0),
        store.set_value("s", "k", b"1"),
        store.end_run(asked.id, ending(answer=message("t", "done"))),
        store.delete_value("s", "k"),
        store.add_message(message("t", "after")),
        store.update_thread("t", agent="x"),
    )
    assert len(transactions) == 1
    assert outcomes[6] is True
    assert (outcomes[8].title, outcomes[8].agent) == ("second", "x")
    assert (await store.read_run(asked.id)).status == "completed"
    assert [one.content for one in await store.list_messages("t")] == ["hello", "done", "after"]


async def test_a_deleted_thread_is_gone_for_what_comes_after_it_in_the_same_transaction(store: SqlStore) -> None:
    outcomes = await asyncio.gather(
        store.create_thread(thread("t")),
        store.delete_thread("t"),
        store.add_message(message("t")),
        return_exceptions=True,
    )
    assert isinstance(outcomes[2], NotFoundError)


async def test_a_batch_has_a_bound(store: SqlStore, transactions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_TOGETHER", 10)
    await asyncio.gather(*(store.append_events([event()]) for _ in range(35)))
    assert len(transactions) == 4
    assert len(await store.list_events(ALL)) == 35


async def test_a_write_that_crashes_is_told_so_and_its_neighbours_are_kept(store: SqlStore) -> None:
    def crash(connection: Connection) -> None:
        queries.set_value(connection, "s", "half", b"")
        raise ZeroDivisionError

    outcomes = await asyncio.gather(
        store.append_events([event("a")]),
        store.write_with(crash),
        store.append_events([event("b")]),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert [one.type for one in await store.list_events(ALL)] == ["a", "b"]
    assert await store.get_value("s", "half") is None


async def test_several_runs_are_ended_together_or_not_at_all(store: SqlStore) -> None:
    asked = [run("t", store.owner) for _ in range(2)]
    for one in asked:
        await store.accept_message(message("t"), one)
    endings = [(asked[0].id, ending(events=[event()])), (asked[1].id, ending(answer=message("nowhere")))]
    with pytest.raises(StorageError, match="does not take this row: FOREIGN KEY constraint failed"):
        await store.writer.write(end_runs(endings))
    assert len(await store.list_runs(unfinished=True)) == 2
    assert await store.list_events(ALL) == []
