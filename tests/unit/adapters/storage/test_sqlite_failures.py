"""What SQLite does when the disk, the file or another process is in the way: a sentence, and nothing lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from tests.contracts.samples import event, lost, message, run, thread
from toolstead.adapters.installing import install_command
from toolstead.adapters.storage import sqlite
from toolstead.adapters.storage.migrations import MIGRATIONS
from toolstead.adapters.storage.process_locks import opening_lock
from toolstead.adapters.storage.store import SqlStore, open_store
from toolstead.errors import StorageError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Accepted

ALL = EventFilter()
NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "toolstead.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SqlStore]:
    opened = cast("SqlStore", await open_store(path, patience=0.1))
    yield opened
    await opened.close()


@pytest.fixture
async def folder_of_a_plain_user(store: SqlStore) -> AsyncGenerator[Path]:
    """Permissions mean nothing to root, so root becomes somebody else here.

    A store was opened before: who is nobody may not be allowed to import what it needs.
    """
    await store.append_events([event()])
    folder = Path(tempfile.mkdtemp(prefix="toolstead-"))
    was = os.geteuid()
    try:
        if was == 0:
            os.chown(folder, NOBODY, -1)
            os.seteuid(NOBODY)
        yield folder
    finally:
        os.seteuid(was)
        for one in [folder, *folder.rglob("*")]:
            one.chmod(0o700)
        shutil.rmtree(folder)


def raw(store: SqlStore) -> Any:
    """The connection that writes, beneath everything."""
    return cast("Any", store._database)._writing.connection.dbapi_connection


async def _outcome(write: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await write
    except StorageError as error:
        return error


async def refusal(path: str | Path, **options: Any) -> str:
    with pytest.raises(StorageError) as caught:
        await open_store(path, **options)
    return str(caught.value)


async def test_file_and_folder_are_private_to_the_user(path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store(path)
        await store.append_events([event()])
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in [path.parent, *path.parent.iterdir()]}
        locks = {stat.S_IMODE(one.stat().st_mode) for one in (path.parent / "locks").iterdir()}
        await store.close()
    finally:
        os.umask(before)
    private = {"toolstead.db": 0o600, "toolstead.db-wal": 0o600, "toolstead.db-shm": 0o600}
    assert modes == {"data": 0o700, "locks": 0o700} | private
    assert locks == {0o600}


async def test_a_copy_that_others_could_read_is_made_private_when_it_is_opened(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    other = await open_store(path)  # so that there is a -wal, and a -shm, which belong to the file
    for file in files:
        file.chmod(0o644)
    store = await open_store(path)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{file} could be used by other users (mode 644); now only by you (600)" for file in files]
    await store.close()
    await other.close()


async def test_the_database_is_set_up_as_promised(store: SqlStore) -> None:
    pragmas = {name: raw(store).execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")}
    assert raw(store).execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert pragmas == {"synchronous": 1, "foreign_keys": 1}


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "what?.db", "#1.db", "ünï.db", "a%20b.db"])
async def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    store = await open_store(tmp_path / name)
    await store.close()
    assert (tmp_path / name).stat().st_size > 0


async def test_a_relative_path_and_a_url_name_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store("sqlite:///x/toolstead.db")
    monkeypatch.chdir("/")  # where it was opened counts
    await store.append_events([event()])
    await store.close()
    store = await open_store(f"sqlite:///{tmp_path}/x/toolstead.db")
    assert len(await store.list_events(ALL)) == 1
    await store.close()


async def test_a_file_that_may_not_be_written_is_refused(folder_of_a_plain_user: Path) -> None:
    path = folder_of_a_plain_user / "toolstead.db"
    await (await open_store(path)).close()
    path.chmod(0o400)
    assert f"{path} cannot be written: it is read-only here; make the file" in await refusal(path)


async def test_a_folder_that_may_not_be_written_is_refused(folder_of_a_plain_user: Path) -> None:
    folder_of_a_plain_user.chmod(0o500)
    path = folder_of_a_plain_user / "data" / "toolstead.db"
    assert f"{path} cannot be used: Permission denied" in await refusal(path)


async def test_a_database_that_became_read_only_says_so_and_recovers(store: SqlStore, path: Path) -> None:
    raw(store).execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="cannot be written: it is read-only here; make the file and its folder"):
        await store.append_events([event()])
    raw(store).execute("PRAGMA query_only = OFF")
    await store.append_events([event()])
    assert len(await store.list_events(ALL)) == 1


async def test_a_full_disk_fails_writes_and_keeps_what_was_acknowledged(store: SqlStore) -> None:
    await store.create_thread(thread("t"))
    raw(store).execute(f"PRAGMA max_page_count = {raw(store).execute('PRAGMA page_count').fetchone()[0] + 20}")
    large = [await _outcome(store.add_message(message("t", "x" * 10_000), [event()])) for _ in range(40)]
    kept = sum(isinstance(one, Accepted) for one in large)
    assert 0 < kept < 40
    assert "the disk is full; free some space, and the next write works again" in str(large[-1])
    assert len(await store.list_messages("t")) == len(await store.list_events(ALL)) == kept
    raw(store).execute("PRAGMA max_page_count = 1000000")
    await store.add_message(message("t", "x" * 10_000), [event()])
    assert len(await store.list_messages("t")) == kept + 1


async def test_a_database_that_stays_locked_fails_all_who_wait_at_once(store: SqlStore, path: Path) -> None:
    attempts = 0
    database = cast("Any", store._database)
    write = database.write

    async def counted(work: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return await write(work)

    database.write = counted
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(*(store.append_events([event()]) for _ in range(50)), return_exceptions=True)
    said = f"{path} has been locked by another process for more than 0.1 seconds;"
    assert {str(one) for one in outcomes} == {f"{said} end the process that holds it, then try again"}
    assert len({id(one) for one in outcomes}) == 50  # who raises an error changes it: everybody gets their own
    assert attempts == 1
    assert await store.list_events(ALL) == []  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    await store.append_events([event()])
    assert len(await store.list_events(ALL)) == 1


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_vanished_is_noticed(store: SqlStore, path: Path, replaced: bool) -> None:
    await store.append_events([event()])
    path.unlink()
    if replaced:
        path.write_bytes(b"")
    for use in (store.append_events([event()]), store.list_events(ALL), store.create_thread(thread())):
        with pytest.raises(StorageError, match="was removed or replaced while it was in use"):
            await use
    assert path.exists() is replaced


async def test_a_file_that_vanishes_during_a_write_is_noticed_before_it_is_acknowledged(
    store: SqlStore, path: Path
) -> None:
    await store.append_events([event()])
    with pytest.raises(StorageError, match="was removed or replaced"):
        await store.write_with(lambda connection: path.unlink())


async def test_a_database_of_a_newer_version_is_left_alone(path: Path) -> None:
    await (await open_store(path)).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE toolstead_version SET version = 99")
    other.close()
    before = path.read_bytes()
    said = await refusal(path)
    newest = MIGRATIONS[-1].version
    assert said.startswith(
        f"{path} has version 99, and this Toolstead understands up to {newest}: a newer one wrote it; update"
    )
    assert path.read_bytes() == before
    assert list((path.parent / "locks").glob("*.lock")) == []


@pytest.mark.parametrize("content", [b"this is no database\n" * 500, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert f"{path} is damaged, or is no SQLite database" in await refusal(path)
    assert path.read_bytes() == content


async def test_damage_inside_is_told(path: Path) -> None:
    store = await open_store(path)
    await store.append_events([event(data={"text": "x" * 1000}) for _ in range(300)])
    await store.close()
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2  # where the events are
        file.seek(middle)
        file.write(b"\xa5" * (path.stat().st_size - middle))
    store = await open_store(path)
    with pytest.raises(StorageError, match="is damaged"):
        await store.list_events(ALL)
    await store.close()


async def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path} cannot be opened (unable to open database file); see that it is" in await refusal(tmp_path)
    (tmp_path / "file").write_text("")
    assert "cannot be reached: " in await refusal(tmp_path / "file" / "toolstead.db")


async def test_a_store_that_did_not_open_leaves_no_worker_behind(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database\n" * 500)
    await refusal(path)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("toolstead-store")]


async def test_processes_open_one_after_the_other_and_none_waits_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = path.parent / "locks"
    locks.mkdir(parents=True)
    monkeypatch.setattr(sqlite, "OPENING_SECONDS", 0)
    with opening_lock(locks, 1):
        assert f"{locks / '.opening'} has been held by another process" in await refusal(path)
    await (await open_store(path)).close()


async def test_who_looks_for_the_dead_does_so_one_after_the_other(
    store: SqlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "OPENING_SECONDS", 0)
    with opening_lock(path.parent / "locks", 1), pytest.raises(StorageError, match="has been held by another process"):
        await store.recover_runs(lost)
    assert await store.recover_runs(lost) == []


async def test_a_second_store_of_this_process_does_not_cost_the_first_its_locks(store: SqlStore, path: Path) -> None:
    await store.append_events([event()])
    await (await open_store(path)).close()
    # Who closes the last connection deletes the log; another process must see that it is not the last.
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM events'); c.close()"
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path))
    assert await done.wait() == 0
    assert path.with_name(f"{path.name}-wal").exists()
    await store.append_events([event()])
    assert len(await store.list_events(ALL)) == 2


async def test_another_kind_of_url_is_refused_without_its_password() -> None:
    said = await refusal("mysql://me:secret@host/db")
    assert said == (
        "TOOLSTEAD_DATABASE_URL: mysql://me:***@host/db is no database that Toolstead can use:"
        " give a path, sqlite:///PATH or postgresql://USER@HOST/NAME"
    )


async def test_a_missing_driver_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolstead.adapters.storage.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    said = await refusal("postgresql://me:secret@host/db")
    assert "asyncpg is missing" in said
    assert install_command("postgres") in said
    assert '"asyncpg' in said
    assert "secret" not in said


async def test_what_is_asked_often_has_its_index(store: SqlStore) -> None:
    await store.accept_message(message("t"), run("t", store.owner), events=[event(thread_id="t")])
    plans = [
        "SELECT * FROM events WHERE thread_id = ? AND n > ? ORDER BY n",
        "SELECT * FROM events WHERE run_id = ? AND n > ? ORDER BY n",
        "SELECT * FROM messages WHERE thread_id = ? ORDER BY n",
        "SELECT * FROM runs WHERE thread_id = ? ORDER BY n DESC",
        "SELECT * FROM runs WHERE ended_at IS NULL ORDER BY n",
        "SELECT * FROM runs WHERE thread_id = ? AND ended_at IS NULL ORDER BY n",
    ]
    for query in plans:
        values = ("t", 1)[: query.count("?")]
        plan = " ".join(row[3] for row in raw(store).execute(f"EXPLAIN QUERY PLAN {query}", values))
        assert "USING INDEX" in plan, query
        assert "TEMP B-TREE" not in plan, query
