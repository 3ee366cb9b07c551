"""Validates arguments and structured answers: at once what surely takes no time, in a process of its own the rest.

The validator cannot be interrupted and lets nothing else run meanwhile. Two things can keep it busy for minutes:
a pattern with look-around or back-references on a long text, and the search for all problems of a large value, or
of a nested one whose schema refers to itself.

| schema                                          | validated on the event loop | explained on the event loop |
|-------------------------------------------------|-----------------------------|-----------------------------|
| types, bounds, linear patterns                  | any value                   | up to 2 kB                  |
| `anyOf`, `uniqueItems` and the like             | up to 64 kB                 | up to 2 kB                  |
| references that may lead back to themselves     | up to 64 kB                 | never                       |
| patterns with look-around or back-references    | up to 256 bytes             | up to 256 bytes             |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.schema.checking import (
    SECONDS_TO_EXPLAIN,
    SECONDS_TO_VALIDATE,
    explain_value,
    fits_schema,
    pack_request,
    pack_value,
)
from toolstead.schema.compiled import CompiledSchema
from toolstead.tools.definition import RegisteredTool
from toolstead.types.result import Failure, ToolResult

if TYPE_CHECKING:
    from toolstead.processes.isolated import IsolatedProgram

logger = logging.getLogger(__name__)

EXPLAINED_INLINE = 2_048
"""Bytes of a value whose problems are listed at once: the validator lists all of them, at 10 µs each."""
MOST_PROCESSES = 2
SECONDS_TO_WAIT = 15.0
"""Seconds that a value waits for its answer, those before it included."""
IDLE = 60.0
"""Seconds that a server keeps an idle process."""
UNVALIDATED = "(arguments): they could not be validated"
"""How the one problem begins that is none of the value's: no process could be asked, or none answered."""
_LONGEST_ANSWER = 65_536


def take_arguments(schema: CompiledSchema, given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The arguments with defaults filled in, where they surely fit; None leaves the decision to `BoundedValidator`."""
    try:  # not through `fill_defaults`: a further frame is a twentieth of a call
        arguments = {**schema.flat_defaults, **({} if given is None else given)}
        if schema.deeper_defaults is not None:
            schema.deeper_defaults.fill_deeper(arguments)
        return arguments if schema.inline_size is None and schema.is_valid(arguments) else None
    except (TypeError, ValueError, RecursionError):
        return None


def fill_defaults(schema: CompiledSchema, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments with defaults filled in."""
    arguments = {**schema.flat_defaults, **({} if given is None else given)}
    if schema.deeper_defaults is not None:
        schema.deeper_defaults.fill_deeper(arguments)
    return arguments


class BoundedValidator:
    """Validates values, and owns the processes that do so for some of them."""

    def __init__(self, *, keep_idle: float = 0.0) -> None:
        """Start nothing yet.

        Args:
            keep_idle: Seconds that an idle process is kept for the next value, which then takes a tenth of a second
                less; then `aclose` must be called in the end.
        """
        self._keep_idle = keep_idle
        self._program: IsolatedProgram | None = None

    async def validate_arguments(
        self, registered: RegisteredTool, given: Mapping[str, Any] | None
    ) -> dict[str, Any] | ToolResult:
        """The arguments with defaults filled in, or a result that says why they do not fit."""
        try:
            arguments = fill_defaults(registered.input, given)
        except (TypeError, RecursionError) as error:  # not an object at all, or nested too deeply
            kind = type(given).__name__
            wrong = str(error)[:200] if isinstance(given, Mapping) else f"expected object, got {kind}"
            return _refuse_arguments(registered, [f"(arguments): {wrong}"])
        problems = await self.find_problems(registered.input, arguments)
        return _refuse_arguments(registered, problems) if problems else arguments

    async def find_problems(self, schema: CompiledSchema, value: Any) -> list[str]:
        """Why a value does not fit; empty when it does."""
        schema.ensure_compiled()
        try:
            packed = pack_value(value)
        except ValueError:  # no transport makes such a value; the validator says what is wrong with it
            packed = b""
        size = len(packed)
        if schema.inline_size is None or size <= schema.inline_size:
            if fits_schema(schema, value):
                return []
            if size <= EXPLAINED_INLINE and not (schema.expands_far and packed):
                return explain_value(schema, value)
        try:
            return await self._ask_process(pack_request(schema, packed))
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer within {SECONDS_TO_WAIT:g} seconds"
            logger.warning("a value of %s bytes was not validated: %s", size, reason)
            return [f"{UNVALIDATED} ({reason}); try again, or give less"]

    async def aclose(self) -> None:
        """End the processes."""
        if self._program is not None:
            await self._program.aclose()

    async def _ask_process(self, request: bytes) -> list[str]:
        is_valid, lines = await self._open_program().exchange(request, _read_answer, timeout=SECONDS_TO_WAIT)
        if is_valid == b"true\n":
            return []
        if problems := msgspec.json.decode(lines or b"[]", type=list[str]):
            return problems
        logger.warning("a value of %s bytes was refused: validating or explaining it took too long", len(request))
        if is_valid:
            wrong = f"they do not fit the schema, and finding out where took longer than {SECONDS_TO_EXPLAIN:g} second"
            return [f"(arguments): {wrong}; give shorter texts and less nesting"]
        return [f"(arguments): validating them took longer than {SECONDS_TO_VALIDATE:g} seconds; give shorter texts"]

    def _open_program(self) -> IsolatedProgram:
        if self._program is None:
            from toolstead.processes.isolated import IsolatedProgram  # few servers ever need it

            self._program = IsolatedProgram(
                "toolstead.schema.checking",
                most=MOST_PROCESSES,
                longest_line=_LONGEST_ANSWER,
                keep_idle=self._keep_idle,
            )
        return self._program


async def _read_answer(stdout: asyncio.StreamReader) -> tuple[tuple[bytes, bytes], bool]:
    """Whether the value fits, and the problems when it does not."""
    is_valid = await stdout.readline()
    lines = is_valid if is_valid == b"true\n" else await stdout.readline()
    return (is_valid, lines), bool(lines)


def _refuse_arguments(registered: RegisteredTool, problems: list[str]) -> ToolResult:
    """The result for invalid arguments: each problem with its pointer, for the model to correct."""
    name = registered.tool.name
    return ToolResult.error(f"Invalid arguments for {name}:\n" + "\n".join(problems), Failure.INVALID_ARGUMENTS)
