"""`toolstead tools check`, `test` and `schema`: for people who write tool files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    count_noun,
    echo_json,
    examples,
    json_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.types.sent import SentStruct

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.tools.sources.json_file import Example
    from toolstead.types.tool import Problem


@click.command("check", epilog=examples("toolstead tools check", "toolstead tools check .toolstead/tools"))
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@json_option
@common_options
def check_files(invocation: CommandContext, paths: tuple[Path, ...], *, as_json: bool) -> int:
    """Check tool files: every problem as file:line:column, exit status 1 when there is one.

    Warnings and notes say which known clients cannot take a good tool as it is; they do not change the exit status.

    PATHS are files or folders; without any, your own folder and the project's .toolstead/tools, approved or not, and
    the prompts beside them.
    """
    from toolstead.agents.catalogue import describe_finding
    from toolstead.tools.sources.json_files import describe_problem
    from toolstead.tools.sources.json_warnings import describe_warning

    async def run() -> int:
        _must_exist(paths)
        _refuse_python("check", paths)
        stead = invocation.make_stead(ask=False)
        loaded = stead.read_tool_files([path.absolute() for path in paths])
        problems = [problem for file in loaded for problem in file.problems]
        warnings = [warning for file in loaded for warning in file.warnings]
        tools = [tool.info.name for file in loaded for tool in file.tools]
        of_prompts = () if paths else stead.check_prompt_files()
        is_bad = bool(problems) or any(finding.severity == "error" for finding in of_prompts)
        if as_json:
            shown = {"problems": problems, "warnings": warnings, "prompts": of_prompts}
            sent = {key: [found.to_json() for found in findings] for key, findings in shown.items()}
            echo_json({"files": len(loaded), "tools": tools, **sent})
            return FAILED if is_bad else DONE
        for problem in problems:
            click.echo(describe_problem(problem))
        for warning in warnings:
            click.echo(describe_warning(warning))
        for finding in of_prompts:
            click.echo(describe_finding(finding))
        kinds = Counter(finding.severity for finding in (*warnings, *of_prompts) if finding.severity != "error")
        counts = [count_noun(len(loaded), "file"), count_noun(len(tools), "good tool"), _count_problems(len(problems))]
        counts += [count_noun(kinds[kind], kind) for kind in ("warning", "note") if kinds[kind]]
        click.echo(", ".join(counts), err=True)
        return FAILED if is_bad else DONE

    return invocation.run(run(), level=logging.WARNING)


@click.command(
    "test",
    epilog=examples("toolstead tools test", "toolstead tools test find-text", "toolstead tools test .toolstead/tools"),
)
@click.argument("names", nargs=-1, metavar="[TOOL | FILE | FOLDER]…")
@json_option
@common_options
def test_files(invocation: CommandContext, names: tuple[str, ...], *, as_json: bool) -> int:
    """Run the examples of tool files, and compare what they answer with what they expect.

    TOOLs are names, FILEs end with .json and need not be in the folders that are in use. A FOLDER stands for the tool
    files in it.
    """
    paths = {name: Path(name).absolute() for name in names if _is_path(name)}
    tools = [name for name in names if name not in paths]
    _must_exist(list(paths.values()))
    _refuse_python("test", [Path(name) for name in names])
    folders = {path if path.is_dir() else path.parent for path in paths.values()}
    if len(folders) > 1:
        raise click.UsageError("the files must be in one folder; test the others with another command")

    def is_wanted(file: Path, tool: str | None) -> bool:
        return not names or file in paths.values() or file.parent in paths.values() or tool in tools

    async def run() -> int:
        async with invocation.make_stead(tools_dir=next(iter(folders), None)) as stead:
            for name in tools:
                if not stead.registry.has_tool(name):
                    raise stead.registry.unknown_tool(name)
            problems = [
                problem for problem in stead.registry.quarantined if is_wanted(Path(problem.source), problem.tool_name)
            ]
            tried = await _test_examples(stead, is_wanted, prints=not as_json)
        if as_json:
            found = [problem.to_json() for problem in problems]
            echo_json({"examples": [one.to_json() for one in tried], "problems": found})
        else:
            _print_outcome(tried, problems)
        return FAILED if problems or any(one.reason is not None for one in tried) else DONE

    return invocation.run(run(), level=logging.ERROR)


@click.command("schema", epilog=examples("toolstead tools schema > tools.schema.json"))
@common_options
def print_schema(invocation: CommandContext) -> None:
    """Print the JSON Schema of tool files, for editors."""
    del invocation  # every command takes the common options
    from toolstead.tools.sources.json_format import format_schema

    click.echo(json.dumps(format_schema(), indent=2))


class TriedExample(SentStruct, frozen=True, kw_only=True):
    """An example of a tool file, as it went.

    Attributes:
        tool: The tool's name.
        number: Which of its examples, from 1.
        ok: Whether the answer was as expected.
        was_run: Whether it was run; else it was only built.
        reason: Why it failed.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"reason"})

    tool: str
    number: int
    ok: bool
    was_run: bool
    reason: str | None = None


