"""`toolstead tools`: list, show, call, enable and disable."""

from __future__ import annotations

import json
import logging
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import click

from toolstead.console.cli.arguments import read_arguments
from toolstead.console.cli.invocation import CommandContext, common_options
from toolstead.console.cli.tool_files import check_files, print_schema, test_files
from toolstead.console.cli.tool_new import new_tool
from toolstead.console.cli.tool_reload import reload_tools
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.types.tool import ToolInfo

DONE, SAID_NO, WRONG_USAGE = 0, 1, 2


@click.group("tools")
def tools() -> None:
    """List, show, call and switch tools."""


@tools.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@common_options
@click.pass_obj
def list_tools(invocation: CommandContext, as_json: bool) -> int:
    """List the tools of this project."""
    from toolstead.tools.sources.json_files import describe_problem

    async def run() -> int:
        async with invocation.make_stead() as stead:
            shown = stead.registry.list_tools()
            if as_json:
                click.echo(json.dumps({"tools": [tool.to_json() for tool in shown]}, indent=2))
            else:
                _print_table(shown)
            for problem in stead.registry.quarantined:
                if problem in stead.waiting:  # shown already
                    continue
                click.echo(f"quarantined: {describe_problem(problem)}", err=True)
        return DONE

    return invocation.run(run(), level=logging.ERROR)


@tools.command("show")
@click.argument("name")
@click.option("--input", "given", metavar="JSON", help="Show what would run for these arguments; nothing is run.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@common_options
@click.pass_obj
def show_tool(invocation: CommandContext, name: str, given: str | None, as_json: bool) -> int:
    """Show one tool: what it does, where it comes from, its schema."""

    async def run() -> int:
        async with invocation.make_stead() as stead:
            info = _find_tool(stead, name)
            if given is not None:
                preview = stead.registry.preview_call(name, read_arguments((), given, info.input_schema))
                click.echo(json.dumps(preview, indent=2, ensure_ascii=False))
                return DONE
        if as_json:
            click.echo(json.dumps(info.to_json(), indent=2))
            return DONE
        click.echo(click.style(info.name, bold=True) + f"  ({_describe_source(info)})")
        click.echo(textwrap.fill(info.description, _terminal_width(), replace_whitespace=False))
        click.echo("\nInput")
        _print_schema(info.input_schema)
        if info.output_schema is not None:
            click.echo("\nOutput")
            _print_schema(info.output_schema)
        return DONE

    return invocation.run(run(), level=logging.ERROR)


@tools.command("call")
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]…")
@click.option("--input", "given", metavar="JSON", help="All arguments as one JSON object; - reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@common_options
@click.pass_obj
def call_tool(invocation: CommandContext, name: str, pairs: tuple[str, ...], given: str | None, as_json: bool) -> int:
    """Call a tool and print its answer.

    KEY=VALUE is read by the schema's type, KEY:=JSON is JSON. stdout is the tool's text, everything
    else goes to stderr. Exit status: 0 done, 1 the tool answered with an error, 2 wrong usage.
    """

    async def run() -> int:
        async with invocation.make_stead() as stead:
            arguments = read_arguments(pairs, given, _find_tool(stead, name).input_schema)
            result = await stead.call(name, arguments)
        _print_result(result, as_json=as_json)
        if not result.is_error:
            return DONE
        return WRONG_USAGE if result.failure is Failure.INVALID_ARGUMENTS else SAID_NO

    return invocation.run(run(), level=logging.ERROR)


@tools.command("result")
@click.argument("handle")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@common_options
@click.pass_obj
def show_result(invocation: CommandContext, handle: str, as_json: bool) -> int:
    """Print the whole of an answer that was shown in part, by its HANDLE."""

    async def run() -> dict[str, Any]:
        async with invocation.make_stead() as stead:
            return await stead.kept_result(handle)

    kept = invocation.run(run(), level=logging.ERROR)
    if as_json:
        click.echo(json.dumps(kept, indent=2, ensure_ascii=False))
    else:
        for part in kept["content"]:
            click.echo(part["text"] if part["type"] == "text" else f"[{part['type']}]", nl=part["type"] != "text")
    return DONE


@tools.command("enable")
@click.argument("name")
@common_options
@click.pass_obj
def enable_tool(invocation: CommandContext, name: str) -> int:
    """Switch a tool on again, in every running process."""
    return _switch_tool(invocation, name, enabled=True)


@tools.command("disable")
@click.argument("name")
@common_options
@click.pass_obj
def disable_tool(invocation: CommandContext, name: str) -> int:
    """Switch a tool off, in every running process, until it is enabled again."""
    return _switch_tool(invocation, name, enabled=False)


for command in (new_tool, check_files, test_files, print_schema, reload_tools):
    tools.add_command(command)


def _switch_tool(invocation: CommandContext, name: str, *, enabled: bool) -> int:
    from toolstead.app.state import Switches

    async def run() -> int:
        async with invocation.make_stead() as stead:
            known = stead.registry.holds(name)
        changed = Switches(invocation.find_places().data).set_tool_enabled(name, enabled)
        word = "on" if enabled else "off"
        click.echo(f"{name} is {'now' if changed else 'already'} switched {word}", err=True)
        if not known:
            click.echo(f"note: no tool of this project is called {name!r} at the moment", err=True)
        return DONE

    return invocation.run(run(), level=logging.ERROR)


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
    room = max(_terminal_width() - wide - origin - 4, 20)
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
            click.echo(textwrap.fill(text, _terminal_width(), initial_indent="    ", subsequent_indent="    "))


def _print_result(result: ToolResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
        return
    for part in result.content:
        if isinstance(part, Text):
            click.echo(part.text, err=result.is_error, nl=not part.text.endswith("\n"))
        else:
            click.echo(f"[{type(part).__name__}; print it with --json]", err=True)


def _terminal_width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, 100)
