"""`toolstead threads`: list, show, rename, delete and export conversations."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import click

from toolstead.console.cli.invocation import Invocation, common_options

if TYPE_CHECKING:
    from toolstead.console.cli.remote import Remote
    from toolstead.orchestrator.orchestrator import Orchestrator

DONE = 0


@click.group("threads")
def threads() -> None:
    """List, show, rename, delete and export conversations."""


_URL = click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


@threads.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@_JSON
@_URL
@common_options
@click.pass_obj
def list_threads(invocation: Invocation, *, limit: int, as_json: bool, url: str | None) -> int:
    """List the conversations, the newest first."""

    async def show(door: _Door) -> int:
        found = await door.threads(limit)
        if as_json:
            click.echo(json.dumps({"threads": found}, indent=2, ensure_ascii=False))
        elif not found:
            click.echo('there are none yet; `toolstead ask "…"` begins one', err=True)
        for thread in () if as_json else found:
            click.echo(f"{thread['id']}  {_when(thread['createdAt'])}  {_short(thread['title'] or '(no title)', 26)}")
        return DONE

    return _at(invocation, url, show)


@threads.command("show")
@click.argument("thread_id", metavar="ID")
@_JSON
@_URL
@common_options
@click.pass_obj
def show_thread(invocation: Invocation, thread_id: str, *, as_json: bool, url: str | None) -> int:
    """Print a conversation."""

    async def show(door: _Door) -> int:
        thread = await door.thread(thread_id)
        if as_json:
            click.echo(json.dumps(thread, indent=2, ensure_ascii=False))
        else:
            click.echo(click.style(thread["title"] or thread["id"], bold=True))
            for message in thread["messages"]:
                click.echo(f"\n{click.style(message['role'], bold=True)}  {_when(message['createdAt'])}")
                click.echo(message["content"])
        return DONE

    return _at(invocation, url, show)


@threads.command("rename")
@click.argument("thread_id", metavar="ID")
@click.argument("title")
@_URL
@common_options
@click.pass_obj
def rename_thread(invocation: Invocation, thread_id: str, title: str, *, url: str | None) -> int:
    """Give a conversation another title."""

    async def rename(door: _Door) -> int:
        await door.rename(thread_id, title)
        click.echo(f"{thread_id} is called {title!r} now", err=True)
        return DONE

    return _at(invocation, url, rename)


@threads.command("delete")
@click.argument("thread_id", metavar="ID")
@_URL
@common_options
@click.pass_obj
def delete_thread(invocation: Invocation, thread_id: str, *, url: str | None) -> int:
    """Delete a conversation, with its messages, runs and events; what runs in it is ended."""

    async def delete(door: _Door) -> int:
        await door.delete(thread_id)
        click.echo(f"{thread_id} is deleted", err=True)
        return DONE

    return _at(invocation, url, delete)


@threads.command("export")
@click.argument("thread_id", metavar="ID")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write; stdout unless given.")
@common_options
@click.pass_obj
def export_thread(invocation: Invocation, thread_id: str, *, output: Path | None) -> int:
    """Write a conversation as JSON: the thread, its messages and its events, as the database has them."""

    async def export() -> dict[str, Any]:
        async with invocation.stead() as stead:
            door = _Here(await stead.conversations())
            thread = await door.thread(thread_id)
            return {**thread, "events": await door.events(thread_id)}

    thread = invocation.run(export(), level=logging.ERROR)
    text = json.dumps(thread, indent=2, ensure_ascii=False)
    if output is None:
        click.echo(text)
    else:
        try:
            output.write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise click.UsageError(
                f"--output {output}: {error.strerror or error}; name a file that can be written"
            ) from None
        click.echo(f"{len(thread['messages'])} messages written to {output}", err=True)
    return DONE


class _Door(Protocol):
    """Conversations, wherever they are kept."""

    async def threads(self, limit: int) -> list[dict[str, Any]]: ...
    async def thread(self, id: str) -> dict[str, Any]: ...
    async def rename(self, id: str, title: str) -> None: ...
    async def delete(self, id: str) -> None: ...


class _Server:
    """By the running server."""

    def __init__(self, remote: Remote) -> None:
        self._ask = remote.ask

    async def threads(self, limit: int) -> list[dict[str, Any]]:
        return self._ask("GET", f"/api/threads?limit={limit}")["threads"]

    async def thread(self, id: str) -> dict[str, Any]:
        return self._ask("GET", f"/api/threads/{quote(id, safe='')}")

    async def rename(self, id: str, title: str) -> None:
        self._ask("PATCH", f"/api/threads/{quote(id, safe='')}", {"title": title})

    async def delete(self, id: str) -> None:
        self._ask("DELETE", f"/api/threads/{quote(id, safe='')}")


class _Here:
    """In this process."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._store = orchestrator.store

    async def threads(self, limit: int) -> list[dict[str, Any]]:
        return [thread.to_json() for thread in await self._store.threads(limit=limit)]

    async def thread(self, id: str) -> dict[str, Any]:
        thread = await self._store.thread(id)
        return {**thread.to_json(), "messages": [message.to_json() for message in await self._store.messages(id)]}

    async def rename(self, id: str, title: str) -> None:
        await self._store.update_thread(id, title=title)

    async def delete(self, id: str) -> None:
        await self._orchestrator.delete_thread(id)

    async def events(self, id: str) -> list[dict[str, Any]]:
        from toolstead.orchestrator.store import EventFilter

        found: list[dict[str, Any]] = []
        after: str | None = None
        while page := await self._store.events(EventFilter(thread_id=id), after=after):
            found.extend(event.to_json() for event in page)
            after = page[-1].id
        return found


def _at(invocation: Invocation, url: str | None, act: Callable[[_Door], Awaitable[int]]) -> int:
    from toolstead.console.cli.remote import find_server

    remote = find_server(invocation, url)

    async def run() -> int:
        if remote is not None:
            return await act(_Server(remote))
        async with invocation.stead() as stead:
            return await act(_Here(await stead.conversations()))

    return invocation.run(run(), level=logging.ERROR)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
