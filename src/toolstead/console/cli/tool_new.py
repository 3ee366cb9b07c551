"""`toolstead tools new`: a tool file from a template, ready to be called and to be edited."""

from __future__ import annotations

import json
import logging
import re
import shlex
import subprocess
import sys
import textwrap
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.group import DONE, FAILED, common_options, count_noun, echo_json, examples, json_option
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import DuplicateToolError, ToolsteadError

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.tools.sources.json_file import LoadedFile

_NAMED_SCRIPT = re.compile(r'"allowScript": \["([\w-]+)"\]')
_WITH_METHOD = re.compile(r"\s*([A-Za-z]+)\s+(\S.*)", re.DOTALL)


@click.command(
    "new",
    epilog=examples(
        "toolstead tools new find --shell 'grep -rnF -- {{text}} {{dir}}'",
        "toolstead tools new get-user --http 'GET https://example.com/users/{{id}}'",
        "toolstead tools new add-issue --http 'POST https://git.example.com/issues' \\",
        "    --header 'Authorization: Bearer ${GIT_TOKEN}' --param title:string",
        "toolstead tools new notes --file ~/notes --description 'Read my notes.'",
    ),
)
@click.argument("name")
@click.option("--shell", "command", metavar="COMMAND", help="Run a command, such as 'rg -n {{pattern}} {{dir}}'.")
@click.option("--http", "request", metavar="'METHOD URL'", help="Send a request; GET unless a method is given.")
@click.option("--method", metavar="METHOD", help="The method of --http, where it does not stand before the URL.")
@click.option(
    "--header",
    "headers",
    metavar="'NAME: VALUE'",
    multiple=True,
    help="A header of --http; ${SECRET} in it is taken from the environment when the tool is called. Repeatable.",
)
@click.option("--file", "folder", metavar="FOLDER", help="Read files inside a folder.")
@click.option(
    "--param",
    "parameters",
    metavar="NAME:TYPE[=DEFAULT]",
    multiple=True,
    help="Declare a parameter: string, integer, number, boolean or array; NAME? may be left out. Those of --http that "
    "are not in the URL go into the body, or into the query of a GET. Repeatable.",
)
@click.option(
    "--allow-script",
    "scripts",
    metavar="PARAM",
    multiple=True,
    help="Let the values of a parameter of --shell run as code: dangerous. Repeatable.",
)
@click.option("--description", metavar="TEXT", help="What the tool does, for the model; else drafted.")
@click.option("--in-project", is_flag=True, help="Into the project's .toolstead/tools, not into your own folder.")
@click.option("--edit", is_flag=True, help="Open it in $VISUAL or $EDITOR, and check it afterwards.")
@json_option
@common_options
def new_tool(
    invocation: CommandContext, *, name: str, in_project: bool, edit: bool, as_json: bool, **given: Any
) -> int:
    """Write a tool file from a command, a request or a folder.

    {{placeholders}} become parameters, their types guessed from their names unless --param declares them. Nothing
    is run, and no file is ever written over. stdout is the file's path. Exit status: 0 done, 1 the edited file has
    a problem, 2 nothing was written.
    """
    from toolstead.app.authoring import authoring_folder, find_editor

    if edit and as_json:
        raise click.UsageError("--edit is for people and --json for programs; give one of them")
    places = invocation.find_places()
    document = _draft_tool(name, places.project, **given)
    _validate_draft(document)
    editor = find_editor(at_terminal=sys.stdin.isatty() and sys.stdout.isatty()) if edit else None
    path = authoring_folder(places, in_project=in_project) / f"{name}.json"
    callable_now = invocation.run(_write(invocation, name, path, document, in_project=in_project), level=logging.ERROR)
    tool = document["tools"][0]
    if as_json:
        echo_json(
            {"path": str(path), "tool": tool, "advice": _find_advice(tool, places.project), "callable": callable_now}
        )
        return DONE
    click.echo(str(path))
    if edit:
        if editor is None:
            click.echo(f"no editor is set: set VISUAL or EDITOR, or open {path} yourself", err=True)
            return FAILED
        return _edit_file(invocation, [*editor, str(path)], path, in_project=in_project)
    _present_tool(tool)
    for host in tool["handler"].get("allowedHosts", ()):
        click.echo(f'It may reach {host}, which is private: "allowedHosts" names it.', err=True)
    _print_ok_status(tool)
    _print_drafted(tool, **given)
    _print_advice(tool, places.project)
    _print_next(name, tool["examples"][0]["input"], path, in_project=in_project)
    if not in_project and not callable_now:
        click.echo(
            f"\nnote: {name} cannot be called now: it is switched off, or tools.allowed and tools.blocked in the "
            "settings hide it",
            err=True,
        )
    return DONE


