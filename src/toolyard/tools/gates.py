"""Who is asked before a tool runs, and who is told afterwards.

Above: the dispatcher. Below: the words, and a tool's definition.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from toolyard.plugins.tool_meta import ToolMeta
from toolyard.tools.definition import RegisteredTool
from toolyard.types.call import Allow, Ask, Caller, Decision, Deny, Rewrite, ToolCall
from toolyard.types.result import Failure, ToolResult

logger = logging.getLogger(__name__)


class Gate(Protocol):
    """Asked before a tool runs. A gate that fails says no."""

    async def __call__(self, call: ToolCall) -> Decision:
        """Allow (or None), deny with a reason, rewrite the arguments, or have a person asked."""
        ...


Observer = Callable[[ToolCall, ToolResult], Awaitable[None]]
"""Told after a tool ran, or did not get to, with its result, which is decided. Must not raise."""


class Approve(Protocol):
    """Has a person asked on a gate's behalf. Must not raise."""

    async def __call__(self, call: ToolCall, ask: Ask, asked_by: str) -> Allow | Deny | Rewrite:
        """What the person said; nobody's answer is a no."""
        ...


class Gates:
    """The gates and observers of one moment; a call keeps those it began with."""

    __slots__ = ("_approve", "_gates", "observers")

    def __init__(self, gates: Sequence[Gate], observers: Sequence[Observer], approve: Approve | None) -> None:
        self._gates = gates
        self._approve = approve
        self.observers = observers

    async def ask(
        self, registered: RegisteredTool, arguments: dict[str, Any], caller: Caller, call_id: str
    ) -> dict[str, Any] | ToolResult:
        """Ask every gate in order: the arguments to go on with, or the refusal.

        A gate sees a copy, so that what it does to it is nothing that was not validated.
        """
        name = registered.tool.name
        for gate in self._gates:
            who = getattr(gate, "name", "a gate")
            call = ToolCall(name=name, input=copied(arguments), caller=caller, call_id=call_id)
            try:
                decision = await gate(call)
            except Exception:
                logger.exception("%s failed on %r, so the call is refused", who, name)
                return ToolResult.error(f"{name} was refused: a check before it failed", Failure.REFUSED)
            if isinstance(decision, Ask):
                decision = await self._ask_person(call, decision, who)
            match decision:
                case Deny(reason=reason):
                    return ToolResult.error(f"{name} was refused: {reason}", Failure.REFUSED)
                case Rewrite(input=rewritten):
                    arguments = dict(rewritten)
                    if not registered.input.is_valid(arguments):
                        return invalid_arguments(registered, arguments, f"{who} rewrote them")
                    logger.info("%s rewrote the arguments of %r", who, name)
                case Allow() | None:
                    continue
                case _:  # pyright: ignore[reportUnnecessaryComparison] - gates are other people's code
                    logger.error("%s answered %r with nonsense, so the call is refused", who, name)
                    return ToolResult.error(f"{name} was refused: a check before it failed", Failure.REFUSED)
        return arguments

    async def tell(self, name: str, input: Mapping[str, Any] | None, meta: ToolMeta, result: ToolResult) -> None:
        """Tell every observer, in order; each gets a copy."""
        call = ToolCall(name=name, input=copied(input or {}), caller=meta.caller, call_id=meta.call_id)
        for observer in self.observers:
            await observer(call, copy.copy(result))

    async def _ask_person(self, call: ToolCall, ask: Ask, who: str) -> Allow | Deny | Rewrite:
        if self._approve is None:
            return Deny(f"{who} wants a person to decide ({ask.reason}), and nobody can be asked here")
        return await self._approve(call, ask, who)


def copied(value: Any) -> Any:
    """JSON, again."""
    match value:
        case dict():
            return {key: copied(item) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [copied(item) for item in cast("list[Any]", value)]
        case _:
            return value


def invalid_arguments(registered: RegisteredTool, arguments: Any, why: str = "") -> ToolResult:
    """The answer to arguments that do not fit: each problem with its pointer, for the model to mend."""
    if isinstance(arguments, Mapping):
        lines = registered.input.problems(arguments)
        if why and not lines:
            lines = [f"(arguments): {why[:200]}"]
    else:
        lines = [f"(arguments): expected object, got {type(arguments).__name__}"]
    name = registered.tool.name
    return ToolResult.error(f"Invalid arguments for {name}:\n" + "\n".join(lines), Failure.INVALID_ARGUMENTS)
