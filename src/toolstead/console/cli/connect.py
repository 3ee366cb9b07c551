"""`toolstead connect`: give the tools to an MCP client, with one command, and prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from toolstead.app.connect.clients import CLIENTS, Home, McpClient, Scope, find_client, find_home
from toolstead.app.connect.kept_file import ChangedMeanwhileError
from toolstead.app.connect.plan import (
    OURS,
    Change,
    Place,
    find_place,
    make_entry,
    plan_connection,
    plan_removal,
    read_entry,
    show_entry,
    write_change,
)
from toolstead.app.connect.proof import Proof, prove_target
from toolstead.app.connect.target import Target, own_target, read_target, server_target
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
    table_width,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ClientConfigError, ProofError

_TRIES = 5
"""How often a file is read again that its program writes at the same moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, beside the client.

    Attributes:
        place: The entry.
        target: What it is to start or to reach.
        folder: Where the proof starts a program.
        home: The user's home, for messages.
        as_json: The answer is for a program.
        is_checked: It is proved before it is written.
        is_free: The client may call the tools without asking.
    """

    place: Place
    target: Target
    folder: Path
    home: Home
    as_json: bool
    is_checked: bool
    is_free: bool

    def shorten_path(self, path: Path | None) -> str:
        """A path with `~` for the home."""
        text = str(path)
        folder = str(self.home.folder)
        return f"~{text[len(folder) :]}" if text.startswith(f"{folder}/") else text


@click.command(
    "connect",
    epilog=examples(
        "toolstead connect",
        "toolstead connect claude-code",
        "toolstead connect vscode --scope project --print",
        "toolstead connect codex --url https://example.com/mcp --token-env TEAM",
        "toolstead connect claude-code --remove",
    ),
)
@click.argument("client", required=False)
@click.option("--remove", is_flag=True, help="Take it out again.")
@click.option("--print", "printing", is_flag=True, help="Show what would be written, and where; change nothing.")
@click.option("--scope", type=click.Choice(["user", "project"]), help="For all your projects (user), or for this one.")
@click.option("--url", metavar="URL", help="A server that runs already, instead of a command on this machine.")
@click.option("--token-env", metavar="NAME", default="", help="The environment variable with the token for --url.")
@click.option("--profile", metavar="NAME", default="", help="Only the tools of this profile.")
@click.option("--name", metavar="NAME", default=OURS, help="The client's name for it, to have several.")
@click.option("--without-asking", is_flag=True, help="Let the client call the tools without asking you each time.")
@click.option("--no-check", is_flag=True, help="Write it although nothing answers yet.")
@json_option
@common_options
def connect(
    invocation: CommandContext,
    client: str | None,
    *,
    remove: bool,
    printing: bool,
    scope: Scope | None,
    url: str | None,
    token_env: str,
    profile: str,
    name: str,
    without_asking: bool,
    no_check: bool,
    as_json: bool,
) -> int:
    """Give the tools to an MCP client: write its configuration, and prove it.

    Without CLIENT, list the clients on this machine. CLIENT is claude-code, claude-desktop, codex, gemini,
    opencode, cursor or vscode.

    What the client is to start, or to reach, is asked for its tools first, and written only when it answers. Everything
    else in the client's configuration stays as it is, and a copy of the file is kept beside it.
    """
    home = find_home()
    project = invocation.find_places().project
    if client is None:
        if remove or printing or url or token_env or profile or no_check or scope:
            raise click.UsageError("name the client: `toolstead connect` alone lists them.")
        return _list_clients(home, project, name, as_json=as_json)
    found = find_client(client)
    if token_env and not url:
        raise click.UsageError("--token-env is for --url: a command on this machine needs no token.")
    _check_name(name)
    place = find_place(found, scope or "user", home, project, name)
    target = Target() if remove else _choose_target(invocation, found, url, token_env, profile)
    if without_asking and not found.free_entry:
        raise click.UsageError(f"--without-asking: {found.title} has this elsewhere: {found.free_way}.")
    request = Request(
        place=place,
        target=target,
        folder=project,
        home=home,
        as_json=as_json,
        is_checked=not no_check,
        is_free=without_asking,
    )
    if printing:
        return _print_change(request, remove=remove)
    return _remove_entry(request) if remove else _add_entry(invocation, request)


def _check_name(name: str) -> None:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or len(name) > 64:
        raise click.UsageError(f"--name {name!r}: letters, digits, - and _, at most 64.")


def _choose_target(
    invocation: CommandContext, client: McpClient, url: str | None, token_env: str, profile: str
) -> Target:
    if url:
        target = server_target(url, token_env, profile)
        if client.name == "claude-desktop":
            raise ClientConfigError(
                "Claude Desktop reaches servers through its own window, not through its configuration: Settings >"
                f" Connectors > Add custom connector, with {target.url}. A server with a fixed token cannot be added"
                " there; connect another client, or let the server use OAuth (docs/http.md)"
            )
        return target
    words = ["mcp"]
    if invocation.project is not None:
        words += ["--project", str(invocation.find_places().project)]
    for override in invocation.overrides:
        words += ["--set", override]
    if profile:
        words += ["--profile", profile]
    return own_target(words)


def _list_clients(home: Home, project: Path, name: str, *, as_json: bool) -> int:
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
    scopes: tuple[Scope, ...] = ("user", "project") if client.project_file else ("user",)
    for scope in scopes:
        place = find_place(client, scope, home, project, name)
        try:
            entry = read_entry(place)
        except ClientConfigError as error:
            problem = problem or str(error)
            continue
        if entry is not None:
            target = read_target(entry)
            connections.append(
                {
                    "scope": scope,
                    "file": str(place.path),
                    "leadsTo": target.describe() if target is not None else "",
                    "missing": target.missing_program if target is not None else "",
                }
            )
    found = {"client": client.name, "title": client.title, "found": bool(trace), "trace": trace}
    return {**found, "connections": connections, **({"problem": problem} if problem else {})}


def _is_open(item: Mapping[str, Any]) -> bool:
    """Whether a client could be connected now: it is not, or what it starts is gone."""
    return "problem" not in item and all(one["missing"] for one in item["connections"])


def _say_state(item: Mapping[str, Any]) -> str:
    said: list[str] = []
    for one in item["connections"]:
        if one["missing"]:
            said.append(f"not any more: {one['missing']} is gone")
        else:
            said.append(f"{one['leadsTo']}{' (this project)' if one['scope'] == 'project' else ''}")
    if "problem" in item:
        said.append("unknown, see below")
    return "; ".join(said) or "no"


def _print_change(request: Request, *, remove: bool) -> int:
    place = request.place
    if remove:
        change = plan_removal(place)
        if change.before is None:
            echo_text(f"{request.shorten_path(place.path)} has no {place.name!r}: nothing would change.")
        else:
            echo_text(f"This would be taken out of {request.shorten_path(place.path)}:", err=True)
            echo_text(show_entry(place, change.before))
        return DONE
    entry = make_entry(place, request.target, is_free=request.is_free)
    if request.as_json:
        echo_json({"client": place.client.name, "file": str(place.path), "name": place.name, "entry": entry})
        return DONE
    echo_text(f"This would be written into {request.shorten_path(place.path)}:", err=True)
    echo_text(show_entry(place, entry))
    return DONE


def _add_entry(invocation: CommandContext, request: Request) -> int:
    place, proof = request.place, None
    change = plan_connection(
        place, request.target, is_free=request.is_free
    )  # what cannot be changed is said before anything is started
    target = read_target(change.entry or {}) or request.target
    if request.is_checked:
        try:
            proof = _prove_target(invocation, request, target)
        except ProofError as error:
            return _report_failure(request, error)
    change, copy = _write_lately(request, change)
    written = read_entry(place)
    if written != change.entry:
        raise ClientConfigError(f"{place.path} was written, and holds something else by now; try again")
    if request.as_json:
        echo_json(_as_answer(request, change, copy, target, proof))
    else:
        _report_connection(request, change, copy, target, proof)
    return DONE


def _prove_target(invocation: CommandContext, request: Request, target: Target) -> Proof:
    client = request.place.client
    click.echo(paint_text(f"Asking {target.describe()} for its tools …", "dim"), err=True)
    return invocation.run(prove_target(target, folder=request.folder, whole=client.passes_environment))


def _write_lately(request: Request, change: Change) -> tuple[Change, Path | None]:
    """Write a change; where the file is another one by then, what changes is worked out again.

    Raises:
        ClientConfigError: It cannot be written.
    """
    is_removal = change.entry is None
    for left in reversed(range(_TRIES)):
        try:
            return change, write_change(request.place, change) if change.is_needed else None
        except ChangedMeanwhileError:
            if not left:
                raise
            if is_removal:
                change = plan_removal(request.place)
            else:
                change = plan_connection(request.place, request.target, is_free=request.is_free)
    raise AssertionError("unreachable")


def _report_failure(request: Request, error: ProofError) -> int:
    client = request.place.client
    if request.as_json:
        echo_json({"client": client.name, "connected": False, "written": False, "problem": str(error)})
    click.echo(paint_text(f"{client.title} was not connected: ", "bad"), err=True, nl=False)
    echo_text(f"{error}", err=True)
    echo_text(
        f"Nothing was written into {request.shorten_path(request.place.path)}. Try again once it answers; --no-check"
        " writes it now.",
        err=True,
    )
    if not request.target.url:
        echo_text(f"To see more: {request.target.describe()} -v", err=True)
    return FAILED


def _report_connection(
    request: Request, change: Change, copy: Path | None, target: Target, proof: Proof | None
) -> None:
    place = request.place
    where = "for all your projects" if place.scope == "user" else f"in {request.shorten_path(request.folder)}"
    state = "is connected" if change.is_needed else "was connected already"
    click.echo(paint_text(f"{place.client.title} {state}, {where}.", "good"))
    echo_text(f"  runs   {target.describe()}" if target.command else f"  asks   {target.url}")
    if proof is not None:
        names = ", ".join(proof.tools[:3]) + (", …" if len(proof.tools) > 3 else "")
        echo_text(f"  gets   {count_noun(len(proof.tools), 'tool')} in {proof.seconds:.1f} s: {names}")
    else:
        echo_text("  gets   not asked (--no-check)")
    echo_text(f"  file   {request.shorten_path(place.path)}")
    if copy is not None:
        echo_text(f"  before {request.shorten_path(copy)}")
    click.echo("")
    for note in _find_notes(request, change, target):
        echo_text(f"Note: {note}")
    echo_text(f"{place.client.next_step}.")
    more = f" --name {place.name}" if place.name != OURS else ""
    more += " --scope project" if place.scope == "project" else ""
    echo_text(f"Undo: toolstead connect {place.client.name}{more} --remove")


def _find_notes(request: Request, change: Change, target: Target) -> list[str]:
    """What a person should know about what was written."""
    notes: list[str] = []
    client, entry = request.place.client, change.entry or {}
    if entry.get("enabled") is False or entry.get("disabled") is True:
        key = "enabled = false" if "enabled" in entry else "disabled = true"
        notes.append(f"the entry says {key}, so {client.title} does not use it until you change that.")
    if client.name == "codex" and "default_tools_approval_mode" not in (change.entry or {}):
        notes.append("`codex exec` can ask nobody, and refuses tools that may write; --without-asking allows them.")
    if client.name == "claude-desktop" and "--project" not in target.command:
        notes.append("Claude Desktop starts it in no project of yours; --project PATH names one.")
    if target.token_env:
        start = (
            "must be set where it is started"
            if client.passes_environment or client.name == "codex"
            else ("must be set for it too: a program that is started from a menu may not have what your shell sets")
        )
        notes.append(f"{client.title} reads the token from {target.token_env}, which {start}.")
        if target.url.startswith("http:") and "//127.0.0.1" not in target.url and "//localhost" not in target.url:
            notes.append("the token goes over the network unencrypted; use https.")
    if request.place.scope == "project":
        notes.append(f"{client.title} may want you to approve first what a project brings.")
        if target.command:
            notes.append("the file names a path on this machine; do not commit it for others.")
    return notes


def _remove_entry(request: Request) -> int:
    place = request.place
    change, copy = _write_lately(request, plan_removal(place))
    if request.as_json:
        echo_json(_as_answer(request, change, copy, None, None))
    elif change.before is None:
        echo_text(f"{place.client.title} was not connected: {request.shorten_path(place.path)} has no {place.name!r}.")
    else:
        gone = "was removed: it held nothing else" if change.data is None else "has everything else as it was"
        click.echo(paint_text(f"{place.client.title} is not connected any more.", "good"))
        echo_text(f"  file   {request.shorten_path(place.path)} {gone}")
        if copy is not None:
            echo_text(f"  before {request.shorten_path(copy)}")
    return DONE


def _as_answer(
    request: Request, change: Change, copy: Path | None, target: Target | None, proof: Proof | None
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "client": request.place.client.name,
        "connected": change.entry is not None,
        "changed": change.is_needed,
        "scope": request.place.scope,
        "name": request.place.name,
        "file": str(request.place.path),
        "backup": None if copy is None else str(copy),
    }
    if target is not None:
        answer |= {"url": target.url} if target.url else {"command": list(target.command)}
    if proof is not None:
        answer |= {"tools": len(proof.tools), "toolNames": list(proof.tools), "seconds": round(proof.seconds, 3)}
    return answer
