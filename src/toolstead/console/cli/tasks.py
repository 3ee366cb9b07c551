"""`toolstead tasks`: list, show, follow, cancel and retry delegated tasks."""

from __future__ import annotations

import functools
import json
import textwrap
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import click

from toolstead.app.client import SteadClient
from toolstead.console.cli.columns import fit_text
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    CommandGroup,
    WholeNumber,
    client_command,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
    table_width,
    terminal_width,
    url_option,
)
from toolstead.console.cli.task_lines import (
    KIND,
    count_tokens,
    describe_verdict,
    name_state,
    render_duration,
    render_event,
    render_list,
    render_tree,
    shorten_lines,
)
from toolstead.console.cli.task_watch import MOST_LOOKED_AT, TaskWatch
from toolstead.console.cli.thread_choice import SHORTEST
from toolstead.errors import ToolsteadError
from toolstead.schema.visible import escape_unseen

MOST_OPEN = 500
_MOST_NAMED = 5
_PART = 1_000_000
_NO_LIMIT = 10**11
"""A budget above this stands for none at all."""
_SUCCESSES = frozenset({"completed", "completed_unverified"})
_NONE_YET = "there are none; agents delegate them, with `delegate_agent` and the like"


@click.group("tasks", cls=CommandGroup, epilog=examples("toolstead tasks list --open", "toolstead tasks watch"))
def tasks() -> None:
    """List, show, follow, cancel and retry delegated tasks."""


def _task_command(command: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., int | None]:
    """A command that says first which server executes it."""

    @functools.wraps(command)
    async def show_server(client: SteadClient, **given: Any) -> int | None:
        if client.url is not None:
            click.echo(f"by the server at {client.url}", err=True)
        return await command(client, **given)

    return url_option(client_command(show_server))


@tasks.command("list", epilog=examples("toolstead tasks list", "toolstead tasks list --open"))
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@click.option("--thread", metavar="ID", help="Only those that this thread delegated.")
@click.option("--limit", type=WholeNumber(1, 500), default=50, show_default=True, help="At most so many.")
@json_option
@_task_command
async def list_tasks(client: SteadClient, *, only_open: bool, thread: str | None, limit: int, as_json: bool) -> None:
    """List the tasks of this project, the newest first.

    Each with its outcome or state, its agent, its age, and the beginning of its prompt. On a terminal an id is cut to
    what the other commands need of it.
    """
    found = await client.tasks.list_tasks(thread=thread, is_open=True if only_open else None, limit=limit)
    if as_json:
        echo_json({"tasks": found})
    elif not found:
        click.echo("no task is open" if only_open else _NONE_YET, err=True)
    else:
        click.echo("\n".join(render_list(found, now=time.time(), width=table_width())))


@tasks.command(
    "show",
    epilog=examples("toolstead tasks show task_660888db", "toolstead tasks show task_660888db --result > answer.md"),
)
@click.argument("task_id", metavar="ID")
@click.option("--result", "only_result", is_flag=True, help="Print the whole result, and nothing else.")
@json_option
@_task_command
async def show_task(client: SteadClient, *, task_id: str, only_result: bool, as_json: bool) -> None:
    """Show one task: prompt, attempts, result, budget."""
    task_id = await _find_task(client, task_id)
    if only_result:
        offset: int | None = 0
        while offset is not None:
            part = await client.tasks.read_task_result(task_id, offset=offset, limit=_PART)
            offset = part.get("next")
            echo_text(part["text"], nl=offset is None)
        return
    task = await client.tasks.read_task(task_id)
    if as_json:
        echo_json(task)
        return
    click.echo(f"{click.style(task['id'], bold=True)}  {task['outcome'] or name_state(task)}")
    for name, value in _list_facts(task):
        echo_text(f"{name:10}{value}")
    for title, text in _list_texts(task):
        click.echo(f"\n{click.style(title, bold=True)}")
        echo_text(textwrap.indent(text, "  ", lambda _: True))
    if "budget" in task:
        _print_budget(task["budget"])


