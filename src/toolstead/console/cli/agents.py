"""`toolstead agents`: check agents' files, begin one, and print the schema of their frontmatter."""

from __future__ import annotations

import json
import logging
import shlex
from pathlib import Path

import click

from toolstead.console.cli.group import DONE, FAILED, common_options, count_noun, echo_json, json_option
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ToolsteadError


@click.group("agents")
def agents() -> None:
    """Check agents' files, and begin new ones."""


@agents.command("check")
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
        check = await check_agent_files(stead.places, names, [path.absolute() for path in paths])
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


@agents.command("new")
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


@agents.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of an agent's frontmatter, for editors."""
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
