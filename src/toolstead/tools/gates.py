"""Gates, which decide before a tool runs, and observers, which see its result."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from toolstead.errors import SettingsError
from toolstead.plugins.field_check import describe_kind
from toolstead.tools.definition import RegisteredTool
from toolstead.tools.validation import BoundedValidator
from toolstead.types.call import Allow, Ask, Caller, Decision, Deny, Rewrite, ToolCall
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

if TYPE_CHECKING:
    from toolstead.types.approval import Approval, ApprovalDecision

logger = logging.getLogger(__name__)


Gate = Callable[[ToolCall], Awaitable[Decision]]
"""Decides before a tool runs: allow (or None), deny with a reason, rewrite the arguments, or request an approval.

A gate that fails denies the call.
"""

Observer = Callable[[ToolCall, ToolResult], Awaitable[None]]
"""Called with the final result after a tool ran or was refused. Must not raise."""


def check_gates(gates: Sequence[Any]) -> None:
    """Refuse at once what could only deny every call.

    Raises:
        SettingsError: One of a program's gates cannot be called.
    """
    for gate in gates:
        if not callable(gate):
            reason = f"a gate is an `async def` that takes the call, not {describe_kind(gate)}"
            raise SettingsError(key="gates", origin="Toolstead(gates=…)", reason=reason)


MOST_EDITS = 10
"""How often people may edit the arguments of one call; each edit passes all gates again."""


class ApprovingClient(Protocol):
    """The caller's own side, where a person can be asked about an approval."""

    async def ask_approval(self, approval: Approval) -> tuple[ApprovalDecision, str] | None:
        """Ask the person there: the decision with its reason, or None where none is made there.

        Raises:
            NoClientError: The client cannot be asked.
        """
        ...


Approve = Callable[[ToolCall, Ask, str, ApprovingClient | None], Awaitable[Allow | Deny | Rewrite]]
"""Requests an approval for the gate of this name, at the caller's own side too, and returns the person's decision.

Must not raise.
"""


