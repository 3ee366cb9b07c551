"""`toolstead config`: the settings in effect, where each came from, and setting one in a file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, cast

import click
import msgspec

from toolstead.app.config_file import ConfigFile, find_path, list_layers
from toolstead.app.database import describe_database, find_database_file
from toolstead.app.layers import Explained, parse_value
from toolstead.app.masks import mask_value
from toolstead.app.server_file import ServerFile
from toolstead.app.toml_text import toml_key, toml_value
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import DONE, WRONG_USAGE, CommandGroup, common_options, examples, json_option
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.own_output import claim_output
from toolstead.nearest_names import find_nearest

_WIDTH = 80
_NOTHING = object()


_scope_option = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    help="Whose file is changed: yours (usual), or this project's own.",
)


@click.group(
    "config", cls=CommandGroup, epilog=examples("toolstead config show", "toolstead config explain tools.timeout")
)
def config() -> None:
    """Show and set settings, and see where each came from."""


@config.command("show", epilog=examples("toolstead config show", "toolstead config show --json"))
@json_option
@common_options
def show(invocation: CommandContext, *, as_json: bool) -> None:
    """Print the settings in effect as TOML; secrets are masked."""
    explained = invocation.load().explain_values()
    if as_json:
        click.echo(_encode_json(_nest_values(explained)))
    else:
        click.echo(_as_toml(explained))


@config.command(
    "set",
    context_settings={"ignore_unknown_options": True},  # a value may be -1
    epilog=examples(
        "toolstead config set runtime.model sonnet",
        "toolstead config set tools.timeout 30 --scope project",
        "toolstead config set tools.blocked '[\"git-*\"]'",
    ),
)
@click.argument("key")
@click.argument("value")
@_scope_option
@json_option
@common_options
def set_value(invocation: CommandContext, *, key: str, value: str, scope: str, as_json: bool) -> None:
    """Write a setting into config.toml; everything else in the file stays as it is.

    VALUE is TOML (30, true, '["a", "b"]'); a word that is no TOML value is text.
    """
    file, path, slip = _choose_file(invocation, scope), find_path(key), ""
    if path[0] == "plugins" and len(path) > 1:
        with claim_output():
            defaults = invocation.find_plugin_defaults()
            defaults.check_value(path, parse_value(value))
        slip = defaults.find_name(path[1])
    written = file.set_value(key, value)
    _report_change(invocation, file, key, written=written, as_json=as_json)
    if slip:
        click.echo(f"note: {slip}", err=True)


@config.command("unset", epilog=examples("toolstead config unset runtime.model"))
@click.argument("key")
@_scope_option
@json_option
@common_options
def unset_value(invocation: CommandContext, *, key: str, scope: str, as_json: bool) -> int:
    """Remove a setting from config.toml, so that the layers below it count again."""
    file = _choose_file(invocation, scope)
    if not file.unset_value(key):
        click.echo(f"toolstead: {key} is not set in {file.path}", err=True)
        return WRONG_USAGE
    _report_change(invocation, file, key, as_json=as_json)
    return DONE


@config.command("path", epilog=examples("toolstead config path", "$EDITOR $(toolstead config path --user)"))
@click.option("--user", "only_user", is_flag=True, help="Only the path of your own file, for scripts.")
@json_option
@common_options
def show_paths(invocation: CommandContext, *, only_user: bool, as_json: bool) -> None:
    """Show which settings files count, whether they are there, and which variables set something."""
    places = invocation.find_places()
    if only_user:
        click.echo(str(places.user / "config.toml"))
        return
    layers = list_layers(places)
    if as_json:
        click.echo(_encode_json({"layers": msgspec.to_builtins(layers), "database": describe_database(places)}))
        return
    rows = [(layer.name, layer.state, layer.path) for layer in layers]
    file = find_database_file(places)
    state = "set" if file is None else "there" if file.exists() else "not there"
    rows.append(("database", state, describe_database(places)))
    click.echo("\n".join(render_table(("LAYER", "STATE", "WHERE"), rows, width=None)))


def _choose_file(invocation: CommandContext, scope: str) -> ConfigFile:
    places = invocation.find_places()
    folder = places.user if scope == "user" else places.project / ".toolstead"
    return ConfigFile(folder / "config.toml", places.data)


def _report_change(
    invocation: CommandContext, file: ConfigFile, key: str, *, written: Any = _NOTHING, as_json: bool
) -> None:
    """Say what is in effect now, and what else is needed for that."""
    places, masked = invocation.find_places(), mask_value(tuple(key.split(".")), written)
    found = next((one for one in invocation.load().explain_values() if one.key == key), None)
    if as_json:
        in_effect = None if found is None else {"value": found.value, "origin": found.origin}
        click.echo(_encode_json({"file": str(file.path), "key": key, "inEffect": in_effect}))
    else:
        shown = f"{key} is removed from" if written is _NOTHING else f"{key} = {toml_value(masked)} is set in"
        click.echo(f"{shown} {file.path}", err=True)
    if file.path.parent == places.project / ".toolstead" and places.user != file.path.parent:
        click.echo("It counts after `toolstead trust`, as everything that a project brings.", err=True)
    elif found is not None and written is not _NOTHING and str(file.path) not in found.origin:
        click.echo(f"{found.origin} counts before it: {toml_value(found.value)}", err=True)
    if (server := ServerFile(places.data).find_server(places.project)) is not None:
        when = "with `toolstead tools reload`" if key.startswith("plugins.") else "when it starts again"
        click.echo(f"The server at {server.url} reads it {when}.", err=True)


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
    if key == "TOOLSTEAD_DATABASE_URL":
        places = invocation.find_places()
        origin = "default" if find_database_file(places) else f"environment {key}"
        value = describe_database(places)
        click.echo(_encode_json({"database": value, "origin": origin}) if as_json else f"{value}  ({origin})")
        return
    explained = invocation.load().explain_values()
    if key is not None and key.startswith("plugins."):
        name = find_path(key)[1]
        given = {item.path for item in explained}
        with claim_output():
            defaults = invocation.find_plugin_defaults().read_defaults(name)
        explained += [
            Explained(
                key=toml_key(("plugins", name, setting)),
                path=("plugins", name, setting),
                value=mask_value(("plugins", name, setting), value),
                origin="default",
            )
            for setting, value in defaults.items()
            if ("plugins", name, setting) not in given
        ]
    if key is None or key.startswith("plugins"):
        with claim_output():
            invocation.mention_tables()
    shown = _choose_values(explained, key)
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


def _nest_values(explained: Iterable[Explained]) -> dict[str, Any]:
    """The values in tables, as TOML has them."""
    tree: dict[str, Any] = {}
    for item in explained:
        table = tree
        for name in item.path[:-1]:
            table = table.setdefault(name, {})
        table[item.path[-1]] = item.value
    return tree


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
    return _encode_json({"settings": listed})


def _encode_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
