"""`toolstead tools`: list, show, call, enable, disable and reload."""

from __future__ import annotations

import functools
import json
import logging
import textwrap
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.arguments import read_arguments
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    WRONG_USAGE,
    client_command,
    json_option,
    stead_command,
    terminal_width,
    url_option,
)
from toolstead.console.cli.tool_files import check_files, print_schema, test_files
from toolstead.console.cli.tool_new import new_tool
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

if TYPE_CHECKING:
    from toolstead.app.client import SteadClient
    from toolstead.app.stead import Toolstead
    from toolstead.types.tool import ToolInfo


@click.group("tools")
def tools() -> None:
    """List, show, call and switch tools."""


@tools.command("list")
@json_option
@functools.partial(stead_command, level=logging.CRITICAL)  # it shows itself what is quarantined
async def list_tools(stead: Toolstead, *, as_json: bool) -> None:
    """List the tools of this project."""
    from toolstead.tools.sources.json_files import describe_problem

    shown = stead.registry.list_tools()
    if as_json:
        click.echo(json.dumps({"tools": [tool.to_json() for tool in shown]}, indent=2))
    else:
        _print_table(shown)
    for problem in stead.registry.quarantined:
        if problem not in stead.waiting:  # those are shown already
            click.echo(f"quarantined: {describe_problem(problem)}", err=True)
    if stead.wide_root:
        click.echo(f"file-reader is switched off: {stead.wide_root}", err=True)


@tools.command("show")
@click.argument("name")
@click.option("--input", "given", metavar="JSON", help="Show what would run for these arguments; nothing is run.")
@json_option
@stead_command
async def show_tool(stead: Toolstead, *, name: str, given: str | None, as_json: bool) -> None:
    """Show one tool: what it does, where it comes from, its schema."""
    info = _find_tool(stead, name)
    if given is not None:
        preview = stead.registry.preview_call(name, read_arguments((), given, info.input_schema))
        click.echo(json.dumps(preview, indent=2, ensure_ascii=False))
    elif as_json:
        click.echo(json.dumps(info.to_json(), indent=2))
    else:
        click.echo(click.style(info.name, bold=True) + f"  ({_describe_source(info)})")
        click.echo(textwrap.fill(info.description, terminal_width(), replace_whitespace=False))
        for title, schema in (("Input", info.input_schema), ("Output", info.output_schema)):
            if schema is not None:
                click.echo(f"\n{title}")
                _print_schema(schema)


@tools.command("call")
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]…")
@click.option("--input", "given", metavar="JSON", help="All arguments as one JSON object; - reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@stead_command
async def call_tool(stead: Toolstead, *, name: str, pairs: tuple[str, ...], given: str | None, as_json: bool) -> int:
    """Call a tool and print its answer.

    KEY=VALUE is read by the schema's type, KEY:=JSON is JSON. stdout is the tool's text, everything
    else goes to stderr. Exit status: 0 done, 1 the tool answered with an error, 2 wrong usage.
    """
    arguments = read_arguments(pairs, given, _find_tool(stead, name).input_schema)
    result = await _call_tool(stead, name, arguments)
    _print_result(result, as_json=as_json)
    if not result.is_error:
        return DONE
    return WRONG_USAGE if result.failure is Failure.INVALID_ARGUMENTS else FAILED


@tools.command("result")
@click.argument("handle")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@stead_command
async def show_result(stead: Toolstead, *, handle: str, as_json: bool) -> None:
    """Print the whole of an answer that was shown in part, by its HANDLE or its address."""
    kept = await stead.kept_result(handle)
    if as_json:
        click.echo(json.dumps(kept, indent=2, ensure_ascii=False))
        return
    for part in kept["content"]:
        click.echo(part["text"] if part["type"] == "text" else f"[{part['type']}]", nl=part["type"] != "text")


@tools.command("enable")
@click.argument("name")
@stead_command
async def enable_tool(stead: Toolstead, *, name: str) -> None:
    """Switch a tool on again, in every running process."""
    _switch_tool(stead, name, enabled=True)


@tools.command("disable")
@click.argument("name")
@stead_command
async def disable_tool(stead: Toolstead, *, name: str) -> None:
    """Switch a tool off, in every running process, until it is enabled again."""
    _switch_tool(stead, name, enabled=False)


@tools.command("reload")
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
        click.echo("no server runs for this project; the files were read by this command only", err=True)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        _print_changes(answer)
    return DONE if answer["success"] else FAILED


async def _call_tool(stead: Toolstead, name: str, arguments: dict[str, Any]) -> ToolResult:
    """Call a tool; where an approval is wanted, the person at this terminal is asked."""
    from toolstead.app.approval_client import InProcessApprovals
    from toolstead.console.cli.approval_prompt import ApprovalPrompts

    async with ApprovalPrompts(InProcessApprovals(stead)):
        return await stead.call(name, arguments)


for command in (new_tool, check_files, test_files, print_schema):
    tools.add_command(command)


def _switch_tool(stead: Toolstead, name: str, *, enabled: bool) -> None:
    from toolstead.app.state import Switches

    known = stead.registry.holds(name)
    changed = Switches(stead.places.data).set_tool_enabled(name, enabled)
    click.echo(f"{name} is {'now' if changed else 'already'} switched {'on' if enabled else 'off'}", err=True)
    if not known:
        click.echo(f"note: no tool of this project is called {name!r} at the moment", err=True)


def _find_tool(stead: Toolstead, name: str) -> ToolInfo:
    info = stead.registry.get_tool_info(name)
    if info is None:
        raise stead.registry.unknown_tool(name)
    return info


def _print_table(shown: list[ToolInfo]) -> None:
    if not shown:
        click.echo("No tools can be called here.", err=True)
        return
    wide = min(max(len(tool.name) for tool in shown), 40)
    origin = max(len(_describe_source(tool)) for tool in shown)
    room = max(terminal_width() - wide - origin - 4, 20)
    for tool in shown:
        summary = textwrap.shorten(tool.description.split("\n\n", 1)[0], room, placeholder=" …")
        click.echo(
            f"{click.style(tool.name.ljust(wide), bold=True)}  {_describe_source(tool).ljust(origin)}  {summary}"
        )


def _describe_source(tool: ToolInfo) -> str:
    provenance = tool.provenance
    owner = provenance.plugin_name or provenance.agent_name
    return f"{provenance.source} {owner}" if owner else provenance.source


def _print_schema(schema: Any) -> None:
    properties: dict[str, Any] = schema.get("properties") or {}
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


def _print_result(result: ToolResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
        return
    for part in result.content:
        if isinstance(part, Text):
            click.echo(part.text, err=result.is_error, nl=not part.text.endswith("\n"))
        else:
            click.echo(f"[{type(part).__name__}; print it with --json]", err=True)


def _print_changes(answer: dict[str, Any]) -> None:
    for word in ("added", "removed", "changed"):
        for name in answer[word]:
            click.echo(f"{word}  {name}")
            for change in answer.get("schemaChanges", {}).get(name, ()):
                mark = "breaks callers" if change["breaking"] else "harmless"
                click.echo(f"         {change['pointer']}: {change['change']} ({mark})")
    for error in answer["errors"]:
        place = f"{error['source']}:{error['line']}:{error['column']}" if "line" in error else error["source"]
        tool = f"tool {error['toolName']!r}: " if "toolName" in error else ""
        click.echo(f"{place}: {tool}{error['message']}")
    click.echo(f"{answer['toolCount']} tools", err=True)
