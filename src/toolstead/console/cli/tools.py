"""`toolstead tools`: list, show, call, enable, disable and reload."""

from __future__ import annotations

import functools
import json
import logging
import shlex
import sys
import textwrap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolstead.app.tool_client import HttpTools, InProcessTools
from toolstead.console.cli.arguments import read_arguments
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    WRONG_USAGE,
    CommandGroup,
    client_command,
    common_options,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
    run_with_client,
    stead_command,
    table_width,
    terminal_width,
    url_option,
)
from toolstead.console.cli.tool_files import check_files, print_schema, test_files
from toolstead.console.cli.tool_new import new_tool
from toolstead.console.cli.tool_results import ProgressLine, check_output, print_content, write_output
from toolstead.errors import UnknownToolError
from toolstead.nearest_names import find_nearest
from toolstead.schema.visible import escape_unseen

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient
    from toolstead.app.stead import Toolstead
    from toolstead.console.cli.invocation import CommandContext

MOST_QUARANTINED = 20
"""Problems that `list` shows one by one."""
_OPEN_KEYS = frozenset(
    (
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependentSchemas",
        "if",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
    )
)
"""Keywords that say themselves which other names a schema takes."""
_EMPTY_KEYS = frozenset({"$schema", "additionalProperties", "description", "properties", "required", "title", "type"})

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the image or other data of the answer into a file; of a text, the text.",
)

Tools = InProcessTools | HttpTools


@click.group(
    "tools",
    cls=CommandGroup,
    epilog=examples(
        "toolstead tools list",
        "toolstead tools call git-status",
        "toolstead tools new todos --shell 'grep -rn TODO {{dir}}'",
    ),
)
def tools() -> None:
    """List, show, call and switch tools."""


def _tool_command(
    command: Callable[..., Coroutine[Any, Any, int | None]], *, level: int = logging.ERROR
) -> Callable[..., int | None]:
    """A command that is given the tools of this project, in this process; with `--url`, those of a server.

    With `--file`, those of a Python file, as `toolstead serve FILE.py` offers them.
    """

    @click.option(
        "--file",
        type=click.Path(path_type=Path),
        metavar="FILE.py",
        help="The tools of this Python file, and no others, in this process.",
    )
    @url_option
    @common_options
    @functools.wraps(command)
    def run_command(invocation: CommandContext, *, url: str | None, file: Path | None, **given: Any) -> int | None:
        if url is not None and file is not None:
            raise click.UsageError(f"--url names a server, and --file a file; leave out --url, or --file {file}")
        served = replace(invocation, file=file)

        async def ask_client(client: SteadClient) -> int | None:
            return await command(client.tools, **given)

        async def ask_stead() -> int | None:
            async with served.make_stead() as stead:
                return await command(InProcessTools(stead), **given)

        if url is not None:
            return run_with_client(invocation, url, ask_client)
        return invocation.run(ask_stead(), level=level)

    return run_command


@tools.command(
    "list",
    epilog=examples(
        "toolstead tools list", "toolstead tools list --json", "toolstead tools list --url http://127.0.0.1:8420"
    ),
)
@json_option
@functools.partial(_tool_command, level=logging.CRITICAL)  # it shows itself what is wrong; with -v the log does too
async def list_tools(tools: Tools, *, as_json: bool) -> None:
    """List the tools of this project.

    Tools that are switched off are listed as such. What is quarantined goes to stderr, with the reason.
    """
    found = await tools.list_tools()
    problems: list[dict[str, Any]] = found["quarantined"]
    if as_json:
        echo_json({"tools": found["tools"], "quarantined": problems})
    elif found["tools"]:
        _print_table(found["tools"])
    else:
        click.echo("No tools can be called here.", err=True)
    for problem in problems[:MOST_QUARANTINED]:
        line = f"quarantined: {_describe_problem(problem)}"
        wraps = sys.stderr.isatty() and "\n" not in line
        click.echo(click.wrap_text(line, terminal_width() - 1, "", "  ") if wraps else line, err=True)
    if len(problems) > MOST_QUARANTINED:
        click.echo(f"quarantined: {count_noun(len(problems) - MOST_QUARANTINED, 'more problem')}", err=True)
    if any(str(problem["source"]).endswith(".json") for problem in problems):
        click.echo(f"{count_noun(len(problems), 'problem')}; after a fix: toolstead tools check", err=True)
    for note in found["notes"]:
        click.echo(note, err=True)


