"""Addresses: a path or a URL, and never a password."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from toolstead.adapters.storage.address import DatabaseAddress, parse_address
from toolstead.adapters.storage.failures import explain_failure
from toolstead.errors import StorageError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("./toolstead.db", "toolstead.db"),
        ("/a b/c.db", "/a b/c.db"),
        (Path("/x/y.db"), "/x/y.db"),
        ("sqlite:///rel.db", "rel.db"),
        ("sqlite:////abs/x.db", "/abs/x.db"),
        ("sqlite+aiosqlite:////abs/a%20b.db", "/abs/a b.db"),
    ],
)
def test_a_path_is_a_path_however_it_is_spelled(text: str | Path, path: str) -> None:
    assert parse_address(text, 1).path == Path(path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+asyncpg://me:secret@/db?host=/run/pg", "postgresql+asyncpg://me:***@/db?host=/run/pg"),
        ("postgresql://me:%40secret:@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://host/db"),
        ("postgresql://host/db?sslpassword=secret&port=1", "postgresql://host/db?port=1"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    address = parse_address(url, 1)
    assert address.shown == shown
    assert "secret" not in repr(address)
    assert address.url.startswith("postgresql://")


@pytest.mark.parametrize("password", ["se/cret", "se?cret", "se@cret", "se#cret", "/@?#"])
def test_a_password_that_a_url_cannot_hold_is_refused_unseen(password: str) -> None:
    with pytest.raises(StorageError, match=r"special characters in the password must be percent-encoded") as caught:
        parse_address(f"postgresql://me:{password}@host/db", 1)
    assert str(caught.value).startswith("postgresql://me:***@host/db ")
    assert password not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://h/db", "sqlite://", "sqlite://host/x.db", "http://x"])
def test_another_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(StorageError, match="is no database that Toolstead can use"):
        parse_address(url, 1)


def test_a_password_that_a_driver_quotes_is_masked() -> None:
    place = DatabaseAddress(shown="postgresql://me:***@h/db", patience=1, password="p@ss")
    error = OSError(5, "cannot connect with p@ss")
    assert "p@ss" not in str(explain_failure(place, error)[0])


@pytest.mark.parametrize(
    ("password", "words", "said"),
    [
        ("y", "no route for you, my friend", "no route for you, my friend"),
        ("y", "bad URL postgresql://me:y@h/db", "bad URL postgresql://me:***@h/db"),
        ("secret1", "denied: secret1, and secret12 is none", "denied: ***, and secret12 is none"),
        ("db", 'database "db" is closed', 'database "db" is closed'),
        ("mydatabase", 'database "mydatabase" is closed', 'database "mydatabase" is closed'),
    ],
)
def test_a_password_is_masked_where_it_is_one_and_other_words_stay(password: str, words: str, said: str) -> None:
    place = parse_address(f"postgresql://me:{password}@h:5498/mydatabase", 1)
    error = sqlite3.OperationalError(words)
    assert str(explain_failure(place, error)[0]) == f"postgresql://me:***@h:5498/mydatabase cannot do that: {said}"
