"""What a tool answered, in a terminal: its text, files of what is no text, and progress while it works."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from toolstead.console.cli.columns import fit_text
from toolstead.console.cli.group import DONE, WRONG_USAGE, terminal_width

Part = Mapping[str, Any]


def print_content(content: Sequence[Part], *, is_error: bool = False, written: bool = False) -> None:
    """Print the texts of a result; what is no text is named on stderr.

    Args:
        content: The parts of the result, as JSON.
        is_error: The tool failed, so that its text goes to stderr.
        written: What is no text was written into a file.
    """
    for part in content:
        text = _find_text(part)
        if text is not None:
            click.echo(text, err=is_error, nl=not text.endswith("\n"))
        elif part["type"] == "resource_link":
            click.echo(part["uri"], err=is_error)
        elif not written:
            kind, data = _find_data(part)
            click.echo(f"[{kind}, {len(data):,} bytes: --output FILE writes it]", err=True)


def check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written before anything is called.

    Raises:
        click.UsageError: It is a folder, or in no folder.
    """
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        why = "that is a folder" if output.is_dir() else f"there is no folder {output.parent}"
        raise click.UsageError(f"--output {output}: {why}; name a file that can be written")


def write_output(content: Sequence[Part], output: Path) -> int:
    """Write the first part that is no text into a file, or else the whole text; give the exit status."""
    binary = [_find_data(part) for part in content if _find_text(part) is None and part["type"] != "resource_link"]
    kind, data = binary[0] if binary else ("text", "\n".join(filter(None, map(_find_text, content))).encode())
    try:
        output.write_bytes(data)
    except OSError as error:
        click.echo(f"--output {output}: {error.strerror or error}; name a file that can be written", err=True)
        return WRONG_USAGE
    more = f"; {len(binary) - 1} more in --json" if len(binary) > 1 else ""
    click.echo(f"{output}: {kind}, {len(data):,} bytes{more}", err=True)
    return DONE


class ProgressLine:
    """How far a tool is, in the last line of a terminal; nothing where stderr is none."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._is_shown = False

    async def show_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Replace the line."""
        if not self._is_seen:
            return
        far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        line = fit_text(f"{far}: {message}" if message else far, terminal_width() - 1)
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
        self._is_shown = False


def _find_text(part: Part) -> str | None:
    if part["type"] == "text":
        return part["text"]
    return part["resource"].get("text") if part["type"] == "resource" else None


def _find_data(part: Part) -> tuple[str, bytes]:
    """The media type and the bytes of a part that is no text."""
    held: Part = part["resource"] if part["type"] == "resource" else part
    data = base64.b64decode(held.get("blob") or held.get("data") or "")
    return held.get("mimeType") or part["type"], data
