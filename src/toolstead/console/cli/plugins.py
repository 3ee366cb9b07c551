"""`toolstead plugins`: list, enable, disable and reset; by the running server of this project, or in this process."""

from __future__ import annotations

import functools
import json
import logging
import textwrap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import click

from toolstead.app.client import SteadClient
from toolstead.console.cli.arguments import read_arguments
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    CommandGroup,
    client_command,
    common_options,
    count_noun,
    echo_json,
    examples,
    json_option,
    run_with_client,
    table_width,
    url_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import PluginError, RefusedRequestError, ToolsteadError
from toolstead.nearest_names import suggest

_WIDEST_STATE = len("disabled")
_WIDEST_VERSION = 14
_ROOM_FOR_TOOLS = 24
_TYPES = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


@click.group(
    "plugins", cls=CommandGroup, epilog=examples("toolstead plugins list", "toolstead plugins enable validation")
)
def plugins() -> None:
    """List and switch plugins, and set their settings."""


def _plugin_command(command: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., int | None]:
    """A command that shows first which server executes it."""

    @functools.wraps(command)
    async def show_server(client: SteadClient, **given: Any) -> int | None:
        if client.url is not None:
            click.echo(f"by the server at {client.url}", err=True)
        return await command(client, **given)

    # What is wrong with a plugin is shown by the command itself; with -v the log has it too.
    return client_command(show_server, level=logging.CRITICAL)


@plugins.command("list", epilog=examples("toolstead plugins list"))
@json_option
@url_option
@common_options
def list_plugins(invocation: CommandContext, *, url: str | None, as_json: bool) -> None:
    """List the plugins: those that run, those that are switched off, and those that failed."""
    if url is None:
        invocation.mention_tables()
    run_with_client(invocation, url, functools.partial(_print_plugins, as_json=as_json), level=logging.CRITICAL)


async def _print_plugins(client: SteadClient, *, as_json: bool) -> None:
    if client.url is not None:
        click.echo(f"by the server at {client.url}", err=True)
    found = await client.list_plugins()
    if as_json:
        echo_json({"plugins": found})
    elif found:
        click.echo("\n".join(render_plugins(found, table_width())))
    else:
        click.echo("there are none", err=True)


@plugins.command(
    "enable", epilog=examples("toolstead plugins enable validation", "toolstead plugins enable web timeout=30")
)
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@json_option
@url_option
@_plugin_command
async def enable_plugin(client: SteadClient, *, name: str, pairs: tuple[str, ...], as_json: bool) -> int:
    """Switch a plugin on, with these settings laid over what is set.

    KEY:=null resets a setting.
    """
    before = await _find_plugin(client, name)
    settings = _read_settings(pairs, before["settings"])
    try:
        changed = await client.change_plugin(name, enabled=True, settings=settings or None)
    except (PluginError, RefusedRequestError) as error:
        if (reason := _read_refusal(error)) is None:
            raise
        outcome = "changed" if before["enabled"] else "enabled"
        raise ToolsteadError(f"{name} was not {outcome}: {reason}") from None
    return _print_outcome(changed, as_json)


@plugins.command("disable", epilog=examples("toolstead plugins disable web"))
@click.argument("name")
@json_option
@url_option
@_plugin_command
async def disable_plugin(client: SteadClient, *, name: str, as_json: bool) -> int:
    """Switch a plugin off: its tools and hooks are removed, and its work is ended."""
    await _find_plugin(client, name)
    return _print_outcome(await client.change_plugin(name, enabled=False), as_json)


@plugins.command("reset", epilog=examples("toolstead plugins reset web"))
@click.argument("name")
@json_option
@url_option
@_plugin_command
async def reset_plugin(client: SteadClient, *, name: str, as_json: bool) -> int:
    """Delete what was switched and set for a plugin, so that the settings files apply again."""
    await _find_plugin(client, name)
    return _print_outcome(await client.reset_plugin(name), as_json)


async def _find_plugin(client: SteadClient, name: str) -> dict[str, Any]:
    """The plugin of this name.

    Raises:
        click.UsageError: There is none; the nearest name is in the text.
    """
    known = {plugin["name"]: plugin for plugin in await client.list_plugins()}
    if name not in known:
        hint = suggest(name, known, otherwise="`toolstead plugins list` shows them all")
        raise click.UsageError(f"unknown plugin {name[:100]!r}; {hint}")
    return known[name]


