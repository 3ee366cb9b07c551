"""`toolstead ask`: one message to an agent, its answer on stdout as it comes."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import Any

import click

from toolstead.app.client import LostAnswerError, SteadClient
from toolstead.console.cli.approval_prompt import ApprovalPrompts
from toolstead.console.cli.group import (
    FAILED,
    common_options,
    echo_json,
    echo_text,
    examples,
    run_with_client,
    url_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.run_output import RunOutput
from toolstead.console.cli.thread_choice import describe_thread, find_answerer, find_last_thread, find_thread

_STDIN_SECONDS = 3.0
"""Seconds that stdin may be silent before that is reported."""


def answer_options(command: Any) -> Any:
    """The options of a command that begins or continues a conversation: who answers, and where."""
    for option in reversed(
        (
            click.option("--agent", metavar="NAME", help="Who answers, instead of the settings' choice."),
            click.option("--model", "-m", metavar="NAME", help="The model, instead of the settings' choice."),
            click.option("--runtime", metavar="NAME", help="What drives the model, instead of the settings' choice."),
            click.option(
                "--continue", "-c", "goes_on", is_flag=True, help="Continue this project's last conversation."
            ),
            click.option("--thread", metavar="ID", help="Continue this conversation; the beginning of its id will do."),
        )
    ):
        command = option(command)
    return command


@click.command(
    "ask",
    epilog=examples(
        "toolstead ask where are the TODOs",
        "toolstead ask -m sonnet 'What changed here? (in one line)'",
        "git diff | toolstead ask review this",
        "toolstead ask -c and the tests?",
    ),
)
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@answer_options
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it after so long.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole run as JSON.")
@url_option
@common_options
def ask(invocation: CommandContext, *, words: tuple[str, ...], as_json: bool, url: str | None, **given: Any) -> int:
    """Ask an agent. Quotes are needed only for what the shell would take for itself.

    What is piped in follows the words, after an empty line; `-` alone asks what is piped in and nothing else. The
    answer goes to stdout, everything else to stderr. The running server of this project answers; without one, this
    command does. Exit status: 0 answered, 1 it failed, 2 nothing was asked, 130 interrupted.
    """
    check_choice(goes_on=given["goes_on"], thread=given["thread"])
    prompt = _compose_prompt(words)
    if not prompt.strip():
        raise click.UsageError("there is nothing to ask; give a text, or pipe one in")

    async def ask_agent(client: SteadClient) -> int:
        goes_on, thread = given.pop("goes_on"), given.pop("thread")
        thread_id = await find_thread_id(client, goes_on=goes_on, thread=thread)
        answerer = await find_answerer(client, given, thread_id)
        output = RunOutput(url=client.url, answerer=answerer, shows=not as_json or sys.stderr.isatty())
        try:
            run = await perform_run(client, output, prompt, thread_id=thread_id, **given)
        except LostAnswerError as error:
            echo_text(f"toolstead: {error}", err=True, kind="bad")
            return FAILED
        if as_json:
            output.end_early()
            echo_json(run)
            return 0 if run["status"] == "completed" else 1
        status = output.show_end(run)
        if "delegate.started" in output.kinds:
            await mention_open_tasks(client, run["threadId"])
        return status

    return run_with_client(invocation, url, ask_agent)


def check_choice(*, goes_on: bool, thread: str | None) -> None:
    """Refuse two conversations at once."""
    if goes_on and thread is not None:
        raise click.UsageError("-c continues the last conversation, and --thread another; give one of them")


async def find_thread_id(client: SteadClient, *, goes_on: bool, thread: str | None) -> str | None:
    """The conversation that is to be continued, which is shown; None for a new one.

    Raises:
        ThreadChoiceError: There is none, or there are several.
    """
    if goes_on:
        found = await find_last_thread(client)
        echo_text(f"continues {describe_thread(found)}", err=True, kind="dim")
        return found["id"]
    return None if thread is None else (await find_thread(client, thread))["id"]


async def perform_run(client: SteadClient, output: RunOutput, prompt: str, **given: Any) -> dict[str, Any]:
    """Ask an agent, show what happens, and ask the person about calls that need an approval."""
    async with output.keep_drawing(), ApprovalPrompts(client.approvals, around=output.pause) as prompts:

        def take_event(kind: str, data: dict[str, Any]) -> None:
            output.show_event(kind, data)
            prompts.take_event(kind, data)

        try:
            return await client.run_agent(prompt, take_event, **given)
        except BaseException:
            output.end_early()
            raise


async def mention_open_tasks(client: SteadClient, thread_id: str) -> None:
    """Say that delegated work goes on after the answer, and where."""
    number = len(await client.tasks.list_tasks(thread=thread_id, is_open=True))
    if number:
        who = "the server" if client.url is not None else "`toolstead serve`"
        tasks = "1 delegated task is" if number == 1 else f"{number} delegated tasks are"
        click.echo(f"{tasks} still open; {who} goes on with it: `toolstead tasks watch`", err=True)


def _compose_prompt(words: tuple[str, ...]) -> str:
    """The words, and what is piped in after them; each as it was given."""
    if words == ("-",):
        return _read_stdin()
    prompt = " ".join(words)
    piped = _read_stdin() if _is_piped() else ""
    return f"{prompt}\n\n{piped}" if prompt.strip() and piped.strip() else prompt or piped


def _is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: no terminal, and not `/dev/null`."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_stdin() -> str:
    """All of stdin. A program that keeps it open and sends nothing is reported: this waits for its end."""
    if not sys.stdin.isatty() and not select.select([sys.stdin], [], [], _STDIN_SECONDS)[0]:
        click.echo("reading stdin up to its end; without input for this command, add </dev/null", err=True)
    return sys.stdin.read()