def _draft_tool(
    name: str,
    project: Path,
    *,
    command: str | None,
    request: str | None,
    method: str | None,
    headers: tuple[str, ...],
    folder: str | None,
    parameters: tuple[str, ...],
    scripts: tuple[str, ...],
    description: str | None,
) -> dict[str, Any]:
    from toolstead.tools.sources.json_draft import draft_file_read, draft_http, draft_shell
    from toolstead.tools.sources.json_parameters import read_headers, read_parameters

    if sum(one is not None for one in (command, request, folder)) != 1:
        raise click.UsageError("give one of --shell COMMAND, --http 'METHOD URL' and --file FOLDER")
    if request is None and (method is not None or headers):
        raise click.UsageError(f"--{'method' if method is not None else 'header'} belongs to --http URL")
    if folder is not None and parameters:
        raise click.UsageError("--param belongs to --shell and --http; a tool that reads files takes their path")
    if command is None and scripts:
        raise click.UsageError("--allow-script belongs to --shell COMMAND")
    declared = read_parameters(parameters)
    if command is not None:
        sample = _find_sample(project)
        return draft_shell(
            name, command, description=description, declared=declared, scripts=scripts, sample_file=sample
        )
    if folder is not None:
        return draft_file_read(name, folder, description=description)
    found = _WITH_METHOD.fullmatch(request or "")
    before, url = found.groups() if found else ("", request or "")
    if before and method and before.upper() != method.upper():
        raise click.UsageError(f"--http gives {before} and --method {method}; give one method")
    return draft_http(
        name,
        (before or method or "GET").upper(),
        url.strip(),
        description=description,
        declared=declared,
        headers=read_headers(headers),
    )


def _find_sample(project: Path) -> str:
    """A text file of the project, for an example that can be tried; empty where there is none."""
    from toolstead.tools.sources.json_draft import SAMPLE_FILE

    with suppress(OSError):
        names = [file.name for file in sorted(project.iterdir()) if file.is_file() and not file.name.startswith(".")]
        likely = (SAMPLE_FILE, *(name for name in names if name.endswith((".md", ".txt", ".py", ".toml"))), *names)
        return next((name for name in likely if name in names), "")
    return ""


def _validate_draft(document: dict[str, Any]) -> None:
    """Let the loader look at a draft before anything is written.

    Raises:
        ToolsteadError: It would not load, in the loader's words.
    """
    from toolstead.tools.sources.json_file import validate_tool_file

    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ToolsteadError("the arguments are not valid UTF-8, which a tool file must be") from None
    if errors := validate_tool_file(document).errors:
        raise ToolsteadError("\n".join(_NAMED_SCRIPT.sub(r"\g<0>; here: --allow-script \1", one) for one in errors))


async def _write(
    invocation: CommandContext, name: str, path: Path, document: dict[str, Any], *, in_project: bool
) -> bool:
    """Write the file, and the schema that editors find beside it; return whether the tool can be called now.

    A project's tool cannot: these bytes were never approved.

    Raises:
        ToolsteadError: The name is taken, or the file cannot be written.
    """
    from toolstead.app.authoring import add_file, put_format_schema
    from toolstead.tools.sources.json_draft import file_text

    async with invocation.make_stead(ask=False) as stead:
        if (holder := _find_holder(stead, name, path, in_project=in_project)) is not None:
            raise DuplicateToolError(tool=name, holder=holder)
        add_file(path, file_text(document).encode())
        put_format_schema(path.parent)
        if in_project:
            return False
        await stead.registry.reload_plugins()
        return stead.registry.has_tool(name)


def _find_holder(stead: Toolstead, name: str, path: Path, *, in_project: bool) -> str | None:
    """Who else has a name already; a file of the project that waits for approval counts for the project."""
    from toolstead.app.authoring import find_name_holder

    files = stead.tool_files()
    if in_project and path.parent.is_dir():
        files += stead.read_tool_files([path.parent])
    registry = stead.registry
    return find_name_holder(name, path, files, held=registry.find_held(name), is_hidden=not registry.has_tool(name))