@dataclass(frozen=True, slots=True)
class Gates:
    """An immutable set of gates and observers; a call keeps the one it began with."""

    gates: Sequence[Gate]
    observers: Sequence[Observer]
    approve: Approve | None
    validator: BoundedValidator

    async def ask_gates(  # noqa: PLR0912 - every decision there is, on the one path of every call
        self,
        name: str,
        arguments: dict[str, Any],
        caller: Caller,
        call_id: str,
        registered: RegisteredTool | None,
        *,
        approving: ApprovingClient | None = None,
    ) -> dict[str, Any] | ToolResult:
        """Run every gate in order and return the arguments to use, or the refusal.

        A tool of a runtime's own is not registered, and nothing is known of its arguments.

        A gate gets a copy, so that it cannot change validated arguments in place. A person gets another copy, and
        exactly what the person allowed runs: no later gate may rewrite it. What the person edited passes all gates
        again, from the first: one that has its answer about these very arguments does not ask again.
        """
        seen_for, edited_at, edits, at = "", -1, 0, 0
        answered: set[tuple[int, bytes]] = set()
        while at < len(self.gates):
            index, gate = at, self.gates[at]
            at += 1
            who = getattr(gate, "name", "a gate")
            try:
                call = ToolCall(name=name, input=copy_json(arguments), caller=caller, call_id=call_id)
                decision = await gate(call)
            except (Exception, SystemExit):
                logger.exception("%s failed on %r, so the call is refused", who, name)
                return _refuse_call(name, "a check before it failed")
            by_person = isinstance(decision, Ask)
            if isinstance(decision, Ask):
                if (index, _as_text(arguments)) in answered:
                    continue
                shown = ToolCall(name=name, input=copy_json(arguments), caller=caller, call_id=call_id)
                decision, seen_for, edited_at = await self._ask_person(shown, decision, who, approving), who, -1
            match decision:
                case Deny(reason=reason):
                    return _refuse_call(name, reason)
                case Rewrite(input=Mapping() as rewritten):
                    again = await self._validate_copy(name, registered, rewritten)
                    if isinstance(again, ToolResult):
                        logger.error("%s rewrote the arguments of %r to invalid ones", who, name)
                        return again
                    if seen_for and _as_text(again) != _as_text(arguments):
                        if by_person:
                            edits, edited_at, at = edits + 1, index, 0
                        elif index <= edited_at:  # what a person edited passes it again, and so what it made of that
                            seen_for = ""
                        else:
                            logger.error("%s would rewrite arguments of %r that a person allowed", who, name)
                            reason = f"{who} would change what a person was shown and allowed for {seen_for}"
                            return _refuse_call(
                                name, f"{reason}; it must come before it (`Hooks(before=[{seen_for!r}])`)"
                            )
                    if edits > MOST_EDITS:
                        logger.error("arguments of %r were edited %s times, so the call is refused", name, edits)
                        return _refuse_call(name, f"its arguments were edited more than {MOST_EDITS} times")
                    arguments = again
                    answered.update({(index, _as_text(again))} if by_person else ())
                    logger.info("%s rewrote the arguments of %r", who, name)
                case Allow() | None:
                    answered.update({(index, _as_text(arguments))} if by_person else ())
                case _:  # pyright: ignore[reportUnnecessaryComparison] - gates are third-party code
                    logger.error("%s returned no valid decision on %r, so the call is refused", who, name)
                    return _refuse_call(name, "a check before it failed")
        return arguments

    def copy_for_observers(self, arguments: dict[str, Any] | ToolResult, given: Any) -> Any:
        """The arguments that observers get: a copy, because the handler may change its own.

        Args:
            arguments: What the handler gets, or the refusal.
            given: What the caller gave.
        """
        if not self.observers or isinstance(arguments, ToolResult):
            return given
        try:
            return copy_json(arguments)
        except RecursionError:
            return given

    async def notify_observers(self, name: str, input: Any, caller: Caller, call_id: str, result: ToolResult) -> None:
        """Notify every observer, in order; each gets copies, so that none can change the result.

        Arguments that are not an object are passed as an empty one.
        """
        given: Mapping[str, Any] = cast("Mapping[str, Any]", input) if isinstance(input, Mapping) else {}
        for observer in self.observers:
            try:
                call = ToolCall(name=name, input=copy_json(given), caller=caller, call_id=call_id)
                shown = _copied_result(result)
            except RecursionError:
                logger.error("call %s: %s is nested too deeply for its observers", call_id, name)  # noqa: TRY400 - how deep is no news
                return
            await observer(call, shown)

    async def _validate_copy(
        self, name: str, registered: RegisteredTool | None, given: Mapping[str, Any]
    ) -> dict[str, Any] | ToolResult:
        """A validated private copy of the arguments, or the error result."""
        try:
            copied = copy_json(given)
        except RecursionError:
            return ToolResult.error(f"Invalid arguments for {name}: nested too deeply", Failure.REFUSED)
        return copied if registered is None else await self.validator.validate_arguments(registered, copied)

    async def _ask_person(
        self, call: ToolCall, ask: Ask, who: str, approving: ApprovingClient | None
    ) -> Allow | Deny | Rewrite:
        if self.approve is None:
            return Deny(f"{who} requires an approval ({ask.reason}), and no person can be asked here")
        return await self.approve(call, ask, who, approving)


def _refuse_call(name: str, reason: str) -> ToolResult:
    return ToolResult.error(f"{name} was refused: {reason}", Failure.REFUSED)


_PLAIN = frozenset({str, int, float, bool, type(None)})

MAX_COPIED_LEVELS = 300
"""How many levels of lists and objects are copied. Counted, because how deep Python itself goes differs between
versions; Python 3.11, which needs two frames a level, allows this many."""


def copy_json(value: Any, levels: int = MAX_COPIED_LEVELS) -> Any:
    """Copy a JSON value. Types are compared, because asking whether a text is a mapping costs more than all the rest.

    Raises:
        RecursionError: It is nested more deeply than `MAX_COPIED_LEVELS`.
    """
    if type(value) in _PLAIN:
        return value
    if levels == 0:
        raise RecursionError(f"nested more than {MAX_COPIED_LEVELS} levels deep")
    levels -= 1
    if isinstance(value, dict | Mapping):
        table = cast("Mapping[str, Any]", value)
        return {key: item if type(item) in _PLAIN else copy_json(item, levels) for key, item in table.items()}
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else copy_json(item, levels) for item in cast("list[Any]", value)]
    return value


def _as_text(arguments: Mapping[str, Any]) -> bytes:
    """The same for the same arguments; Python would find `1` and `true` equal."""
    return msgspec.json.encode(arguments, order="sorted")


def _copied_result(result: ToolResult) -> ToolResult:
    content = tuple(Text(part.text) if isinstance(part, Text) else part for part in result.content)
    return msgspec.structs.replace(result, content=content, structured=copy_json(result.structured))