async def _test_examples(
    stead: Toolstead, is_wanted: Callable[[Path, str], bool], *, prints: bool
) -> list[TriedExample]:
    """Run the examples, and print each as it ends."""
    examples = [
        (name, number, example)
        for file in stead.tool_files()
        for name, listed in file.examples.items()
        if is_wanted(file.path, name)
        for number, example in enumerate(listed, start=1)
    ]
    tried: list[TriedExample] = []
    for name, number, example in examples:
        reason = await _try_example(stead, name, example)
        one = TriedExample(tool=name, number=number, ok=reason is None, was_run=example.run, reason=reason)
        tried.append(one)
        if prints:
            _print_example(one)
    return tried


def _print_example(one: TriedExample) -> None:
    mark = paint_text("ok  ", "good") if one.ok else paint_text("FAIL", "bad")
    click.echo(f"{mark} {one.tool} example {one.number}{'' if one.was_run else ' (built, not run)'}")
    if one.reason is not None:
        click.echo("     " + one.reason.rstrip("\n").replace("\n", "\n     "))


def _print_outcome(tried: Sequence[TriedExample], problems: Sequence[Problem]) -> None:
    from toolstead.tools.sources.json_files import describe_problem

    for problem in problems:
        click.echo(f"{paint_text('FAIL', 'bad')} {describe_problem(problem)}")
    failed, built = (sum(not one.ok for one in tried), sum(not one.was_run for one in tried))
    not_run = f" ({built} built, not run)" if built else ""
    counted = f"{count_noun(len(tried), 'example')}{not_run}, {failed or 'none'} failed"
    click.echo(f"{counted}, {_count_problems(len(problems))}", err=True)
    if not tried:
        click.echo('note: no example was run; give a tool "examples": [{"input": {…}}]', err=True)


def _is_path(name: str) -> bool:
    """Whether a word means a file or a folder: by its look, or as a folder that has tool files."""
    looks = name.endswith(".json") or "/" in name or name in (".", "..")
    return looks or any(Path(name).glob("*.json"))


async def _try_example(stead: Toolstead, name: str, example: Example) -> str | None:
    """Why an example fails, or None."""
    if not stead.registry.has_tool(name):
        return "it cannot be called here: it is switched off or blocked"
    if not example.run:
        return None  # its file was loaded, so its input is valid and what it would run can be built
    result = await stead.call(name, example.input)
    return result.text if result.is_error else _explain_mismatch(example.expect, result.text)


def _explain_mismatch(expected: Any, text: str) -> str | None:
    """Why an answer is not what was expected, or None."""
    from toolstead.schema.compiled import compile_schema

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
            problems = compile_schema(schema, tool="example").describe_problems(value)
            return "; ".join(problems) or None
        case _:
            return f"cannot compare with {expected!r}"


def _refuse_python(command: str, paths: Sequence[Path]) -> None:
    """Refuse Python files, whose tools are functions. Raises UsageError."""
    for path in paths:
        if path.suffix == ".py":
            raise click.UsageError(
                f"{path} is Python; `tools {command}` reads tool files (JSON); `toolstead tools list --file "
                f"{path}` reports its problems"
            )


def _must_exist(paths: Sequence[Path]) -> None:
    if missing := [str(path) for path in paths if not path.exists()]:
        raise click.UsageError(f"no such file or folder: {', '.join(missing)}")


def _count_problems(number: int) -> str:
    return count_noun(number, "problem") if number else "no problems"
