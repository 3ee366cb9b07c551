"""`toolstead threads`: list, show, rename, delete and export conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolstead.app.client import InProcessClient, SteadClient
from toolstead.console.cli.group import (
    CommandGroup,
    client_command,
    echo_json,
    echo_text,
    examples,
    json_option,
    stead_command,
    url_option,
)
from toolstead.schema.visible import escape_unseen

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead


@click.group(
    "threads", cls=CommandGroup, epilog=examples("toolstead threads list", "toolstead threads show thread_660888db")
)
def threads() -> None:
    """List, show, rename, delete and export conversations."""


@threads.command("list", epilog=examples("toolstead threads list", "toolstead threads list --limit 5"))
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@json_option
@url_option
@client_command
async def list_threads(client: SteadClient, *, limit: int, as_json: bool) -> None:
    """List the conversations, the newest first."""
    found = await client.list_threads(limit)
    if as_json:
        echo_json({"threads": found})
    elif not found:
        click.echo('there are none yet; `toolstead ask "…"` begins one', err=True)
    for thread in () if as_json else found:
        title = _shorten_text(thread["title"] or "(no title)", 26)
        echo_text(f"{thread['id']}  {_render_time(thread['createdAt'])}  {title}")


@threads.command("show", epilog=examples("toolstead threads show thread_660888db"))
@click.argument("thread_id", metavar="ID")
@json_option
@url_option
@client_command
async def show_thread(client: SteadClient, *, thread_id: str, as_json: bool) -> None:
    """Print a conversation."""
    thread = await client.read_thread(thread_id)
    if as_json:
        echo_json(thread)
        return
    click.echo(click.style(escape_unseen(thread["title"] or thread["id"]), bold=True))
    for message in thread["messages"]:
        click.echo(f"\n{click.style(message['role'], bold=True)}  {_render_time(message['createdAt'])}")
        echo_text(message["content"])


@threads.command("rename", epilog=examples("toolstead threads rename thread_660888db 'The old route'"))
@click.argument("thread_id", metavar="ID")
@click.argument("title")
@url_option
@client_command
async def rename_thread(client: SteadClient, *, thread_id: str, title: str) -> None:
    """Give a conversation another title."""
    await client.rename_thread(thread_id, title)
    click.echo(f"{thread_id} is called {title!r} now", err=True)


@threads.command("delete", epilog=examples("toolstead threads delete thread_660888db"))
@click.argument("thread_id", metavar="ID")
@url_option
@client_command
async def delete_thread(client: SteadClient, *, thread_id: str) -> None:
    """Delete a conversation, with its messages, runs and events; what runs in it is ended."""
    await client.delete_thread(thread_id)
    click.echo(f"{thread_id} is deleted", err=True)


@threads.command("export", epilog=examples("toolstead threads export thread_660888db --output talk.json"))
@click.argument("thread_id", metavar="ID")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; stdout unless given.")
@stead_command
async def export_thread(stead: Toolstead, *, thread_id: str, output: Path | None) -> None:
    """Write a conversation as JSON: the thread, its messages and its events, as the database has them."""
    client = InProcessClient(stead)
    _write_thread({**await client.read_thread(thread_id), "events": await client.list_events(thread_id)}, output)


def _write_thread(thread: Mapping[str, Any], output: Path | None) -> None:
    if output is None:
        echo_json(thread)
        return
    text = json.dumps(thread, indent=2, ensure_ascii=False)
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        reason = f"{error.strerror or error}; name a file that can be written"
        raise click.UsageError(f"--output {output}: {reason}") from None
    click.echo(f"{len(thread['messages'])} messages written to {output}", err=True)


def _render_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _shorten_text(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
