"""`toolstead mcp`: an MCP server on stdin and stdout."""

from __future__ import annotations

from dataclasses import replace

import click

from toolstead.console.cli.group import common_options, examples, file_argument, log_format_option
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.log_lines import LogFormat
from toolstead.console.cli.stdio import serve


@click.command(
    "mcp",
    epilog=examples("toolstead mcp --project ~/shop", "toolstead mcp my_tools.py", "toolstead mcp --profile readonly"),
)
@click.option("--profile", metavar="NAME", help="Offer only the tools of this profile, as [profiles.NAME] says.")
@click.option("--no-fast-path", is_flag=True, help="Leave every message to the MCP SDK.")
@log_format_option
@common_options
@file_argument
def mcp(invocation: CommandContext, profile: str | None, no_fast_path: bool, log_format: LogFormat | None) -> int:
    """Serve MCP on stdin and stdout.

    stdout is the wire; what tools print goes to stderr, and so does the log. With FILE.py, serve the tools and
    plugins of that Python file alone.
    """
    return serve(replace(invocation, profile=profile, log_format=log_format), fast_path=not no_fast_path)
