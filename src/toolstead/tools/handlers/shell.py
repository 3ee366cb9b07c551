"""The shell handler: a command template whose programs run joined by real pipes, without a shell.

All of them end when the call does. Exit 0, or another status that the file names in `okStatus`: stdout is the answer
and stderr goes to the log. Anything else: an error with stdout, stderr and the exit status.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.processes.capture import Capture, OnLines
from toolstead.processes.environment import select_environment
from toolstead.processes.line_progress import LineProgress
from toolstead.processes.mark import MARK, make_mark
from toolstead.processes.owner import ChildProcess, ProcessOwner
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.secrets import REFERENCE, Mask, MaskedStream, expand_secrets
from toolstead.tools.handlers.shell_argv import (
    Argv,
    Parameters,
    Template,
    build_argv,
    load_template,
    suspicious_parameters,
)
from toolstead.tools.handlers.template import (
    Piece,
    TemplateError,
    cut_template,
    fill_template,
    slot_names,
    unknown_name,
)
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

LONGEST_STDIN = 4_194_304
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROOM_FOR_NOTES = 512
_MOST_STDERR = 65_536


class ShellConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a shell handler.

    Attributes:
        ok_status: The exit statuses that are answers and no errors.
    """

    command: str
    cwd: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    stdin: str | None = None
    ok_status: Sequence[int] = (0,)
    max_output: int | None = None
    stream: bool = False
    allow_leading_dash: Sequence[str] = ()
    allow_script: Sequence[str] = ()


def load_shell(
    config: ShellConfig,
    *,
    properties: Collection[str],
    required: Collection[str],
    with_default: Collection[str],
    surroundings: Surroundings,
) -> ShellHandler:
    """Check a shell handler and make it ready.

    Raises:
        TemplateError: The command could not work, or would run a value as code.
    """
    if "\0" in config.command:
        raise TemplateError("a null byte (\\u0000) cannot stand in a command; remove it")
    stdin = _stdin_pieces(config.stdin) if config.stdin is not None else None
    _check_env(config.env)
    for key, names in (("allowLeadingDash", config.allow_leading_dash), ("allowScript", config.allow_script)):
        for name in names:
            if name not in properties:
                raise TemplateError(unknown_name(name, properties), key=(key,))
    parameters = Parameters(
        names=properties,
        required=required,
        with_default=with_default,
        allow_leading_dash=config.allow_leading_dash,
        allow_script=config.allow_script,
    )
    template = load_template(config.command, parameters, stdin_slots=slot_names(stdin) if stdin else ())
    if surroundings.pinned is not None:
        folder = surroundings.find_folder(config.cwd)
        surroundings.pinned.check_variables(config.env, folder)
        pinned = surroundings.pinned.pin_script(template.script, folder, stdin)
        template = Template(config.command, parameters, pinned)
    return ShellHandler(config, template, stdin, surroundings)


def _stdin_pieces(text: str) -> tuple[Piece, ...]:
    try:
        return cut_template(text)
    except TemplateError as error:
        raise TemplateError(str(error), key=("stdin",)) from None


