"""What went wrong with a database, in a sentence: what, where, and what to do about it.

A failure is either one write's own (its row is refused, whoever writes beside it) or the
database's (disk, lock, connection), which every write of the batch shares.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from toolstead.errors import StorageError, ToolsteadError


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFailure:
    """An error to raise, and whether it concerns one write alone."""

    error: Exception
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How a database is spoken of.

    Attributes:
        shown: Its path, or its URL without the password.
        patience: After how many seconds of waiting for another writer it gives up.
        password: What must never be in a text.
    """

    shown: str
    patience: float
    password: str = ""

    def explain_failure(self, error: Exception) -> StorageFailure:
        """Explain an error that came out of a driver."""
        if isinstance(error, ToolsteadError):
            return StorageFailure(error=error, own=not isinstance(error, StorageError))
        for part in _error_chain(error):
            if isinstance(part, sqlite3.Error):
                return self._explain_known(error, *self._of_sqlite(part))
            if isinstance(state := getattr(part, "sqlstate", None), str):
                return self._explain_known(error, *self._of_postgres(state, part))
        for part in _error_chain(error):
            # Which file or host is told by its place; an operating system's error adds why.
            if isinstance(part, OSError):
                return self._explain_known(error, *self._of_system(part))
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
            return self._explain_known(error, f"does not take this row: {_error_words(error.orig or error)}", True)
        if isinstance(error, UnicodeEncodeError):
            return self._explain_known(error, f"does not take this row: {_error_words(error)}", True)
        if isinstance(error, SQLAlchemyError):
            detail = _error_words(error.orig) if isinstance(error, DBAPIError) and error.orig else _error_words(error)
            return self._explain_known(error, f"cannot be used: {detail}", False)
        if type(error).__module__.startswith("asyncpg") and isinstance(error, ValueError):
            return self._explain_known(error, f"cannot be used: {_error_words(error)}; see what the URL says", False)
        if type(error).__module__.startswith("asyncpg"):
            return self._explain_known(
                error, f"is gone: {_error_words(error)}; see that it runs, then try again", False
            )
        return StorageFailure(error=error, own=True)

    def _explain_known(self, error: Exception, said: str, own: bool) -> StorageFailure:
        text = f"{self.shown} {said}"
        if self.password:
            text = text.replace(self.password, "***")
        storage = StorageError(text)
        storage.__cause__ = error
        return StorageFailure(error=storage, own=own)

    @property
    def _locked_text(self) -> str:
        return (
            f"has been locked by another process for more than {self.patience:g} seconds;"
            " end the process that holds it, then try again"
        )

    def _of_sqlite(self, error: sqlite3.Error) -> tuple[str, bool]:
        name = getattr(error, "sqlite_errorname", "")
        words = _error_words(error)
        match name.removeprefix("SQLITE_").partition("_")[0]:
            case "FULL":
                return "cannot be written: the disk is full; free some space, and the next write works again", False
            case "BUSY" | "LOCKED":
                return self._locked_text, False
            case "READONLY" | "PERM" | "AUTH":
                return "cannot be written: it is read-only here; make the file and its folder writable for you", False
            case "CANTOPEN":
                return f"cannot be opened ({words}); see that it is there, and its folder writable for you", False
            case "CORRUPT" | "NOTADB":
                advice = "move it away to begin with an empty one, or put a backup in its place"
                return f"is damaged, or is no SQLite database ({words}), and is left as it is; {advice}", False
            case "IOERR":
                return (
                    f"cannot be read or written: {words} ({name}); see whether its disk is well, and has space",
                    False,
                )
            case "CONSTRAINT" | "TOOBIG" | "MISMATCH":
                return f"does not take this row: {words}", True
            case _:
                # Without a code it is what Python's own module refuses, such as a value that is too large.
                return f"cannot do that: {words}", not name

    def _of_postgres(self, state: str, error: BaseException) -> tuple[str, bool]:
        words = _error_words(error)
        match state[:2], state:
            case "28", _:
                return f"does not let us in: {words}; see user and password in the URL", False
            case _, "3D000":
                return f"does not exist: {words}; create the database, or name another in the URL", False
            case _, "42501":
                return f"does not allow that: {words}; grant the user the right to create and change tables", False
            case _, "25006":
                return "cannot be written: the server is read-only; name its primary in the URL", False
            case _, "53100":
                return "cannot be written: the server's disk is full; free some space there", False
            case _, "53300":
                return f"has no connection left for us: {words}; end some clients, or raise max_connections", False
            case _, "55P03" | "25P03":
                return self._locked_text, False
            case (("08" | "57" | "58" | "XX"), _):
                return f"is gone: {words}; see that the server runs, then try again", False
            case (("22" | "23" | "54"), _):
                return f"does not take this row: {words}", True
            case _:
                return f"cannot do that: {words} (SQLSTATE {state})", False

    def _of_system(self, error: OSError) -> tuple[str, bool]:
        if isinstance(error, TimeoutError):
            return "does not answer in time; see that it runs and can be reached, then try again", False
        words = error.strerror or _error_words(error) or type(error).__name__
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"cannot be used: {words}; make the file and its folder writable for you", False
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "cannot be written: the disk is full; free some space, then try again", False
        return f"cannot be reached: {words}; see that it is there, that it runs, and that you may use it", False


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was made from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [part.__cause__, getattr(part, "orig", None)]


def _error_words(error: BaseException) -> str:
    """Its first line, without SQLAlchemy's prefix of class names."""
    lines = str(error).splitlines()
    return lines[0].rpartition(">: ")[2].strip() if lines else type(error).__name__
