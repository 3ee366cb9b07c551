"""The gates of a task: commands, files and a schema that a finished attempt must pass before anybody reviews it.

| what happens | passed |
|---|---|
| a command exits with 0; every file is there; the answer fits the schema | True |
| a command exits with anything else, is ended by a signal, or takes longer than it may | False |
| a file is not there, or a link to it leads out of the folder | False |
| there is no JSON in the answer, or it does not fit; the reasons have JSON pointers | False |
| a program cannot be started, the folder is gone, the gate or the schema is none | None |

False says that the work is not good enough, None that the gate is not: nobody knows whether the work is.
No shell is started, and a gate's environment has no keys of the user's in it.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from toolstead.agents.gate_definition import CommandGate, FilesGate, InvalidGateError, read_gate
from toolstead.agents.prompt_answer import NoJsonError, find_json
from toolstead.agents.prompt_tool import FindProblems
from toolstead.concurrency.suspended_coroutine import render_seconds
from toolstead.delegation.feedback import MOST_FEEDBACK, clean_output, normalise_defect, shorten_middle
from toolstead.delegation.gate_files import LongSearchError, find_missing
from toolstead.errors import SchemaError
from toolstead.processes.capture import Capture
from toolstead.processes.environment import select_environment
from toolstead.processes.program_run import run_captured
from toolstead.schema.compiled import compile_schema
from toolstead.schema.explanation import rename_whole
from toolstead.tools.handlers.pinned import Pinned
from toolstead.tools.handlers.template import TemplateError
from toolstead.tools.validation import UNVALIDATED
from toolstead.types.sent import SentStruct
from toolstead.types.task import Task
from toolstead.types.tool import JSONSchema

logger = logging.getLogger(__name__)

SCHEMA_GATE = "result_schema"
LONGEST_LABEL = 200
MOST_OUTPUT = 4_000
"""Characters of a gate's output that are kept for reviewers."""
_CAPTURED = 16_384
"""Bytes of a command's output that are kept while it runs: three quarters of them the beginning, the rest the end."""

GatesOf = Callable[[Task], Sequence[Mapping[str, Any]]]
"""The gates of a task: those of the settings, then those of its agent."""
SchemaOf = Callable[[Task], JSONSchema | None]
"""What the answer to a task must fit; None when any text will do."""
FolderOf = Callable[[Task], Path]
"""The folder that a task works in."""


