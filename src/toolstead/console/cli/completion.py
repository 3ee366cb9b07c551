"""`toolstead completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from toolstead.console.cli.group import cli, common_options, examples
from toolstead.console.cli.invocation import CommandContext

VARIABLE = "_TOOLSTEAD_COMPLETE"
"""The variable by which the script asks for completions; click reads it."""


@click.command(
    "completion",
    epilog=examples(
        'eval "$(toolstead completion bash)"  # in ~/.bashrc',
        'eval "$(toolstead completion zsh)"   # in ~/.zshrc, after compinit',
        "toolstead completion fish > ~/.config/fish/completions/toolstead.fish",
    ),
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@common_options
def completion(invocation: CommandContext, shell: str) -> None:
    """Print a script that lets a shell complete commands and names.

    With it, Tab completes commands, options, and the names of tools, plugins, agents, profiles and settings, and the
    ids of threads and tasks. Nothing is installed: let your shell run what is printed.
    """
    del invocation  # every command takes the common options
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion is known for {shell}")
    maker = found(cli, {}, "toolstead", VARIABLE)
    click.echo(maker.source_template % maker.source_vars(), nl=False)
