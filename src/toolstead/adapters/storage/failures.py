"""What went wrong with a database, in a sentence: what, where, and what to do about it.

A failure is either one write's own (its row is refused, whatever is written with it) or the
database's (disk, lock, connection), which every write of the batch shares.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, unquote, urlsplit

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from toolstead.adapters.storage.address import DatabaseAddress
from toolstead.errors import RowRefusedError, StorageError, ToolsteadError

_UNREACHABLE = "cannot be reached: {words}; see that it is there, that it runs, and that you may use it"
_GONE = "is gone: {words}; see that the server runs, then try again"
_SILENT = "does not answer in time; see that it runs and can be reached, then try again"
_AWAY = frozenset({_UNREACHABLE, _GONE, _SILENT})
"""What is said of a database that cannot be reached at all."""
_SHORTEST_MASKED = 4

_REFUSED = "does not take this row: {words}"
_LOCKED = (
    "has been locked by another process for more than {patience:g} seconds;"
    " end the process that holds it, then try again"
)
_DISK_FULL = "cannot be written: the disk is full; free some space, "
_DAMAGED = (
    "is damaged, or is no SQLite database ({words}), and is left as it is;"
    " move it away to begin with an empty one, or put a backup in its place"
)

_SQLITE = {
    "FULL": f"{_DISK_FULL}and the next write works again",
    "BUSY": _LOCKED,
    "LOCKED": _LOCKED,
    **dict.fromkeys(
        ("READONLY", "PERM", "AUTH"),
        "cannot be written: it is read-only here; make the file and its folder writable for you",
    ),
    "CANTOPEN": "cannot be opened ({words}); see that it is there, and its folder writable for you",
    **dict.fromkeys(("CORRUPT", "NOTADB"), _DAMAGED),
    "IOERR": "cannot be read or written: {words} ({code}); see whether its disk is well, and has space",
    **dict.fromkeys(("CONSTRAINT", "TOOBIG", "MISMATCH"), _REFUSED),
    # Without a code it is what Python's own module refuses, such as a value that is too large.
    "": "cannot do that: {words}",
}
"""By the first word of SQLite's name of the error."""

_POSTGRES = {
    "28": "does not let us in: {words}; see user and password in the URL",
    "3D000": "does not exist: {words}; create the database, or name another in the URL",
    "42501": "does not allow that: {words}; grant the user the right to create and change tables",
    "25006": "cannot be written: the server is read-only; name its primary in the URL",
    "53100": "cannot be written: the server's disk is full; free some space there",
    "53300": "has no connection left for us: {words}; end some clients, or raise max_connections",
    "55P03": _LOCKED,
    "25P03": _LOCKED,
    **dict.fromkeys(("08", "57", "58", "XX"), _GONE),
    **dict.fromkeys(("22", "23", "54"), _REFUSED),
}
"""By SQLSTATE, or its class."""

_SYSTEM = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "cannot be used: {words}; make the file and its folder writable for you",
    ),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), f"{_DISK_FULL}then try again"),
}


def explain_failure(place: DatabaseAddress, error: Exception) -> tuple[Exception, bool]:
    """The error to raise for one that came out of a driver, and whether it concerns one write alone."""
    if isinstance(error, ToolsteadError):
        return error, not isinstance(error, StorageError)
    # An operating system's error counts where no driver gives a code. Which file or host it is, `shown` says.
    for part in sorted(_error_chain(error), key=lambda part: isinstance(part, OSError)):
        if (found := _explain_code(part)) is not None:
            return _build_error(place, error, part, *found)
    if (found := _explain_type(error)) is not None:
        return _build_error(place, error, getattr(error, "orig", None) or error, *found)
    return error, True


