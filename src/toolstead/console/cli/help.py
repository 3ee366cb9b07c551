"""`toolstead help`: the help of a command, as its `--help` prints it."""

from __future__ import annotations

import click

from toolstead.console.cli.group import cli, common_options, examples
from toolstead.console.cli.invocation import CommandContext


@click.command("help", epilog=examples("toolstead help", "toolstead help tools new"))
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@common_options
def help(invocation: CommandContext, words: tuple[str, ...]) -> None:  # noqa: A001 - commands are found by name
    """Show the help of a command, as `toolstead COMMAND --help` does."""
    del invocation  # every command takes the common options
    context = click.Context(cli, info_name="toolstead", **cli.context_settings)
    for word in words:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"`{context.command_path}` has no commands below it", context)
        name, command, _ = group.resolve_command(context, [word])
        if command is None:
            raise click.UsageError(f"no such command {word!r}", context)
        context = click.Context(command, info_name=name, parent=context)
    click.echo(context.get_help())