def _check_env(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        problems = {
            "no name of a variable: letters, digits and _, not beginning with a digit": not _VARIABLE.fullmatch(name),
            "set by toolstead itself, to find what a call has started; leave it out": name == MARK,
            "a ${…} that names no variable; write it as in ${NAME}": "${" in REFERENCE.sub("", value),
        }
        found = [problem for problem, is_there in problems.items() if is_there]
        if found:
            raise TemplateError(found[0], key=("env", name))


class ShellHandler(msgspec.Struct, frozen=True):
    """Runs one command template. Two of the same text are equal, so that an edit elsewhere in a file changes neither.

    Attributes:
        config: What the file contains.
        template: The command.
        stdin: What the first program reads.
        surroundings: The environment, and what the user allows.
    """

    config: ShellConfig
    template: Template
    stdin: tuple[Piece, ...] | None
    surroundings: Surroundings

    def __hash__(self) -> int:
        return hash(self.config.command)

    @property
    def secrets(self) -> list[str]:
        """The names that its variables take from the environment."""
        return [name for value in self.config.env.values() for name in REFERENCE.findall(value)]

    def describe(self) -> str:
        """The command, as the file has it."""
        return self.config.command

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        """Run the command with validated arguments."""
        commands = self._fill_commands(input)
        stdin = (
            None if self.stdin is None else fill_template(self.stdin, input, LONGEST_STDIN).encode("utf-8", "replace")
        )
        used = {name: input[name] for name in self.template.slots if name in input}  # in commands, so they are short
        for name in suspicious_parameters(used):
            ctx.logger.info("%r holds characters a shell would act on; no shell is started", name)
        config, surroundings = self.config, self.surroundings
        mask = Mask.for_call(self.secrets, surroundings.environ, ctx.logger)
        limit = max((config.max_output or surroundings.max_output) - _ROOM_FOR_NOTES, _ROOM_FOR_NOTES)
        wants_lines = config.stream and meta.wants_progress
        async with LineProgress(meta.report_progress) if wants_lines else nullcontext() as progress:
            setting = Setting(
                cwd=surroundings.find_pinned(config.cwd),
                env=self._build_environment(),
                stdout=_make_capture(limit, mask, progress.take_lines if progress is not None else None),
                stderr=_make_capture(min(limit, _MOST_STDERR), mask),
            )
            status = await self._run(commands, setting, stdin)
            setting.stdout.end_stream()
            setting.stderr.end_stream()
        is_ok = status in config.ok_status
        return _build_answer(status, mask(setting.stdout.text), mask(setting.stderr.text), ctx.logger, is_ok=is_ok)

    def preview_call(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The argument vectors that would run, as a script a person can read."""
        commands = self._fill_commands(input)
        first, *others = [" | ".join(shlex.join(argv) for argv in pipeline) for pipeline in commands]
        steps = zip(self.template.script[1:], others, strict=True)
        shown: dict[str, Any] = {
            "command": " ".join([first, *(f"{step.after} {text}" for step, text in steps)]),
            "argv": commands,
            "cwd": str(self.surroundings.find_pinned(self.config.cwd)),
        }
        if self.stdin is not None:
            shown["stdin"] = fill_template(self.stdin, input, LONGEST_STDIN)
        return shown

    async def _run(self, commands: list[list[Argv]], setting: Setting, stdin: bytes | None) -> int:
        """Run the steps by the rules of `;`, `&&` and `||`; the status is the last one's that ran."""
        status = 0
        for step, pipeline in zip(self.template.script, commands, strict=True):
            if (step.after == "&&" and status != 0) or (step.after == "||" and status == 0):
                continue
            status = await run_pipeline(pipeline, setting, stdin)
            stdin = None
        return status

    def _fill_commands(self, input: Mapping[str, Any]) -> list[list[Argv]]:
        parameters = self.template.parameters
        return [[build_argv(command, input, parameters) for command in step.pipeline] for step in self.template.script]

    def _build_environment(self) -> dict[str, str]:
        environ = self.surroundings.environ
        own = {name: expand_secrets(value, environ) for name, value in self.config.env.items()}
        if (pinned := self.surroundings.pinned) is not None:
            folder = self.surroundings.find_folder(self.config.cwd)
            own = {name: pinned.pin_variable(value, folder) for name, value in own.items()}
        return {**select_environment(environ), **own}


def _build_answer(status: int, stdout: str, stderr: str, log: logging.Logger, *, is_ok: bool) -> ToolResult:
    if is_ok:
        if stderr.strip():
            log.info("stderr: %s", stderr.strip())
        return ToolResult(content=(Text(stdout),))
    ending = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
    parts = [part.rstrip("\n") for part in (stdout, stderr) if part.strip()]
    return ToolResult.error("\n".join([*parts, ending]), Failure.TOOL)


def _make_capture(limit: int, mask: Mask, on_lines: OnLines | None = None) -> Capture:
    """Masked before it is cut: half of a secret is one too."""
    return Capture(limit, on_lines, MaskedStream(mask) if mask.values else None)


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
