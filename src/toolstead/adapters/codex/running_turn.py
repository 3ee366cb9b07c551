"""One running turn of a Codex thread: notifications become events, calls of our tools, and the answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from toolstead.adapters.codex.app_server import AppServer, ProcessGoneError, RefusedByCodexError
from toolstead.adapters.codex.own_tools import OwnUses, run_in_task
from toolstead.errors import InvocationError, RuntimeFailureError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, explain_turn_limit
from toolstead.types.event import THINKING, RetryNotice
from toolstead.types.result import Failure, ToolResult
from toolstead.types.run import NOTHING_USED, Usage

logger = logging.getLogger(__name__)

INTERRUPT = 3.0
"""Seconds after which a program that does not interrupt a turn is killed."""
_AGAIN = 0.01
_UNWIND = 1.0
"""Seconds to wait for cancelled tools."""
_NO_CALLS = frozenset({"userMessage", "agentMessage", "reasoning", "plan", "contextCompaction"})
"""Items that are not tool calls: after a reply without tool calls there is no further model request."""


class RunningTurn:
    """A turn from its start to its end.

    Attributes:
        id: Codex's id of it, as soon as that is known.
        ending: Its answer, or why there is none; None when Codex ended it with a message still unanswered.
        over: Set when Codex has ended it, or its process has ended.
        unwanted: Whether its caller has stopped waiting.
        steered: Whether it was given messages while it ran.
    """

    def __init__(self, turn: Turn, spec: SessionSpec, *, max_turns: int) -> None:
        """Begin nothing yet.

        Args:
            turn: The turn.
            spec: What its session is built with.
            max_turns: Model requests allowed, unless the specification says how many.
        """
        self.id: str | None = None
        self.ending: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self.unwanted = self.steered = False
        self.own = OwnUses(turn.own, refuse=lambda why: self.fail_turn(RuntimeFailureError(why)))
        self._turn = turn
        self._calls: set[asyncio.Future[ToolResult]] = set()
        self._text = ""
        self._usage = NOTHING_USED
        self._total: Any = None
        self._spec = spec
        self._max_turns = max_turns if spec.max_turns is None else spec.max_turns
        self._replies = 0
        self._called = self._unanswered = False
        self._why = ""
        self._early: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def has_ended(self) -> bool:
        """Whether no new work may start for it; Codex may not have ended it yet."""
        return self.unwanted or self.ending.done()

    def begin_turn(self, id: str) -> None:
        """Note that Codex has begun it, and process the notifications about it that arrived meanwhile."""
        self.id = id
        early, self._early = self._early, []
        for method, params in early:
            self.on_notification(method, params)

    def go_on(self) -> None:
        """Prepare to begin it again, to answer a message that arrived too late."""
        self.id = None
        self.ending = asyncio.get_running_loop().create_future()
        self.over.clear()

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Process a notification about its thread."""
        if self.id is None:
            self._early.append((method, params))
        elif _turn_of(params) in (None, self.id):
            self._take_notification(method, params)

    def _take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        match method:
            case "item/agentMessage/delta":
                self._report_event("message.delta", params)
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                self._report_event(THINKING, params)
            case "item/started" | "item/completed":
                item: Mapping[str, Any] = params.get("item") or {}
                if item.get("type") == "agentMessage":
                    self._text = str(item.get("text") or "")
                self._called = self._called or item.get("type") not in _NO_CALLS
                self._unanswered = item.get("type") == "userMessage"
                self.own.note_item(item)
            case "thread/tokenUsage/updated":
                self._unanswered = False
                self._count_usage(params.get("tokenUsage") or {})
            case "error":
                self._why = _error_sentence(params.get("error"))
                logger.warning("Codex: %s%s", self._why, "; retrying" if params.get("willRetry") else "")
                if params.get("willRetry") and not self.ending.done():
                    self._turn.tell(THINKING, RetryNotice(reason=f"Codex: {self._why or 'no answer'}").to_event())
            case "turn/completed":
                self._complete_turn(params.get("turn") or {})
            case _:
                pass

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None) -> ToolResult:
        """Call one of our tools on behalf of this turn."""
        if self.has_ended:
            return ToolResult.error(f"{name} was not called: the turn has ended", Failure.CANCELLED)

        task = await run_in_task(self._turn.call_tool(name, input, call_id=call_id), self._calls)
        if task.cancelled():
            return ToolResult.error(f"{name} was cancelled", Failure.CANCELLED)
        return task.result()

    def fail_turn(self, error: InvocationError) -> None:
        """Fail the turn with an error."""
        if not self.ending.done():
            self.ending.set_exception(error)
            self.ending.exception()  # the waiting caller raises it; a cancelled turn has none
        self.cancel_calls()

    def cancel_calls(self) -> None:
        """Cancel its running tools and pending approvals."""
        for task in self._calls:
            task.cancel()
        self.own.withdraw_questions()

    async def interrupt_turn(
        self, where: Callable[[], tuple[AppServer, str]], starting: asyncio.Task[None] | None
    ) -> None:
        """Interrupt it; kill a process that does not react, with every thread in it.

        Args:
            where: Returns the current process and thread: a turn may be moving to another process.
            starting: The task that begins it; None if there is none.
        """
        self.unwanted = True
        self.cancel_calls()
        if starting is None or self.over.is_set():
            return
        try:
            async with asyncio.timeout(INTERRUPT):
                await asyncio.shield(starting)
                server, thread_id = where()
                while not self.over.is_set():
                    try:
                        await server.send_request("turn/interrupt", {"threadId": thread_id, "turnId": self.id})
                        await self.over.wait()
                    except RefusedByCodexError as error:  # it has not quite begun, or has just ended
                        logger.debug("Codex does not interrupt the turn yet: %s", error)
                        await asyncio.sleep(_AGAIN)
        except TimeoutError:
            server, _ = where()
            logger.warning("Codex does not interrupt a turn; killing its process %s", server.pid)
            await server.kill()
        except (ProcessGoneError, RefusedByCodexError) as error:
            logger.debug("there was no turn to interrupt: %s", error)
            self.over.set()

    async def wait_for_calls(self) -> None:
        """Wait, with a timeout, until all its work has ended."""
        self.cancel_calls()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_UNWIND)
        try:
            async with asyncio.timeout(_UNWIND):
                await self.own.end_turn()
        except TimeoutError:
            logger.warning("the results of Codex's own tools could not be logged in time")

    def _report_event(self, kind: str, params: Mapping[str, Any]) -> None:
        text = params.get("delta")
        if text and not self.ending.done():
            self._turn.tell(kind, {"text": str(text)})

    def _count_usage(self, reported: Mapping[str, Any]) -> None:
        total: Any = reported.get("total")
        last: Mapping[str, Any] = reported.get("last") or {}
        if total == self._total:
            return  # a duplicate
        self._total = total
        used = Usage(input_tokens=_read_number(last, "inputTokens"), output_tokens=_read_number(last, "outputTokens"))
        self._usage += used
        self._turn.tell("usage", used.to_json())
        # End it at its limit of replies: Codex reports the usage of each after its calls are done.
        self._replies += 1
        if self._replies > self._max_turns or (self._replies == self._max_turns and self._called):
            self.fail_turn(explain_turn_limit(self._spec, "codex", self._max_turns))
        elif self._called and (excess := self._turn.limits.find_excess(self._usage)) is not None:
            self.fail_turn(excess)
        self._called = False

    def _complete_turn(self, turn: Mapping[str, Any]) -> None:
        self.over.set()
        status = turn.get("status")
        if status == "completed" and not self.ending.done():
            # Codex accepts a message between the last reply and the end, and does not answer it.
            left = self._unanswered and self.steered
            self.ending.set_result(None if left else Answer(text=self._text, usage=self._usage))
        elif status == "failed":
            self.fail_turn(
                RuntimeFailureError(f"Codex: {_error_sentence(turn.get('error')) or self._why or 'the turn failed'}")
            )
        else:
            self.fail_turn(RuntimeFailureError(f"Codex ended the turn: {status}"))


def _turn_of(params: Mapping[str, Any]) -> Any:
    """The turn of a notification; None if it is about the thread."""
    turn: Mapping[str, Any] = params.get("turn") or {}
    return params.get("turnId") or turn.get("id")


def _read_number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0


def _error_sentence(error: Any) -> str:
    """The error message; the API's own where Codex repeats it as JSON."""
    if not isinstance(error, Mapping):
        return ""
    message = str(cast("Mapping[str, Any]", error).get("message") or "")
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(message)["error"]["message"])
    return message
