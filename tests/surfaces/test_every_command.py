"""Every command of `toolstead`, found by walking: its help page, its examples, its common options, its completion."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolstead.console.cli.group import COMMANDS, CommandGroup, cli

_OPERATORS = {"|", ">", "<", "&&", ";"}
COMMON = {"project", "overrides", "verbose"}


def walk_commands() -> Iterator[tuple[str, click.Command]]:
    """Each command and group with its words, as `tools new`."""
    for name in COMMANDS:
        command = getattr(importlib.import_module(f"toolstead.console.cli.{name}"), name)
        yield from walk_below(name, command)


def walk_below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from walk_below(f"{words} {name}", one)


WALKED = dict(walk_commands())
EVERY = pytest.mark.parametrize("words", WALKED)


def page_of(words: str) -> str:
    context = click.Context(cli, info_name="toolstead", terminal_width=80)
    for word in words.split():
        command = context.command
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        context = click.Context(found, info_name=word, parent=context)
    return context.get_help()


def examples_of(page: str) -> list[str]:
    _, _, shown = page.partition("Examples:\n")
    whole = re.sub(r"\\\n\s*", "", shown)  # a line that ends with \ goes on in the next
    return [line.strip() for line in whole.splitlines() if line.strip()]


def parse_line(words: list[str]) -> str:
    """Let click parse a command line, and run nothing: the command that would run, as its words."""
    context = cli.make_context("toolstead", words)
    found: list[str] = []
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        assert name is not None
        found.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(found)


@EVERY
def test_the_page_of_a_command_says_what_it_does_and_fits_80_columns(words: str) -> None:
    page = page_of(words)
    assert (WALKED[words].help or "").strip(), "its docstring is its help"
    assert re.search(r"^  -h, --help|^  --help", page, re.MULTILINE)
    assert not [line for line in page.splitlines() if len(line) > 80]


@EVERY
def test_the_examples_of_a_command_are_command_lines_that_it_takes(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = examples_of(page_of(words))
    assert shown, "epilog=examples(…) shows how it is used"
    for line in shown:
        inside = re.search(r"\$\((toolstead [^)]*)\)", line)
        tokens = shlex.split(inside[1] if inside else line, comments=True)
        first = tokens.index("toolstead") + 1
        end = next((at for at in range(first, len(tokens)) if tokens[at] in _OPERATORS), len(tokens))
        for token in tokens[first:end]:
            if re.fullmatch(r"[\w.-]+", token) and not token.startswith("-"):
                (tmp_path / token).touch()  # a file that has to be there
        parsed = parse_line(tokens[first:end])
        assert (parsed + " ").startswith(f"{words} ") or words == "help", f"{line} shows another command"


@EVERY
def test_every_group_names_the_nearest_command_and_every_command_takes_the_common_options(words: str) -> None:
    command = WALKED[words]
    if isinstance(command, click.Group):
        assert isinstance(command, CommandGroup), "a group is made with cls=CommandGroup: its page cuts no sentence"
        listed = command.describe_commands()
        assert all(listed.values())
    else:
        assert {parameter.name for parameter in command.params} >= COMMON, "use common_options"
