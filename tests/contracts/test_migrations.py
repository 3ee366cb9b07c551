"""The database's versions: each step whole or not at all, and once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from sqlalchemy import Connection, inspect

from tests.contracts.conftest import Place
from tests.contracts.samples import thread
from toolstead.adapters.storage import migrations, tables
from toolstead.adapters.storage.migrations import MIGRATIONS, Migration, migrate_step, version_of
from toolstead.adapters.storage.store import open_store
from toolstead.errors import StorageError

KINDS = {"BIGINT": "whole", "INTEGER": "whole", "BOOLEAN": "whole", "TEXT": "text", "BLOB": "bytes", "BYTEA": "bytes"}
KINDS |= {"REAL": "real", "DOUBLE": "real", "DOUBLE PRECISION": "real", "FLOAT": "real"}
NEXT = MIGRATIONS[-1].version + 1


def _columns(connection: Connection) -> dict[str, dict[str, tuple[str, bool]]]:
    looked = inspect(connection)
    return {
        name: {
            column["name"]: (KINDS[str(column["type"]).partition("(")[0]], column["nullable"])
            for column in looked.get_columns(name)
        }
        for name in looked.get_table_names()
    }


async def test_the_tables_that_are_made_are_the_tables_that_are_asked(place: Place) -> None:
    store = cast("Any", await place.open())
    made: dict[str, Any] = await store._database.read(_columns)
    assert made.pop("toolstead_version") == {"version": ("whole", False)}
    known = {"BigInteger": "whole", "Text": "text", "Double": "real", "LargeBinary": "bytes", "Boolean": "whole"}
    asked = {
        table.name: {column.name: known[type(column.type).__name__] for column in table.columns}
        for table in tables.metadata.tables.values()
    }
    assert {name: {one: kind for one, (kind, _) in columns.items()} for name, columns in made.items()} == asked
    for table in tables.metadata.tables.values():
        for column in table.columns:
            if not column.primary_key:  # SQLite lets a key be null on paper
                assert made[table.name][column.name][1] == column.nullable, f"{table.name}.{column.name}"


async def test_versions_are_numbered_without_a_gap() -> None:
    assert [one.version for one in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


async def test_a_step_that_fails_leaves_the_old_version_whole(place: Place) -> None:
    store = cast("Any", await place.open())
    await store.create_thread(thread("t"))
    broken = Migration(version=NEXT, statements=("ALTER TABLE threads ADD COLUMN colour TEXT", "DROP TABLE nonsense"))
    steps = (*MIGRATIONS, broken)
    with pytest.raises(Exception, match="nonsense"):
        await store._database.write(lambda connection: migrate_step(connection, "here", steps))
    assert await store._database.read(version_of) == NEXT - 1
    assert "colour" not in (await store._database.read(_columns))["threads"]
    await store.create_thread(thread("u"))
    assert [one.id for one in await store.list_threads()] == ["u", "t"]


async def test_a_database_of_the_version_before_is_brought_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await place.open()
    await store.create_thread(thread("t"))
    await store.close()
    more = (*MIGRATIONS, Migration(version=NEXT, statements=("CREATE TABLE extra (name TEXT, n {number})",)))
    monkeypatch.setattr(migrate_step, "__defaults__", (more,))
    stores = cast("list[Any]", await asyncio.gather(*(place.open() for _ in range(3))))
    assert await stores[0]._database.read(version_of) == NEXT
    assert "extra" in await stores[0]._database.read(_columns)
    assert [one.id for one in await stores[1].list_threads()] == ["t"]
    monkeypatch.undo()
    with pytest.raises(
        StorageError, match=f"has version {NEXT}, and this Toolstead understands up to {NEXT - 1}: a newer one wrote it"
    ):
        await open_store(place.address)


async def test_threads_of_a_database_without_projects_get_those_of_their_tasks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrate_step, "__defaults__", (MIGRATIONS[:11],))
        store = cast("Any", await place.open())

        def fill(connection: Connection) -> None:
            for n, name in enumerate(("parent", "child", "other")):
                connection.exec_driver_sql(
                    "INSERT INTO threads (n, id, created_at, title, agent, runtime, model)"
                    f" VALUES ({100 + n}, '{name}', 1.0, '', '', '', '')"
                )
            columns = {column["name"]: column for column in inspect(connection).get_columns("tasks")}
            known = {"n": "200", "thread_id": "'child'", "parent_thread_id": "'parent'", "project": "'/p'"}
            needed = {name: "'0'" for name, column in columns.items() if not column["nullable"]} | known
            connection.exec_driver_sql(f"INSERT INTO tasks ({', '.join(needed)}) VALUES ({', '.join(needed.values())})")

        await store._database.write(fill)
        await store.close()
    found = {one.id: one.project for one in await (await place.open()).list_threads()}
    assert found == {"parent": "/p", "child": "/p", "other": None}


async def test_two_that_make_it_at_once_do_it_once_and_one_line_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[int | None] = []
    step = migrations.migrate_step

    def counted(connection: Connection, shown: str) -> int | None:
        steps.append(step(connection, shown))
        return steps[-1]

    monkeypatch.setattr(f"toolstead.adapters.storage.{place.kind}.migrate_step", counted)
    caplog.set_level(logging.DEBUG, "toolstead.adapters.storage")
    await asyncio.gather(*(place.open() for _ in range(4)))
    assert steps.count(None) == 4
    assert [version for version in steps if version is not None] == list(range(len(MIGRATIONS)))
    logged = [one for one in caplog.records if one.name.endswith("migrations")]
    assert [one.levelname for one in logged if "created" in one.message] == ["DEBUG"]
    assert len(logged) == 1 or place.kind == "postgres", "there several may take turns"
