"""The commands as click knows them: the common options, and commands that are imported when they are called.

`--project`, `--set` and `-v` may stand before the command or after it.
"""

from __future__ import annotations

import functools
import importlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolstead.console.cli.colour import Kind, paint_text
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.own_output import find_output
from toolstead.console.cli.standard_streams import OutputError
from toolstead.errors import ToolsteadError
from toolstead.nearest_names import suggest
from toolstead.schema.visible import escape_unseen, is_plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DONE, FAILED, WRONG_USAGE = 0, 1, 2
"""Exit statuses."""

_T = TypeVar("_T")

SECTIONS: dict[str, dict[str, str]] = {
    "Tools": {
        "tools": "List, show, call, write and switch tools.",
        "mcp": "Serve MCP on stdin and stdout.",
        "serve": "Serve the tools and the console: REST, MCP, a page.",
    },
    "Agents": {
        "ask": "Ask an agent, and print its answer as it comes.",
        "chat": "Talk with an agent, line by line.",
        "threads": "List, show, rename, delete and export conversations.",
        "agents": "List, show and check agents, and begin new ones.",
        "tasks": "List, show, follow, cancel and retry delegated tasks.",
        "approvals": "List the calls that wait for you; allow or deny them.",
        "vfs": "See, restore, export and import the files that agents share.",
    },
    "Set up": {
        "connect": "Give the tools to Claude Code, Codex, Gemini and others.",
        "doctor": "Show which runtimes and models can be used here.",
        "keys": "Keep keys of model APIs, and see where each comes from.",
        "config": "Show and set settings, and see where each came from.",
        "trust": "Approve what a project brings, and see what changed.",
        "plugins": "List and switch plugins, and set their settings.",
        "completion": "Print what lets a shell complete commands and names.",
        "help": "Show the help of a command.",
    },
}
"""Every command with a line about it, by what it is for and in the order of their use."""

COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


_PROJECT = "The project's folder, unless the current one."
_SET = "A setting for this command alone, such as tools.timeout=5."
_LOCAL = "toolstead.local"
_VERBOSE = "Log more to stderr; twice for everything."


class CommandGroup(click.Group):
    """A group of commands: an unknown one is answered with the nearest, and its page cuts no sentence.

    Attributes:
        known_elsewhere: What to say about words that people try, and that are no commands.
    """

    known_elsewhere: Mapping[str, str] = MappingProxyType({})

    def describe_commands(self) -> dict[str, str]:
        """Each command with a line about it."""
        return {name: _first_paragraph(command) for name, command in self.commands.items() if not command.hidden}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, suggesting the nearest for an unknown one."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            hint = self.known_elsewhere.get(args[0]) or suggest(
                args[0], known, otherwise=f"there are: {', '.join(known)}."
            )
            ctx.fail(f"no such command {args[0]!r}. {hint[:1].upper()}{hint[1:]}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.describe_commands().items()))


class LazyGroup(CommandGroup):
    """The group of all commands, which are imported only when they run."""

    known_elsewhere = MappingProxyType({"disconnect": "Write it so: toolstead connect CLIENT --remove"})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; where a shell asks for completions, with what completes its arguments."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"toolstead.console.cli.{cmd_name}"), cmd_name)
        if ctx.resilient_parsing:
            from toolstead.console.cli.completing import complete_names

            complete_names(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands that begin so, without importing them, and the options."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        column = max(map(len, COMMANDS)) + 4  # the sections stand below one another
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(column - 4), line) for name, line in commands.items()])


def _complete_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    from toolstead.console.cli.completing import complete_settings

    return complete_settings(context, parameter, incomplete)


def _first_paragraph(command: click.Command) -> str:
    text = command.short_help or (command.help or "").replace("\b", "").strip().partition("\n\n")[0]
    return " ".join(text.split())


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`toolstead COMMAND --help` says more. Start here: docs/start.md",
)
@click.option("--project", type=click.Path(path_type=Path), help=_PROJECT)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET, shell_complete=_complete_settings)
@click.option("-v", "--verbose", count=True, help=_VERBOSE)
@click.version_option(package_name="toolstead", message="toolstead %(version)s")
@click.pass_context
def cli(ctx: click.Context, project: Path | None, overrides: tuple[str, ...], verbose: int) -> None:
    """Tools for AI agents: register a tool once, and every agent can use it."""
    ctx.obj = CommandContext(project=project, overrides=overrides, verbose=verbose)


log_format_option = click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="Lines of the log on stderr: text, unless json is named."
)
json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


def url_option(command: Callable[..., _T]) -> Callable[..., _T]:
    """`--url`, which the command is given, and `--local`, which `run_with_client` finds by itself."""
    url = click.option("--url", metavar="URL", help="The server to ask, instead of this project's own.")
    local = click.option(
        "--local",
        is_flag=True,
        expose_value=False,
        callback=_note_local,
        help="In this process, although a server of this project runs.",
    )
    return url(local(command))


def _note_local(context: click.Context, _: click.Parameter, is_local: bool) -> None:
    context.meta[_LOCAL] = is_local


def file_argument(command: Callable[..., _T]) -> Callable[..., _T]:
    """`[FILE.py]`: the Python file whose tools are served, as a part of the common options."""

    @click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE.py]")
    @functools.wraps(command)
    def run_with_file(invocation: CommandContext, *, file: Path | None, **given: Any) -> _T:
        return command(replace(invocation, file=file), **given)

    return run_with_file


