"""`toolstead tools reload`: by the running server of this project, or in this process."""

from __future__ import annotations

import json
import logging
from typing import Any, cast

import click

from toolstead.console.cli.invocation import Invocation, common_options
from toolstead.errors import ServeError

_ANSWERED = frozenset({"success", "toolCount", "errors", "added", "removed", "changed"})


@click.command("reload")
@click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@common_options
@click.pass_obj
def reload_tools(invocation: Invocation, url: str | None, as_json: bool) -> int:
    """Read every tool file anew, and say what changed."""
    from toolstead.app.server_file import ServerFile

    places = invocation.places()
    servers = ServerFile(places.data)
    server = servers.find(places.project) if url is None else servers.find_url(url)
    answer: dict[str, Any] | None = None
    if url is not None:
        # The token of one server is nobody else's business: another address gets what the settings say, or none.
        own = invocation.load().settings.server.token
        token = server.token if server is not None else own if own != "auto" else ""
        answer = _ask(url, token)
        if answer is None:
            raise ServeError(f"{url} cannot be reached: nobody listens there")
        click.echo(f"reloaded by the server at {url}", err=True)
    elif server is not None:
        answer = _ask(server.url, server.token)
        said = f"reloaded by the server at {server.url}"
        click.echo(said if answer else f"the server at {server.url} does not answer any more", err=True)
    if answer is None:
        answer = invocation.run(_here(invocation), level=logging.ERROR)
        click.echo("no server runs for this project; the files were read by this command only", err=True)
    _print(answer, as_json=as_json)
    return 0 if answer["success"] else 1


async def _here(invocation: Invocation) -> dict[str, Any]:
    async with invocation.stead() as stead:
        return (await stead.registry.reload_plugins()).to_json()


def _ask(server: str, token: str) -> dict[str, Any] | None:
    """Let a server reload; None when nobody listens there.

    Raises:
        ServeError: It cannot be asked, or said no.
    """
    from toolstead.console.cli.remote import NobodyListensError, Remote

    try:
        answer = Remote(server, token).ask("POST", "/api/tools/reload", {})
    except NobodyListensError:
        return None
    if not isinstance(answer, dict) or not _ANSWERED.issubset(cast("dict[str, Any]", answer)):
        raise ServeError(f"{server} answered, but not as a Toolstead server does")
    return cast("dict[str, Any]", answer)


def _print(answer: dict[str, Any], *, as_json: bool) -> None:
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
