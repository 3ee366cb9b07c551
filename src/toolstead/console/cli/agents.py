"""`toolstead agents`: list, show and check agents, begin one, and print the schema of their frontmatter."""

from __future__ import annotations

import json
import logging
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    CommandGroup,
    common_options,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
    stead_command,
    table_width,
    terminal_width,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ToolsteadError, UnknownAgentError

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.types.agent import Agent, EffectiveValue

MOST_LISTED = 40
"""Tools that are named without being asked for."""
_STALE = "a process that read such a file while it was good, such as a running server, goes on with that version"
_NO_PLACES = ("default", "chosen: ", "none is available: ")
"""How origins begin that are no place where a value is set."""


@click.group(
    "agents",
    cls=CommandGroup,
    epilog=examples("toolstead agents list", "toolstead agents new reviewer --tools 'git-*,file-reader'"),
)
def agents() -> None:
    """List, show and check agents, and begin new ones."""


@agents.command("list", epilog=examples("toolstead agents list"))
@json_option
@stead_command
async def list_agents(stead: Toolstead, *, as_json: bool) -> None:
    """List the agents of this project."""
    from toolstead.agents.catalogue import describe_finding

    known = await stead.agents()
    findings = known.find_findings()
    if as_json:
        shown = [agent.to_json() for agent in known.catalogue.agents.values()]
        echo_json({"agents": shown, "findings": [finding.to_json() for finding in findings]})
        return
    rows = [
        (agent.name, _describe_place(agent), agent.description or "(no description)")
        for agent in known.catalogue.agents.values()
    ]
    click.echo("\n".join(render_table(("NAME", "FROM", "DESCRIPTION"), rows, width=table_width())))
    errors = [describe_finding(finding) for finding in findings if finding.severity == "error"]
    for error in errors:
        click.echo(error, err=True)
    if errors:
        click.echo(f"note: {_STALE}", err=True)


