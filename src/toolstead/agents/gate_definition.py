"""The gates of delegated tasks as their authors write them: a command that must succeed, or files that must be there.

Agents' files and `[delegation] gates` have them; what is wrong with one is found when it is read. `delegation` runs
them.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

TIMEOUT = 300.0
"""Seconds that a command may take, unless its gate says otherwise."""
LONGEST_TIMEOUT = 86_400.0

_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
_OF_A_SHELL = re.compile(r"\|\|?|&&?|;|[<>]|`|\$(?=[\w({])|\n")
"""What only a shell acts on, outside quotes; `pytest && ruff` would give pytest two arguments more."""


class InvalidGateError(ValueError):
    """A gate that can never be run; the text says what is wrong, and what would be right."""


class CommandGate(msgspec.Struct, frozen=True, kw_only=True):
    """A command that must exit with 0.

    Attributes:
        command: As it is written.
        argv: The program and its arguments.
        timeout: Seconds that it may take.
    """

    command: str
    argv: tuple[str, ...]
    timeout: float = TIMEOUT


class FilesGate(msgspec.Struct, frozen=True, kw_only=True):
    """Files that must be there: paths or globs, relative to the folder that the task works in."""

    files: tuple[str, ...]


def read_gate(given: Mapping[str, Any]) -> CommandGate | FilesGate:
    """Read one gate.

    Raises:
        InvalidGateError: It is neither form, or can never be run.
    """
    match given:
        case {"command": str(command), **rest} if rest.keys() <= {"timeout"}:
            argv = split_command(command)
            return CommandGate(command=command, argv=tuple(argv), timeout=_read_timeout(rest.get("timeout", TIMEOUT)))
        case {"files": list() | tuple(), **rest} if not rest:
            files = cast("list[Any]", given["files"])
            if not files:
                raise InvalidGateError("files: name at least one file, such as [report.md]")
            for file in files:
                check_pattern(file)
            return FilesGate(files=tuple(files))
        case _:
            raise InvalidGateError('either {command: "pytest -q", timeout: 300} or {files: [report.md]} is needed')


def split_command(command: str) -> list[str]:
    """The words of a command, by the quoting rules of POSIX shells. No shell is ever started.

    Raises:
        InvalidGateError: There are none, a quote is open, or it has what only a shell could do.
    """
    if found := _OF_A_SHELL.search(_QUOTED.sub("_", command.strip())):
        shown = "a line break" if found[0] == "\n" else f"`{found[0]}`"
        raise InvalidGateError(
            f"no shell is started, so {shown} has no meaning: write one gate for each command, or quote it"
        )
    if "\0" in command:
        raise InvalidGateError("it has a null byte, which no command can have; remove it")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidGateError(f"its quotes do not match ({error}); close them") from None
    if not words or not words[0]:
        raise InvalidGateError('it names no program; write one, such as "pytest -q"')
    return words


def check_pattern(pattern: Any) -> None:
    """Make sure that a path or a glob can match something inside a folder.

    Raises:
        InvalidGateError: It is no text, absolute, or leads out of the folder.
    """
    if not isinstance(pattern, str) or not pattern.strip() or "\0" in pattern:
        raise InvalidGateError("a path or a glob is needed, such as report.md or dist/*.whl")
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidGateError(
            f"{pattern[:200]!r} leads out of the task's folder; give a path inside it, such as report.md"
        )
    if not path.parts:
        raise InvalidGateError("`.` is the task's folder itself; name a file in it, such as report.md")


def _read_timeout(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or given <= 0:
        raise InvalidGateError("timeout: a number of seconds above 0 is needed")
    return min(float(given), LONGEST_TIMEOUT)
