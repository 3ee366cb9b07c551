"""Asks the person at this terminal about calls that wait for an approval, one after another, while the work goes on.

    async with ApprovalPrompts(client.approvals) as prompts:
        run = await client.run_agent(prompt, prompts.take_event)

A question ends with the person's answer, with a decision that is made elsewhere meanwhile, or with its time. Without
a terminal it is only reported, with the command that answers it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import click

from toolstead.concurrency.owned_tasks import GRACE, cancel_tasks
from toolstead.console.cli.argument_editor import EditError, edit_arguments
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import measure_text
from toolstead.console.cli.group import terminal_width
from toolstead.console.cli.terminal_line import has_terminal, read_line
from toolstead.errors import ApprovalDecidedError, InvalidApprovalError, ToolsteadError
from toolstead.schema.visible import escape_unseen

if TYPE_CHECKING:
    from toolstead.app.approval_client import HttpApprovals, InProcessApprovals
    from toolstead.types.approval import ApprovalDecision

MOST_LINES = 200
"""Lines of arguments that are shown with the question; `v` shows all of longer ones."""

_MINUTE, _HOUR = 60, 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call that waits.

    Attributes:
        id: The approval's id.
        tool: The tool that is to be called.
        input: Its arguments.
        reason: Why a person is asked.
        asked_by: The plugin that asks.
        expires_at: When it is denied unless it was decided before, in seconds since 1970.
    """

    id: str
    tool: str
    input: Mapping[str, Any]
    reason: str
    asked_by: str
    expires_at: float

    @property
    def asker(self) -> str:
        """Who asks, with all of it visible."""
        return escape_unseen(self.asked_by)

    @property
    def why(self) -> str:
        """The reason in one line, with all of it visible."""
        return escape_unseen(" ".join(self.reason.split()))

    @staticmethod
    def of_event(data: Mapping[str, Any]) -> Question:
        """The question of an event `approval.requested`."""
        return Question(
            id=data["approvalId"],
            tool=data["name"],
            input=data["input"],
            reason=data["reason"],
            asked_by=data["plugin"],
            expires_at=data["expiresAt"],
        )

    @staticmethod
    def of_approval(approval: Mapping[str, Any]) -> Question:
        """The question of an approval, as `client.approvals` gives it."""
        return Question(
            id=approval["id"],
            tool=approval["tool"],
            input=approval["input"],
            reason=approval["reason"],
            asked_by=approval["askedBy"],
            expires_at=approval["expiresAt"],
        )


@dataclass(slots=True)
class _Waiting:
    """A question with what became of it.

    Attributes:
        decided: How it was decided, in words, where that was not done here.
        draft: The arguments as they were edited, which may be no JSON yet.
        edited: The arguments that an allowed call gets instead.
        approvals: Where arguments are checked.
    """

    question: Question
    approvals: InProcessApprovals | HttpApprovals
    decided: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    draft: str | None = None
    edited: dict[str, Any] | None = None


