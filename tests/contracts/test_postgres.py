"""What only Postgres can do to us: a server that is gone, refuses, or cuts the line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import traceback
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from tests.contracts.conftest import Place
from tests.contracts.postgres_server import interrupted_server, running_server
from tests.contracts.samples import event, lost, message, run
from toolstead.adapters.storage.address import parse_address
from toolstead.adapters.storage.postgres import SETTLING_SECONDS, PostgresDatabase
from toolstead.adapters.storage.store import open_store
from toolstead.errors import StorageError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.types.plugin_row import PluginRow

pytestmark = pytest.mark.requires("postgres")

ALL = EventFilter()
SECRET = "pa@ss/w:rd?é"


@pytest.fixture
async def admin(postgres_socket: Path) -> AsyncGenerator[Any]:
    connection = await asyncpg.connect(host=str(postgres_socket), user="postgres", database="postgres")
    yield connection
    await connection.close()


async def refusal(url: str, **options: Any) -> StorageError:
    with pytest.raises(StorageError) as caught:
        await open_store(url, **options)
    return caught.value


async def cut(admin: Any) -> None:
    """End every connection but our own, as a restart does."""
    await admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'toolstead' AND pid <> pg_backend_pid()"
    )


@pytest.mark.parametrize("password", ["wrong", "pa%40ss%2Fw%3Ard%3F%C3%A9x", "pa@ss/w:rd?é", "9"])
async def test_a_password_is_in_no_message_log_or_trace(
    postgres_socket: Path, admin: Any, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    await admin.execute(f"DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD '{SECRET}'")
    caplog.set_level(logging.DEBUG)
    error = await refusal(f"postgresql://locked:{password}@/postgres?host={postgres_socket}")
    told = "".join(traceback.format_exception(error)) + caplog.text + repr(error)
    if len(password) > 1:
        assert password not in told
    assert SECRET not in told
    assert "postgresql://locked:***@/postgres" in str(error)
    assert "see user and password in the URL" in str(error) or "percent-encoded" in str(error)


async def test_the_right_password_opens(postgres_socket: Path, admin: Any) -> None:
    await admin.execute(f"DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD '{SECRET}'")
    await admin.execute("CREATE SCHEMA IF NOT EXISTS mine AUTHORIZATION locked")
    url = f"postgres://locked:pa%40ss%2Fw%3Ard%3F%C3%A9@/postgres?host={postgres_socket}&search_path=mine"
    try:
        await (await open_store(url)).close()
    finally:
        await admin.execute("DROP SCHEMA mine CASCADE; DROP ROLE locked")


async def test_a_url_that_is_none_is_refused_without_quoting_it() -> None:
    error = await refusal("postgresql://me:secret@host:secret/db")
    assert "cannot be understood as a URL: it must be postgresql://USER:PASSWORD@HOST:PORT/NAME" in str(error)
    assert "secret" not in "".join(traceback.format_exception(error)).replace("host:secret", "")


async def test_an_option_that_the_driver_refuses_is_told() -> None:
    error = await refusal("postgresql://me:secret@host/db?sslmode=maybe")
    assert str(error).startswith("postgresql://me:***@host/db cannot be used: `sslmode` parameter must be one of")


async def test_a_database_that_is_not_there_is_named(postgres_socket: Path) -> None:
    error = await refusal(f"postgresql://postgres@/nowhere?host={postgres_socket}")
    assert "/nowhere" in str(error)
    assert 'does not exist: database "nowhere" does not exist; create the database' in str(error)


async def test_a_user_who_may_not_make_tables_is_told(postgres_socket: Path, admin: Any) -> None:
    await admin.execute("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN")
    error = await refusal(f"postgresql://weak@/postgres?host={postgres_socket}")
    assert "does not allow that: permission denied" in str(error)


async def test_a_server_that_is_not_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        port = taken.getsockname()[1]
        error = await refusal(f"postgresql://me:secret@127.0.0.1:{port}/db")
    where = f"Postgres at 127.0.0.1:{port} (database db, user me)"
    assert str(error).startswith(f"{where} cannot be reached: Connection refused; see that it is there, that it runs")


async def test_a_line_that_was_cut_is_taken_up_again(postgres_place: Place, admin: Any) -> None:
    store = await postgres_place.open()
    await store.append_events([event("before")])
    await store.list_events(ALL)
    await cut(admin)
    await store.append_events([event("after")])
    assert [one.type for one in await store.list_events(ALL)] == ["before", "after"]


async def test_a_process_whose_lock_was_cut_takes_it_again(postgres_place: Place, admin: Any) -> None:
    store, other = await postgres_place.open(), await postgres_place.open()
    await store.accept_message(message("t"), run("t", store.owner))
    databases = [cast("Any", one)._database for one in (store, other)]
    await cut(admin)
    async with asyncio.timeout(30):
        for database, owner in zip(databases, (other.owner, store.owner), strict=True):
            while await database.living_owners([owner]) != {owner}:
                await asyncio.sleep(0.02)
    assert await other.recover_runs(lost) == []


async def test_nobody_counts_as_dead_because_the_server_itself_was_away() -> None:
    with running_server() as socket:
        url = f"postgresql://postgres@/postgres?host={socket}"
        store, other = [cast("Any", await open_store(url)) for _ in range(2)]
        await store.accept_message(message("t"), run("t", store.owner))
        store._database._regain_lock = asyncio.Event().wait  # as a busy process, which takes its lock again later
        with interrupted_server(socket):
            pass
        looks = 0
        async with asyncio.timeout(30):
            while looks < 20:  # from the first moment, and also when the other one has its lock again
                with contextlib.suppress(StorageError):
                    assert await other.recover_runs(lost) == []
                    looks += other._database._guard is not None
            other._database._regained_at -= SETTLING_SECONDS
            assert await other.recover_runs(lost) == [], "a server that was just started has no lock of anybody"
        await asyncio.gather(store.close(), other.close(), return_exceptions=True)


async def test_who_closes_counts_as_dead_when_closing_returns(postgres_place: Place) -> None:
    store, other = [cast("Any", await postgres_place.open()) for _ in range(2)]
    guard = store._database._guard
    alive: list[set[str]] = []

    class Watched:
        """The connection that holds the lock, looked at before its end is told to the server."""

        execute = guard.execute

        async def close(self, timeout: float) -> None:
            alive.append(await other._database.living_owners([store.owner]))
            await guard.close(timeout=timeout)

    store._database._guard = Watched()
    await store.close()
    store._database._guard = guard
    assert alive == [set()]


async def test_a_run_that_others_ended_while_the_line_was_cut_ends_once(postgres_place: Place, admin: Any) -> None:
    store, other = await postgres_place.open(), await postgres_place.open()
    asked = run("t", store.owner)
    await store.accept_message(message("t"), asked)
    database = cast("Any", store)._database
    database._lost = lambda guard: None
    await database._guard.close()
    recovered: list[Any] = []
    async with asyncio.timeout(30):
        while not recovered:  # the server notices in a moment
            recovered = await other.recover_runs(lost)
    assert [one.id for one, _ in recovered] == [asked.id]
    assert await store.end_run(asked.id, lost(asked)) is None
    database._guard = None


async def test_a_server_that_refuses_fails_writes_until_it_is_back(postgres_socket: Path, admin: Any) -> None:
    await admin.execute("CREATE DATABASE closing")
    store = await open_store(f"postgresql://postgres@/closing?host={postgres_socket}")
    try:
        await admin.execute("ALTER DATABASE closing ALLOW_CONNECTIONS false")
        await cut(admin)
        outcomes = await asyncio.gather(*(store.append_events([event()]) for _ in range(20)), return_exceptions=True)
        assert {type(one) for one in outcomes} == {StorageError}
        assert "closing" in str(outcomes[0])
        await admin.execute("ALTER DATABASE closing ALLOW_CONNECTIONS true")
        await store.append_events([event()])
        assert len(await store.list_events(ALL)) == 1
    finally:
        await store.close()
        await admin.execute("DROP DATABASE closing WITH (FORCE)")


async def test_a_database_that_stays_locked_is_told(postgres_place: Place) -> None:
    store = await postgres_place.open(patience=0.1)
    other = await asyncpg.connect(postgres_place.address)
    try:
        async with other.transaction():
            await other.execute("SELECT value FROM sequence FOR UPDATE")
            with pytest.raises(StorageError, match=r"locked by another process for more than 0\.1 seconds"):
                await store.append_events([event()])
        await store.append_events([event()])
    finally:
        await other.close()
    assert len(await store.list_events(ALL)) == 1


async def test_a_line_that_is_cut_during_the_commit_is_told_as_what_it_is(postgres_place: Place, admin: Any) -> None:
    store = cast("Any", await postgres_place.open())
    await store.append_events([event()])

    victims: list[int] = []

    def name_the_victim(connection: Any) -> None:
        victims.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar())

    engine = store._database._engine
    connect = engine.connect

    class Cutting:
        """A connection whose line is cut when its commit begins."""

        def __init__(self) -> None:
            self._inner = connect()

        async def __aenter__(self) -> Any:
            self._connection = await self._inner.__aenter__()
            self.run_sync = self._connection.run_sync
            return self

        async def commit(self) -> None:
            await admin.execute("SELECT pg_terminate_backend($1, 5000)", victims[-1])
            await self._connection.commit()

        async def __aexit__(self, *about: object) -> None:
            await self._inner.__aexit__(*about)

    store._database._engine = type("Engine", (), {"connect": lambda self: Cutting(), "dispose": engine.dispose})()
    with pytest.raises(
        StorageError, match="lost during a commit, so that what was being written may or may not be kept"
    ):
        await store.write_with(name_the_victim)
    assert len(victims) == 1  # not tried again: it might have been kept
    store._database._engine = engine
    await store.append_events([event()])


@pytest.mark.parametrize("known", [True, False], ids=["a change", "an addition"])
async def test_what_another_process_is_setting_for_a_plugin_is_waited_for_and_not_written_over(
    postgres_place: Place, known: bool
) -> None:
    store = await postgres_place.open()
    mine, before = PluginRow(settings={"mine": 1}), PluginRow(settings={"n": 0}) if known else PluginRow()
    assert not known or await store.replace_plugin("p", PluginRow(), before)
    other = await asyncpg.connect(postgres_place.address)
    try:
        begun = other.transaction()
        await begun.start()
        await other.execute("SELECT value FROM sequence FOR UPDATE")  # as every process does that writes
        setting = (
            "UPDATE plugins SET settings = $1" if known else "INSERT INTO plugins (name, settings) VALUES ('p', $1)"
        )
        await other.execute(setting, '{"theirs":1}')
        replacing = asyncio.create_task(store.replace_plugin("p", before, mine))
        async with asyncio.timeout(30):
            while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
        await begun.commit()
    finally:
        await other.close()
    assert await replacing is False
    assert await store.list_plugins() == {"p": PluginRow(settings={"theirs": 1})}


async def test_a_lock_that_is_given_up_while_it_is_taken_leaves_no_connection(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = PostgresDatabase(parse_address(postgres_place.address, 5), "somebody")
    connect, made = database._connect, list[Any]()

    async def connect_and_be_given_up() -> Any:
        made.append(await connect())
        asyncio.get_running_loop().call_soon(taking.cancel)
        return made[0]

    monkeypatch.setattr(database, "_connect", connect_and_be_given_up)
    taking = asyncio.create_task(database._take_lock())
    await asyncio.wait((taking,))
    assert taking.cancelled()
    assert made[0].is_closed()
    await database.close()
