"""A run as a person sees it: the answer on stdout as it comes; who answers, tools, waits and failures on stderr.

`ask` and `chat` show their runs with it. On a terminal the answer's markdown is painted, and a line says what is waited
for; into a file or a pipe the answer goes as it is, once it is whole: nothing of a try that broke off.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import shutil
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import click

from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.console.cli.colour import Kind, has_colour
from toolstead.console.cli.columns import fit_text, measure_text
from toolstead.console.cli.group import DONE, FAILED, echo_text
from toolstead.console.cli.markdown_text import MarkdownPainter
from toolstead.console.cli.own_output import find_output
from toolstead.console.cli.status_line import INTERVAL, StatusLine
from toolstead.console.cli.thread_choice import Answerer
from toolstead.console.cli.written_call import find_written_call
from toolstead.schema.visible import escape_unseen

_LONGEST_INPUT = 200
_LONGEST_FAILURE = 500
_SLOW = 1.0
"""Seconds after which the end of a tool gets a line of its own, where its beginning has one already."""
_SOON = 0.5
_LONG = 10.0


class RunOutput:
    """Shows one run.

    Attributes:
        header: Who answers, once the run has begun.
        kinds: The types of all events so far.
    """

    def __init__(
        self,
        *,
        url: str | None,
        answerer: Answerer,
        known_header: str = "",
        shows: bool = True,
        names_thread: bool = True,
        model_option: str = "-m NAME",
    ) -> None:
        """Begin to wait.

        Args:
            url: The running server that answers; None when this process does.
            answerer: Who is to answer, and why.
            known_header: What was shown before of who answers; it is not shown again.
            shows: Whether the run is shown as it goes on.
            names_thread: Whether the end names the thread.
            model_option: What a person types to have another model answer.
        """
        self.header = known_header
        self.kinds = set[str]()
        self._url, self._expected, self._shows, self._names_thread = url, answerer, shows, names_thread
        self._model_option = model_option
        self._status = StatusLine()
        self._answer = _AnswerText(self._status)
        self._answerer = "the model"
        self._tools: dict[str, str] = {}
        self._questions: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._attempt, self._is_whole, self._last_reason = 1, False, ""
        self._held: list[tuple[str, Mapping[str, Any]]] | None = None
        if shows:
            self._status.wait_for(lambda _: "starting")

    @asynccontextmanager
    async def keep_drawing(self) -> AsyncGenerator[None]:
        """Keep the line of what is waited for up to date meanwhile."""

        async def draw_again() -> None:
            while True:
                await asyncio.sleep(INTERVAL)
                self._draw()

        self._draw()  # before anything that keeps the event loop busy
        drawing = asyncio.create_task(draw_again(), name="toolstead-status-line")
        handlers = list(logging.getLogger().handlers)
        for handler in handlers:
            handler.addFilter(self._stand_apart)
        try:
            yield
        finally:
            for handler in handlers:
                handler.removeFilter(self._stand_apart)
            await cancel_tasks((drawing,))
            self._status.stop()

    def _stand_apart(self, _: logging.LogRecord) -> bool:
        """Begin a line of the log on a line of its own, where the answer and the log are on one terminal."""
        if threading.current_thread() is threading.main_thread() and sys.stderr.isatty():
            self._answer.break_line()
        return True

    @contextmanager
    def pause(self) -> Generator[None]:
        """Write nothing meanwhile: another part has the terminal. What happens is shown afterwards."""
        self._answer.break_line()
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for kind, data in held:
                self.show_event(kind, data)

    def show_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Show one event of the run."""
        self.kinds.add(kind)
        if self._held is not None:
            self._held.append((kind, data))
        elif self._shows:
            self._show_event(kind, data)

    def _show_event(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "run.started":
                self._show_start(data)
            case "message.delta":
                self._show_text(data["text"], data.get("attempt", 1))
            case "usage":
                self._is_whole = True  # it is counted when a message is complete
            case "thinking" if "retry" in data:
                self._show_retry(data["retry"])
            case "tool_use":
                self._begin_tool(data)
            case "tool_result":
                self._end_tool(data)
            case "approval.requested":
                self._questions[data["approvalId"]] = data["name"]
                self._wait_on()
            case "approval.resolved":
                self._questions.pop(data["approvalId"], None)
                self._wait_on()
            case "delegate.started" | "delegate.completed" | "delegate.failed":
                self._show_delegate(kind, data)
            case _:
                pass

    def show_end(self, run: Mapping[str, Any]) -> int:
        """Show how the run ended; return the exit status."""
        self._status.stop()
        if run["status"] != "completed":
            self._answer.end_message()
            why = run["error"]["message"] if run["error"] else "the server stopped before the run ended"
            self._show_line(f"toolstead: {run['status']}: {why}", "bad")
            if self._names_thread:
                self._show_line(f"thread {run['threadId']}", "dim")
            return FAILED
        result = run["result"] or ""
        self._answer.show_end(result)
        if (name := find_written_call(result)) is not None:
            call = f"a call of {name}" if name else "a tool call"
            note = f"note: this answer is {call} that the model wrote as text, so nothing was called;"
            self._show_line(f"{note} another model may call tools properly: {self._model_option}", "warning")
        used = run["usage"]
        cost = f", ${used['cost']:.4f}" if used["cost"] else ""
        tokens = f"{used['inputTokens']:,} tokens in, {used['outputTokens']:,} out{cost}"
        thread = f"thread {run['threadId']}" if self._names_thread else ""
        parts = (tokens if used["inputTokens"] or used["outputTokens"] else "", thread)
        if any(parts):
            self._show_line("; ".join(filter(None, parts)), "dim")
        return DONE

    def end_early(self) -> None:
        """End the line that was begun: nothing more comes."""
        self._status.stop()
        self._answer.end_message()

    def _draw(self) -> None:
        if self._held is None:
            self._status.draw(self._answer.find_column())

    def _show_line(self, text: str, kind: Kind) -> None:
        """A line about the run, on stderr."""
        self._answer.break_line()
        if sys.stderr.isatty():
            text = click.wrap_text(text, shutil.get_terminal_size((80, 24)).columns - 1, subsequent_indent="  ")
        echo_text(text, err=True, kind=kind)

    def _show_start(self, data: Mapping[str, Any]) -> None:
        runtime, model = data.get("runtime"), data.get("model")
        model = "" if runtime == "scripted" else model  # a script answers, whichever model it stands for
        reason = self._expected.why if self._expected.runtime == runtime else ""
        header = render_answerer(str(data.get("agent")), runtime, model, reason)
        if header != self.header:
            self.header = header
            self._show_line(header, "dim")
            if self._url is not None:
                self._show_line(f"by the server at {self._url}", "dim")
        self._answerer = model or runtime or self._answerer
        self._wait_on()

    def _wait_on(self) -> None:
        """Wait for a person to approve calls, else for the tools that run, else for the model."""
        tools, asked = ", ".join(self._tools.values()), ", ".join(self._questions.values())
        what = f"running {tools}" if tools else f"waiting for {self._answerer}"
        what = f"waiting for a person to allow {asked}" if asked else what
        if not tools and not sys.stderr.isatty():
            self._status.wait_for(lambda seconds: f"no answer from {self._answerer} for {seconds:.0f} s")
            return
        self._status.wait_for(lambda seconds: f"{what}{_count_wait(seconds)}")

    def _show_text(self, text: str, attempt: int) -> None:
        if attempt > self._attempt:
            self._answer.drop_message()
        elif self._is_whole:
            self._answer.end_message()
        self._is_whole, self._attempt = False, attempt
        self._answer.show_piece(text)
        self._status.note_piece()

    def _show_retry(self, retry: Mapping[str, Any]) -> None:
        attempt, most, seconds = retry["attempt"], retry["attempts"], retry["seconds"] or 0.0
        tries = "" if attempt is None else f"; try {attempt}{'' if most is None else f' of {most}'}"
        wait = f", next in {render_seconds(seconds)}" if seconds else ""
        reason = "again" if retry["reason"] == self._last_reason else retry["reason"]
        self._last_reason = retry["reason"]
        again = "; its answer begins anew" if self._answer.is_begun else ""
        self._show_line(f"· {reason}{tries}{wait}{again}", "warning")

        def describe_wait(passed: float) -> str:
            left = seconds - passed
            if left > _SOON:
                return f"trying again in {left:.0f} s"
            return f"waiting for {self._answerer}{tries}{_count_wait(passed - seconds)}"

        self._status.wait_for(describe_wait)

    def _begin_tool(self, data: Mapping[str, Any]) -> None:
        call = f"{data['name']} {json.dumps(data['input'], ensure_ascii=False)[:_LONGEST_INPUT]}"
        self._tools[data["callId"]] = data["name"]
        self._answer.end_message()
        if self._status.redraws:  # which says that it runs; its end says how long it took
            self._calls[data["callId"]] = call
        else:
            self._show_line(f"· {call}", "dim")
        self._wait_on()

    def _end_tool(self, data: Mapping[str, Any]) -> None:
        self._tools.pop(data["callId"], None)
        call = self._calls.pop(data["callId"], None)
        seconds = data["durationMs"] / 1000
        took = render_seconds(seconds)
        used = json.dumps(data["input"], ensure_ascii=False)[:_LONGEST_INPUT] if "input" in data else ""
        if call is not None:
            call = f"{call} → {used}" if used else call
            took = "not run" if was_refused(data) else took
            room = shutil.get_terminal_size((80, 24)).columns - len(took) - 4
            self._show_line(f"· {fit_text(call, room)}  {took}", "dim")
        elif used and not data["isError"]:
            self._show_line(f"· {data['name']} ran with {used}, took {took}", "dim")
        elif seconds >= _SLOW and not data["isError"]:
            self._show_line(f"· {data['name']} took {took}", "dim")
        if data["isError"]:
            self._show_line(f"· {data['name']} failed: {data['content'][:_LONGEST_FAILURE]}", "bad")
        self._wait_on()

    def _show_delegate(self, kind: str, data: Mapping[str, Any]) -> None:
        agent = data["agentId"]
        if kind == "delegate.started":
            word = "is queued" if data.get("queued") else "begins"
            line = f"· {agent} {word}: {' '.join(data['prompt'].split())}"
            self._show_line(fit_text(line, shutil.get_terminal_size((80, 24)).columns - 1), "dim")
            return
        error = data.get("error")
        why = f": {error['message'][:_LONGEST_FAILURE]}" if error else ""
        took = f" after {render_seconds(data['duration'])}" if "duration" in data else ""
        self._show_line(f"· {agent}: {data['status']}{took}{why}", "dim" if kind == "delegate.completed" else "bad")


class _AnswerText:
    """The answer on stdout: one message after another, with lines of stderr between its own.

    Attributes:
        is_begun: Whether something of the present message was shown.
    """

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._is_terminal = find_output().isatty()
        self._painter = MarkdownPainter() if has_colour(find_output()) else None
        self._text, self._line = "", ""
        self._is_open = self._was_shown = False

    @property
    def is_begun(self) -> bool:
        return bool(self._text)

    def find_column(self) -> int:
        """Where it ends on its line of the terminal."""
        if not self._is_open or not self._line:
            return 0
        return measure_text(self._line) % shutil.get_terminal_size((80, 24)).columns or 1

    def show_piece(self, text: str) -> None:
        """Print a piece of a message."""
        self._text += text
        if not self._is_terminal:
            return
        self._is_open = self._was_shown = True
        if self._painter is None:
            self._print(text)
        else:
            self._print(self._painter.paint_piece(escape_unseen(text, "prose")))

    def break_line(self) -> None:
        """Where both are on one terminal, end the line: another one comes between."""
        self._status.clear()
        if self._is_terminal and self._is_open:
            self._end_line()

    def end_message(self) -> None:
        """End the message; another one may follow. One that is not the answer is no part of what a pipe gets."""
        self._status.clear()
        if self._is_open:
            self._end_line()
        elif self._text.strip():
            echo_text(self._text, err=True, kind="dim")
        self._text = ""

    def drop_message(self) -> None:
        """The message broke off, and begins anew."""
        if not self._is_terminal:
            self._text = ""
        self.end_message()

    def show_end(self, result: str) -> None:
        """Print what is missing of the last message, and end it."""
        # A runtime that counts nothing does not mark where a message ends, so another may stand before the last.
        if not self._is_terminal:
            self._status.clear()
            echo_text(result)
            self._text = ""
            return
        rest = "" if self._text.endswith(result) else result.removeprefix(self._text)
        if rest or not self._was_shown:
            self.show_piece(rest)
        self.end_message()

    def _end_line(self) -> None:
        if self._painter is not None:
            self._print(self._painter.paint_rest())
        click.echo()
        self._is_open, self._line = False, ""

    def _print(self, text: str) -> None:
        self._status.clear()
        if self._painter is None:
            echo_text(text, nl=False)
        else:
            click.echo(text, nl=False)
        find_output().flush()
        if self._is_terminal:
            self._line = click.unstyle(f"{self._line}{text}".rpartition("\n")[2])


def render_answerer(agent: str, runtime: str | None, model: str | None, why: str) -> str:
    """Who answers, in a line."""
    reason = f" ({why})" if why and why != "named here" else ""
    return f"{agent} answers on {runtime}{reason}{f', {model}' if model else ''}"


def was_refused(data: Mapping[str, Any]) -> bool:
    """Whether a `tool_result` is of a call that a person or a gate refused, so that no time says anything."""
    return bool(data["isError"]) and str(data["content"]).startswith(f"{data['name']} was refused: ")


def _count_wait(seconds: float) -> str:
    """How long it took up to now, and what can be done about it when that is long."""
    if seconds < 1:
        return ""
    return f", {seconds:.0f} s{'; Ctrl-C ends it' if seconds >= _LONG else ''}"


def render_seconds(seconds: float) -> str:
    """`0.3 s`, `4 s`: rounded up, as a wait is never shorter than it says."""
    return f"{math.ceil(seconds * 10) / 10:.1f} s" if seconds < 1 else f"{math.ceil(seconds)} s"
