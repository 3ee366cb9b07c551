"""Lets a person at the terminal write the arguments of a call: in their editor, or on a line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import termios
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import click

from toolstead.concurrency.termination import take_signals
from toolstead.console.cli.terminal_line import read_line
from toolstead.errors import SettingsError

PATIENCE = 5.0
"""Seconds that an editor has to end once its text is not wanted any more."""


class EditError(Exception):
    """What was written is no object of arguments.

    Attributes:
        draft: The text as it was written, to go on with.
    """

    def __init__(self, message: str, draft: str = "") -> None:
        self.draft = draft
        super().__init__(message)


async def edit_arguments(text: str, *, name: str) -> tuple[str, dict[str, Any]]:
    """The text that the person made of `text`, and the arguments in it.

    Raises:
        EditError: It is no JSON object, or nothing was written.
    """
    draft = await _write_text(text, name)
    try:
        value: Any = json.loads(draft, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise EditError(f"not valid JSON: {error}", draft) from None
    if not isinstance(value, dict):
        raise EditError(f"the arguments are a JSON object, {{…}}, not {type(value).__name__}", draft)
    return draft, cast("dict[str, Any]", value)


async def _write_text(text: str, name: str) -> str:
    from toolstead.app.authoring import find_editor

    try:
        editor = find_editor(at_terminal=False)
    except SettingsError as error:
        click.echo(str(error), err=True)
        editor = None
    if editor is not None:
        return await _run_editor(editor, text, name)
    line = await read_line("The arguments as JSON, on one line (set EDITOR for an editor): ")
    if line is None or not line.strip():
        raise EditError("nothing was written, so the arguments are as they were")
    return line


async def _run_editor(editor: list[str], text: str, name: str) -> str:
    """Open the text in the editor, and return what it holds when the editor is closed."""
    fd = sys.stdin.fileno()
    with TemporaryDirectory(prefix="toolstead-") as folder:  # private to the user
        path = Path(folder) / f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:60]}.json"
        path.write_text(f"{text}\n", encoding="utf-8")
        before = termios.tcgetattr(fd)
        with take_signals(lambda: None, (signal.SIGINT,)):  # Ctrl-C is for the editor
            try:
                process = await asyncio.create_subprocess_exec(*editor, str(path), stdout=sys.stderr.fileno())
            except OSError as error:
                raise EditError(f"{editor[0]} cannot be started: {os.strerror(error.errno or 0)}") from None
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                with suppress(ProcessLookupError):
                    process.terminate()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await process.wait()
                raise
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                termios.tcsetattr(fd, termios.TCSADRAIN, before)
        if status:
            raise EditError(f"{editor[0]} ended with status {status}, so the arguments are as they were")
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EditError(f"what {editor[0]} wrote cannot be read: {error}") from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
