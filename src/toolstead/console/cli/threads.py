"""`toolstead threads`: list, show, rename, delete and export conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolstead.app.client import InProcessClient, SteadClient
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    CommandGroup,
    WholeNumber,
    client_command,
    echo_json,
    echo_text,
    examples,
    json_option,
    stead_command,
    table_width,
    url_option,
)
from toolstead.console.cli.run_output import render_seconds, was_refused
from toolstead.console.cli.task_lines import render_duration
from toolstead.console.cli.thread_choice import find_last_thread, find_thread, shorten_id

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead


_SHOWN_EVENTS = ("tool_use", "tool_result", "error", "cancelled")
_INTERRUPTED = "it was cancelled"
"""What is stored of a run that a person ended, without another reason."""


@click.group(
    "threads", cls=CommandGroup, epilog=examples("toolstead threads list", "toolstead threads show 660888db87c06")
)
def threads() -> None:
    """List, show, rename, delete and export conversations."""


@threads.command("list", epilog=examples("toolstead threads list", "toolstead threads list --all --limit 10"))
@click.option("--all", "of_all", is_flag=True, help="Those of every project.")
@click.option("--children", is_flag=True, help="Also those of agents that work for another conversation.")
@click.option("--limit", type=WholeNumber(1, 1000), default=50, show_default=True, help="At most so many.")
@json_option
@url_option
@client_command
async def list_threads(client: SteadClient, *, of_all: bool, children: bool, limit: int, as_json: bool) -> None:
    """List the conversations of this project, the last used first.

    On a terminal an id is cut to what `ask --thread` and `threads show` need of it.
    """
    found = await client.list_threads(limit, own=not of_all, roots=not children)
    if as_json:
        echo_json({"threads": found})
        return
    if not found:
        others = "" if of_all else "; --all lists those of every project"
        click.echo(f"there are none yet: `toolstead ask` and `toolstead chat` begin one{others}", err=True)
        return
    for line in render_threads(found, with_project=of_all):
        click.echo(line)


def render_threads(found: Sequence[Mapping[str, Any]], *, with_project: bool) -> list[str]:
    """Threads as a table."""
    width, now = table_width(), time.time()
    ids = [thread["id"] for thread in found]
    rows = [
        (
            thread["id"] if width is None else shorten_id(thread["id"], ids),
            thread["status"] or "empty",
            thread["answeredBy"] or thread["agent"] or "-",
            render_duration(now - thread["usedAt"]),
            *((_render_project(thread.get("project")),) if with_project else ()),
            f"{'└ ' if thread.get('parentThreadId') else ''}{thread['title'] or '(no title)'}",
        )
        for thread in found
    ]
    head = ("THREAD", "STATUS", "AGENT", "USED", *(("PROJECT",) if with_project else ()), "TITLE")
    return render_table(head, rows, width=width)


@threads.command("show", epilog=examples("toolstead threads show 660888db87c06", "toolstead threads show ID --json"))
@click.argument("thread_id", metavar="[ID]", required=False)
@json_option
@url_option
@client_command
async def show_thread(client: SteadClient, *, thread_id: str | None, as_json: bool) -> None:
    """Print a conversation, with the tools that were called and what failed.

    The beginning of an ID will do; without one it is the last conversation of this project.
    """
    listed = await _find_thread(client, thread_id)
    thread = await client.read_thread(listed["id"])
    events = await client.list_events(thread["id"], _SHOWN_EVENTS)
    if as_json:
        echo_json({**thread, "status": listed["status"], "events": events})
        return
    echo_text(thread["title"] or "(no title)", kind="name")
    about = (thread["id"], listed["status"] or "empty", _render_project(thread.get("project")))
    echo_text("  ".join(about), kind="dim")
    inputs = {event["data"]["callId"]: event["data"]["input"] for event in events if event["type"] == "tool_use"}
    ended = {event["data"]["callId"] for event in events if event["type"] == "tool_result"}
    for _, entry in sorted(
        [*((one["createdAt"], one) for one in thread["messages"]), *((one["time"], one) for one in events)],
        key=itemgetter(0),
    ):
        if "role" in entry:
            click.echo(f"\n{paint_text(entry['role'], 'name')}  {_render_time(entry['createdAt'])}")
            echo_text(entry["content"])
        elif entry["type"] != "tool_use" or entry["data"]["callId"] not in ended:
            _show_event(entry["type"], entry["data"], inputs)


async def _find_thread(client: SteadClient, given: str | None) -> dict[str, Any]:
    return await (find_last_thread(client) if given is None else find_thread(client, given))


def _show_event(kind: str, data: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """A call of a tool, with its end where it has one; or why a run has no answer."""
    if kind not in ("tool_use", "tool_result"):
        is_interrupted = kind == "cancelled" and data["message"] == _INTERRUPTED
        what = "" if is_interrupted else f"{'cancelled' if kind == 'cancelled' else 'failed'}: "
        echo_text(f"\n{what}{'you interrupted this answer' if is_interrupted else data['message']}", kind="bad")
        return
    given = inputs.get(data["callId"])  # none of a call that was refused at once
    call = f"· {data['name']}{'' if given is None else f' {json.dumps(given, ensure_ascii=False)}'}"
    if kind == "tool_use":
        echo_text(f"{call}  did not end", kind="warning")
        return
    if "input" in data:
        call += f" → {json.dumps(data['input'], ensure_ascii=False)}"
    took = "" if was_refused(data) else f"  {render_seconds(data['durationMs'] / 1000)}"
    echo_text(f"{call}{took}", kind="dim")
    if data["isError"]:
        echo_text(f"  failed: {data['content']}", kind="bad")


@threads.command("rename", epilog=examples("toolstead threads rename thread_660888db 'The old route'"))
@click.argument("thread_id", metavar="ID")
@click.argument("title")
@url_option
@client_command
async def rename_thread(client: SteadClient, *, thread_id: str, title: str) -> None:
    """Give a conversation another title."""
    thread_id = (await find_thread(client, thread_id))["id"]
    await client.rename_thread(thread_id, title)
    click.echo(f"{thread_id} is called {title!r} now", err=True)


@threads.command("delete", epilog=examples("toolstead threads delete thread_660888db"))
@click.argument("thread_id", metavar="ID")
@url_option
@client_command
async def delete_thread(client: SteadClient, *, thread_id: str) -> None:
    """Delete a conversation, with its messages, runs and events; what runs in it is ended."""
    thread_id = (await find_thread(client, thread_id))["id"]
    await client.delete_thread(thread_id)
    click.echo(f"{thread_id} is deleted", err=True)


@threads.command("export", epilog=examples("toolstead threads export thread_660888db --output talk.json"))
@click.argument("thread_id", metavar="[ID]", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; stdout unless given.")
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@stead_command
async def export_thread(stead: Toolstead, *, thread_id: str | None, output: Path | None, force: bool) -> None:
    """Write a conversation as JSON: the thread, its messages and its events, as the database has them."""
    client = InProcessClient(stead)
    found = (await _find_thread(client, thread_id))["id"]
    _write_thread({**await client.read_thread(found), "events": await client.list_events(found)}, output, force=force)


def _write_thread(thread: Mapping[str, Any], output: Path | None, *, force: bool) -> None:
    if output is None:
        echo_json(thread)
        return
    text = json.dumps(thread, indent=2, ensure_ascii=False)
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        raise click.UsageError(f"--output {output}: it exists; --force writes over it") from None
    except OSError as error:
        reason = f"{error.strerror or error}; name a file that can be written"
        raise click.UsageError(f"--output {output}: {reason}") from None
    click.echo(f"{len(thread['messages'])} messages written to {output}", err=True)


def _render_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _render_project(project: str | None) -> str:
    """The folder of a project; an older version did not store it."""
    return project or "-"
