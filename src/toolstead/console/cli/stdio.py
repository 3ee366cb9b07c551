"""The server behind `toolstead mcp`, and the simple command lines that start it without click."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.concurrency.termination import take_signals
from toolstead.console.cli.invocation import CommandContext, collect_seldom

if TYPE_CHECKING:
    from toolstead.console.cli.log_lines import LogFormat


def serve(invocation: CommandContext, *, fast_path: bool = True) -> int:
    """Serve MCP on stdin and stdout until the client leaves.

    Args:
        invocation: The common options.
        fast_path: Answer plain messages without the SDK.
    """
    invocation = replace(invocation, log_format=invocation.log_format or "text")
    return invocation.run_server(_serve(invocation, fast_path=fast_path))


def plainly_asked(words: Sequence[str]) -> CommandContext | None:
    """What `toolstead … mcp …` was asked, where click would surely understand the same; None leaves it to click.

    Known are `mcp`, `--project` with a folder that can be read, `--set` and `-v`, before the command and after it,
    `--profile` and `--log-format` and a file `….py` after it. Anything else, and whatever click might refuse, is none
    of these.
    """
    project: Path | None = None
    overrides: list[str] = []
    verbose, verbose_before, asked, profile, file = 0, 0, False, None, None
    log_format: LogFormat | None = None
    rest = iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if word == "mcp" and not asked:
            asked, verbose_before, verbose = True, verbose, 0
        elif word in ("-v", "--verbose"):
            verbose += 1
        elif name == "--log-format" and asked:
            text = value if given else next(rest, "")
            if text not in ("text", "json"):
                return None
            log_format = text
        elif name in ("--project", "--set") or (name == "--profile" and asked):
            text = value if given else next(rest, "-")
            if not text or text.startswith("-") or (name == "--project" and not os.access(text, os.R_OK)):
                return None
            if name == "--set":
                overrides.append(text)
            elif name == "--profile":
                profile = text
            else:
                project = Path(text)
        elif asked and file is None and word.endswith(".py") and not word.startswith("-"):
            file = Path(word)
        else:
            return None
    found = CommandContext(
        project=project,
        overrides=tuple(overrides),
        verbose=max(verbose, verbose_before),
        profile=profile,
        log_format=log_format,
        file=file,
    )
    return found if asked else None


async def _serve(invocation: CommandContext, *, fast_path: bool) -> int:
    async with invocation.make_stead(watch=True, ask=False) as stead:
        collect_seldom()
        serving = asyncio.ensure_future(stead.serve_stdio(fast_path=fast_path, profile=invocation.profile))
        with take_signals(serving.cancel), suppress(asyncio.CancelledError):
            await serving
    return 0