@tools.command(
    "show",
    epilog=examples(
        "toolstead tools show file-reader", """toolstead tools show find-text --input '{"text": "TODO"}'"""
    ),
)
@click.argument("name")
@click.option("--input", "given", metavar="JSON", help="Show what would run for these arguments; nothing is run.")
@json_option
@_tool_command
async def show_tool(tools: Tools, *, name: str, given: str | None, as_json: bool) -> None:
    """Show one tool: what it does, where it comes from, its schema."""
    tool = await tools.read_tool(name, callable_only=given is not None)
    if given is not None:
        arguments = read_arguments((), given, tool["inputSchema"])
        _mention_unknown(tool, arguments)
        echo_json(await tools.preview_call(name, arguments))
    elif as_json:
        echo_json(tool)
    else:
        click.echo(f"{paint_text(tool['name'], 'name')}  ({_describe_source(tool)})")
        if not tool["enabled"]:
            click.echo(f"It is switched off. Switch it on: toolstead tools enable {name}")
        click.echo(textwrap.fill(tool["description"], terminal_width(), replace_whitespace=False))
        if isinstance(tools, InProcessTools) and (runs := tools.describe_handler(name)):
            click.echo()
            echo_text(f"  runs   {runs}")
            echo_text(f"  file   {tool['origin']}")
        click.echo("\nInput")
        _print_schema(tool["inputSchema"], empty="no parameters")
        if (schema := tool.get("outputSchema")) is not None:
            click.echo("\nOutput")
            _print_schema(schema, empty="an object")


