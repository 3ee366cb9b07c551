"""`server.json`: which server runs for which project, so that commands can find it.

One entry for each project, private to the user, written when a server is ready and taken away when
it ends. An entry whose process is gone counts as absent.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        return self._read().get(str(project))

    def find_url(self, url: str) -> RunningServer | None:
        """The running server at an address, whichever project it serves, or None."""
        return next((server for server in self._read().values() if server.url == url.rstrip("/")), None)

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
            entries = self._read()
            if entry is not None:
                entries[str(project)] = entry
            elif str(project) in entries and entries[str(project)].pid == os.getpid():
                del entries[str(project)]
            write_private(self._path, msgspec.json.format(msgspec.json.encode(entries), indent=2))

    def _read(self) -> dict[str, RunningServer]:
        """The servers that run, by project; what cannot be understood holds nothing worth keeping."""
        try:
            content = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
        except (OSError, ValueError):
            return {}
        return {project: server for project, entry in content.items() if (server := _read_entry(entry)) is not None}


def _read_entry(entry: Any) -> RunningServer | None:
    """The server of an entry; None for one that cannot be understood, or whose process is gone."""
    try:
        server = msgspec.convert(entry, RunningServer)
    except msgspec.ValidationError:
        return None
    return server if server.pid > 0 and _is_alive(server.pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OverflowError:
        return False  # no process has such a number
    except OSError as error:
        return isinstance(error, PermissionError)  # another user's
    return True