def _edit_file(invocation: CommandContext, command: list[str], path: Path, *, in_project: bool) -> int:
    """Open a file in the editor, and check it when the editor is closed."""
    from toolstead.tools.sources.json_files import describe_problem
    from toolstead.tools.sources.json_warnings import describe_warning

    try:
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - the user's own editor
    except OSError as error:
        click.echo(f"{command[0]} cannot be started: {error.strerror}; open {path} yourself", err=True)
        return FAILED
    if status:
        click.echo(f"{command[0]} ended with status {status}; the file is checked anyway", err=True)
    stead = invocation.make_stead(ask=False)
    file = invocation.run(_check_file(stead, path), level=logging.ERROR)
    invocation.run(_log_warnings(stead, path), level=logging.WARNING)
    for problem in file.problems:
        click.echo(describe_problem(problem))
    for warning in file.warnings:
        click.echo(describe_warning(warning), err=True)
    if file.problems:
        click.echo(f"{count_noun(len(file.problems), 'problem')}; fix the file, then: toolstead tools check", err=True)
        return FAILED
    if not file.tools:
        click.echo(f"{path} holds no tool", err=True)
    for tool in json.loads(path.read_bytes())["tools"]:
        _print_advice(tool, stead.places.project)
    for tool in file.tools:
        examples = file.examples.get(tool.info.name, ())
        _present_tool(
            {"name": tool.info.name, "description": tool.info.description, "inputSchema": tool.info.input_schema}
        )
        _print_next(tool.info.name, examples[0].input if examples else {}, path, in_project=in_project)
    return FAILED if status else DONE


async def _check_file(stead: Toolstead, path: Path) -> LoadedFile:
    """Load the file after all others, so that a name that one of them has is a problem of this file."""
    async with stead:
        others = [file.path for file in stead.tool_files() if file.path != path]
        return stead.read_tool_files([*others, path])[-1]


async def _log_warnings(stead: Toolstead, path: Path) -> None:
    """Read this file alone, for the warnings about it."""
    stead.read_tool_files([path])


def _present_tool(tool: Any) -> None:
    """A tool in a few lines: its name, its parameters as for a manual page, its description."""
    schema = tool["inputSchema"]
    required = schema.get("required", ())
    names = [name if name in required else f"[{name}]" for name in schema.get("properties", {})]
    click.echo(f"\n  {paint_text(tool['name'], 'name')} {' '.join(names)}".rstrip(), err=True)
    click.echo(textwrap.indent(textwrap.fill(tool["description"], 76), "  ") + "\n", err=True)


def _print_drafted(tool: Any, *, description: str | None, parameters: tuple[str, ...], **_: Any) -> None:
    """Say what of the file is drafted, so that the rest need not be looked at."""
    names = tool["inputSchema"]["properties"]
    drafted = ["description"] if description is None else []
    if names:
        drafted.append("types" if not parameters else "descriptions of parameters")
        drafted.append("example")
    if drafted:
        listed = " and ".join(filter(None, (", ".join(drafted[:-1]), drafted[-1])))
        click.echo(f"The {listed} {'is a draft' if len(drafted) == 1 else 'are drafts'}; edit the file.", err=True)
    click.echo('The example is checked, and not run as long as it says "run": false.\n', err=True)


def _print_ok_status(tool: Any) -> None:
    """Say what was added to the handler, and why."""
    from toolstead.tools.handlers.shell_syntax import parse
    from toolstead.tools.sources.json_advice import explain_status_1

    if (statuses := tool["handler"].get("okStatus")) is not None:
        meaning = explain_status_1(parse(tool["handler"]["command"]))
        said = f'{meaning}: "okStatus": {json.dumps(statuses)} in the file makes that an answer and no error.'
        click.echo(textwrap.fill(said, 79, break_on_hyphens=False), err=True)


def _find_advice(tool: Any, project: Path) -> list[str]:
    from toolstead.app.authoring import find_program, is_folder, is_variable_set
    from toolstead.tools.sources.json_advice import advise_author

    return list(
        advise_author(tool, find_program=find_program, is_set=is_variable_set, has_folder=partial(is_folder, project)),
    )


def _print_advice(tool: Any, project: Path) -> None:
    advice = _find_advice(tool, project)
    for sentence in advice:
        lines = textwrap.fill(f"warning: {sentence}", 79, subsequent_indent="  ", break_on_hyphens=False)
        click.echo(lines.replace("warning", paint_text("warning", "warning"), 1), err=True)
    if advice:
        click.echo(err=True)


def _print_next(name: str, example: Any, path: Path, *, in_project: bool) -> None:
    """The commands that come next, each with what it is for."""
    named = f"-- {name}" if name.startswith("-") else name
    pairs = [
        f"{key}={value}" if isinstance(value, str) else f"{key}:={json.dumps(value)}" for key, value in example.items()
    ]
    call = " ".join(["toolstead tools call", named, *map(shlex.quote, pairs)])
    commands = [("toolstead tools check", "nothing is run"), (f"toolstead tools test {named}", "its examples")]
    if in_project:
        here = Path.cwd()
        file = shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
        commands = [(f"toolstead tools check {file}", ""), (f"toolstead tools test {file}", "")]
        commands.append(("toolstead trust", "approve it; until then it is not read"))
    commands.append((call, ""))
    wide = max(len(command) for command, comment in commands if comment)
    for command, comment in commands:
        click.echo(f"  {command.ljust(wide)}  # {comment}" if comment else f"  {command}", err=True)
