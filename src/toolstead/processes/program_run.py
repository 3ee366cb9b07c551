"""A program that is run to its end, with a bound on what it may write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from toolstead.processes.capture import Capture
from toolstead.processes.owner import ProcessOwner

_LONGEST_STDERR = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """How a program ended.

    Attributes:
        status: Its exit status; negative when a signal ended it.
        stdout: What it wrote, at most as much as was allowed.
        stderr: The beginning of what it wrote there.
        cut: True when it wrote more than was allowed and was ended for that.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cut: bool


async def run_program(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit: int) -> ProgramResult:
    """Run a program without input, until it has ended and nothing that it started can write any more.

    Whatever ends this call (a timeout, a cancellation, an error) ends the program and the processes it started.

    Args:
        argv: The program, by its absolute path, and its arguments.
        cwd: The folder it runs in.
        env: Its whole environment; the mark is added.
        limit: Bytes of output after which it is ended.

    Raises:
        OSError: It cannot be started.
    """
    output, errors = bytearray(), bytearray()
    is_cut, output_ended, errors_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def take_output(data: bytes) -> None:
        room = limit - len(output)
        output.extend(data[:room])
        if len(data) > room:
            is_cut.set()
            output_ended.set()

    def take_errors(data: bytes) -> None:
        errors.extend(data[: _LONGEST_STDERR - len(errors)])

    async with ProcessOwner(cwd=cwd, env=env) as owner:
        with ExitStack() as theirs:
            _, stdout = owner.open_output(theirs, take_output, output_ended.set)
            _, stderr = owner.open_output(theirs, take_errors, errors_ended.set)
            child = owner.spawn(argv, stdout=stdout, stderr=stderr)
        await output_ended.wait()
        if is_cut.is_set():
            await owner.kill()
        await errors_ended.wait()
        await owner.wait_for_exits()
    return ProgramResult(status=child.returncode or 0, stdout=bytes(output), stderr=bytes(errors), cut=is_cut.is_set())


async def run_captured(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Capture) -> int:
    """Run a program without input until it exits, and give its exit status; negative when a signal ended it.

    It may write without end: the capture keeps what it has room for. What it started and left behind is killed when it
    exits, also outside its process group. Whatever ends this call (a timeout, a cancellation) kills all of it, too.

    Args:
        argv: The program and its arguments; a bare name is looked for in the PATH of `env`.
        cwd: The folder it runs in.
        env: Its whole environment; the mark is added.
        output: Takes what it writes to stdout and to stderr, in the order in which it comes.

    Raises:
        OSError: It cannot be started.
    """
    async with ProcessOwner(cwd=cwd, env=env) as owner:
        with ExitStack() as theirs:
            _, writing = owner.open_output(theirs, output.take_part)
            child = owner.spawn(argv, stdout=writing, stderr=writing)
        await owner.wait_for_exits()
        status = child.returncode or 0
        await owner.kill()
    output.end_stream()
    return status