def _read_refusal(error: PluginError | RefusedRequestError) -> str | None:
    """Why settings do not fit, as a sentence, here or at a server; None where something else was refused."""
    if isinstance(error, PluginError):
        field, reason = error.field, error.reason
    else:
        field, reason = str(error.problem.get("field")), str(error.problem.get("detail"))
        if "plugin" not in error.problem:
            return None
    reason = reason.removeprefix(f"{field}: ").removesuffix(".")
    reason = reason if field == "settings" else f"{field}: {reason}"
    return reason if reason.endswith(("?", "!")) else f"{reason}."


def _print_outcome(plugin: Mapping[str, Any], as_json: bool) -> int:
    """Show a plugin's new state; one that was switched on and does not run is a failure."""
    if as_json:
        echo_json(plugin)
    word = "enabled" if plugin["enabled"] else "disabled"
    brings = f" with {count_noun(len(plugin['tools']), 'tool')}" if plugin["tools"] else ""
    state = "" if plugin["state"] == word else f": {plugin['state']}{brings}"
    click.echo(f"{plugin['name']} is {word}{state}", err=True)
    if plugin.get("error"):
        click.echo(f"  {_one_line(plugin['error'])}", err=True)
    return FAILED if plugin["enabled"] and plugin["state"] == "failed" else DONE


def render_plugins(found: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    """The plugins as lines: name, version, state, tools, hooks; what is wrong with one stands below it.

    Without a width, as in a pipe, nothing is cut and each plugin has one line.
    """
    rows: list[Mapping[str, Any]] = [
        {"name": "NAME", "version": "VERSION", "state": "STATE", "tools": ["TOOLS"]},
        *found,
    ]
    names = max(len(plugin["name"]) for plugin in rows)
    versions = max(len(_one_line(plugin["version"])) for plugin in rows)
    versions = versions if width is None else min(_WIDEST_VERSION, versions)
    margin = names + versions + _WIDEST_STATE + 6
    longest = max((len(tool) + 1 for plugin in found for tool in plugin["tools"]), default=0)
    beside = width is None or width - margin >= max(longest, _ROOM_FOR_TOOLS)  # else they stand below their plugin
    lines: list[str] = []
    for plugin in rows:
        version = _cut_text(plugin["version"], versions)
        head = f"{plugin['name']:<{names}}  {version:<{versions}}  {plugin['state']:<{_WIDEST_STATE}}  "
        tools = ", ".join(plugin["tools"])
        if plugin.get("hooks"):
            tools += f"{'; ' if tools else ''}hooks: {', '.join(plugin['hooks'])}"
        if beside and tools:
            lines += _wrap_text(tools, width, head, " " * margin)
        else:
            lines += [head.rstrip(), *_wrap_text(tools if plugin in found else "", width, "  ", "  ")]
        if plugin.get("error"):
            lines += _wrap_text(_one_line(plugin["error"]), width, "  ", "  ")
    return [paint_text(lines[0], "dim"), *lines[1:]]


def _wrap_text(text: str, width: int | None, first: str, rest: str) -> list[str]:
    if width is None:
        return [first + text] if text else []
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _one_line(text: str) -> str:
    """Text without line ends, and without what would steer a terminal."""
    line = " ".join(text.split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)


def _cut_text(text: str, most: int) -> str:
    text = _one_line(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _read_settings(pairs: Sequence[str], now: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from the command line: read by the type of what is set now.

    Where that is not known (a plugin that is off is not loaded, and shows none), what looks like JSON is JSON.
    """
    types = {key: {"type": _TYPES[type(value)]} for key, value in now.items() if type(value) in _TYPES}
    given = [pair if pair.partition("=")[0] in types else _as_json(pair) for pair in pairs]
    return read_arguments(given, None, {"properties": types})


def _as_json(pair: str) -> str:
    key, sign, text = pair.partition("=")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return pair
    is_plain_text = key.endswith(":") or value is None or isinstance(value, str)
    return pair if is_plain_text else f"{key}:{sign}{text}"
