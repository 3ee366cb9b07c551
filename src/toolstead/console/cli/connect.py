"""`toolstead connect`: give the tools to an MCP client, with one command, and prove it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from toolstead.app.connect.clients import Home, McpClient, Scope, find_client, find_home
from toolstead.app.connect.plan import (
    OURS,
    Change,
    Place,
    find_place,
    find_stronger,
    make_entry,
    plan_connection,
    plan_removal,
    read_entry,
    show_entry,
)
from toolstead.app.connect.proof import Proof, prove_target
from toolstead.app.connect.target import Target, own_target, read_target, server_target
from toolstead.app.places import find_places, named_tools_folder
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.connections import (
    describe_entry,
    describe_switch,
    find_others,
    list_clients,
    remove_everywhere,
    shorten_path,
    write_lately,
)
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ClientConfigError, ProofError


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
        return shorten_path(path, self.home)


@click.command(
    "connect",
    epilog=examples(
        "toolstead connect",
        "toolstead connect claude-code",
        "toolstead connect vscode --scope project --print",
        "toolstead connect codex --url https://example.com/mcp --token-env TEAM",
        "toolstead connect claude-code my_tools.py",
        "toolstead connect gemini --env TICKET_TOKEN",
        "toolstead connect claude-code --remove",
    ),
)
@click.argument("client", required=False)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE.py]")
@click.option("--remove", is_flag=True, help="Take it out again; without CLIENT, out of every client.")
@click.option("--print", "printing", is_flag=True, help="Show what would be written, and where; change nothing.")
@click.option("--scope", type=click.Choice(["user", "project"]), help="For all your projects (user), or for this one.")
@click.option("--url", metavar="URL", help="A server that runs already, instead of a command on this machine.")
@click.option("--token-env", metavar="NAME", default="", help="The environment variable with the token for --url.")
@click.option("--env", "passed", multiple=True, metavar="NAME", help="A variable that the client passes on to it.")
@click.option("--profile", metavar="NAME", default="", help="Only the tools of this profile.")
@click.option("--name", metavar="NAME", help="The client's name for it, to have several.")
@click.option("--without-asking", is_flag=True, help="Let the client call the tools without asking you each time.")
@click.option("--no-check", is_flag=True, help="Write it although nothing answers yet.")
@json_option
@common_options
def connect(
    invocation: CommandContext,
    client: str | None,
    file: Path | None,
    *,
    remove: bool,
    printing: bool,
    scope: Scope | None,
    url: str | None,
    token_env: str,
    passed: tuple[str, ...],
    profile: str,
    name: str | None,
    without_asking: bool,
    no_check: bool,
    as_json: bool,
) -> int:
    """Give the tools to an MCP client: write its configuration, and prove it.

    Without CLIENT, list the clients on this machine. CLIENT is claude-code, claude-desktop, codex, gemini,
    opencode, cursor or vscode. With FILE.py, it gets the tools and plugins of that Python file, under the file's name.

    What the client is to start, or to reach, is asked for its tools first, and written only when it answers. Everything
    else in the client's configuration stays as it is, and a copy of the file is kept beside it.
    """
    home = find_home()
    project = invocation.find_places().project
    if client is None:
        if printing or url or token_env or passed or profile or no_check or scope or (remove and name):
            raise click.UsageError("name the client: `toolstead connect` alone lists them.")
        if remove:
            return remove_everywhere(home, project, as_json=as_json)
        return list_clients(home, project, name or OURS, as_json=as_json)
    if client.endswith(".py"):
        raise click.UsageError(f"name the client before the file: toolstead connect claude-code {client}")
    found = find_client(client)
    if token_env and not url:
        raise click.UsageError("--token-env is for --url: a command on this machine needs no token.")
    name = name or (_name_file(file) if file is not None else OURS)
    _check_name(name)
    place = find_place(found, scope or "user", home, project, name)
    _check_passed(place, passed, url)
    served = replace(invocation, file=file)
    target = Target() if remove else replace(_choose_target(served, found, url, token_env, profile), passed=passed)
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


def _name_file(file: Path) -> str:
    if file.suffix != ".py":
        raise click.UsageError(f"{file} is no Python file; what follows the client is FILE.py, with your tools.")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", file.stem).strip("-") or OURS


def _check_passed(place: Place, passed: Sequence[str], url: str | None) -> None:
    """Refuse what is no name of a variable, and a client whose entry cannot name one.

    Raises:
        UsageError: It is so.
    """
    for name in passed:
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is None:
            raise click.UsageError(
                "--env takes the name of an environment variable, such as TICKET_TOKEN, and not its value; the value"
                " is never written into a file."
            )
    if passed and url:
        raise click.UsageError("--env is for a command on this machine: a server has an environment of its own.")
    if passed and not place.client.takes_variables:
        raise click.UsageError(
            f"--env: {place.client.title} passes no variable on. Connect it without, and write the value into"
            f' {place.path} by hand, as "env": {{"{passed[0]}": "…"}} of our entry; it stays there.'
        )


def _choose_target(
    invocation: CommandContext,
    client: McpClient,
    url: str | None,
    token_env: str,
    profile: str,
) -> Target:
    if url:
        if invocation.file is not None:
            raise click.UsageError(f"--url names a server; leave out {invocation.file}.")
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
    if invocation.file is not None:
        path = invocation.file.absolute()
        if not path.is_file():
            raise click.UsageError(f"there is no file {path}")
        words.append(str(path))
    return own_target(words)


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
    is_found = bool(place.client.find_trace(request.home))  # before our file is a trace
    plan = partial(plan_connection, place, request.target, is_free=request.is_free)
    change = plan()  # what cannot be changed is said before anything is started
    target = read_target(change.entry or {}) or request.target
    if request.is_checked:
        try:
            proof = _prove_target(invocation, request, target)
        except ProofError as error:
            return _report_failure(request, error)
    change, copy = write_lately(place, plan)
    written = read_entry(place)
    if written != change.entry:
        raise ClientConfigError(f"{place.path} was written, and holds something else by now; try again")
    notes = [] if is_found else [f"{place.client.title} was not found on this machine; it reads this once it is here."]
    notes += _note_broken(invocation, request, target) if proof is not None else []
    notes += _find_notes(request, change, target)
    if request.as_json:
        echo_json({**_as_answer(request, change, copy, target, proof), "notes": notes})
    else:
        _report_connection(request, change, copy, target, proof, notes=notes)
    return DONE


def _prove_target(invocation: CommandContext, request: Request, target: Target) -> Proof:
    client = request.place.client
    click.echo(paint_text(f"Asking {target.describe()} for its tools …", "dim"), err=True)
    return invocation.run(prove_target(target, folder=request.folder, whole=client.passes_environment))


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


def _put_own_first(request: Request, names: Sequence[str]) -> list[str]:
    """Names of tools, those of the user's own files first: they are what a person looks for."""
    places = find_places(explicit=request.folder)
    folders = (
        named_tools_folder(request.home.environ) or places.user / "tools",
        places.project / ".toolstead" / "tools",
    )
    own: set[str] = set()
    for path in (path for folder in folders if folder.is_dir() for path in folder.glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            own.update(tool["name"] for tool in json.loads(path.read_bytes())["tools"])
    return sorted(names, key=lambda name: name not in own)


def _report_connection(
    request: Request, change: Change, copy: Path | None, target: Target, proof: Proof | None, *, notes: Sequence[str]
) -> None:
    place = request.place
    where = "for all your projects" if place.scope == "user" else f"in {request.shorten_path(request.folder)}"
    state = "is connected" if change.is_needed else "was connected already"
    click.echo(paint_text(f"{place.client.title} {state}, {where}.", "good"))
    echo_text(f"  runs   {target.describe()}" if target.command else f"  asks   {target.url}")
    if proof is not None:
        names = ", ".join(_put_own_first(request, proof.tools)[:3]) + (", …" if len(proof.tools) > 3 else "")
        echo_text(f"  gets   {count_noun(len(proof.tools), 'tool')} in {proof.seconds:.1f} s: {names}")
    else:
        echo_text("  gets   not asked (--no-check)")
    echo_text(f"  file   {request.shorten_path(place.path)}")
    if copy is not None:
        echo_text(f"  before {request.shorten_path(copy)}")
    click.echo("")
    for note in notes:
        echo_text(f"Note: {note}")
    echo_text(f"{place.client.next_step}.")
    echo_text(f"Undo: {place.removal_command}")


def _note_broken(invocation: CommandContext, request: Request, target: Target) -> list[str]:
    """What is wrong in the tool files that the command serves: their tools are missing in it."""
    if target.url or target.python_file:
        return []
    from toolstead.tools.sources.json_files import describe_problem

    loaded = invocation.make_stead(ask=False).read_tool_files()
    problems = [problem for file in loaded for problem in file.problems]
    if not problems:
        return []
    found = describe_problem(problems[0]).replace(f"{request.home.folder}/", "~/")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return [f"not every tool is there: {found}{more}. After a fix: toolstead tools check"]


def _find_notes(request: Request, change: Change, target: Target) -> list[str]:
    """What a person should know about what was written."""
    notes: list[str] = []
    client, entry = request.place.client, change.entry or {}
    if off := describe_switch(entry):
        notes.append(f"the entry says {off}, so {client.title} does not use it until you change that.")
    if client.free_entry and client.free_entry.items() <= entry.items():
        notes.append(f"{client.title} calls the tools without asking you; that stays so until --remove.")
    if client.name == "codex" and "default_tools_approval_mode" not in (change.entry or {}):
        notes.append(
            "`codex exec` has no person to ask, and calls only tools that say that they only read (`annotations`,"
            " `readOnlyHint: true`); --without-asking allows the others too."
        )
    if client.name == "claude-desktop" and "--project" not in target.command:
        notes.append("Claude Desktop starts it in no project of yours; --project PATH names one.")
    missing = [name for name in request.target.passed if not request.home.environ.get(name)]
    if missing:
        notes.append(f"{', '.join(missing)} is not set here; {client.title} passes on what is set where it starts.")
    notes += _describe_stronger(request)
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


def _describe_stronger(request: Request, *, is_removal: bool = False) -> list[str]:
    place, what = request.place, "is still there" if is_removal else "counts instead"
    return [
        f"in {request.shorten_path(Path(folder))} another {place.name!r} {what}: {describe_entry(entry)}. Take"
        f" it out there: claude mcp remove {place.name} --scope local"
        for folder, entry in find_stronger(place, request.home, request.folder)
    ]


def _remove_entry(request: Request) -> int:
    place, title = request.place, request.place.client.title
    change, copy = write_lately(place, partial(plan_removal, place))
    others = find_others(place, request.home, request.folder)
    if request.as_json:
        still = [{"name": other.name, "scope": other.scope, "file": str(other.path)} for other in others]
        echo_json({**_as_answer(request, change, copy, None, None), "stillConnected": still})
        return DONE
    if change.before is None:
        said = f"{place.name!r} was" if others else f"{title} was"
        echo_text(f"{said} not connected: {request.shorten_path(place.path)} has no {place.name!r}.")
    else:
        gone = f"{place.name!r} was taken out of {title}." if others else f"{title} is not connected any more."
        click.echo(paint_text(gone, "good"))
        left = "was removed: it held nothing else" if change.data is None else "has everything else as it was"
        echo_text(f"  file   {request.shorten_path(place.path)} {left}")
        if copy is not None:
            echo_text(f"  before {request.shorten_path(copy)}")
        echo_text("Sessions that are open keep it until they end.")
    for other in others:
        echo_text(f"Still connected: {other.name} ({other.removal_command})")
    for note in _describe_stronger(request, is_removal=True):
        echo_text(f"Note: {note}")
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