def common_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """`--project`, `--set` and `-v` on a command too; it is given them, joined with what stood before it."""

    @click.option("--project", type=click.Path(path_type=Path), help=_PROJECT)
    @click.option(
        "--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET, shell_complete=_complete_settings
    )
    @click.option("-v", "--verbose", count=True, help=_VERBOSE)
    @click.pass_obj
    @functools.wraps(command)
    def run_with_options(
        before: CommandContext, *, project: Path | None, overrides: tuple[str, ...], verbose: int, **given: Any
    ) -> _T:
        invocation = replace(
            before,
            project=before.project if project is None else project,
            overrides=(*before.overrides, *overrides),
            verbose=max(before.verbose, verbose),
        )
        return command(invocation, **given)

    return run_with_options


def stead_command(command: Callable[..., Coroutine[Any, Any, _T]], *, level: int = logging.ERROR) -> Callable[..., _T]:
    """A command that is given the stead of this project, opened."""

    @common_options
    @functools.wraps(command)
    def run_with_stead(invocation: CommandContext, **given: Any) -> _T:
        async def main() -> _T:
            async with invocation.make_stead() as stead:
                return await command(stead, **given)

        return invocation.run(main(), level=level)

    return run_with_stead


def client_command(command: Callable[..., Coroutine[Any, Any, _T]], *, level: int = logging.ERROR) -> Callable[..., _T]:
    """A command that is given a client of the server at `url`, else of this project's server, else of this process."""

    @common_options
    @functools.wraps(command)
    def run_command(invocation: CommandContext, *, url: str | None, **given: Any) -> _T:
        return run_with_client(invocation, url, functools.partial(command, **given), level=level)

    return run_command


def run_with_client(
    invocation: CommandContext,
    url: str | None,
    act: Callable[..., Coroutine[Any, Any, _T]],
    *,
    level: int = logging.ERROR,
    owns_output: bool = True,
) -> _T:
    """Act with a client of the server at `url`, else of this project's running server, else of this process.

    Raises:
        UsageError: `--local` was given, and an address too.
    """
    from toolstead.app.client import InProcessClient, open_client

    context = click.get_current_context(silent=True)
    is_local = context is not None and context.meta.get(_LOCAL, False)
    if is_local and url is not None:
        raise click.UsageError("--local is for this process, and --url for a server; give one of them")

    def read_token() -> str:
        token = invocation.load().settings.server.token
        return "" if token == "auto" else token

    async def main() -> _T:
        if is_local:
            async with invocation.make_stead() as stead:
                return await act(InProcessClient(stead))
        places = invocation.find_places()
        async with open_client(places, invocation.make_stead, url=url, read_token=read_token) as client:
            return await act(client)

    return invocation.run(main(), level=level, owns_output=owns_output)


def terminal_width() -> int:
    """How wide texts are set: as the terminal, and at most 100 columns."""
    return min(_count_columns(), 100)


def table_width() -> int | None:
    """How wide tables are: as the terminal. In a file or a pipe nothing is cut, so None."""
    return _count_columns() if find_output().isatty() else None


def _count_columns() -> int:
    if columns := shutil.get_terminal_size((0, 0)).columns:  # as COLUMNS says, or the terminal behind descriptor 1
        return columns
    with suppress(OSError):
        return os.get_terminal_size(find_output().fileno()).columns or 80
    return 80


def examples(*lines: str) -> str:
    """The `epilog` of a command: command lines that show its use, each kept on a line of its own."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class WholeNumber(click.IntRange):
    """A number within limits, under a name that a person reads: "'x' is not a valid whole number."."""

    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What stands for the number in the help."""
        return "N"


def count_noun(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def echo_text(text: str, *, nl: bool = True, err: bool = False, kind: Kind | None = None) -> None:
    """Print what a model or a client wrote: as it is into a file or a pipe; on a terminal without what steers it."""
    if not (sys.stderr if err else find_output()).isatty():
        click.echo(text, nl=nl, err=err, color=True)  # or click takes away what looks like a colour
        return
    shown = escape_unseen(text, "prose")
    click.echo(shown if kind is None else paint_text(shown, kind), nl=nl, err=err)


def echo_json(value: Any) -> None:
    """Print JSON, letters as they are; on a terminal, as escapes where something in it cannot be seen."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    is_seen = is_plain(text, "prose") or not find_output().isatty()
    click.echo(text if is_seen else json.dumps(value, indent=2))


def run(arguments: list[str] | None, command: click.Command = cli) -> int:
    """Run a command, and return the exit status."""
    try:
        status: Any = command.main(arguments, prog_name="toolstead", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return 130
    except KeyboardInterrupt:
        return 130
    except click.ClickException as error:
        error.show()
        return WRONG_USAGE
    except ToolsteadError as error:
        click.echo(f"toolstead: {escape_unseen(str(error), 'prose')}", err=True)
        return WRONG_USAGE
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except OutputError as error:
        click.echo(f"toolstead: {error}", err=True)
        return FAILED
    return status if isinstance(status, int) else DONE


def ended_by(error: BaseException) -> int:
    """Report an error that was raised outside click, with the same message and status as click."""

    def fail_command() -> None:
        raise error

    return run([], click.Command("ended", callback=fail_command))
