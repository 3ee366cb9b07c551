"""`server.json`: which server runs for which project, so that commands can find it.

One entry for each project, private to the user, written when a server is ready and taken away when
it ends. An entry whose process is gone counts as absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.app.private_file import lock_file, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server listens, and the token that was made for it, if one was."""

    url: str
    new_token: str | None = None


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a command may talk to."""

    url: str
    token: str
    pid: int


class ServerFile:
    """The servers of one data folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "server.json"

    def find_server(self, project: Path) -> RunningServer | None:
        """The running server of a project, or None."""
        return _read_entry(self._read().get(str(project)))

    def find_url(self, url: str) -> RunningServer | None:
        """The running server at an address, whichever project it serves, or None."""
        found = (_read_entry(entry) for entry in self._read().values())
        return next((server for server in found if server is not None and server.url == url.rstrip("/")), None)

    @contextmanager
    def announce_server(self, project: Path, url: str, token: str) -> Generator[None]:
        """Name this process as the project's server while open."""
        self._change_entry(project, RunningServer(url=url, token=token, pid=os.getpid()))
        try:
            yield
        finally:
            self._change_entry(project, None)

    def _change_entry(self, project: Path, entry: RunningServer | None) -> None:
        with lock_file(self._path):
            entries = {key: server for key, value in self._read().items() if (server := _read_entry(value)) is not None}
            own = entries.get(str(project))
            if entry is not None:
                entries[str(project)] = entry
            elif own is not None and own.pid == os.getpid():
                del entries[str(project)]
            write_private(self._path, msgspec.json.format(msgspec.json.encode(entries), indent=2))

    def _read(self) -> dict[str, Any]:
        """The entries; a file that cannot be understood holds nothing worth keeping."""
        try:
            content: Any = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _read_entry(entry: Any) -> RunningServer | None:
    """The server of an entry; None for one that cannot be understood, or whose process is gone."""
    try:
        server = msgspec.convert(entry, RunningServer)
    except msgspec.ValidationError:
        return None
    return server if _is_alive(server.pid) else None


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