def _build_error(
    place: DatabaseAddress, cause: Exception, part: BaseException, text: str, own: bool
) -> tuple[StorageError, bool]:
    code = getattr(part, "sqlite_errorname", None) or getattr(part, "sqlstate", "")
    words = _mask_password(_error_words(part), place)
    subject = _name_server(place) if text is _UNREACHABLE and place.url else place.shown
    kind = RowRefusedError if own else StorageError
    error = kind(f"{subject} {text.format(words=words, code=code, patience=place.patience)}")
    error.is_away, error.is_lasting = text in _AWAY, text == _DAMAGED
    error.__cause__ = cause
    return error, own


def _explain_code(error: BaseException) -> tuple[str, bool] | None:
    """What the code of an error means, and whether it concerns one write alone; None when it has no code."""
    if isinstance(error, sqlite3.Error):
        kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").partition("_")[0]
        return _SQLITE.get(kind, "cannot do that: {words}"), kind in {"CONSTRAINT", "TOOBIG", "MISMATCH", ""}
    if isinstance(state := getattr(error, "sqlstate", None), str):
        text = _POSTGRES.get(state) or _POSTGRES.get(state[:2], "cannot do that: {words} (SQLSTATE {code})")
        return text, text == _REFUSED
    if isinstance(error, TimeoutError):
        return _SILENT, False
    if isinstance(error, OSError):
        return _SYSTEM.get(error.errno or 0, _UNREACHABLE), False
    return None


def _explain_type(error: Exception) -> tuple[str, bool] | None:
    """The same for an error of a library."""
    if isinstance(error, UnicodeEncodeError | StatementError) and not isinstance(error, DBAPIError):
        return _REFUSED, True
    if isinstance(error, SQLAlchemyError):
        return "cannot be used: {words}", False
    if not type(error).__module__.startswith("asyncpg"):
        return None
    if isinstance(error, ValueError):
        return "cannot be used: {words}; see what the URL says", False
    return _GONE, False


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was made from."""
    yield error
    for part in (getattr(error, "orig", None), error.__cause__):
        if part is not None:
            yield from _error_chain(part)


def _name_server(place: DatabaseAddress) -> str:
    """A Postgres by its address, its database and its user, from which a reader sees which of them is wrong."""
    parts = urlsplit(place.url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = parts.hostname or options.get("host", "localhost")
    port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2] or options.get("port", "5432")
    database = unquote(parts.path.lstrip("/")) or options.get("dbname", "")
    user = unquote(parts.username or "") or options.get("user", "")
    known = ", ".join(f"{what} {name}" for what, name in (("database", database), ("user", user)) if name)
    return f"Postgres at {host}:{port} ({known})" if known else f"Postgres at {host}:{port}"


def _mask_password(words: str, place: DatabaseAddress) -> str:
    """A driver's words without the password: in a URL, and where it stands as a word of its own.

    A short one is not looked for elsewhere: half of the letters would go. Neither is one that is a name in the URL,
    which is shown all the same; to mask it would say what it is.
    """
    password = place.password
    if not password:
        return words
    words = words.replace(f":{password}@", ":***@").replace(f":{quote(password, safe='')}@", ":***@")
    if len(password) < _SHORTEST_MASKED or password in re.split(r"[:/@?&=]", place.shown):
        return words
    first, *rest = words.split(password)
    masked = first
    for part in rest:
        is_inside = _is_word(masked[-1:]) or _is_word(part[:1])
        masked += (password if is_inside else "***") + part
    return masked


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _error_words(error: BaseException) -> str:
    """Its first line, without SQLAlchemy's prefix of class names; of an operating system's error only the reason."""
    if isinstance(error, OSError):
        # Of several addresses of a host the library names every failure; the system's own words are shorter.
        numbers = [error.errno, *map(int, re.findall(r"\[Errno (\d+)\]", str(error)))]
        if number := next((number for number in numbers if number is not None and number > 0), None):
            return os.strerror(number)
    lines = (getattr(error, "strerror", None) or str(error)).splitlines()
    return lines[0].rpartition(">: ")[2].strip() if lines else type(error).__name__
