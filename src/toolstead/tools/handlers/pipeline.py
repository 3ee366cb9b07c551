"""Commands joined by real pipes, without a shell; all of them end when the call does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from toolstead.errors import ToolError
from toolstead.processes.capture import Capture
from toolstead.processes.mark import make_mark
from toolstead.processes.owner import ChildProcess, ProcessOwner

NOT_FOUND, NOT_EXECUTABLE = 127, 126


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and how processes run.

    Attributes:
        cwd: Their folder.
        env: Their whole environment.
        stdout: Takes what the last process writes.
        stderr: Takes what all of them write there.
        mark: In the environment of every process of one call.
    """

    cwd: Path
    env: Mapping[str, str]
    stdout: Capture
    stderr: Capture
    mark: str = field(default_factory=make_mark)


async def run_pipeline(commands: Sequence[Sequence[str]], setting: Setting, stdin: bytes | None = None) -> int:
    """Run commands joined by pipes; the answer is the last one's exit status.

    A program that cannot be started counts as status 127 or 126, and the commands beside it see
    their pipe end, as in a shell. Whatever ends this call ends every process.

    Args:
        commands: The argument vectors.
        setting: Where and how.
        stdin: What the first one reads; without it, nothing.

    Raises:
        ToolError: A program cannot be started for a reason that no shell has a status for.
    """
    async with ProcessOwner(cwd=setting.cwd, env=setting.env, mark=setting.mark) as owner:
        try:
            last = _start_commands(owner, setting, commands, stdin)
        except OSError as error:  # such as no descriptor left
            raise ToolError(f"{commands[0][0]} cannot be started: {error.strerror}") from None
        await owner.wait_for_exits()
    return last if isinstance(last, int) else last.returncode or 0


def _start_commands(
    owner: ProcessOwner, setting: Setting, commands: Sequence[Sequence[str]], stdin: bytes | None
) -> ChildProcess | int:
    """Start every command; the answer is about the last one. Nothing is awaited."""
    with ExitStack() as theirs:  # the children's ends, closed here once they have them
        _, errors = owner.open_output(theirs, setting.stderr.take_part)
        upstream = subprocess.DEVNULL
        if stdin is not None:
            pipe, upstream = owner.open_input(theirs)
            pipe.write(stdin)
            pipe.end_input()
        for argv in commands[:-1]:
            following, output = os.pipe()
            theirs.callback(os.close, following)
            theirs.callback(os.close, output)
            _start_command(owner, setting, argv, stdin=upstream, stdout=output, stderr=errors)
            upstream = following
        _, output = owner.open_output(theirs, setting.stdout.take_part)
        return _start_command(owner, setting, commands[-1], stdin=upstream, stdout=output, stderr=errors)


def _start_command(
    owner: ProcessOwner, setting: Setting, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int
) -> ChildProcess | int:
    """Start one command; the answer is its process, or the status that stands for a failed start."""
    try:
        return owner.spawn([word.encode() for word in argv], stdin=stdin, stdout=stdout, stderr=stderr)
    except (FileNotFoundError, NotADirectoryError):
        if not setting.cwd.is_dir():
            raise ToolError(f"the folder {str(setting.cwd)!r} that this tool runs in does not exist") from None
        setting.stderr.take_part(f"{argv[0]}: program not found; install it, or give its path\n".encode())
        return NOT_FOUND
    except PermissionError as error:
        setting.stderr.take_part(f"{argv[0]}: cannot be run: {error.strerror}\n".encode())
        return NOT_EXECUTABLE
    except OSError as error:  # such as more arguments than the system takes
        raise ToolError(f"{argv[0]} cannot be started: {error.strerror}") from None
