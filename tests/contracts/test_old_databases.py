"""A database that an older version wrote opens with nothing lost; see `old_databases/README.md`."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import lost
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store

OLD = Path(__file__).parent / "old_databases"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text("utf-8"))
STATUSES = {"queued", "running", "completed", "failed", "timeout", "cancelled", "lost"}


@pytest.fixture
async def old(place: Place) -> Place:
    """A place in which an older version left its database."""
    if place.kind == "sqlite":
        Path(place.address).parent.mkdir()
        shutil.copy(OLD / "sqlite.db", place.address)
    else:
        import asyncpg

        connection = await asyncpg.connect(place.address)
        await connection.execute((OLD / "postgres.sql").read_text("utf-8"))
        await connection.close()
    return place


async def everything(place: Place) -> list[Any]:
    """Every table of the database and every row of it."""
    if place.kind == "sqlite":
        with closing(sqlite3.connect(place.address)) as connection:
            return list(connection.iterdump())
    import asyncpg

    connection = await asyncpg.connect(place.address)
    try:
        columns = await connection.fetch(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_schema = current_schema() ORDER BY 1, 2"
        )
        indexes = await connection.fetch(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"
        )
        rows = [
            sorted(map(repr, await connection.fetch(f'SELECT * FROM "{name}"')))
            for name in sorted({column["table_name"] for column in columns})
        ]
        return [columns, indexes, rows]
    finally:
        await connection.close()


def same(found: Any, expected: dict[str, Any]) -> bool:
    """Whether a Struct has all that the older version read; fields that came later are not looked at."""
    built = msgspec.structs.asdict(found)
    return {name: msgspec.to_builtins(_renamed(built[name])) for name in expected} == expected


def _renamed(value: Any) -> Any:
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value


def all_same(found: list[Any], expected: list[dict[str, Any]]) -> bool:
    return len(found) == len(expected) and all(map(same, found, expected))


async def check(store: Store) -> None:
    threads = sorted(await store.list_threads(), key=lambda one: one.id)
    assert all_same(threads, sorted(EXPECTED["threads"], key=lambda one: one["id"]))
    for one in threads:
        assert all_same(await store.list_messages(one.id), EXPECTED["messages"][one.id])
    runs = await store.list_runs()
    assert {run.status for run in runs} == STATUSES
    assert all_same(runs, EXPECTED["runs"])
    assert all([same(await store.read_run(run["id"]), run) for run in EXPECTED["runs"]])
    assert all_same(await store.list_events(EventFilter()), EXPECTED["events"])
    for run in runs:
        used = await store.find_accepted(run.thread_id, f"key-{run.status}")
        assert (None if used is None else [used.message_id, used.run_id]) == EXPECTED["keys"].get(run.status)
    kept = await store.read_result("result_1")
    assert base64.b64encode(kept.content).decode() == EXPECTED["result"]
    assert kept.tool is None
    plugins = {name: msgspec.to_builtins(row) for name, row in (await store.list_plugins()).items()}
    assert plugins == EXPECTED["plugins"]
    values = {key: base64.b64encode(await store.get_value("space", key) or b"").decode() for key in EXPECTED["values"]}
    assert values == EXPECTED["values"]
    assert await store.list_keys("space") == sorted(values)
    for approval in EXPECTED["approvals"]:
        assert same(await store.read_approval(approval["id"]), approval)
    assert [one.id for one in await store.pending_approvals()] == EXPECTED["pending"]


async def test_nothing_is_lost_and_a_second_open_changes_nothing(old: Place) -> None:
    store = await old.open()
    await check(store)
    await store.close()
    before = await everything(old)
    store = await old.open()
    await check(store)
    await store.close()
    assert await everything(old) == before


async def test_it_is_gone_on_with(old: Place) -> None:
    store = await old.open()
    recovered = await store.recover_runs(lost)
    assert {run.id for run, _ in recovered} == {"run_running", "run_queued"}
    newest = EXPECTED["events"][-1]["id"]
    assert all(event.id > newest for _, events in recovered for event in events)
    await store.delete_thread("thread_full")
    assert {one.id for one in await store.list_threads()} == {"thread_made", "thread_empty"}