@tools.command(
    "call",
    epilog=examples(
        "toolstead tools call git-status",
        "toolstead tools call file-reader path=README.md endLine=5",
        "toolstead tools call file-reader path=logo.png -o logo.png",
        "toolstead tools call shout text=hi --file my_tools.py",
        """echo '{"path": "README.md"}' | toolstead tools call file-reader --input -""",
    ),
)
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]…")
@click.option("--input", "given", metavar="JSON", help="All arguments as one JSON object; - reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@output_option
@_tool_command
async def call_tool(
    tools: Tools, *, name: str, pairs: tuple[str, ...], given: str | None, as_json: bool, output: Path | None
) -> int:
    """Call a tool and print its answer.

    KEY=VALUE is read by the schema's type, KEY:=JSON is JSON. stdout is the tool's text, everything
    else goes to stderr. Exit status: 0 done, 1 the tool answered with an error, 2 wrong usage.
    """
    check_output(output)
    tool = await tools.read_tool(name)
    arguments = read_arguments(pairs, given, tool["inputSchema"])
    _mention_unknown(tool, arguments)
    progress = ProgressLine()
    try:
        async with _ask_at_terminal(tools):
            result, is_wrong_usage = await tools.call_tool(name, arguments, on_progress=progress.show_progress)
    finally:
        progress.clear()
    status = DONE if not result["isError"] else WRONG_USAGE if is_wrong_usage else FAILED
    return _print_result(result, status, as_json=as_json, output=output)


@tools.command("result", epilog=examples("toolstead tools result res_660888db"))
@click.argument("handle")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@output_option
@stead_command
async def show_result(stead: Toolstead, *, handle: str, as_json: bool, output: Path | None) -> int:
    """Print the whole of an answer that was shown in part, by its HANDLE or its address."""
    check_output(output)
    kept = await stead.kept_result(handle)
    if as_json:
        echo_json(kept)
    elif output is None:
        print_content(kept["content"])
    return DONE if output is None else write_output(kept["content"], output)


@tools.command("enable", epilog=examples("toolstead tools enable web_fetch"))
@click.argument("name")
@stead_command
async def enable_tool(stead: Toolstead, *, name: str) -> None:
    """Switch a tool on again, in every running process."""
    _switch_tool(stead, name, enabled=True)


@tools.command("disable", epilog=examples("toolstead tools disable web_fetch"))
@click.argument("name")
@stead_command
async def disable_tool(stead: Toolstead, *, name: str) -> None:
    """Switch a tool off, in every running process, until it is enabled again."""
    _switch_tool(stead, name, enabled=False)


@tools.command("reload", epilog=examples("toolstead tools reload"))
@url_option
@json_option
@client_command
async def reload_tools(client: SteadClient, *, as_json: bool) -> int:
    """Read every tool file again, and show what changed."""
    answer = await client.reload_tools()
    if client.url is not None:
        click.echo(f"reloaded by the server at {client.url}", err=True)
    else:
        if client.lost_server is not None:
            click.echo(f"the server at {client.lost_server} does not answer any more", err=True)
        said = "the files were read; no `toolstead serve` runs here, and connected clients reload by themselves"
        click.echo(said, err=True)
    if as_json:
        echo_json(answer)
    else:
        _print_changes(answer)
    return DONE if answer["success"] else FAILED


def _ask_at_terminal(tools: Tools) -> AbstractAsyncContextManager[object]:
    """Where a call of this process waits for an approval, ask the person at this terminal while open."""
    from toolstead.app.approval_client import InProcessApprovals
    from toolstead.console.cli.approval_prompt import ApprovalPrompts

    if isinstance(tools, HttpTools):
        return nullcontext()
    return ApprovalPrompts(InProcessApprovals(tools.stead))


tools.known_elsewhere = {
    "remove": "Delete the tool's file, which `toolstead tools show NAME` names; or switch it off: toolstead tools"
    " disable NAME."
}
for command in (new_tool, check_files, test_files, print_schema):
    tools.add_command(command)
for name in ("enable", "disable", "reload", "result", "schema"):  # the page has them in the order of their use
    tools.commands[name] = tools.commands.pop(name)


def _switch_tool(stead: Toolstead, name: str, *, enabled: bool) -> None:
    """Switch a tool; a name that no tool has is refused where it is a slip, or where nothing was switched off.

    Raises:
        UnknownToolError: No tool has this name; the nearest is in the text.
        UsageError: No tool can have it.
    """
    from toolstead.app.state import Switches
    from toolstead.plugins.names import NAME

    registry, switches = stead.registry, Switches(stead.places.data)
    broken = (problem.tool_name for problem in registry.quarantined if problem.tool_name)
    known = {*(tool.name for tool in (*registry.list_tools(), *registry.list_disabled())), *broken}
    is_known = registry.holds(name) or name in known or (enabled and name in switches.read().disabled_tools)
    if not is_known and NAME.fullmatch(name) is None:
        blocking = f"for patterns: toolstead config set tools.blocked {shlex.quote(json.dumps([name]))}"
        hint = blocking if any(sign in name for sign in "*?[") else "names have letters, digits, _ and -"
        raise click.UsageError(f"{name!r} is no tool's name; {hint}")
    nearest = find_nearest(name, known)
    if not is_known and (enabled or nearest):
        raise UnknownToolError(name, tuple(nearest[:1]))
    changed = switches.set_tool_enabled(name, enabled)
    click.echo(f"{name} is {'now' if changed else 'already'} switched {'on' if enabled else 'off'}", err=True)
    if not is_known:
        click.echo(f"note: no tool of this project is called {name!r} at the moment", err=True)


def _mention_unknown(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Name the arguments that a tool has no parameter for, where its schema lets any name pass."""
    schema: Any = tool["inputSchema"]
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if not properties or _OPEN_KEYS & schema.keys():
        return
    for name in arguments.keys() - properties.keys():
        nearest = find_nearest(name, properties)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has: {', '.join(properties)}"
        click.echo(f"note: {tool['name']} has no parameter {name[:100]!r}; {hint}", err=True)


def _print_table(tools: Sequence[Mapping[str, Any]]) -> None:
    tools = sorted(tools, key=lambda tool: not str(tool.get("origin", "")).endswith(".json"))  # a person's own first
    rows = [
        (
            tool["name"],
            _describe_source(tool),
            ("" if tool["enabled"] else "(switched off) ") + tool["description"].split("\n\n", 1)[0],
        )
        for tool in tools
    ]
    off = [number for number, tool in enumerate(tools) if not tool["enabled"]]
    head = ("NAME", "SOURCE", "DESCRIPTION")
    click.echo("\n".join(render_table(head, rows, width=table_width(), dimmed=off)))


def _describe_source(tool: Mapping[str, Any]) -> str:
    """Where a tool comes from, as a person calls it: a tool file is a file, not a plugin."""
    if tool["source"] == "plugin" and str(tool.get("origin", "")).endswith(".json"):
        return f"file {Path(tool['origin']).name}"
    owner = tool.get("pluginName") or tool.get("agentName")
    source = {"builtin": "built in"}.get(tool["source"], tool["source"])
    return f"{source} {owner}" if owner else source


def _print_schema(schema: Any, *, empty: str) -> None:
    properties: dict[str, Any] = schema.get("properties") or {}
    if not properties and schema.keys() <= _EMPTY_KEYS and schema.get("additionalProperties") in (None, False):
        click.echo(f"  {empty}")
        return
    simple = properties and all(isinstance(item, dict) and "type" in item for item in properties.values())
    if not simple:
        click.echo(textwrap.indent(json.dumps(schema, indent=2), "  "))
        return
    for name, item in properties.items():
        kind = item["type"] if isinstance(item["type"], str) else " or ".join(item["type"])
        need = "" if name in schema.get("required", ()) else ", optional"
        default = f", default {json.dumps(item['default'])}" if "default" in item else ""
        click.echo(f"  {click.style(name, bold=True)} ({kind}{need}{default})")
        if text := item.get("description"):
            click.echo(textwrap.fill(text, terminal_width(), initial_indent="    ", subsequent_indent="    "))


def _print_result(result: Mapping[str, Any], status: int, *, as_json: bool, output: Path | None) -> int:
    """Print a result, or write it into a file; give the exit status."""
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
    elif status != DONE or output is None:
        print_content(result["content"], is_error=status != DONE)
    if output is None or status != DONE:
        return status
    return write_output(result["content"], output)


def _describe_problem(problem: Mapping[str, Any]) -> str:
    """What was quarantined, in the format of compiler messages."""
    place = ":".join(str(problem[key]) for key in ("source", "line", "column") if key in problem)
    tool = f"tool {problem['toolName']!r}: " if "toolName" in problem else ""
    return f"{escape_unseen(place)}: {tool}{problem['message']}"


def _print_changes(answer: dict[str, Any]) -> None:
    for word in ("added", "removed", "changed"):
        for name in answer[word]:
            click.echo(f"{word}  {name}")
            for change in answer.get("schemaChanges", {}).get(name, ()):
                mark = "breaks callers" if change["breaking"] else "harmless"
                click.echo(f"         {change['pointer']}: {change['change']} ({mark})")
    for error in answer["errors"]:
        click.echo(_describe_problem(error))
    click.echo(f"{answer['toolCount']} tools", err=True)
