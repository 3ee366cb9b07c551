"""`toolstead keys`: keep the keys of model APIs and of search, and see where each comes from."""

from __future__ import annotations

import sys

import click
import msgspec

from toolstead.app.kept_keys import FoundKey, KeptKeys, check_key, find_key_name
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    DONE,
    WRONG_USAGE,
    CommandGroup,
    common_options,
    echo_json,
    examples,
    json_option,
    table_width,
)
from toolstead.console.cli.invocation import CommandContext

_LONGEST_INPUT = 65_536


@click.group("keys", cls=CommandGroup, epilog=examples("toolstead keys set anthropic", "toolstead keys list"))
def keys() -> None:
    """Keep keys of model APIs and of search, and see where each comes from.

    A key is kept in the system's keyring where there is one (extra `keyring`), else in a file that only you can
    read. A variable of the environment counts before both.
    """


@keys.command("set", epilog=examples("toolstead keys set anthropic", "toolstead keys set OPENAI_API_KEY < key.txt"))
@click.argument("name")
@click.argument("more", nargs=-1, metavar="")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the key from stdin, also on a terminal.")
@common_options
def set_key(invocation: CommandContext, *, name: str, more: tuple[str, ...], from_stdin: bool) -> int:
    """Keep a key. You are asked for it, and it is not shown; without a terminal it is read from stdin.

    NAME is a provider (anthropic, openai, google, groq, brave, …) or the name of the variable.
    """
    variable = find_key_name(name)
    if more:  # not repeated in the message: it is likely the key
        raise click.UsageError(
            f"a key is no argument, which the shell's history would keep; `toolstead keys set {name}` asks for it, and"
            f" `toolstead keys set {name} < FILE` reads it"
        )
    kept = KeptKeys(invocation.find_places().data)
    place = kept.set_key(variable, check_key(variable, _read_key(variable, from_stdin=from_stdin)))
    click.echo(f"{variable} is kept in {place}.", err=True)
    if kept.is_overridden(variable):
        click.echo(f"{variable} is set in this shell's environment too, and that one counts here.", err=True)
    return DONE


@keys.command("list", epilog=examples("toolstead keys list", "toolstead keys list --json"))
@json_option
@common_options
def list_keys(invocation: CommandContext, *, as_json: bool) -> None:
    """List the keys: where each comes from, and its last characters.

    The environment is that of this shell; a running server has its own (`toolstead doctor`).
    """
    found = KeptKeys(invocation.find_places().data).list_keys()
    if as_json:
        echo_json({"keys": msgspec.to_builtins(found)})
    elif found:
        rows = [(one.name, f"…{one.ending}" if one.ending else "…", _describe_origin(one)) for one in found]
        click.echo("\n".join(render_table(("KEY", "ENDS IN", "FROM"), rows, width=table_width())))
    else:
        click.echo("There is no key. To keep one: toolstead keys set anthropic", err=True)


@keys.command("remove", epilog=examples("toolstead keys remove anthropic"))
@click.argument("name")
@common_options
def remove_key(invocation: CommandContext, *, name: str) -> int:
    """Forget a key that is kept. NAME is a provider or the name of the variable."""
    variable = find_key_name(name)
    kept = KeptKeys(invocation.find_places().data)
    places = kept.remove_key(variable)
    if places:
        click.echo(f"{variable} is removed from {' and '.join(places)}.", err=True)
    else:
        click.echo(f"toolstead: no {variable} is kept", err=True)
    if kept.is_overridden(variable):
        click.echo(f"{variable} is set in this shell's environment, where only you can remove it.", err=True)
    return DONE if places else WRONG_USAGE


def _read_key(variable: str, *, from_stdin: bool) -> str:
    if from_stdin or not sys.stdin.isatty():
        return sys.stdin.read(_LONGEST_INPUT)
    return click.prompt(f"{variable} (it is not shown)", hide_input=True, err=True)


def _describe_origin(key: FoundKey) -> str:
    return key.origin if key.used else f"{key.origin} (another one counts)"