@tasks.command("tree", epilog=examples("toolstead tasks tree", "toolstead tasks tree task_660888db"))
@click.argument("task_id", metavar="[ID]", required=False)
@json_option
@_task_command
async def show_tree(client: SteadClient, *, task_id: str | None, as_json: bool) -> None:
    """Show a task and all those below it.

    Without ID, every tree that has an open task; else the newest. Each task with its state, its agent, the attempt it
    is at, and the tokens it used.
    """
    trees = (
        await _find_trees(client)
        if task_id is None
        else [[await _read_node(client, await _find_task(client, task_id))]]
    )
    if as_json:
        echo_json({"trees": [node for tree in trees for node in tree]})
    elif not trees:
        click.echo(_NONE_YET, err=True)
    else:
        click.echo("\n\n".join("\n".join(render_tree(tree, width=table_width())) for tree in trees))


@tasks.command("watch", epilog=examples("toolstead tasks watch", "toolstead tasks watch task_660888db"))
@click.argument("task_id", metavar="[ID]", required=False)
@json_option
@_task_command
async def watch_tasks(client: SteadClient, *, task_id: str | None, as_json: bool) -> None:
    """Follow a task and all those below it.

    It ends when none of them is open. Without ID, all tasks of this project are followed until Ctrl-C. A line is
    printed when a task is created, checks in, is evaluated and ends; with --json a line is an event.
    """
    await _follow_tree(
        client,
        None if task_id is None else await client.tasks.read_task(await _find_task(client, task_id)),
        as_json=as_json,
    )


@tasks.command("cancel", epilog=examples("toolstead tasks cancel task_660888db"))
@click.argument("task_id", metavar="ID")
@json_option
@_task_command
async def cancel_task(client: SteadClient, *, task_id: str, as_json: bool) -> None:
    """End a task and the open ones below it.

    Whichever process works on them ends that within about a second.
    """
    task_id = await _find_task(client, task_id)
    before = await client.tasks.read_task(task_id)
    below = sum(1 for node in _walk_nodes(before["tree"]) if node["outcome"] is None)
    task = await client.tasks.cancel_task(task_id)
    if before["outcome"] is not None or task["outcome"] != "cancelled":
        click.echo(f"{task['id']} had ended already: {task['outcome']}", err=True)
    else:
        more = f", and {count_noun(below, 'task')} below it" if below else ""
        click.echo(f"{task['id']} is cancelled{more}", err=True)
    if as_json:
        echo_json(task)


@tasks.command("retry", epilog=examples("toolstead tasks retry task_660888db"))
@click.argument("task_id", metavar="ID")
@json_option
@_task_command
async def retry_task(client: SteadClient, *, task_id: str, as_json: bool) -> int:
    """Start the work of an ended task again.

    That is a new task, whose id is printed; its result goes to the thread that delegated the old one. Without a
    running server this command works on it until it ends. Exit status: 0 it was started, or ended well; 1 it ended
    without a result.
    """
    task = await client.tasks.retry_task(await _find_task(client, task_id))
    click.echo(f"{task['id']} repeats {task['retryOf']}", err=True)
    if not as_json:
        click.echo(task["id"])
    if client.url is None:
        click.echo("no server runs for this project: this command works on it until it ends", err=True)
        await _follow_tree(client, task, as_json=False, err=True)
        task = await client.tasks.read_task(task["id"])
    if as_json:
        echo_json(task)
    return DONE if task["outcome"] is None or task["outcome"] in _SUCCESSES else FAILED


async def _follow_tree(client: SteadClient, top: Mapping[str, Any] | None, *, as_json: bool, err: bool = False) -> None:
    def show_line(task_id: str, text: str) -> None:
        width = table_width()
        room = None if width is None else max(width - len(task_id) - 2, 20)
        click.echo(f"{task_id}  {fit_text(text, room)}", err=err)

    def show_open(task: Mapping[str, Any]) -> None:
        if not as_json:
            show_line(task["id"], f"{name_state(task)}, {task['agent']}: {task['prompt']}")

    def show_event(event: Mapping[str, Any]) -> None:
        if as_json:
            click.echo(json.dumps(event))
        else:
            show_line(event["taskId"], render_event(event))

    def show_start() -> None:
        if top is None:
            click.echo("following all tasks of this project; Ctrl-C ends this", err=True)

    watch = TaskWatch(client, top=top, show_task=show_open, show_event=show_event, show_start=show_start)
    await watch.follow()


