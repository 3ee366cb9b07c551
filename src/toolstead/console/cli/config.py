"""`toolstead config`: the settings in effect, and where each came from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, cast

import click
import msgspec

from toolstead.app.layers import Explained
from toolstead.app.toml_text import toml_key, toml_value
from toolstead.console.cli.group import (
    CommandGroup,
    common_options,
    examples,
    json_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import find_nearest

_WIDTH = 80


@click.group(
    "config", cls=CommandGroup, epilog=examples("toolstead config show", "toolstead config explain tools.timeout")
)
def config() -> None:
    """Show the settings, and where each came from."""


@config.command("show", epilog=examples("toolstead config show"))
@common_options
def show(invocation: CommandContext) -> None:
    """Print the settings in effect as TOML; secrets are masked."""
    click.echo(_as_toml(invocation.load().explain_values()))


@config.command(
    "explain", epilog=examples("toolstead config explain tools", "toolstead config explain tools.timeout --json")
)
@click.argument("key", required=False)
@json_option
@common_options
def explain(invocation: CommandContext, key: str | None, as_json: bool) -> None:
    """Show where each setting came from, and what it overrode.

    KEY is one setting (tools.timeout) or a section (tools); without it all are shown.
    """
    shown = _choose_values(invocation.load().explain_values(), key)
    if as_json:
        click.echo(_as_json(shown))
    else:
        click.echo("\n".join(line for item in shown for line in _value_lines(item)))


def _choose_values(explained: list[Explained], key: str | None) -> list[Explained]:
    if key is None:
        return explained
    chosen = [item for item in explained if item.key == key or item.key.startswith(f"{key}.")]
    if chosen:
        return chosen
    if key.partition(".")[0] in ("plugins", "mcp_servers"):
        raise click.UsageError(f"{key} is not set anywhere; the owner of the table has its own defaults.")
    sections = dict.fromkeys(item.key.rpartition(".")[0] for item in explained)
    (nearest,) = find_nearest(key, [*(item.key for item in explained), *sections], cutoff=0)
    raise click.UsageError(f"there is no setting {key!r}; the nearest is {nearest}.")


def _as_toml(explained: Iterable[Explained]) -> str:
    lines: list[str] = []
    table: tuple[str, ...] = ()
    for item in explained:
        if item.path[:-1] != table:
            table = item.path[:-1]
            lines += ["", f"[{toml_key(table)}]"]
        note = "  # masked" if item.masked else ""
        lines.append(f"{toml_key(item.path[-1:])} = {toml_value(item.value)}{note}")
    return "\n".join(lines[1:])


def _value_lines(item: Explained) -> list[str]:
    origin = "default" if item.origin == "default" else f"from {item.origin}"
    notes = [origin if item.in_effect else f"{origin}; not used by this version"]
    notes += [f"instead of {toml_value(value)} ({origin})" for value, origin in item.overrode]
    assignment = f"{item.key} = {toml_value(item.value)}"
    if len(notes) == 1 and len(assignment) + len(notes[0]) + 4 <= _WIDTH:
        return [f"{assignment}  ({notes[0]})"]
    return [*_unfold_list(assignment, item), *(line for note in notes for line in _fold_note(note))]


def _unfold_list(assignment: str, item: Explained) -> list[str]:
    """A list too long for a line gets a line for each item; other values stay in one piece."""
    if len(assignment) <= _WIDTH or not isinstance(item.value, list):
        return [assignment]
    items = cast("list[Any]", item.value)
    return [f"{item.key} = [", *(f"    {toml_value(part)}," for part in items), "]"]


def _fold_note(note: str) -> list[str]:
    # Between words only: a path that is cut in two cannot be copied.
    return textwrap.wrap(
        note,
        _WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _as_json(explained: Iterable[Explained]) -> str:
    listed: list[dict[str, Any]] = [
        {
            "key": item.key,
            "value": item.value,
            "origin": item.origin,
            "overrode": [{"value": value, "origin": origin} for value, origin in item.overrode],
            "inEffect": item.in_effect,
        }
        for item in explained
    ]
    return msgspec.json.format(msgspec.json.encode({"settings": listed}), indent=2).decode()
