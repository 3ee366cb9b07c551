"""`toolstead doctor`: what can be used here, and how to enable the rest."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import Sequence
from contextlib import aclosing

import click
import msgspec

from toolstead.app.client import HttpClient
from toolstead.app.database import describe_database, find_database_fault
from toolstead.app.doctor import DoctorFinding, DoctorReport, ServerFinding, examine_review, examine_setup
from toolstead.app.keys import user_keys
from toolstead.app.places import Places
from toolstead.app.server_file import RunningServer, ServerFile, name_console
from toolstead.app.setup_steps import find_ollama
from toolstead.app.state import Switches
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    examples,
    json_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ServeError, StateError

_WIDTH = 80
_PATIENCE = 5.0
"""Seconds that a server may take to answer."""
_UNTRIED = """\
No request was sent, so this was free. To find out whether it answers, for the
price of one short request:
  toolstead ask "hello\""""
_BROKEN = "No agent can answer yet: follow the → below each ✗."
_BLOCKED = "No agent can answer yet; the first line says why."


@click.command("doctor", epilog=examples("toolstead doctor", "toolstead doctor --json"))
@json_option
@common_options
def doctor(invocation: CommandContext, as_json: bool) -> int:
    """Show which runtime and which models can be used, and how to enable the others.

    Where a server of this project runs, it answers `toolstead ask`, with its own environment: what it can use is
    shown first, with the address of its console that logs a browser in, then what this shell can.

    No request is sent to a model, so it costs nothing. Exit status: 0 an agent can answer, 1 none can.
    """
    settings, places = invocation.load().settings, invocation.find_places()
    keys = user_keys(places.data)
    report = examine_setup(settings.runtime, keys, find_ollama(keys))
    try:
        review = examine_review(settings, Switches(places.data).read().plugins)
    except StateError as error:
        review = str(error)
    known = ServerFile(places.data).find_server(places.project)
    server = None if known is None else invocation.run(_examine_server(known))
    delegates = invocation.run(_examine_delegates(places, settings.multi_agent.agents))
    fault = invocation.run(find_database_fault())
    database = f"{describe_database(places)}{f': does not answer: {fault}' if fault else ''}"
    report = msgspec.structs.replace(report, review=review, server=server, delegates=delegates, database=database)
    console = "" if known is None else _describe_console(known)
    click.echo(
        json.dumps(report.to_json(), indent=2, ensure_ascii=False) if as_json else _render_report(report, console)
    )
    return DONE if report.can_answer else FAILED


def _describe_console(server: RunningServer) -> str:
    """Where the server's console is; what logs a browser in is for a person's eyes, and no file's or program's."""
    address = name_console(server.url, server.token)
    return address if sys.stdout.isatty() else f"{server.url}/ (a terminal is shown the address that logs in)"


def _render_report(report: DoctorReport, console: str) -> str:
    choice, server = report.choice, report.server
    lines: list[str] = []
    if server is not None:
        lines += [f"the server at {server.url}, which answers `toolstead ask`"]
        lines += [
            *_describe_runtime(server.runtime, server.why),
            f"console   {console}",
            "",
            "this shell, for `toolstead ask --local`",
        ]
    lines += _describe_runtime(choice.name, choice.why)
    if report.model is not None:
        lines.append(f"model     {report.model}")
    lines += _wrap_text(f"database  {report.database}", " " * 10)
    lines += (
        _render_section("runtimes", report.runtimes)
        + _render_section("models", report.models)
        + _render_section("extras", report.extras)
    )
    if report.review:
        lines += ["", *_wrap_text(report.review, "  ")]
    for sentence in report.delegates:
        lines += ["", *_wrap_text(sentence, "  ")]
    if not report.can_answer_here:
        has_cross = any(item.good is False for item in (*report.runtimes, *report.models, *report.extras))
        blocked = _BROKEN if has_cross else _BLOCKED
        lines += ["", f"No agent can answer yet. {report.advice}".strip() if report.advice else blocked]
    elif report.choice.name != "scripted":
        lines += ["", _UNTRIED]
    return "\n".join(lines)


async def _examine_server(known: RunningServer) -> ServerFinding | None:
    """What the running server of the project says of itself; None when it says nothing."""
    async with aclosing(HttpClient(known.url, known.token)) as client:
        try:
            async with asyncio.timeout(_PATIENCE):
                state = await client.describe_state()
        except (ServeError, TimeoutError) as error:
            click.echo(f"the server at {known.url} does not say what it can use: {error or 'no answer'}", err=True)
            return None
    return ServerFinding(url=known.url, runtime=state.get("runtime"), why=str(state.get("runtimeReason") or ""))


async def _examine_delegates(places: Places, named: Sequence[str]) -> tuple[str, ...]:
    """The agents that the settings name and that are not there, a sentence for each."""
    if not named:
        return ()
    from toolstead.agents.references import DELEGATES
    from toolstead.app.agent_checking import check_agent_files

    found = (await check_agent_files(places, (), delegates=named)).findings
    return tuple(f"{one.source}: {one.message}" for one in found if one.source == DELEGATES)


def _describe_runtime(name: str | None, why: str) -> list[str]:
    return _wrap_text(f"runtime   {name or 'none'}: {why or 'runtime.default names it'}", " " * 10)


def _wrap_text(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _render_section(title: str, findings: Sequence[DoctorFinding]) -> list[str]:
    width = max((len(item.name) for item in findings), default=0)
    lines = ["", title]
    for item in findings:
        mark = {True: "✓", False: "✗", None: "·"}[item.good]
        lines += _wrap_text(f"  {mark} {item.name:<{width}}  {item.says}", " " * (width + 6))
        # One below the other, and never broken: they are there to be copied.
        lines += [f"{' ' * (width + 6)}{' ' if at else '→'} {todo}" for at, todo in enumerate(item.todo)]
    return lines
