"""`toolstead serve`: REST and MCP over HTTP."""

from __future__ import annotations

import click

from toolstead.app.server_file import ServerAddress
from toolstead.console.cli.group import common_options, count_noun, examples, file_argument
from toolstead.console.cli.invocation import CommandContext, collect_seldom
from toolstead.errors import PortTakenError

MOST_PROFILES = 10
"""Profiles whose addresses are shown at the start."""


@click.command(
    "serve",
    epilog=examples(
        "toolstead serve --port 9000",
        "toolstead serve my_tools.py",
    ),
)
@click.option("--host", metavar="HOST", help="The address to bind; not loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="The port; 0 picks a free one.")
@click.option("--dev", is_flag=True, help="Trust this project, and every change of it while this runs: for authors.")
@click.option("--no-fast-path", is_flag=True, help="Leave every MCP message to the MCP SDK.")
@common_options
@file_argument
def serve(invocation: CommandContext, host: str | None, port: int | None, dev: bool, no_fast_path: bool) -> int:
    """Serve the tools over HTTP: REST at /api, MCP at /mcp, the documentation at /docs.

    With FILE.py, serve the tools and plugins of that Python file alone.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for every platform
        new_event_loop = None
    return invocation.run_server(
        _serve(invocation, host, port, dev=dev, fast_path=not no_fast_path), loop_factory=new_event_loop
    )


async def _serve(invocation: CommandContext, host: str | None, port: int | None, *, dev: bool, fast_path: bool) -> int:
    async with invocation.make_stead(watch=True, follow=dev) as stead:
        what = stead.places.project if invocation.file is None else invocation.file
        profiles = list(stead.loaded.settings.profiles)

        def print_address(address: ServerAddress) -> None:
            url, key = address.url, f"?token={address.new_token}" if address.new_token else ""
            lines = [
                f"toolstead serves {count_noun(stead.registry.get_tool_count(), 'tool')} of {what}",
                f"  REST  {url}/api/tools",
                f"  MCP   {url}/mcp",
                *(f"  MCP   {url}/mcp/{name}" for name in profiles[:MOST_PROFILES]),
                f"  docs  {url}/docs{key}",
            ]
            if address.new_token:
                lines.append(f"  token {address.new_token}")
            click.echo("\n".join(lines), err=True)
            collect_seldom()

        try:
            await stead.serve_http(host=host, port=port, on_ready=print_address, fast_path=fast_path)
        except PortTakenError as error:
            raise PortTakenError(error.taken, free="--port 0") from None
    return 0