class ApprovalPrompts:
    """Questions for the person at this terminal, asked one after another while open."""

    def __init__(
        self,
        approvals: InProcessApprovals | HttpApprovals,
        *,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        takes_interrupt: bool = True,
    ) -> None:
        """Ask nothing yet.

        Args:
            approvals: Where the answers go, `client.approvals`. What waits in its own process is asked by itself.
            around: Entered while a question is shown: what else writes to the terminal pauses there.
            takes_interrupt: Ctrl-C is a no; else it ends the command, and the call waits on.
        """
        self._approvals = approvals
        self._around = around
        self._takes_interrupt = takes_interrupt
        self._known: dict[str, _Waiting] = {}
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._asking: asyncio.Task[None] | None = None
        self._is_deciding = self._is_closed = False
        self._watching = ExitStack()

    async def __aenter__(self) -> Self:
        self._watching.enter_context(self._approvals.watch_own(self.take_event))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.close()
        self._is_closed = True
        if self._asking is not None:
            if self._is_deciding:  # the call goes on at once, and what became of the answer is still to be said
                await asyncio.wait((self._asking,), timeout=GRACE)
            await cancel_tasks((self._asking,))

    def take_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an event of a run, or of this process; others than those of approvals are ignored."""
        if kind == "approval.requested":
            self.add_question(Question.of_event(data))
        elif kind == "approval.resolved":
            self.end_question(data["approvalId"], data["decision"], data["reason"])

    def add_question(self, question: Question) -> None:
        """Ask about a call, after those that wait already; each is asked once."""
        if question.id in self._known:
            return
        self._known[question.id] = waiting = _Waiting(question, self._approvals)
        if not has_terminal():
            text = _describe_wait(question)
            wrapped = _wrap_lines(text, terminal_width() - 1, by_words=True) if sys.stderr.isatty() else [text]
            click.echo("\n".join(wrapped), err=True)
            return
        self._queue.put_nowait(waiting)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all(), name="toolstead-approval-prompt")

    def end_question(self, id: str, decision: str, reason: str) -> None:
        """Take a decision, made here or elsewhere: its question is not asked any more."""
        waiting = self._known.get(id)
        if waiting is not None and not waiting.decided.done():
            waiting.decided.set_result(_describe_decision(decision, reason))

    async def _ask_all(self) -> None:
        while not (self._queue.empty() or self._is_closed):
            waiting = self._queue.get_nowait()
            if waiting.decided.done():
                continue
            with self._around():
                await self._ask(waiting)

    async def _ask(self, waiting: _Waiting) -> None:
        """Ask until there is an answer that is accepted, or none is needed any more."""
        _show_question(waiting.question)
        while (answer := await _wait_for_answer(waiting, takes_interrupt=self._takes_interrupt)) is not None:
            decision, reason = answer
            edited = waiting.edited if decision == "allow" else None
            self._is_deciding = True
            try:
                await self._approvals.decide_approval(waiting.question.id, decision, input=edited, reason=reason)
            except InvalidApprovalError as error:
                waiting.edited = None
                _show_problems(error.problems)
                continue
            except ApprovalDecidedError as error:
                click.echo(f"too late: {_describe_decision(error.decision, error.reason)}", err=True)
            except ToolsteadError as error:
                click.echo(f"the answer was not taken: {escape_unseen(str(error), 'prose')}", err=True)
            else:
                click.echo(paint_text("  allowed" if decision == "allow" else "  denied", "dim"), err=True)
            finally:
                self._is_deciding = False
            return


async def _wait_for_answer(waiting: _Waiting, *, takes_interrupt: bool) -> tuple[ApprovalDecision, str] | None:
    """The person's answer, or None where it comes too late: the question is withdrawn, and that is reported."""
    reading = _read_decision(waiting, takes_interrupt=takes_interrupt)
    asking = asyncio.create_task(reading, name="toolstead-approval-answer")
    left = waiting.question.expires_at - time.time()
    is_late = False
    try:
        await asyncio.wait(
            (asking, waiting.decided),
            timeout=left if left > 0 else None,  # the clock of another machine may be wrong; its server decides
            return_when=asyncio.FIRST_COMPLETED,
        )
        if asking.done():
            return asking.result()
        is_late = True
    finally:
        if not asking.done():
            await cancel_tasks((asking,))
            click.echo("", err=True)  # the line of the question ends here
            if waiting.decided.done():
                click.echo(waiting.decided.result(), err=True)
            elif is_late:
                click.echo("denied: no answer in time", err=True)
    return None


async def _read_decision(waiting: _Waiting, *, takes_interrupt: bool) -> tuple[ApprovalDecision, str]:
    """The person's answer, and the reason given with a no. Edited arguments are kept with the question."""
    while True:
        line = await read_line("Allow? [y/N/e] ", takes_interrupt=takes_interrupt)
        if line is None:
            click.echo("", err=True)
            return "deny", ""
        word, _, rest = line.strip().partition(" ")
        match word.lower():
            case "y" | "yes" if not rest:
                return "allow", ""
            case "" | "n" | "no":
                return "deny", rest.strip()
            case "e" | "edit" if not rest:
                await _edit(waiting)
            case "v" | "view" if not rest:
                _show_call(waiting.question, waiting.edited, most=None)
            case _:
                click.echo(
                    "y allows the call; n denies it, and `n BECAUSE` says why; e edits its arguments first;"
                    " v shows all of them",
                    err=True,
                )


