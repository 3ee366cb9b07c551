"""`toolyard tools check`, `test` and `schema`: for people who write tool files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolyard.console.cli.invocation import Invocation, common_options

if TYPE_CHECKING:
    from toolyard.app.yard import Toolyard
    from toolyard.tools.sources.json_file import LoadedFile

GOOD, BAD = 0, 1


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@common_options
@click.pass_obj
def check_files(invocation: Invocation, paths: tuple[Path, ...]) -> int:
    """Check tool files: every problem as file:line:column, exit status 1 when there is one.

    PATHS are files or folders; without any, the folders that are in use.
    """
    from toolyard.tools.sources.json_files import describe

    async def run() -> int:
        yard = invocation.yard()
        loaded = yard.read_tool_files([path.absolute() for path in paths])
        if missing := [str(path) for path in paths if not path.exists()]:
            raise click.UsageError(f"no such file or folder: {', '.join(missing)}")
        problems = [problem for file in loaded for problem in file.problems]
        for problem in problems:
            click.echo(describe(problem))
        tools = sum(len(file.tools) for file in loaded)
        click.echo(f"{_count(len(loaded), 'file')}, {_count(tools, 'good tool')}, {_problems(len(problems))}", err=True)
        return BAD if problems else GOOD

    return invocation.run(run(), level=logging.WARNING)


@click.command("test")
@click.argument("names", nargs=-1, metavar="[TOOL | FILE]…")
@common_options
@click.pass_obj
def test_files(invocation: Invocation, names: tuple[str, ...]) -> int:
    """Run the examples of tool files, and compare what they answer with what they expect."""

    async def run() -> int:
        folder = Path(names[0]).parent if len(names) == 1 and names[0].endswith(".json") else None
        async with invocation.yard(tools_dir=folder) as yard:
            wanted = [file for file in yard.tool_files() if _is_wanted_file(file, names)]
            outcomes = [await _test(yard, file, names) for file in wanted]
        failed, done = (sum(counts) for counts in zip(*outcomes, strict=True)) if outcomes else (0, 0)
        click.echo(f"{_count(done, 'example')}, {failed or 'none'} failed", err=True)
        if not done:
            click.echo('note: no example was run; give a tool "examples": [{"input": {…}}]', err=True)
        return BAD if failed else GOOD

    return invocation.run(run(), level=logging.ERROR)


@click.command("schema")
def print_schema() -> int:
    """Print the JSON Schema of tool files, for editors."""
    from toolyard.tools.sources.json_format import format_schema

    click.echo(json.dumps(format_schema(), indent=2))
    return GOOD


async def _test(yard: Toolyard, file: LoadedFile, names: tuple[str, ...]) -> tuple[int, int]:
    failed = done = 0
    for name, examples in file.examples.items():
        if names and name not in names and not _names_file(file, names):
            continue
        for number, example in enumerate(examples, start=1):
            result = await yard.call(name, example.input)
            reason = result.text if result.is_error else _mismatch(example.expect, result.text)
            done += 1
            failed += reason is not None
            click.echo(f"{'ok  ' if reason is None else 'FAIL'} {name} example {number}")
            if reason is not None:
                click.echo("     " + reason.replace("\n", "\n     "))
    return failed, done


def _mismatch(expected: Any, text: str) -> str | None:
    """Why an answer is not what was expected, or None."""
    from toolyard.schema.compiled import compile_schema

    match expected:
        case None:
            return None
        case str():
            return None if text.rstrip("\n") == expected.rstrip("\n") else f"expected {expected!r}, got {text[:500]!r}"
        case {"contains": wanted}:
            return None if wanted in text else f"expected text that contains {wanted!r}, got {text[:500]!r}"
        case {"schema": schema}:
            try:
                value = json.loads(text)
            except ValueError:
                return f"expected JSON, got {text[:500]!r}"
            problems = compile_schema(schema, tool="example").problems(value)
            return "; ".join(problems) or None
        case _:
            return f"cannot compare with {expected!r}"


def _is_wanted_file(file: LoadedFile, names: tuple[str, ...]) -> bool:
    return not names or _names_file(file, names) or any(name in file.examples for name in names)


def _names_file(file: LoadedFile, names: tuple[str, ...]) -> bool:
    return any(Path(name).absolute() == file.path for name in names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _problems(number: int) -> str:
    return _count(number, "problem") if number else "no problems"
