"""Where a database is: a path, or a URL whose password is never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from toolstead.errors import StorageError

_POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAddress:
    """A database's place: `path` for SQLite, `url` for Postgres.

    Attributes:
        shown: What may stand in a message.
        patience: After how many seconds of waiting for another writer a write fails.
        password: What must never be in a text.
    """

    shown: str
    patience: float
    path: Path | None = None
    url: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


def parse_address(text: str | Path, patience: float) -> DatabaseAddress:
    """Find out whether it is a path or a URL.

    Raises:
        StorageError: It is a URL of something else.
    """
    if isinstance(text, Path):
        return DatabaseAddress(shown=str(text), patience=patience, path=text)
    scheme, separator, rest = text.partition("://")
    if not separator:
        if "/" not in text:
            # Part of a URL, or a name: it may hold a password, so it is not shown.
            raise lasting_error(
                "what names the database is neither a URL nor a path: give postgresql://USER:PASSWORD@HOST/NAME,"
                " sqlite:///PATH or an absolute path; ./NAME is a file here"
            )
        return DatabaseAddress(shown=text, patience=patience, path=Path(text))
    if scheme in ("sqlite", "sqlite+aiosqlite") and rest.startswith("/") and len(rest) > 1:
        path = Path(unquote(rest[1:]))
        return DatabaseAddress(shown=str(path), patience=patience, path=path)
    shown, password = _without_password(scheme, rest)
    if scheme not in _POSTGRES:
        raise lasting_error(
            f"TOOLSTEAD_DATABASE_URL: {shown} is no database that Toolstead can use: give a path, sqlite:///PATH or"
            " postgresql://USER@HOST/NAME"
        )
    if set(password) & set("@/?#"):
        raise not_understood(shown)
    return DatabaseAddress(shown=shown, patience=patience, url=f"postgresql://{rest}", password=unquote(password))


def lasting_error(text: str) -> StorageError:
    """The refusal of a database that no later try can open."""
    error = StorageError(text)
    error.is_lasting = True
    return error


def not_understood(shown: str) -> StorageError:
    """The refusal of a URL that is none; it quotes nothing of it, for that might be the password."""
    return lasting_error(
        f"{shown} cannot be understood as a URL: it must be postgresql://USER:PASSWORD@HOST:PORT/NAME, and"
        " special characters in the password must be percent-encoded (@ is %40, / is %2F, ? is %3F, # is %23)"
    )


def _without_password(scheme: str, rest: str) -> tuple[str, str]:
    # A password may hold any character, also where a URL forbids it: everything up to the last @ is suspect.
    access, at, place = rest.rpartition("@")
    user, _, password = access.partition(":")
    host, _, options = place.partition("?")
    telling = [part for part in options.split("&") if part.startswith(("host=", "port=", "dbname="))]
    shown = f"{scheme}://{user}{':***' if password else ''}{at}{host}{'?' if telling else ''}{'&'.join(telling)}"
    return shown, password
