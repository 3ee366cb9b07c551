"""The databases that the contract of the store is tried on."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.postgres_server import running_server
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator.store import Store

_numbers = itertools.count(1)


@dataclass
class Place:
    """A fresh database; every store that is opened here is closed at the end of the test."""

    kind: str
    address: str
    opened: list[Store] = field(default_factory=list)

    async def open(self, **options: Any) -> Store:
        store = await open_store(self.address, **options)
        self.opened.append(store)
        return store

    async def close(self) -> None:
        for store in self.opened:
            await store.close()


@pytest.fixture(scope="session")
def postgres_socket() -> Generator[Path]:
    with running_server() as folder:
        yield folder


@pytest.fixture
async def postgres_place(postgres_socket: Path) -> AsyncGenerator[Place]:
    """A schema of its own on the server: as good as a database, and made in no time."""
    import asyncpg

    name = f"test_{next(_numbers)}"
    admin = await asyncpg.connect(host=str(postgres_socket), user="postgres", database="postgres")
    place = Place("postgres", f"postgresql://postgres@/postgres?host={postgres_socket}&search_path={name}")
    try:
        await admin.execute(f"CREATE SCHEMA {name}")
        yield place
    finally:
        await place.close()
        await admin.execute(f"DROP SCHEMA {name} CASCADE")
        await admin.close()


@pytest.fixture
async def sqlite_place(tmp_path: Path) -> AsyncGenerator[Place]:
    place = Place("sqlite", str(tmp_path / "data" / "toolstead.db"))
    yield place
    await place.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.requires("postgres"))])
def place(request: pytest.FixtureRequest) -> Place:
    """The same test, once for each kind of database."""
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
async def store(place: Place) -> Store:
    return await place.open()