class GateResult(SentStruct, frozen=True, kw_only=True):
    """What became of one gate.

    Attributes:
        gate: The command, the files, or `result_schema`.
        passed: Whether the work passed; null where the gate could not be run.
        output: What the command wrote, shortened, or why it did not pass.
        feedback: For the next attempt: which gate, and why it did not pass. Empty when it did.
        defect: What of the feedback stays the same when the same defect is found again.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"feedback", "defect"})

    gate: str
    passed: bool | None
    output: str = ""
    feedback: str = ""
    defect: str = ""


class TaskGates:
    """Runs the gates of tasks."""

    def __init__(
        self,
        *,
        gates_of: GatesOf,
        schema_of: SchemaOf,
        folder_of: FolderOf,
        find_problems: FindProblems,
        environ: Mapping[str, str],
        pinned: Pinned | None = None,
    ) -> None:
        """Run nothing yet.

        Args:
            gates_of: The gates of a task.
            schema_of: The schema of its answer.
            folder_of: The folder that it works in.
            find_problems: Validates answers, bounded in time.
            environ: The user's environment, of which commands see a part.
            pinned: The approved copy of the project's own folder: programs in it run from there, so that a task that
                changes them does not change its own gates.
        """
        self._gates_of, self._schema_of, self._folder_of = gates_of, schema_of, folder_of
        self._find_problems = find_problems
        self._environ, self._pinned = environ, pinned

    async def run_gates(self, task: Task, answer: str) -> list[GateResult]:
        """Run every gate of a task, one after the other, whatever became of those before.

        Raises nothing but the caller's cancellation, which ends a running command.
        """
        try:
            gates, schema, folder = self._gates_of(task), self._schema_of(task), self._folder_of(task)
        except Exception as error:  # noqa: BLE001 - logged there
            return [_crashed("gates", error)]
        results = [await _isolate(_label_gate(gate), self._run_gate(gate, folder)) for gate in gates]
        if schema is not None:
            results.append(await _isolate(SCHEMA_GATE, self._check_answer(schema, answer)))
        for result in results:
            if result.passed is None:
                logger.warning("task %s: gate %r: %s", task.id, result.gate, result.output)
        return results

    async def _run_gate(self, given: Mapping[str, Any], folder: Path) -> GateResult:
        label = _label_gate(given)
        try:
            gate = read_gate(given)
        except InvalidGateError as error:
            return _unknown(label, str(error))
        if not await asyncio.to_thread(folder.is_dir):
            return _unknown(label, f"the folder {str(folder)!r} that the task works in does not exist")
        match gate:
            case CommandGate():
                return await self._run_command(gate, label, folder)
            case FilesGate():
                return await _look_for_files(gate, label, folder)

    async def _run_command(self, gate: CommandGate, label: str, folder: Path) -> GateResult:
        argv, output = gate.argv, Capture(_CAPTURED)
        if self._pinned is not None:
            try:
                argv = self._pinned.pin_argv(argv, folder)
            except TemplateError as error:
                return _unknown(label, str(error))
        deadline = asyncio.timeout(gate.timeout)
        try:
            async with deadline:
                status = await run_captured(argv, cwd=folder, env=select_environment(self._environ), output=output)
        except TimeoutError:
            if not deadline.expired():
                raise
            ending = f"it did not end within {render_seconds(gate.timeout)}, and was ended"
            # Without its output: how far it came until then differs from run to run.
            return _rejected(label, ending, clean_output(output.text), defect="")
        except OSError as error:
            return _unknown(label, _explain_start(argv[0], error))
        written = clean_output(output.text).strip()
        if status == 0:
            return GateResult(gate=label, passed=True, output=shorten_middle(written, MOST_OUTPUT))
        ending = f"exit status {status}" if status > 0 else f"it was ended by signal {-status}"
        return _rejected(label, ending, written, defect=written)

    async def _check_answer(self, schema: JSONSchema, answer: str) -> GateResult:
        try:
            compiled = compile_schema(schema, tool="", field=SCHEMA_GATE)
        except SchemaError as error:
            return _unknown(SCHEMA_GATE, f"it is no valid schema: {error.reason}")
        try:
            value = find_json(answer)
        except NoJsonError as error:
            return _rejected(SCHEMA_GATE, "the answer must be JSON that fits a schema", f"(answer): {error}")
        problems = await self._find_problems(compiled, value)
        if not problems:
            return GateResult(gate=SCHEMA_GATE, passed=True)
        if problems[0].startswith(UNVALIDATED):
            return _unknown(SCHEMA_GATE, problems[0].partition(": ")[2])
        reasons = "\n".join(rename_whole(problems, "(answer)"))
        return _rejected(SCHEMA_GATE, "the JSON in the answer does not fit its schema", clean_output(reasons))


async def _look_for_files(gate: FilesGate, label: str, folder: Path) -> GateResult:
    try:
        missing = await asyncio.to_thread(find_missing, folder, gate.files)
    except LongSearchError as error:
        return _unknown(label, str(error))
    if not missing:
        return GateResult(gate=label, passed=True)
    return _rejected(label, "files are missing in the task's folder", clean_output("\n".join(missing)))


def _rejected(label: str, ending: str, detail: str, *, defect: str | None = None) -> GateResult:
    """A gate that the work did not pass; the detail also identifies the defect unless another text does."""
    feedback = f"The gate `{label}` did not pass: {ending}."
    if detail.strip():
        room = MOST_FEEDBACK - len(feedback) - 1
        feedback = f"{feedback}\n{shorten_middle(detail.strip(), room)}"
    return GateResult(
        gate=label,
        passed=False,
        output=shorten_middle(f"{detail.strip()}\n{ending}".lstrip(), MOST_OUTPUT),
        feedback=feedback,
        defect=normalise_defect(f"{label}: {ending}: {detail if defect is None else defect}"),
    )


def _unknown(label: str, reason: str) -> GateResult:
    """A gate that could not be run."""
    return GateResult(
        gate=label, passed=None, output=reason, feedback=f"The gate `{label}` could not be run: {reason}."
    )


async def _isolate(label: str, gate: Awaitable[GateResult]) -> GateResult:
    try:
        return await gate
    except Exception as error:  # noqa: BLE001 - logged there
        return _crashed(label, error)


def _crashed(label: str, error: Exception) -> GateResult:
    logger.error("gate %r crashed", label, exc_info=error)
    return _unknown(label, f"it crashed ({type(error).__name__}); the log has the details")


def _label_gate(given: Mapping[str, Any]) -> str:
    """How a gate is called in messages: one line, bounded."""
    match given:
        case {"command": str(command)}:
            label = command
        case {"files": [*files]}:
            label = f"files: {', '.join(map(str, files))}"
        case _:
            label = str(given)
    label = " ".join(clean_output(label).split())
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _explain_start(program: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"program not found: {shlex.quote(program)}; install it, or give its path"
    return f"{shlex.quote(program)} cannot be started: {error.strerror}"