async def _edit(waiting: _Waiting) -> None:
    """Let the person write other arguments, and show them as they would be used."""
    given = waiting.draft or _format_input(waiting.question.input)
    try:
        waiting.draft, edited = await edit_arguments(given, name=waiting.question.tool)
    except EditError as error:
        waiting.draft = error.draft or waiting.draft
        click.echo(f"{paint_text('not taken:', 'bad')} {escape_unseen(str(error), 'prose')}", err=True)
        return
    try:
        problems = await waiting.approvals.find_problems(waiting.question.tool, edited)
    except ToolsteadError:  # the answer is checked again, and what is wrong with the server is said then
        problems = []
    if problems:
        click.echo(paint_text("not taken: the call stays as it was", "bad"), err=True)
        _show_problems(problems)
        return
    waiting.edited = None if edited == waiting.question.input else edited
    _show_call(waiting.question, waiting.edited, most=MOST_LINES)


def _show_problems(problems: Iterable[str]) -> None:
    lines = "\n".join(f"  {escape_unseen(problem, 'prose')}" for problem in problems)
    click.echo(f"{paint_text('these arguments do not fit the tool:', 'bad')}\n{lines}", err=True)


def _show_question(question: Question) -> None:
    left = question.expires_at - time.time()
    question_line = f"{question.asker} asks you to approve a call: {question.why}"
    click.echo(
        "\n".join(_wrap_lines(question_line, terminal_width(), by_words=True)),
        err=True,
    )
    _show_call(question, None, most=MOST_LINES)
    limit = f"; no answer in {describe_seconds(left)} is a no" if left > 0 else ""
    click.echo(paint_text(f"  y allows, n denies, e edits, v shows all of it{limit}", "dim"), err=True)


def _show_call(question: Question, edited: Mapping[str, Any] | None, *, most: int | None) -> None:
    lines = render_call(question.tool, question.input if edited is None else edited)
    click.echo("\n".join(lines[:most]), err=True)
    if most is not None and len(lines) > most:
        click.echo(paint_text(f"  and {len(lines) - most:,} lines more; v shows all", "warning"), err=True)


def render_call(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """A call as it would run, indented: on one line where it fits, else each argument below its name."""
    name = escape_unseen(tool)
    width = terminal_width() - 2
    text = json.dumps(arguments, ensure_ascii=False)
    if measure_text(f"{name} {text}") > width:
        text = _format_input(arguments)
    # Wrapped here: what follows the edge of the screen must not look like a line of ours.
    first, *others = _wrap_lines(f"{name} {escape_unseen(text, 'value')}", width)
    return [f"  {first.replace(name, paint_text(name, 'name'), 1)}", *(f"  {line}" for line in others)]


def _wrap_lines(text: str, width: int, *, by_words: bool = False) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        rest = line.replace("\t", "    ")
        while measure_text(rest) > width:
            cut = width
            while measure_text(rest[:cut]) > width:
                cut -= 1
            if by_words and " " in rest[:cut].strip():
                cut = rest.rindex(" ", 0, cut) + 1
            lines.append(rest[:cut])
            rest = rest[cut:]
        lines.append(rest)
    return lines


def _format_input(input: Mapping[str, Any]) -> str:
    return json.dumps(input, ensure_ascii=False, indent=2)


def _describe_wait(question: Question) -> str:
    """What waits, where no person can be asked."""
    left = question.expires_at - time.time()
    limit = f" {describe_seconds(left)}" if left > 0 else ""
    return (
        f"{escape_unseen(question.tool)} waits{limit} for a person to allow it; {question.asker} asks: {question.why}\n"
        f"  answer: toolstead approvals allow {question.id}\n"
        f"  or:     toolstead approvals deny {question.id}"
    )


def _describe_decision(decision: str, reason: str) -> str:
    word = "allowed" if decision == "allow" else "denied"
    return f"{word}: {escape_unseen(reason)}" if reason else f"{word} by a person elsewhere"


def describe_seconds(seconds: float) -> str:
    """`5 minutes`, rounded up to what a person plans with."""
    for size, noun in ((_HOUR, "hour"), (_MINUTE, "minute"), (1, "second")):
        if seconds > size or size == 1:
            number = max(-int(-seconds // size), 1)
            return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
    raise AssertionError("every number of seconds has a unit")
