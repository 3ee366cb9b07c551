"""What a shell completes besides commands: names of tools, plugins, agents and profiles, keys of settings, ids.

A person waits for it with a finger on the key: nothing is imported that a list of names does not need, and where
something fails, nothing is completed and nothing is said.
"""

from __future__ import annotations

import functools
import io
import logging
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Literal, cast

import click
from click.shell_completion import CompletionItem

from toolstead.console.cli.invocation import CommandContext

if TYPE_CHECKING:
    from pathlib import Path


Kind = Literal[
    "tools",
    "enabled tools",
    "disabled tools",
    "plugins",
    "agents",
    "profiles",
    "settings",
    "threads",
    "tasks",
    "approvals",
    "clients",
    "runtimes",
    "keys",
    "commands",
]
"""What a parameter names."""
Named = tuple[str, str]
"""A name, and a line about it."""

_LONGEST_LINE = 60
_OF_PARAMETERS: dict[str, Kind] = {
    "agent": "agents",
    "client": "clients",
    "key": "settings",
    "profile": "profiles",
    "runtime": "runtimes",
    "task_id": "tasks",
    "thread": "threads",
    "thread_id": "threads",
}
"""Parameters that name the same in every command."""
_OF_COMMANDS: dict[tuple[str, str], Kind] = {
    ("tools", "call"): "tools",
    ("tools", "disable"): "enabled tools",
    ("tools", "enable"): "disabled tools",
    ("tools", "show"): "tools",
    ("tools", "test"): "tools",
    ("agents", "show"): "agents",
    ("approvals", "allow"): "approvals",
    ("approvals", "deny"): "approvals",
    ("keys", "remove"): "keys",
    ("keys", "set"): "keys",
    ("", "help"): "commands",
    ("plugins", "disable"): "plugins",
    ("plugins", "enable"): "plugins",
    ("plugins", "reset"): "plugins",
}
"""What `NAME`, `ID` and such are in a command of a group."""


def complete_names(command: click.Command, group: str = "") -> None:
    """Let the parameters of a command, and of those below it, complete what they name."""
    for parameter in command.params:
        kind = _OF_PARAMETERS.get(parameter.name or "")
        if parameter.name in ("name", "names", "id", "words"):
            kind = _OF_COMMANDS.get((group, command.name or ""))
        if kind is not None:
            parameter.shell_complete = functools.partial(find_completions, kind)
    if isinstance(command, click.Group):
        for one in command.commands.values():
            complete_names(one, command.name or "")


def find_completions(kind: Kind, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """The names of a kind that begin so; none where something fails."""
    logging.disable(logging.CRITICAL)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            found = _list_commands(ctx) if kind == "commands" else _find_names(kind, _find_invocation(ctx), incomplete)
        except Exception:  # noqa: BLE001 - whatever it is, the command itself will say it
            found = []
        finally:
            logging.disable(logging.NOTSET)
    items = [
        CompletionItem(name, help=" ".join(line.split())[:_LONGEST_LINE] or None)
        for name, line in found
        if name.startswith(incomplete) and name.isprintable() and " " not in name
    ]
    return items or ([CompletionItem(incomplete, type="file")] if kind == "tools" and "/" in incomplete else [])


def complete_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The keys of settings, as `--set` takes them."""
    del parameter
    found = find_completions("settings", context, incomplete)
    return [CompletionItem(f"{item.value}=", help=item.help) for item in found]


def _find_invocation(context: click.Context) -> CommandContext:
    """The project and the settings that stand on the command line so far."""
    project: Path | None = None
    overrides: tuple[str, ...] = ()
    at: click.Context | None = context
    while at is not None:
        project = project or cast("Path | None", at.params.get("project"))
        overrides = (*cast("tuple[str, ...]", at.params.get("overrides") or ()), *overrides)
        at = at.parent
    return CommandContext(project=project, overrides=overrides)


def _list_commands(context: click.Context) -> list[Named]:
    """The commands below those that stand on the line already, for `help`."""
    command: click.Command | None = context.find_root().command
    for word in cast("tuple[str, ...]", context.params.get("words") or ()):
        command = command.get_command(context, word) if isinstance(command, click.Group) else None
    return [(name, "") for name in command.list_commands(context)] if isinstance(command, click.Group) else []


def _find_names(kind: Kind, invocation: CommandContext, start: str) -> list[Named]:
    match kind:
        case "profiles":
            return [(name, "") for name in invocation.load().settings.profiles]
        case "settings":
            return [(item.key, "") for item in invocation.load().explain_values()]
        case "clients":
            from toolstead.app.connect.clients import CLIENTS

            return [(client.name, client.title) for client in CLIENTS.values()]
        case "runtimes":
            from toolstead.app.runtimes import NAMES

            return [(name, "") for name in NAMES]
        case "keys":
            from toolstead.app.keys import key_providers

            return list(key_providers().items())
        case "threads" | "tasks" | "approvals":
            return _list_ids(kind, invocation, start)
        case _:
            return invocation.run(_list_names(kind, invocation))


def _list_ids(kind: Literal["threads", "tasks", "approvals"], invocation: CommandContext, start: str) -> list[Named]:
    from toolstead.adapters.storage.recent_ids import list_recent_ids
    from toolstead.app.database import find_database_file

    places = invocation.find_places()
    file = find_database_file(places)
    return [] if file is None else list_recent_ids(file, kind, start, places.project)


async def _list_names(kind: Kind, invocation: CommandContext) -> list[Named]:
    async with invocation.make_stead(ask=False) as stead:
        match kind:
            case "plugins":
                return [(plugin["name"], plugin["state"]) for plugin in stead.plugins.show_plugins()]
            case "agents":
                agents = (await stead.agents()).catalogue.agents.values()
                return [(agent.name, agent.description) for agent in agents]
            case "disabled tools":
                return [(tool.name, tool.description) for tool in stead.registry.list_disabled()]
            case _:
                return [(tool.name, tool.description) for tool in stead.registry.list_tools()]