async def _find_task(client: SteadClient, given: str) -> str:
    """The id of the task that is called so, or whose id begins so.

    Raises:
        ToolsteadError: There is none, or there are several.
    """
    known = [task["id"] for task in await client.tasks.list_tasks(limit=MOST_LOOKED_AT)]
    if given in known:
        return given
    begins = (given, f"{KIND}{given}")
    found = [one for one in known if len(given.removeprefix(KIND)) >= SHORTEST and one.startswith(begins)]
    if len(found) > 1:
        named = "".join(f"\n  {one}" for one in found[:_MOST_NAMED])
        raise ToolsteadError(f"{given!r} is the beginning of {len(found)} tasks; give more of one:{named}")
    if not found and len(known) < MOST_LOOKED_AT:
        raise ToolsteadError(f"there is no task {given[:100]!r}; `toolstead tasks list` shows them")
    return found[0] if found else given  # an older one, by its whole id


async def _read_node(client: SteadClient, task_id: str) -> dict[str, Any]:
    """A task as the top of a tree."""
    task = await client.tasks.read_task(task_id)
    return task | {"children": task["tree"]}


async def _find_trees(client: SteadClient) -> list[list[dict[str, Any]]]:
    """The tasks at the top of each tree that has an open one, the newest tree first; if none is open, of the newest."""
    found = await client.tasks.list_tasks(is_open=True, limit=MOST_OPEN)
    if not found and (found := await client.tasks.list_tasks(limit=1)):
        click.echo("no task is open; this is the newest tree", err=True)
    elif len(found) == MOST_OPEN:
        click.echo(f"more than {MOST_OPEN} tasks are open; older ones are left out", err=True)
    trees: list[list[dict[str, Any]]] = []
    for root in dict.fromkeys(task["rootRunId"] for task in found):
        tops = [
            task for task in await client.tasks.list_tasks(root=root, limit=MOST_OPEN) if "parentTaskId" not in task
        ]
        trees.append([await _read_node(client, task["id"]) for task in reversed(tops)])
    return trees


def _walk_nodes(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _walk_nodes(node["children"])


def _list_facts(task: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is said in one line each."""
    yield "agent", escape_unseen(", ".join(filter(None, (task["agent"], task["runtime"], task["model"]))))
    yield "thread", escape_unseen(task["threadId"])
    yield "from", escape_unseen(task["parentThreadId"])
    if "parentTaskId" in task:
        yield "below", task["parentTaskId"]
    if "retryOf" in task:
        yield "repeats", task["retryOf"]
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(task["createdAt"]))
    ended, place = task["endedAt"], f"; place {task['position']} in the queue" if "position" in task else ""
    how_long = render_duration((ended or time.time()) - task["createdAt"])
    yield "created", f"{began}, {'ended after' if ended is not None else 'open for'} {how_long}{place}"
    yield "attempt", f"{task['attempt']} of {task['maxAttempts']}"
    used = task["usage"]
    parts = f"{used['inputTokens']:,} in, {used['outputTokens']:,} out, ${used['cost']:.4f}"
    yield "used", f"{count_tokens(task):,} tokens: {parts}"


def _list_texts(task: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What has a title and lines of its own."""
    yield "Prompt", task["prompt"]
    if task["attempts"]:
        width = None if table_width() is None else terminal_width() - 5
        lines = (f"{one['number']:<3}{shorten_lines(describe_verdict(one), width)}" for one in task["attempts"])
        yield "Attempts", "\n".join(line.replace("\n", "\n   ") for line in lines)
    if task["summary"] is not None:
        rest = task["resultSize"] - len(task["summary"])
        more = f" ({rest:,} characters more: --result)" if rest > 0 else ""
        yield f"Result{more}", task["summary"]
    if task["error"] is not None:
        message: str = task["error"]["message"]
        if task["attempts"]:  # which have the rest of it
            message = message.partition("\n")[0]
        yield (
            "Error",
            shorten_lines(
                f"{task['error']['code']}: {message}", None if table_width() is None else terminal_width() - 2
            ),
        )


def _print_budget(budget: Mapping[str, Any]) -> None:
    click.echo(f"\n{click.style('Budget of the tree', bold=True)}")
    click.echo(f"  {'':6}{'spent':>14}{'reserved':>14}{'left':>14}{'of':>14}")
    for name, form, what, whole in (("tokens", ",", "Tokens", "tokenBudget"), ("cost", ",.4f", "Cost", "costBudget")):
        unit = "$" if name == "cost" else ""
        numbers = (budget[f"spent{what}"], budget[f"reserved{what}"], budget[f"left{what}"], budget[whole])
        cells = (f"{unit}{number:{form}}" if number < _NO_LIMIT else "no limit" for number in numbers)
        click.echo(f"  {name:6}" + "".join(cell.rjust(14) for cell in cells))
