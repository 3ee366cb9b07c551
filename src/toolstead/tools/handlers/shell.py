"""The shell handler: a command template that runs without a shell.

Exit 0: stdout is the answer and stderr goes to the log. Anything else: an error with stdout,
stderr and the exit status.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.processes.capture import Capture, OnLines
from toolstead.processes.line_progress import LineProgress
from toolstead.processes.mark import MARK
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.pipeline import Setting, run_pipeline
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

ALLOWED_ENVIRONMENT = frozenset({"PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "USER"})
LONGEST_STDIN = 4_194_304
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROOM_FOR_NOTES = 512
_MOST_STDERR = 65_536


class ShellConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a shell handler."""

    command: str
    cwd: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    stdin: str | None = None
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
        template = Template(surroundings.pinned.pin_script(template.script, folder, stdin), parameters)
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


@dataclass(frozen=True, slots=True)
class ShellHandler:
    """Runs one command template. Two of the same text are equal, so that an edit elsewhere in a file changes neither.

    Attributes:
        config: What the file says.
        template: The command.
        stdin: What the first program reads.
        surroundings: The environment, and what the user allows.
    """

    config: ShellConfig = field(hash=False)
    template: Template = field(compare=False)
    stdin: tuple[Piece, ...] | None
    surroundings: Surroundings = field(hash=False)

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        """Run the command with validated arguments."""
        commands = self._fill_commands(input)
        stdin = (
            None if self.stdin is None else fill_template(self.stdin, input, LONGEST_STDIN).encode("utf-8", "replace")
        )
        for name in suspicious_parameters(input):
            ctx.logger.info("%r holds characters a shell would act on; no shell is started", name)
        config, surroundings = self.config, self.surroundings
        secrets = [name for value in config.env.values() for name in REFERENCE.findall(value)]
        mask = Mask.for_call(secrets, surroundings.environ, ctx.logger)
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
        return _build_answer(status, mask(setting.stdout.text), mask(setting.stderr.text), ctx.logger)

    def preview_call(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The argument vectors that would run, as a script a person can read."""
        commands = self._fill_commands(input)
        lines: list[str] = []
        for step, pipeline in zip(self.template.script, commands, strict=True):
            joined = " | ".join(shlex.join(argv) for argv in pipeline)
            lines.append(joined if not lines else f"{step.after} {joined}")
        shown: dict[str, Any] = {
            "command": " ".join(lines),
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
        allowed = {
            name: value for name, value in environ.items() if name in ALLOWED_ENVIRONMENT or name.startswith("LC_")
        }
        own = {name: expand_secrets(value, environ) for name, value in self.config.env.items()}
        if (pinned := self.surroundings.pinned) is not None:
            folder = self.surroundings.find_folder(self.config.cwd)
            own = {name: pinned.pin_variable(value, folder) for name, value in own.items()}
        return {**allowed, **own}


def _build_answer(status: int, stdout: str, stderr: str, log: logging.Logger) -> ToolResult:
    if status == 0:
        if stderr.strip():
            log.info("stderr: %s", stderr.strip())
        return ToolResult(content=(Text(stdout),))
    ending = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
    parts = [part.rstrip("\n") for part in (stdout, stderr) if part.strip()]
    return ToolResult.error("\n".join([*parts, ending]), Failure.TOOL)


def _make_capture(limit: int, mask: Mask, on_lines: OnLines | None = None) -> Capture:
    """Masked before it is cut: half of a secret is one too."""
    return Capture(limit, on_lines, MaskedStream(mask) if mask.values else None)
