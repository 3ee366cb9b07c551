"""`toolyard mcp`: an MCP server on stdin and stdout."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import click

from toolyard.console.cli.invocation import Invocation, common_options


@click.command("mcp")
@common_options
@click.pass_obj
def mcp(invocation: Invocation) -> int:
    """Be an MCP server on stdin and stdout.

    stdout is the wire; what tools print goes to stderr, and so does the log.
    """
    return invocation.run(_serve(invocation))


async def _serve(invocation: Invocation) -> int:
    async with invocation.yard(watch=True, ask=False) as yard:
        serving = asyncio.ensure_future(yard.serve_stdio())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
    return 0
