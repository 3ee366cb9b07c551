"""`toolstead approvals`: the calls that wait for a person: list, watch, allow and deny them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.approval_prompt import ApprovalPrompts, Question, describe_seconds, render_call
from toolstead.console.cli.arguments import read_arguments
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    CommandGroup,
    client_command,
    echo_json,
    echo_text,
    examples,
    json_option,
    url_option,
)
from toolstead.console.cli.terminal_line import has_terminal
from toolstead.errors import ApprovalDecidedError, NotFoundError, ServeError

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient
    from toolstead.types.approval import ApprovalDecision

KIND = "approval_"
SHORTEST = len(KIND) + 8
"""Characters of an id that are shown at least: a later one of another second begins differently."""


class _ListingGroup(CommandGroup):
    """Lists when no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `list` before what belongs to it."""
        names_command = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if names_command else ["list", *args])


@click.group(
    "approvals",
    cls=_ListingGroup,
    epilog=examples(
        "toolstead approvals",
        "toolstead approvals watch",
        "toolstead approvals allow 0655b2c4",
        'toolstead approvals deny 0655b2c4 --reason "not on Sundays"',
    ),
)
def approvals() -> None:
    """List the calls that wait for you; allow or deny them.

    A plugin's gate may want a person to decide about a call (docs/plugins.md). What is listed waits in any process
    on your database: a server, `toolstead mcp` of a client, another terminal. Without an answer in time it is denied.
    """


@approvals.command("list", epilog=examples("toolstead approvals list", "toolstead approvals list --json"))
@json_option
@url_option
@client_command
async def list_approvals(client: SteadClient, *, as_json: bool) -> None:
    """List the calls that wait, the oldest first."""
    found = await client.approvals.list_approvals()
    if as_json:
        echo_json({"approvals": found})
        return
    if not found:
        where = f"the server at {client.url}" if client.url else f"no server of this project runs; {client.database}"
        click.echo(f"no call waits for a person (looked at: {where})", err=True)
        return
    shown = _shorten_ids([approval["id"] for approval in found])
    for approval in found:
        question = Question.of_approval(approval)
        left = question.expires_at - time.time()
        limit = f"{describe_seconds(left)} left" if left > 0 else "its time is over"
        click.echo(f"{paint_text(shown[question.id], 'name')}  {limit}; {question.asker} asks: {question.why}")
        click.echo("\n".join(render_call(question.tool, question.input)))
    click.echo("answer with: toolstead approvals allow ID, or deny ID", err=True)


@approvals.command("watch", epilog=examples("toolstead approvals watch", "toolstead approvals watch --json | jq .data"))
@json_option
@url_option
@client_command
async def watch_approvals(client: SteadClient, *, as_json: bool) -> None:
    """Ask here about each call that waits, as it comes.

    Ctrl-C ends it, and what is open waits on. Without a terminal each is one line on stdout with its id; with
    --json, each question and each decision is one line of JSON.
    """
    async with client.approvals.follow_events() as events:
        waiting = await client.approvals.list_approvals()
        if has_terminal() and not as_json:
            click.echo("calls that wait are shown here as they come; end this with Ctrl-C", err=True)
            async with ApprovalPrompts(client.approvals, takes_interrupt=False) as prompts:
                for approval in waiting:
                    prompts.add_question(Question.of_approval(approval))
                async for event in events:
                    prompts.take_event(event["type"], event["data"])
        else:
            for approval in waiting:
                _print_event("approval.requested", _describe_waiting(approval), as_json=as_json)
            known = {approval["id"] for approval in waiting}
            async for event in events:
                if event["type"] != "approval.requested" or event["data"]["approvalId"] not in known:
                    _print_event(event["type"], event["data"], as_json=as_json)
    raise ServeError(f"{client.url or 'this process'} has stopped; approvals cannot be followed any more")


@approvals.command("allow", epilog=examples('toolstead approvals allow 0655b2c4 --input \'{"to": "ada"}\''))
@click.argument("id")
@click.option("--input", "given", metavar="JSON", help="Arguments to go on with instead; - reads stdin.")
@json_option
@url_option
@client_command
async def allow_call(client: SteadClient, *, id: str, given: str | None, as_json: bool) -> int:
    """Allow a call that waits. The beginning of its ID is enough.

    Exit status: 0 allowed, 1 it was decided before, 2 there is no such call, or the arguments do not fit it.
    """
    edited = None if given is None else read_arguments((), given, {})
    return await _decide(client, id, "allow", edited=edited, as_json=as_json)


@approvals.command("deny", epilog=examples('toolstead approvals deny 0655b2c4 --reason "use the test server"'))
@click.argument("id")
@click.option("--reason", default="", metavar="TEXT", help="Why; the model reads it.")
@json_option
@url_option
@client_command
async def deny_call(client: SteadClient, *, id: str, reason: str, as_json: bool) -> int:
    """Deny a call that waits. The beginning of its ID is enough.

    Exit status: 0 denied, 1 it was decided before, 2 there is no such call.
    """
    return await _decide(client, id, "deny", reason=reason, as_json=as_json)


async def _decide(
    client: SteadClient,
    id: str,
    decision: ApprovalDecision,
    *,
    edited: dict[str, Any] | None = None,
    reason: str = "",
    as_json: bool,
) -> int:
    waiting = [approval["id"] for approval in await client.approvals.list_approvals()]
    whole = _find_id(id, waiting)
    try:
        decided = await client.approvals.decide_approval(whole, decision, input=edited, reason=reason)
    except ApprovalDecidedError as error:
        echo_text(f"toolstead: {error}", err=True)
        return FAILED
    except NotFoundError:
        there = "; `toolstead approvals` lists them" if waiting else ": none waits now"
        raise click.UsageError(f"no call that waits has an id that begins with {id!r}{there}") from None
    if as_json:
        echo_json(decided)
        return DONE
    word = "allowed" if decision == "allow" else "denied"
    arguments = decided["input"] if edited is None else edited
    click.echo("\n".join([f"{word}:", *render_call(decided["tool"], arguments)]), err=True)
    return DONE


def _find_id(given: str, waiting: list[str]) -> str:
    """The id of the one that waits and begins so; what nothing that waits begins with, as it was given.

    Raises:
        click.UsageError: Several begin so.
    """
    found = [one for one in waiting if one.startswith((given, f"{KIND}{given}"))] if given else waiting
    if given in found or not found:
        return given
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} calls that wait begin with {given!r}: {', '.join(found)}")
    return found[0]


def _shorten_ids(ids: list[str]) -> dict[str, str]:
    """As much of each id as tells it from the others."""
    length = SHORTEST
    while len({one[:length] for one in ids}) < len(ids):
        length += 1
    return {one: one[:length] for one in ids}


def _describe_waiting(approval: dict[str, Any]) -> dict[str, Any]:
    """An approval in the form of its event."""
    names = {"id": "approvalId", "callId": "callId", "tool": "name", "input": "input", "reason": "reason"}
    names |= {"askedBy": "plugin", "expiresAt": "expiresAt"}
    return {event: approval[name] for name, event in names.items()}


def _print_event(kind: str, data: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo_text(json.dumps({"type": kind, "data": data}, ensure_ascii=False))
    elif kind == "approval.requested":
        question = Question.of_event(data)
        call = " ".join(line.strip() for line in render_call(question.tool, question.input))
        click.echo(f"{question.id}  {call}  {question.asker} asks: {question.why}")
    else:
        word = "allowed" if data["decision"] == "allow" else "denied"
        echo_text(f"{data['approvalId']}  {word}" + (f": {data['reason']}" if data["reason"] else ""))
