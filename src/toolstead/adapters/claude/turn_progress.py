"""One turn as Claude Code reports it: text, thinking, results, usage, and when it is really over.

A turn can have several results: a message that arrives during the last answer gets a result of its own. The turn is
over when the program is idle and has processed every message. Messages of Claude's subagents arrive in between: their
text is not reported, but their model requests count.

What a reply used is told when it is finished, and a result tells what is left: most of what subagents wrote, since
their replies are passed on as they begin; what the program asks a model on its own; the difference to its own price.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    UserMessage,
)

from toolstead.adapters.claude.usage import ClaudeUsage, ReplyUsage, subtract_usage
from toolstead.errors import InvocationError, LimitError, RuntimeFailureError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, explain_turn_limit
from toolstead.types.event import THINKING, RetryNotice
from toolstead.types.run import NOTHING_USED, Usage

logger = logging.getLogger(__name__)

_LONGEST_REASON = 2_000
_REFUSED = (401, 403)
"""HTTP statuses for a key that is unknown or lacks permission."""
_CHECK_KEY = "check ANTHROPIC_API_KEY"


class TurnProgress:
    """The state of a turn.

    Attributes:
        turn: The turn.
        end: Its answer, or why there is none.
        acted: Whether a tool was used: then the turn must not be retried.
        halt: Why it must stop: it reached its limit of replies, or its key is refused.
        stopping: The task that stops it.
        unprocessed: The ids of messages that the program has not processed yet; the turn lasts until it has.
        calls: The ids of calls of our tools, and of gated calls of built-in tools.
        agents: The calls that started subagents, by the subagents' ids.
        parents: The calls that started the subagents that made other calls, by the ids of those.
    """

    def __init__(self, turn: Turn, spec: SessionSpec, spending: ClaudeUsage, *, max_turns: int) -> None:
        self.turn = turn
        self.end: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.acted = False
        self.halt: InvocationError | None = None
        self.stopping: asyncio.Task[None] | None = None
        self._spec = spec
        self._spending = spending
        self._replied = ReplyUsage(spec.model)
        self._max_turns = max_turns
        self._replies: set[str] = set()
        self.agents: dict[str, str] = {}
        self.parents: dict[str | None, str] = {}
        self.unprocessed: set[str] = set()
        self.calls: set[str | None] = set()
        self._streamed = ""
        self._last_replies: dict[str, str] = {}  # of subagents, by the calls that started them
        self._told = NOTHING_USED
        self._reported = NOTHING_USED  # by the results so far
        self._outcome: str | InvocationError | None = None
        self._idle = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.end.done()

    def take_message(self, message: Message) -> None:
        """Process a message of the program."""
        match message:
            case StreamEvent(parent_tool_use_id=None, event=event):
                self._take_stream_event(event)
            case AssistantMessage():
                self._count_replies(message)
                if message.parent_tool_use_id is None:
                    self._take_assistant(message)
            case UserMessage():
                self._take_user(message)
            case ResultMessage():
                self._take_result(message)
            case SystemMessage(subtype="session_state_changed", data=data):
                self._idle = data.get("state") == "idle"
            case SystemMessage(subtype="task_started", data={"task_id": str(agent), "tool_use_id": str(call_id)}):
                self.agents[agent] = call_id
            case SystemMessage(subtype="api_retry", data=data):
                self._take_retry(data)
            case _:
                pass
        if self._idle and self._outcome is not None and not self.unprocessed:
            outcome = self._outcome
            self.end_turn(Answer(text=outcome, usage=self._told) if isinstance(outcome, str) else outcome)

    def end_turn(self, outcome: Answer | InvocationError) -> None:
        """End it, with an answer or without; only the first end counts."""
        if self.end.done():
            return
        outcome = self.halt or outcome
        if isinstance(outcome, Answer):
            self.end.set_result(outcome)
        else:
            self.end.set_exception(outcome)
            self.end.exception()  # the waiting caller may be gone

    def _take_stream_event(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"type": "message_start", "message": {"id": str(id), **message}}:
                self._streamed = id
                self._replied.add_counts(id, message.get("usage"), model=message.get("model"))
            case {"type": "message_delta", "usage": usage, "delta": {"stop_reason": reason}}:
                self._replied.add_counts(self._streamed, usage)
                self._tell_usage(self._replied.take_new())
                if reason == "tool_use":
                    self._halt_at_budget()
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if text:
                self.turn.tell("message.delta", {"text": text})
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}} if text:
                self.turn.tell(THINKING, {"text": text})
            case _:
                pass

    def _count_replies(self, message: AssistantMessage) -> None:
        """Count replies. Claude Code limits its own, but not those of its subagents."""
        if message.message_id is None or message.error is not None:
            return
        self._replies.add(message.message_id)
        parent = message.parent_tool_use_id
        others = parent is not None  # the turn's own answer is still to come
        if len(self._replies) > self._max_turns or (others and len(self._replies) == self._max_turns):
            self.halt = self._limit_error()
        if parent is not None:
            self._last_replies[parent] = message.message_id
        if others or message.message_id != self._streamed:
            self._count_whole_reply(message.message_id, message.usage, message.model)
            if others or message.stop_reason == "tool_use":
                self._halt_at_budget()

    def _count_whole_reply(self, id: str, counts: Mapping[str, Any] | None, model: object) -> None:
        """Count a reply that is not streamed to us."""
        self._replied.add_counts(id, counts, model=model)
        self._tell_usage(self._replied.take_new())

    def _take_user(self, message: UserMessage) -> None:
        """Process what the model was given: a message of ours, or a result of a call."""
        if message.uuid is not None:
            self.unprocessed.discard(message.uuid)
        match message.tool_use_result:
            case {"agentId": str(agent), "usage": {**counts}, **more} if agent in self.agents:
                self._take_agent_end(self.agents[agent], counts, more.get("resolvedModel"))
            case _:
                pass

    def _take_agent_end(self, call_id: str, counts: Mapping[str, Any], model: object) -> None:
        """Count the last reply of a subagent: of its replies the program passes on only those that call tools.

        A subagent that was stopped may end with one that was passed on and counted.
        """
        last = self._last_replies.get(call_id, call_id)
        self._count_whole_reply(last if self._replied.has_input(last, counts) else call_id, counts, model)
        self._halt_at_budget()

    def _take_retry(self, data: Mapping[str, Any]) -> None:
        """Note that a request failed and is about to be retried; a refused key makes retries pointless.

        One retry may help: it renews an expired login.
        """
        attempt, status = data.get("attempt"), data.get("error_status")
        why = f"{data.get('error') or 'no answer'}{'' if status is None else f', status {status}'}"
        if status in _REFUSED and isinstance(attempt, int) and attempt > 1:
            self.halt = RuntimeFailureError(f"Claude failed: the API refuses the key or login ({why}); {_CHECK_KEY}")
            return
        logger.warning(
            "Claude Code retries its API request, attempt %s of %s: %s", attempt, data.get("max_retries"), why
        )
        self.turn.tell(THINKING, _read_retry(data, why).to_event())

    def _limit_error(self) -> LimitError:
        return explain_turn_limit(self._spec, "claude", self._max_turns)

    def _halt_at_budget(self) -> None:
        """Halt where another request is to follow and the budget is used up; the answer itself is never cut off."""
        self.halt = self.halt or self.turn.limits.find_excess(self._told)

    def _take_assistant(self, message: AssistantMessage) -> None:
        """Process a whole message; its text is reported only if it was not streamed."""
        if message.message_id == self._streamed or message.error is not None:
            return
        for block in message.content:
            if isinstance(block, TextBlock) and block.text:
                self.turn.tell("message.delta", {"text": block.text})

    def _tell_usage(self, used: Usage) -> None:
        if used != NOTHING_USED:
            self._told += used
            self.turn.tell("usage", used.to_json())

    def _take_result(self, message: ResultMessage) -> None:
        self._reported += self._spending.usage_since(message)
        self._replied.take_new()  # of a reply that broke off: the result has it
        # What was told cannot be taken back. Where the replies said more than the results, or the price list is dearer
        # than the program, that stands: the turn's usage is always the sum of what was told.
        self._tell_usage(subtract_usage(self._reported, self._told))
        if message.subtype == "error_max_turns":
            self._outcome = self._limit_error()
        elif message.is_error or message.subtype != "success":
            self._outcome = RuntimeFailureError(_failure_text(message))
        else:
            self._outcome = message.result or ""


def _read_retry(data: Mapping[str, Any], why: str) -> RetryNotice:
    """A retry as the program reports it: it counts the retries, and not the first request."""
    attempt, most, delay = (data.get(name) for name in ("attempt", "max_retries", "retry_delay_ms"))
    return RetryNotice(
        reason=f"no answer from Anthropic: {why}",
        attempt=attempt + 1 if isinstance(attempt, int) else None,
        attempts=most + 1 if isinstance(most, int) else None,
        seconds=delay / 1000 if isinstance(delay, int | float) else None,
    )


def _failure_text(message: ResultMessage) -> str:
    """Why a turn has no answer, as the program reports it."""
    reason = "; ".join(message.errors or []) or (message.result or "").strip()
    reason = reason or f"it ended with {message.subtype!r} and gave no reason"
    if message.api_error_status == 401:
        reason += f" ({_CHECK_KEY})"
    return f"Claude failed: {reason[:_LONGEST_REASON]}"
