"""`toolstead doctor`: what can be used here, and how to enable the rest."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

import click
import msgspec

from toolstead.app.doctor import DoctorFinding, DoctorReport, examine_review, examine_setup
from toolstead.app.state import Switches
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    examples,
    json_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import StateError

_WIDTH = 80
_MISSING = """\
No agent can answer yet. Follow the → of one of the runtimes; kernel also needs
a model's key, or the name of a local model:
  toolstead ask --model ollama:NAME "hello\""""
_UNTRIED = """\
No request was sent, so this was free. To find out whether it answers, for the
price of one short request:
  toolstead ask "hello\""""
_BROKEN = "No agent can answer yet: follow the → below each ✗."


@click.command("doctor", epilog=examples("toolstead doctor", "toolstead doctor --json"))
@json_option
@common_options
def doctor(invocation: CommandContext, as_json: bool) -> int:
    """Show which runtime and which models can be used, and how to enable the others.

    No request is sent to a model, so it costs nothing. Exit status: 0 an agent can answer, 1 none can.
    """
    settings = invocation.load().settings
    report = examine_setup(settings.runtime)
    try:
        review = examine_review(settings, Switches(invocation.find_places().data).read().plugins)
    except StateError as error:
        review = str(error)
    report = msgspec.structs.replace(report, review=review)
    click.echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False) if as_json else _render_report(report))
    return DONE if report.can_answer else FAILED


def _render_report(report: DoctorReport) -> str:
    choice = report.choice
    lines = _wrap_text(f"runtime   {choice.name or 'none'}: {choice.why or 'runtime.default names it'}", " " * 10)
    if report.model is not None:
        lines.append(f"model     {report.model}")
    lines += (
        _render_section("runtimes", report.runtimes)
        + _render_section("models", report.models)
        + _render_section("extras", report.extras)
    )
    if report.review:
        lines += ["", *_wrap_text(report.review, "  ")]
    if not report.can_answer:
        lines += ["", _MISSING if report.choice.name is None else _BROKEN]
    elif report.choice.name != "scripted":
        lines += ["", _UNTRIED]
    return "\n".join(lines)


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
