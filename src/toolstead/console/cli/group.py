"""The commands as click knows them: the global options, and commands that are imported when they are called."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import ToolsteadError

COMMANDS = {
    "ask": ("toolstead.console.cli.ask", "Ask an agent, and print its answer as it comes."),
    "config": ("toolstead.console.cli.config", "Show the settings, and where each came from."),
    "doctor": ("toolstead.console.cli.doctor", "Show which runtimes and models can be used here."),
    "mcp": ("toolstead.console.cli.mcp", "Serve MCP on stdin and stdout."),
    "plugins": ("toolstead.console.cli.plugins", "List and switch plugins, and set their settings."),
    "serve": ("toolstead.console.cli.serve", "Serve the tools over HTTP: REST and MCP."),
    "threads": ("toolstead.console.cli.threads", "List, show, rename, delete and export conversations."),
    "tools": ("toolstead.console.cli.tools", "List, show, call and switch tools."),
    "trust": ("toolstead.console.cli.trust", "Approve what a project brings, and see what changed."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, suggesting the nearest for an unknown one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from toolstead.errors import suggest

            hint = suggest(args[0], COMMANDS, otherwise=f"there are: {', '.join(COMMANDS)}.")
            ctx.fail(f"no such command {args[0]!r}. {hint[:1].upper()}{hint[1:]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--project", type=click.Path(path_type=Path), help="The project's folder.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting, such as tools.timeout=5.")
@click.option("-v", "--verbose", count=True, help="Log more to stderr; twice for everything.")
@click.version_option(package_name="toolstead", message="toolstead %(version)s")
@click.pass_context
def cli(ctx: click.Context, project: Path | None, overrides: tuple[str, ...], verbose: int) -> None:
    """Tools for AI agents: register once, call from everywhere."""
    ctx.obj = CommandContext(project=project, overrides=overrides, verbose=verbose)


def run(arguments: list[str] | None) -> int:
    """Run a command, and return the exit status."""
    return _status_of(cli, arguments)


def ended_by(error: BaseException) -> int:
    """Report an error that was raised outside click, with the same message and status as click."""

    def fail_command() -> None:
        raise error

    return _status_of(click.Command("ended", callback=fail_command), [])


def _status_of(command: click.Command, arguments: list[str] | None) -> int:
    try:
        status: Any = command.main(arguments, prog_name="toolstead", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return 130
    except KeyboardInterrupt:
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except ToolsteadError as error:
        click.echo(f"toolstead: {error}", err=True)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return status if isinstance(status, int) else 0
