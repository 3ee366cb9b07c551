"""`toolstead serve`: REST and MCP over HTTP."""

from __future__ import annotations

import io
import logging
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from toolstead.app.server_file import ServerAddress
from toolstead.app.stead import Toolstead
from toolstead.console.cli.group import (
    WholeNumber,
    common_options,
    count_noun,
    examples,
    file_argument,
    log_format_option,
)
from toolstead.console.cli.invocation import CommandContext, collect_seldom
from toolstead.console.cli.log_lines import LogFormat
from toolstead.errors import PortTakenError

logger = logging.getLogger(__name__)

_SERVER_LOG = "toolstead.adapters.http.server"
MOST_PROFILES = 10
"""Profiles whose addresses are shown at the start."""


@click.command(
    "serve",
    epilog=examples(
        "toolstead serve --port 8421",
        "toolstead serve my_tools.py",
        "TOOLSTEAD_TOKEN=$(openssl rand -hex 24) toolstead serve --host 0.0.0.0 -v",
        "toolstead serve --log-format json",
    ),
)
@click.option("--host", metavar="HOST", help="The address to bind; not loopback needs a token.")
@click.option("--port", type=WholeNumber(0, 65_535), metavar="N", help="The port; 0 picks a free one.")
@click.option("--dev", is_flag=True, help="Trust this project, and every change of it while this runs: for authors.")
@click.option("--no-fast-path", is_flag=True, help="Leave every MCP message to the MCP SDK.")
@log_format_option
@common_options
@file_argument
def serve(
    invocation: CommandContext,
    *,
    host: str | None,
    port: int | None,
    dev: bool,
    no_fast_path: bool,
    log_format: LogFormat | None,
) -> int:
    """Serve the tools over HTTP: the console at /, REST at /api, MCP at /mcp, the documentation at /docs.

    The address of the console that a terminal shows has the rights of this server's owner: keep it to yourself.
    With FILE.py, serve the tools and plugins of that Python file alone. The log goes to stderr; with -v it has a line
    for each call. Probes ask /livez and /readyz, Prometheus /metrics.
    """
    for stream in (sys.stdout, sys.__stdout__):
        if isinstance(stream, io.TextIOWrapper):  # what tools print is read while this runs, in a file too
            stream.reconfigure(line_buffering=True)
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for every platform
        new_event_loop = None
    invocation = replace(invocation, log_format=log_format or "text")
    return invocation.run_server(
        _serve(invocation, host, port, dev=dev, fast_path=not no_fast_path), loop_factory=new_event_loop
    )


async def _serve(invocation: CommandContext, host: str | None, port: int | None, *, dev: bool, fast_path: bool) -> int:
    served = False
    async with invocation.make_stead(watch=True, follow=dev) as stead:
        what = str(stead.places.project if invocation.file is None else invocation.file)

        def announce(address: ServerAddress) -> None:
            nonlocal served
            served = True
            for name in (__name__, _SERVER_LOG):  # a log says whatever its level when a server began and ended
                logging.getLogger(name).setLevel(min(logging.INFO, logger.getEffectiveLevel()))
            if invocation.log_format == "json":
                _log_address(stead, address, what)
            else:
                lines = _describe_server(stead, address, what, serves_file=invocation.file is not None)
                click.echo("\n".join(lines), err=True)
            collect_seldom()

        try:
            await stead.serve_http(host=host, port=port, on_ready=announce, fast_path=fast_path)
        except PortTakenError as error:
            raise PortTakenError(error.taken, free="--port 0") from None
    if served:
        logger.info("stopped")
    return 0


def _describe_server(stead: Toolstead, address: ServerAddress, what: str, *, serves_file: bool) -> list[str]:
    """Where the server is, and on a terminal what to do with it."""
    url = address.shared_url or address.url
    is_terminal = sys.stderr.isatty()
    key = f"?token={address.new_token}" if address.new_token and is_terminal else ""
    lines = [
        f"toolstead serves {count_noun(stead.registry.get_tool_count(), 'tool')} of {what}",
        f"  console  {address.describe_console(is_terminal=is_terminal)}",
        f"  REST     {url}/api/tools",
        f"  MCP      {url}/mcp",
        *_describe_profiles(stead, address, url),
        f"  docs     {url}/docs{key}",
    ]
    if stead.loaded.settings.server.public_url:
        lines.append(f"Its proxy reaches it at {address.url}")
    if address.new_token:
        lines.append(f"  token    {address.describe_token(is_terminal=is_terminal)}")
    connect = f"connect claude-code --url {url}/mcp"
    if address.needs_token:
        connect += " --token-env TOOLSTEAD_TOKEN"
    if address.shared_url is not None:
        lines += ["A team-mate types, with the token in TOOLSTEAD_TOKEN:", f"  toolstead {connect}"]
    if is_terminal:
        command = _find_command()
        lines.append("In another terminal:")
        if serves_file:  # it is not the server of this project, which `tools` would ask
            first = next(iter(stead.registry.list_tools()), None)
            lines.append(f"  {command} tools list --url {url}")
            lines += [] if first is None else [f"  {command} tools call {first.name} --url {url}"]
        else:
            lines.append(f"  {command} tools list")
        if address.shared_url is None:
            lines.append(f"  {command} {connect}")
        if command != "toolstead":
            lines.append("(`make install` puts `toolstead` on your PATH.)")
        lines.append("Ctrl-C stops it.")
    return lines


def _describe_profiles(stead: Toolstead, address: ServerAddress, url: str) -> Iterator[str]:
    """The addresses of the profiles; one that no client can open says what it lacks."""
    settings = stead.loaded.settings
    for name, profile in list(settings.profiles.items())[:MOST_PROFILES]:
        opens = not address.needs_token or settings.server.token or profile.token
        opens = opens or (profile.scope and settings.server.oauth.issuer)
        note = "" if opens else f"  (closed to clients: set profiles.{name}.token or server.token)"
        yield f"  MCP      {url}/mcp/{name}{note}"


def _log_address(stead: Toolstead, address: ServerAddress, what: str) -> None:
    """The same for a log that programs read: one line, whatever the level."""
    about = {
        "tools": stead.registry.get_tool_count(),
        "project": what,
        "url": address.shared_url or address.url,
        "console": address.describe_console(is_terminal=False),
        **({"bound": address.url} if stead.loaded.settings.server.public_url else {}),
        **({"token": address.describe_token(is_terminal=False)} if address.new_token else {}),
    }
    logger.info("serving %s tools at %s", about["tools"], about["url"], extra={"about": about})


def _find_command() -> str:
    """How this program is called from here."""
    if shutil.which("toolstead"):
        return "toolstead"
    script = Path(sys.argv[0])
    if script.name != "toolstead":
        return f"{shlex.quote(sys.executable)} -m toolstead"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))
