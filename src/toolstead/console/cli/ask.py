"""`toolstead ask`: one message to an agent, its answer on stdout as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from toolstead.app.client import SteadClient
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    echo_json,
    echo_text,
    examples,
    run_with_client,
    url_option,
)
from toolstead.console.cli.invocation import CommandContext


@click.command(
    "ask",
    epilog=examples(
        'toolstead ask "what changed here?"',
        "toolstead ask - < question.txt",
        "toolstead ask --model ollama:llama3.2 hello",
    ),
)
@click.argument("prompt")
@click.option("--runtime", metavar="NAME", help="What drives the model, instead of the settings' choice.")
@click.option("--agent", metavar="NAME", help="Who answers, instead of the settings' choice.")
@click.option("--model", metavar="NAME", help="The model, instead of the settings' choice.")
@click.option("--thread", "thread_id", metavar="ID", help="Go on with this thread; a new one unless given.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it after so long.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole run as JSON.")
@url_option
@common_options
def ask(invocation: CommandContext, *, prompt: str, as_json: bool, url: str | None, **given: Any) -> int:
    """Ask an agent. PROMPT is passed on word for word; - reads it from stdin.

    The answer goes to stdout, everything else to stderr. The running server of this project answers;
    without one, this command does. Exit status: 0 answered, 1 it failed, 2 nothing was asked, 130 interrupted.
    """
    prompt = sys.stdin.read() if prompt == "-" else prompt
    if not prompt.strip():
        raise click.UsageError("there is nothing to ask; give a text")

    async def ask_agent(client: SteadClient) -> int:
        was_chosen = given["runtime"] is None and given["model"] is None
        shown = _Shown(as_json=as_json, url=client.url, state=await client.describe_state() if was_chosen else {})
        run = await client.run_agent(prompt, shown.show_event, **given)
        status = shown.show_end(run)
        if "delegate.started" in shown.kinds:
            await _mention_open_tasks(client, run["threadId"])
        return status

    return run_with_client(invocation, url, ask_agent)


async def _mention_open_tasks(client: SteadClient, thread_id: str) -> None:
    """Say that delegated work goes on after the answer, and where."""
    number = len(await client.tasks.list_tasks(thread=thread_id, is_open=True))
    if number:
        who = "the server" if client.url is not None else "`toolstead serve`"
        tasks = "1 delegated task is" if number == 1 else f"{number} delegated tasks are"
        click.echo(f"{tasks} still open; {who} goes on with it: `toolstead tasks watch`", err=True)


@dataclass(slots=True, kw_only=True)
class _Shown:
    """The answer as it comes.

    Attributes:
        as_json: Only the whole run is shown, at its end.
        url: The running server that answers; None when this process does.
        state: Which runtime was chosen, and why, where neither runtime nor model was named.
        kinds: The types of all events so far.
    """

    as_json: bool
    url: str | None
    state: Mapping[str, Any]
    kinds: set[str] = field(default_factory=set[str])
    _shown: str = ""
    _attempt: int = 1
    _whole: bool = False

    def show_event(self, kind: str, data: dict[str, Any]) -> None:
        """Show one event of the run."""
        self.kinds.add(kind)
        if self.as_json:
            return
        if kind == "run.started":
            runtime, model = data.get("runtime"), f", {data['model']}" if data.get("model") else ""
            reason = self.state.get("runtimeReason") if self.state.get("runtime") == runtime else None
            why = f" ({reason})" if reason else ""
            echo_text(f"{data.get('agent')} answers on {runtime}{why}{model}", err=True)
            if self.url is not None:
                click.echo(f"by the server at {self.url}", err=True)
        elif kind == "message.delta":
            self._show_text(data["text"], data.get("attempt", 1))
        elif kind == "usage":
            self._whole = True  # it is counted when a message is complete
        elif kind == "tool_use":
            self._end_line()
            echo_text(f"· {data['name']} {json.dumps(data['input'], ensure_ascii=False)[:200]}", err=True)
        elif kind == "tool_result" and data["isError"]:
            echo_text(f"· {data['name']} failed: {data['content'][:500]}", err=True)

    def _show_text(self, text: str, attempt: int) -> None:
        if self._whole:
            self._end_line()
        if attempt > self._attempt and self._shown:
            self._end_line()
            click.echo("· the answer was cut off; it is sent again", err=True)
        self._attempt = attempt
        self._shown += text
        echo_text(text, nl=False)
        sys.stdout.flush()

    def _end_line(self) -> None:
        """Begin another message."""
        if self._shown:
            click.echo()
        self._shown, self._whole = "", False

    def show_end(self, run: dict[str, Any]) -> int:
        """Show how the run ended; return the exit status."""
        if self.as_json:
            echo_json(run)
        elif run["status"] == "completed":
            result = run["result"] or ""
            # A runtime that counts nothing does not mark where a message ends, so another may stand before the last.
            echo_text("" if self._shown.endswith(result) else result.removeprefix(self._shown))
            self._show_usage(run)
        else:
            self._end_line()
            why = run["error"]["message"] if run["error"] else "the server stopped before the run ended"
            echo_text(f"toolstead: {run['status']}: {why}", err=True)
        return DONE if run["status"] == "completed" else FAILED

    def _show_usage(self, run: dict[str, Any]) -> None:
        used = run["usage"]
        cost = f", ${used['cost']:.4f}" if used["cost"] else ""
        tokens = f"{used['inputTokens']:,} tokens in, {used['outputTokens']:,} out{cost}; "
        click.echo(f"{tokens if used['inputTokens'] or used['outputTokens'] else ''}thread {run['threadId']}", err=True)
