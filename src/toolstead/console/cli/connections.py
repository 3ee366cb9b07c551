"""Connections of all clients at once: listed, and taken out; and the way in which one is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from toolstead.app.connect.clients import CLIENTS, Home, McpClient, Scope
from toolstead.app.connect.kept_file import ChangedMeanwhileError
from toolstead.app.connect.plan import (
    Change,
    Place,
    find_entries,
    find_place,
    find_stronger,
    plan_removal,
    write_change,
)
from toolstead.app.connect.target import read_target
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import DONE, FAILED, echo_json, echo_text
from toolstead.errors import ClientConfigError

_WHERE = {"project": ("this project",), "local": ("this project, counts instead",)}
_TRIES = 5
"""How often a file is read again that its program writes at the same moment."""


def shorten_path(path: Path | None, home: Home) -> str:
    """A path with `~` for the home."""
    text, folder = str(path), str(home.folder)
    return f"~{text[len(folder) :]}" if text.startswith(f"{folder}/") else text


def describe_entry(entry: Mapping[str, Any]) -> str:
    """What an entry starts or reaches."""
    target = read_target(entry)
    return target.describe() if target is not None else "neither a command nor an address"


def describe_switch(entry: Mapping[str, Any]) -> str:
    """What in an entry switches it off; empty where nothing does."""
    if entry.get("enabled") is False:
        return "enabled = false"
    return "disabled = true" if entry.get("disabled") is True else ""


def find_others(place: Place, home: Home, project: Path) -> list[Place]:
    """The other entries that lead a client to Toolstead, for all projects and for this one."""
    others: list[Place] = []
    for scope in _scopes_of(place.client):
        with suppress(ClientConfigError):  # of another file than the one that was changed
            for other, entry in find_entries(place.client, scope, home, project):
                target = read_target(entry)
                if other != place and target is not None and target.is_ours:
                    others.append(other)
    return others


def write_lately(place: Place, plan: Callable[[], Change]) -> tuple[Change, Path | None]:
    """Write a change; where the file is another one by then, what changes is worked out again.

    Raises:
        ClientConfigError: It cannot be written.
    """
    for left in reversed(range(_TRIES)):
        change = plan()
        try:
            return change, write_change(place, change) if change.is_needed else None
        except ChangedMeanwhileError:
            if not left:
                raise
    raise AssertionError("unreachable")


def remove_everywhere(home: Home, project: Path, *, as_json: bool) -> int:
    """Take every entry that starts this installation out of every client: before it is uninstalled."""
    removed: list[dict[str, Any]] = []
    problems: list[str] = []
    for client in CLIENTS.values():
        for scope in _scopes_of(client):
            try:
                for place, entry in find_entries(client, scope, home, project):
                    target = read_target(entry)
                    if target is not None and target.is_this:
                        change, copy = write_lately(place, lambda place=place: plan_removal(place))
                        removed.append(
                            {
                                "client": client.name,
                                "title": client.title,
                                "scope": scope,
                                "name": place.name,
                                "file": str(place.path),
                                "backup": None if copy is None else str(copy),
                                "removedFile": change.data is None,
                            }
                        )
            except ClientConfigError as error:
                problems.append(f"{client.title}: {error}")
    if as_json:
        echo_json({"removed": removed, "problems": problems})
    for one in removed if not as_json else ():
        click.echo(paint_text(f"{one['title']} is not connected any more ({one['name']}).", "good"))
        echo_text(f"  file   {shorten_path(Path(one['file']), home)}{' was removed' if one['removedFile'] else ''}")
        if one["backup"]:
            echo_text(f"  before {shorten_path(Path(one['backup']), home)}")
    if not removed and not as_json:
        echo_text("No client starts this installation.")
    for problem in problems:
        echo_text(problem, err=True)
    return FAILED if problems else DONE


def _scopes_of(client: McpClient) -> tuple[Scope, ...]:
    return ("user", "project") if client.project_file else ("user",)


def list_clients(home: Home, project: Path, name: str, *, as_json: bool) -> int:
    """Print which clients are here, and what each is connected to."""
    listed = [_describe_client(client, home, project, name) for client in CLIENTS.values()]
    if as_json:
        echo_json({"clients": listed})
        return DONE
    rows = [
        [item["client"] if not number else "", ("yes" if item["found"] else "no") if not number else "", line]
        for item in listed
        for number, line in enumerate(_describe_state(item, home))
    ]
    for line in render_table(["CLIENT", "FOUND", "CONNECTED"], rows, width=None):  # a path that is cut is of no use
        click.echo(line)
    for item in listed:
        if "problem" in item:
            echo_text(f"\n{item['title']}: {item['problem']}.")
    click.echo("")
    open_ones = [item["client"] for item in listed if item["found"] and _is_open(item)]
    if open_ones:
        echo_text(f"Connect one:  toolstead connect {open_ones[0]}")
    elif not any(item["found"] for item in listed):
        echo_text("None of them is on this machine. For another MCP client: the command is `toolstead mcp`.")
    return DONE


def _describe_client(client: McpClient, home: Home, project: Path, name: str) -> dict[str, Any]:
    """What is known of a client, and of its connections for all projects and for this one."""
    trace = client.find_trace(home)
    connections: list[dict[str, Any]] = []
    problem = ""
    for scope in _scopes_of(client):
        try:
            for place, entry in find_entries(client, scope, home, project):
                target = read_target(entry)
                if place.name == name or (target is not None and target.is_ours):
                    connections.append(_describe_connection(place, entry))
            place = find_place(client, scope, home, project, name)
            if scope == "user":
                local = [one for folder, one in find_stronger(place, home, project) if folder == str(project)]
                connections += [{**_describe_connection(place, one), "scope": "local"} for one in local]
        except ClientConfigError as error:
            problem = problem or str(error)
    found = {"client": client.name, "title": client.title, "found": bool(trace), "trace": trace}
    return {**found, "connections": connections, **({"problem": problem} if problem else {})}


def _describe_connection(place: Place, entry: Mapping[str, Any]) -> dict[str, Any]:
    target = read_target(entry)
    return {
        "scope": place.scope,
        "name": place.name,
        "file": str(place.path),
        "leadsTo": target.describe() if target is not None else "",
        "missing": target.missing_program if target is not None else "",
        "off": describe_switch(entry),
    }


def _is_open(item: Mapping[str, Any]) -> bool:
    """Whether a client could be connected now: it is not, or what it starts is gone."""
    return "problem" not in item and all(one["missing"] for one in item["connections"])


def _describe_state(item: Mapping[str, Any], home: Home) -> list[str]:
    """A line for each connection of a client: the entry's name, and what it leads to."""
    lines: list[str] = []
    for one in item["connections"]:
        notes = [*_WHERE.get(one["scope"], ()), *((f"off: {one['off']}",) if one["off"] else ())]
        name = f"{one['name']} ({', '.join(notes)})" if notes else one["name"]
        leads = one["leadsTo"] or "neither a command nor an address"
        gone = f"not any more: {shorten_path(Path(one['missing']), home)} is gone" if one["missing"] else ""
        lines.append(f"{name}: {gone or leads.replace(f'{home.folder}/', '~/')}")
    if "problem" in item:
        lines.append("unknown, see below")
    return lines or ["no"]
