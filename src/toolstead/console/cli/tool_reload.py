"""`toolstead tools reload`: by the running server of this project, or in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.invocation import CommandContext, common_options

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient


@click.command("reload")
@click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@common_options
@click.pass_obj
def reload_tools(invocation: CommandContext, url: str | None, as_json: bool) -> int:
    """Read every tool file again, and show what changed."""

    async def reload_at(client: SteadClient) -> dict[str, Any]:
        answer = await client.reload_tools()
        if client.url is not None:
            click.echo(f"reloaded by the server at {client.url}", err=True)
            return answer
        if client.lost_server is not None:
            click.echo(f"the server at {client.lost_server} does not answer any more", err=True)
        click.echo("no server runs for this project; the files were read by this command only", err=True)
        return answer

    answer = invocation.run_with_client(url, reload_at)
    _print_answer(answer, as_json=as_json)
    return 0 if answer["success"] else 1


def _print_answer(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for word in ("added", "removed", "changed"):
        for name in answer[word]:
            click.echo(f"{word}  {name}")
            for change in answer.get("schemaChanges", {}).get(name, ()):
                mark = "breaks callers" if change["breaking"] else "harmless"
                click.echo(f"         {change['pointer']}: {change['change']} ({mark})")
    for error in answer["errors"]:
        place = f"{error['source']}:{error['line']}:{error['column']}" if "line" in error else error["source"]
        tool = f"tool {error['toolName']!r}: " if "toolName" in error else ""
        click.echo(f"{place}: {tool}{error['message']}")
    click.echo(f"{answer['toolCount']} tools", err=True)
