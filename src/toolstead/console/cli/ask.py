"""`toolstead ask`: one message to an agent, its answer on stdout as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.invocation import CommandContext, common_options

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient

DONE, SAID_NO = 0, 1


@click.command("ask")
@click.argument("prompt")
@click.option("--runtime", metavar="NAME", help="What drives the model, instead of the settings' choice.")
@click.option("--agent", metavar="NAME", help="Who answers, instead of the settings' choice.")
@click.option("--model", metavar="NAME", help="The model, instead of the settings' choice.")
@click.option("--thread", "thread_id", metavar="ID", help="Go on with this thread; a new one unless given.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it after so long.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole run as JSON.")
@click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
@common_options
@click.pass_obj
def ask(invocation: CommandContext, prompt: str, *, as_json: bool, url: str | None, **given: Any) -> int:
    """Ask an agent. PROMPT is passed on word for word; - reads it from stdin.

    The answer goes to stdout, everything else to stderr. The running server of this project answers;
    without one, this command does. Exit status: 0 answered, 1 it failed, 2 nothing was asked, 130 interrupted.
    """
    prompt = sys.stdin.read() if prompt == "-" else prompt
    if not prompt.strip():
        raise click.UsageError("there is nothing to ask; give a text")
    shown = _Shown(as_json=as_json)

    async def run(client: SteadClient) -> int:
        if client.url is not None:
            shown.asked_at(client.url)
        if given["runtime"] is None and given["model"] is None:
            shown.show_choice(await client.describe_state())
        return shown.show_end(await client.run_agent(prompt, shown.show_event, **given))

    return invocation.run_with_client(url, run)


class _Shown:
    """The answer as it comes."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._said = ""
        self._attempt = 1
        self._whole = False
        self._why: dict[str | None, str] = {}
        self._at = ""

    def asked_at(self, url: str) -> None:
        """Show that a running server answers, not this process."""
        self._at = f"by the server at {url}"

    def show_choice(self, state: Mapping[str, Any]) -> None:
        """Show which runtime was chosen, and why, where neither runtime nor model was named."""
        self._why = {state["runtime"]: f" ({state['runtimeReason']})" if state["runtimeReason"] else ""}

    def show_event(self, kind: str, data: dict[str, Any]) -> None:
        """Show one event of the run."""
        if self._as_json:
            return
        if kind == "run.started":
            runtime, model = data.get("runtime"), f", {data['model']}" if data.get("model") else ""
            why = self._why.get(runtime, "")
            click.echo(f"{data.get('agent')} answers on {runtime}{why}{model}", err=True)
            if self._at:
                click.echo(self._at, err=True)
        elif kind == "message.delta":
            self._show_text(data["text"], data.get("attempt", 1))
        elif kind == "usage":
            self._whole = True  # it is counted when a message is complete
        elif kind == "tool_use":
            self._end_line()
            click.echo(f"· {data['name']} {json.dumps(data['input'], ensure_ascii=False)[:200]}", err=True)
        elif kind == "tool_result" and data["isError"]:
            click.echo(f"· {data['name']} failed: {data['content'][:500]}", err=True)

    def _show_text(self, text: str, attempt: int) -> None:
        if self._whole:
            self._end_line()
        if attempt > self._attempt and self._said:
            self._end_line()
            click.echo("· the answer was cut off; it is sent again", err=True)
        self._attempt = attempt
        self._said += text
        click.echo(text, nl=False)
        sys.stdout.flush()

    def _end_line(self) -> None:
        """Begin another message."""
        if self._said:
            click.echo()
        self._said, self._whole = "", False

    def show_end(self, run: dict[str, Any]) -> int:
        """Show how the run ended; return the exit status."""
        if self._as_json:
            click.echo(json.dumps(run, indent=2, ensure_ascii=False))
        elif run["status"] == "completed":
            result = run["result"] or ""
            # A runtime that counts nothing does not mark where a message ends, so another may stand before the last.
            click.echo("" if self._said.endswith(result) else result.removeprefix(self._said))
            self._show_usage(run)
        else:
            self._end_line()
            why = run["error"]["message"] if run["error"] else "the server stopped before the run ended"
            click.echo(f"toolstead: {run['status']}: {why}", err=True)
        return DONE if run["status"] == "completed" else SAID_NO

    def _show_usage(self, run: dict[str, Any]) -> None:
        used = run["usage"]
        cost = f", ${used['cost']:.4f}" if used["cost"] else ""
        tokens = f"{used['inputTokens']:,} tokens in, {used['outputTokens']:,} out{cost}; "
        click.echo(f"{tokens if used['inputTokens'] or used['outputTokens'] else ''}thread {run['threadId']}", err=True)
