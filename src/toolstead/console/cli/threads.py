"""`toolstead threads`: list, show, rename, delete and export conversations."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.invocation import CommandContext, common_options

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient

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
def list_threads(invocation: CommandContext, *, limit: int, as_json: bool, url: str | None) -> int:
    """List the conversations, the newest first."""

    async def show_threads(client: SteadClient) -> int:
        found = await client.list_threads(limit)
        if as_json:
            click.echo(json.dumps({"threads": found}, indent=2, ensure_ascii=False))
        elif not found:
            click.echo('there are none yet; `toolstead ask "…"` begins one', err=True)
        for thread in () if as_json else found:
            click.echo(
                f"{thread['id']}  {_render_time(thread['createdAt'])}  "
                f"{_shorten_text(thread['title'] or '(no title)', 26)}"
            )
        return DONE

    return invocation.run_with_client(url, show_threads)


@threads.command("show")
@click.argument("thread_id", metavar="ID")
@_JSON
@_URL
@common_options
@click.pass_obj
def show_thread(invocation: CommandContext, thread_id: str, *, as_json: bool, url: str | None) -> int:
    """Print a conversation."""

    async def show_messages(client: SteadClient) -> int:
        thread = await client.read_thread(thread_id)
        if as_json:
            click.echo(json.dumps(thread, indent=2, ensure_ascii=False))
        else:
            click.echo(click.style(thread["title"] or thread["id"], bold=True))
            for message in thread["messages"]:
                click.echo(f"\n{click.style(message['role'], bold=True)}  {_render_time(message['createdAt'])}")
                click.echo(message["content"])
        return DONE

    return invocation.run_with_client(url, show_messages)


@threads.command("rename")
@click.argument("thread_id", metavar="ID")
@click.argument("title")
@_URL
@common_options
@click.pass_obj
def rename_thread(invocation: CommandContext, thread_id: str, title: str, *, url: str | None) -> int:
    """Give a conversation another title."""

    async def rename_one(client: SteadClient) -> int:
        await client.rename_thread(thread_id, title)
        click.echo(f"{thread_id} is called {title!r} now", err=True)
        return DONE

    return invocation.run_with_client(url, rename_one)


@threads.command("delete")
@click.argument("thread_id", metavar="ID")
@_URL
@common_options
@click.pass_obj
def delete_thread(invocation: CommandContext, thread_id: str, *, url: str | None) -> int:
    """Delete a conversation, with its messages, runs and events; what runs in it is ended."""

    async def delete_one(client: SteadClient) -> int:
        await client.delete_thread(thread_id)
        click.echo(f"{thread_id} is deleted", err=True)
        return DONE

    return invocation.run_with_client(url, delete_one)


@threads.command("export")
@click.argument("thread_id", metavar="ID")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write; stdout unless given.")
@common_options
@click.pass_obj
def export_thread(invocation: CommandContext, thread_id: str, *, output: Path | None) -> int:
    """Write a conversation as JSON: the thread, its messages and its events, as the database has them."""
    from toolstead.app.client import InProcessClient

    async def export_one() -> dict[str, Any]:
        async with invocation.make_stead() as stead:
            client = InProcessClient(stead)
            return {**await client.read_thread(thread_id), "events": await client.list_events(thread_id)}

    thread = invocation.run(export_one(), level=logging.ERROR)
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


def _render_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _shorten_text(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