@agents.command("show", epilog=examples("toolstead agents show main", "toolstead agents show main --tools"))
@click.argument("name")
@click.option("--tools", "with_tools", is_flag=True, help="Show for every tool why it is offered or not.")
@json_option
@stead_command
async def show_agent(stead: Toolstead, *, name: str, with_tools: bool, as_json: bool) -> None:
    """Show one agent: what it runs with, where each value comes from, and its tools."""
    from toolstead.agents.catalogue import describe_finding

    known = await stead.agents()
    try:
        agent = known.read_agent(name)
    except UnknownAgentError:
        faults = [one for one in known.find_findings() if one.severity == "error" and Path(one.source).stem == name]
        if not faults:
            raise
        why = "\n".join(map(describe_finding, faults))
        raise ToolsteadError(f"agent {name!r} cannot be loaded; {_STALE}\n{why}") from None
    values, reasons = stead.explain_agent(agent), known.explain_tools(agent)
    if as_json:
        effective = [value.to_json() for value in values]
        offers = [reason.to_json() for reason in reasons]
        echo_json({**agent.to_json(), "instructions": agent.instructions, "effective": effective, "offers": offers})
        return
    echo_text(agent.name, kind="name", nl=False)
    echo_text(f"  ({_describe_place(agent)}: {agent.origin})")
    if agent.description:
        echo_text(textwrap.fill(agent.description, terminal_width()))
    click.echo("\nRuns with")
    for value in values:
        _print_value(value)
    _print_checks(agent)
    if with_tools:
        click.echo("\nTools")
        wide = max((len(one.name) for one in reasons), default=0)
        for one in reasons:
            start = f"  {'+' if one.is_offered else '-'} {one.name.ljust(wide)}  "
            below = " " * (len(start) if len(start) < terminal_width() // 2 else 6)
            echo_text(textwrap.fill(one.reason, terminal_width(), initial_indent=start, subsequent_indent=below))
        return
    offered = [one.name for one in reasons if one.is_offered]
    click.echo(f"\nTools: {len(offered)} of {len(reasons)} are offered; --tools says why")
    shown = ", ".join(offered[:MOST_LISTED]) + (", …" if len(offered) > MOST_LISTED else "")
    click.echo(textwrap.fill(shown or "none", terminal_width(), initial_indent="  ", subsequent_indent="  "))


@agents.command(
    "check", epilog=examples("toolstead agents check", "toolstead agents check .toolstead/agents/reviewer.md")
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@json_option
@common_options
def check_agents(invocation: CommandContext, paths: tuple[Path, ...], *, as_json: bool) -> int:
    """Check agents' files: every finding as file:line:column, exit status 1 when one is an error.

    PATHS are files or folders; without any, your own folder and the project's .toolstead/agents and .claude/agents.
    """
    if missing := [str(path) for path in paths if not path.exists()]:
        raise click.UsageError(f"no such file or folder: {', '.join(missing)}")

    async def run() -> int:
        from toolstead.agents.catalogue import describe_finding
        from toolstead.app.agent_checking import check_agent_files

        async with invocation.make_stead(ask=False) as stead:
            names = [tool.name for tool in stead.registry.list_tools()]
        delegates = () if paths else invocation.load().settings.multi_agent.agents
        check = await check_agent_files(stead.places, names, [path.absolute() for path in paths], delegates)
        if as_json:
            found = [finding.to_json() for finding in check.findings]
            echo_json({"files": check.files, "agents": list(check.agents), "findings": found})
            return FAILED if check.has_errors else DONE
        for finding in check.findings:
            click.echo(describe_finding(finding))
        counts = [
            count_noun(number, severity)
            for severity in ("error", "warning", "note")
            if (number := sum(finding.severity == severity for finding in check.findings))
        ]
        said = ", ".join(counts) or "no findings"
        click.echo(
            f"{count_noun(check.files, 'file')}, {count_noun(len(check.agents), 'good agent')}, {said}", err=True
        )
        return FAILED if check.has_errors else DONE

    return invocation.run(run(), level=logging.ERROR)


@agents.command(
    "new",
    epilog=examples("toolstead agents new reviewer --tools 'git-*,file-reader'"),
)
@click.argument("name")
@click.option("--description", metavar="TEXT", default="", help="When to use it, for people and other agents.")
@click.option("--model", metavar="MODEL", default="", help="Its model; by default that of the settings.")
@click.option("--tools", metavar="A,B", default="", help="Names and patterns of its tools; by default every tool.")
@click.option("--in-project", is_flag=True, help="Into the project's .toolstead/agents, not into your own folder.")
@common_options
def new_agent(
    invocation: CommandContext, *, name: str, description: str, model: str, tools: str, in_project: bool
) -> int:
    """Write an agent's file to begin with.

    No file is ever written over, and what the check would refuse is not written. stdout is the file's path.
    """
    from toolstead.agents.catalogue import describe_finding
    from toolstead.agents.draft import draft_agent
    from toolstead.app.agent_checking import check_draft
    from toolstead.app.authoring import add_file, agents_folder

    listed = [tool for part in tools.split(",") if (tool := part.strip())]
    path = agents_folder(invocation.find_places(), in_project=in_project) / f"{name}.md"
    try:
        data = draft_agent(name, description=description, model=model, tools=listed).encode()
    except UnicodeEncodeError:
        raise ToolsteadError("the arguments are not valid UTF-8, which an agent's file must be") from None
    findings = check_draft(path, data, in_project=in_project)
    if errors := [finding.message for finding in findings if finding.severity == "error"]:
        raise ToolsteadError("\n".join(errors))
    add_file(path, data)
    click.echo(str(path))
    for finding in findings:
        click.echo(describe_finding(finding), err=True)
    _print_next(name, path, in_project=in_project)
    return DONE


@agents.command("schema", epilog=examples("toolstead agents schema > agent.schema.json"))
@common_options
def print_schema(invocation: CommandContext) -> None:
    """Print the JSON Schema of an agent's frontmatter, for editors."""
    del invocation  # every command takes the common options
    from toolstead.agents.frontmatter_schema import frontmatter_schema

    click.echo(json.dumps(frontmatter_schema(), indent=2))


def _print_next(name: str, path: Path, *, in_project: bool) -> None:
    """The commands that come next, each with what it is for."""
    commands = [(f"toolstead agents check {shlex.quote(str(path))}", "after you edited it")]
    if in_project:
        commands.append(("toolstead trust", "approve it; until then it is not read"))
    commands.append((f'toolstead ask --agent {name} "…"', "talk to it"))
    wide = max(len(command) for command, _ in commands)
    for command, comment in commands:
        click.echo(f"  {command.ljust(wide)}  # {comment}", err=True)


def _describe_place(agent: Agent) -> str:
    place = {"builtin": "built in", "claude": ".claude/agents"}.get(agent.scope, agent.scope)
    return f"{place}, stale" if agent.stale else place


def _print_checks(agent: Agent) -> None:
    """What a task that is delegated to it has to pass, and the tools that its file defines."""
    checks = [json.dumps(msgspec.to_builtins(gate), ensure_ascii=False) for gate in agent.gates]
    if agent.result_schema is not None:
        checks.append(f"result_schema {json.dumps(agent.result_schema, ensure_ascii=False)}")
    if checks:
        click.echo("\nA task has to pass")
    for check in checks:
        echo_text(textwrap.fill(check, terminal_width(), initial_indent="  ", subsequent_indent="    "))
    if agent.custom_tools:
        click.echo("\nTools of its own, each a prompt")
    for tool in agent.custom_tools:
        names = ", ".join(tool.input_schema.get("properties", {})) or "no parameters"
        more = "".join(
            (
                f"; model {tool.model}" if tool.model else "",
                "; its answer has to fit a schema" if tool.result_schema is not None else "",
                "; answers are reused" if tool.cache else "",
            )
        )
        line = f"{tool.name} ({names}): {tool.description}{more}"
        echo_text(textwrap.fill(line, terminal_width(), initial_indent="  ", subsequent_indent="    "))


def _print_value(value: EffectiveValue) -> None:
    shown = "(none)" if value.value is None else json.dumps(value.value, ensure_ascii=False)
    origin = value.origin if value.origin.startswith(_NO_PLACES) else f"from {value.origin}"
    notes = [origin, *([f"instead of {value.overrode}"] if value.overrode else [])]
    line = f"  {value.key} = {shown}"
    if len(line) + len("; ".join(notes)) + 4 <= terminal_width():
        echo_text(f"{line}  ({'; '.join(notes)})")
        return
    echo_text(line)
    for note in notes:
        echo_text(
            textwrap.fill(
                note,
                terminal_width(),
                initial_indent="      ",
                subsequent_indent="        ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
