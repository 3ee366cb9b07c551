"""`toolyard ask`: one message to an agent, its answer on stdout as it comes."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from toolyard.console.cli.invocation import Invocation, common_options

if TYPE_CHECKING:
    from toolyard.console.cli.remote import Remote

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
def ask(invocation: Invocation, prompt: str, *, as_json: bool, url: str | None, **given: Any) -> int:
    """Ask an agent. PROMPT is passed on word for word; - reads it from stdin.

    The answer goes to stdout, everything else to stderr. The running server of this project answers;
    without one, this command does. Exit status: 0 answered, 1 it failed, 130 interrupted.
    """
    from toolyard.console.cli.remote import find_server

    prompt = sys.stdin.read() if prompt == "-" else prompt
    if not prompt.strip():
        raise click.UsageError("there is nothing to ask; give a text")
    shown = _Shown(as_json=as_json)
    server = find_server(invocation, url)
    if server is not None:
        return _by_server(server, prompt, given, shown)
    return invocation.run(_here(invocation, prompt, given, shown), level=logging.ERROR)


class _Shown:
    """The answer as it comes."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._said = ""

    def event(self, kind: str, data: dict[str, Any]) -> None:
        """Show one event of the run."""
        if self._as_json:
            return
        if kind == "run.started":
            model = f", model {data['model']}" if data.get("model") else ""
            click.echo(f"{data.get('agent')} answers on {data.get('runtime')}{model}", err=True)
        elif kind == "message.delta":
            self._said += data["text"]
            click.echo(data["text"], nl=False)
            sys.stdout.flush()
        elif kind == "tool_use":
            click.echo(f"· {data['name']} {json.dumps(data['input'], ensure_ascii=False)[:200]}", err=True)
        elif kind == "tool_result" and data["isError"]:
            click.echo(f"· {data['name']} failed: {data['content'][:500]}", err=True)

    def end(self, run: dict[str, Any]) -> int:
        """Show how it ended; the exit status."""
        if self._as_json:
            click.echo(json.dumps(run, indent=2, ensure_ascii=False))
        elif run["status"] == "completed":
            rest = (run["result"] or "").removeprefix(self._said) if self._said else run["result"] or ""
            click.echo(rest if not self._said or rest else "")
            self._spent(run)
        else:
            if self._said:
                click.echo()
            why = run["error"]["message"] if run["error"] else "the server went before its end"
            click.echo(f"toolyard: {run['status']}: {why}", err=True)
        return DONE if run["status"] == "completed" else SAID_NO

    def _spent(self, run: dict[str, Any]) -> None:
        used = run["usage"]
        cost = f", ${used['cost']:.4f}" if used["cost"] else ""
        tokens = f"{used['inputTokens']:,} tokens in, {used['outputTokens']:,} out{cost}; "
        click.echo(f"{tokens if used['inputTokens'] or used['outputTokens'] else ''}thread {run['threadId']}", err=True)


def _by_server(server: Remote, prompt: str, given: dict[str, Any], shown: _Shown) -> int:
    body = {"prompt": prompt, "threadId": given.pop("thread_id"), **given}
    run = server.ask("POST", "/api/runs", {key: value for key, value in body.items() if value is not None})
    try:
        for event in server.events(f"/api/runs/{run['runId']}/events"):
            shown.event(event["type"], event["data"])
    except KeyboardInterrupt:
        server.ask("POST", f"/api/runs/{run['runId']}/cancel", {})
        raise
    return shown.end(server.ask("GET", f"/api/runs/{run['runId']}"))


async def _here(invocation: Invocation, prompt: str, given: dict[str, Any], shown: _Shown) -> int:
    async with invocation.yard() as yard:
        run = await yard.invoke(prompt, on_message=lambda event: shown.event(event.type, dict(event.data)), **given)
    return shown.end(run.to_json())
