"""Connections of all clients at once: listed, and taken out; and the way in which one is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from toolstead.console.cli.group import DONE, FAILED, echo_json, echo_text, table_width
from toolstead.errors import ClientConfigError

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
    rows = [[item["client"], "yes" if item["found"] else "no", _say_state(item)] for item in listed]
    for line in render_table(["CLIENT", "FOUND", "CONNECTED"], rows, width=table_width()):
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
    }


def _is_open(item: Mapping[str, Any]) -> bool:
    """Whether a client could be connected now: it is not, or what it starts is gone."""
    return "problem" not in item and all(one["missing"] for one in item["connections"])


def _say_state(item: Mapping[str, Any]) -> str:
    said: list[str] = []
    for one in item["connections"]:
        if one["missing"]:
            said.append(f"not any more: {one['missing']} is gone")
        else:
            where = {"project": " (this project)", "local": " (this project, counts instead)"}.get(one["scope"], "")
            said.append(f"{one['leadsTo']}{where}")
    if "problem" in item:
        said.append("unknown, see below")
    return "; ".join(said) or "no"
