"""`toolyard tools reload`: by the running server of this project, or in this process."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from typing import Any

import click

from toolyard.console.cli.invocation import Invocation, common_options
from toolyard.errors import ServeError


@click.command("reload")
@click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@common_options
@click.pass_obj
def reload_tools(invocation: Invocation, url: str | None, as_json: bool) -> int:
    """Read every tool file anew, and say what changed."""
    from toolyard.app.server_file import ServerFile

    places = invocation.places()
    server = ServerFile(places.data).find(places.project)
    if url is not None or server is not None:
        address = url or (server.url if server else "")
        token = server.token if server is not None else invocation.load().settings.server.token
        answer = _ask(f"{address.rstrip('/')}/api/tools/reload", token)
        click.echo(f"reloaded by the server at {address}", err=True)
    else:
        answer = invocation.run(_here(invocation), level=logging.ERROR)
        click.echo("no server runs for this project; the files were read by this command only", err=True)
    _print(answer, as_json=as_json)
    return 0 if answer["success"] else 1


async def _here(invocation: Invocation) -> dict[str, Any]:
    async with invocation.yard() as yard:
        return (await yard.registry.reload_plugins()).to_json()


def _ask(address: str, token: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    if not address.startswith(("http://", "https://")):
        raise ServeError(f"{address}: an address begins with http:// or https://")
    request = urllib.request.Request(address, data=b"{}", headers=headers, method="POST")  # noqa: S310 - checked above
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        detail = error.read(2_000).decode("utf-8", "replace")
        raise ServeError(f"{address} answered {error.code}: {detail}") from None
    except OSError as error:
        raise ServeError(f"{address} cannot be reached: {error}") from None


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
