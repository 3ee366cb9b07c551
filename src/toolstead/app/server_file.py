"""`server.json`: which server runs for which project, so that commands can find it.

A list for each project, private to the user: a server adds itself when it is ready, and takes itself away when it
ends. An entry whose process is gone counts as absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.app.private_file import lock_file, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server listens.

    Attributes:
        url: Its address for this machine.
        shared_url: Its address for other machines; None where they cannot reach it.
        new_token: The token that was made for it, if one was.
        token_file: The file that has that token as `made_token`; None where none has.
        needs_token: Whether its clients send a token.
        private_token: The token that gives the rights of its owner.
    """

    url: str
    shared_url: str | None = None
    new_token: str | None = None
    token_file: Path | None = None
    needs_token: bool = False
    private_token: str = field(default="", repr=False)

    def describe_token(self, *, is_terminal: bool) -> str:
        """The token that was made, for a terminal; else where it is, because logs are kept and read by others."""
        if not self.new_token:
            return ""
        if is_terminal:
            return self.new_token
        if self.token_file is not None:
            return f"made_token in {self.token_file}"
        return "not shown, because this is no terminal: set TOOLSTEAD_TOKEN"

    def describe_console(self, *, is_terminal: bool) -> str:
        """Where the console is: on a terminal the address that logs a browser in, else how to get that.

        Always the address for this machine: the private token is nothing to send through a network without TLS.
        """
        if is_terminal:
            return name_console(self.url, self.private_token)
        if self.token_file is not None:
            return f"{self.url}/ (`toolstead doctor` on a terminal shows the address that logs in)"
        return f"{self.url}/ (only a server that was started on a terminal shows the address that logs in)"


def name_console(url: str, private_token: str) -> str:
    """The address of a server's console that logs a browser in, once for each browser."""
    return f"{url}/?token={private_token}"


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a command may talk to.

    Attributes:
        url: Its address for this machine.
        token: Its private token.
        pid: Its process.
        made_token: The token for its clients, if one was made for it.
    """

    url: str
    token: str
    pid: int
    made_token: str = ""


class ServerFile:
    """The servers of one data folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "server.json"

    def find_server(self, project: Path) -> RunningServer | None:
        """The running server of a project that was started last, or None."""
        return next(iter(self.list_servers(project)), None)

    def list_servers(self, project: Path) -> list[RunningServer]:
        """The running servers of a project, the one that was started last first."""
        return self._read().get(str(project), [])[::-1]

    def find_url(self, url: str) -> RunningServer | None:
        """The running server at an address, whichever project it serves, or None."""
        servers = (server for servers in self._read().values() for server in servers)
        return next((server for server in servers if server.url == url.rstrip("/")), None)

    @contextmanager
    def announce_server(self, project: Path, url: str, token: str, *, made_token: str = "") -> Generator[None]:
        """Name this process as a server of the project while open."""
        server = RunningServer(url=url, token=token, pid=os.getpid(), made_token=made_token)
        self._change_servers(project, lambda servers: [*servers, server])
        try:
            yield
        finally:
            self._change_servers(project, lambda servers: [one for one in servers if one != server])

    def _change_servers(self, project: Path, change: Callable[[list[RunningServer]], list[RunningServer]]) -> None:
        with lock_file(self.path):
            entries = self._read()
            entries[str(project)] = change(entries.get(str(project), []))
            entries = {project: servers for project, servers in entries.items() if servers}
            write_private(self.path, msgspec.json.format(msgspec.json.encode(entries), indent=2))

    def _read(self) -> dict[str, list[RunningServer]]:
        """The servers that run, by project, oldest first; what cannot be understood holds nothing worth keeping."""
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=dict[str, Any])
        except (OSError, ValueError):
            return {}
        return {project: _read_entries(entries) for project, entries in content.items()}


def _read_entries(entries: Any) -> list[RunningServer]:
    """The servers of a project; earlier versions wrote the one that was started last, without a list."""
    listed = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    return [server for entry in listed if (server := _read_entry(entry)) is not None]


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
