"""One turn as Claude Code reports it: text, thinking, results, usage, and when it is really over.

A turn can have several results: a message that arrives during the last answer gets a result of its own. The turn is
over when the program is idle and has processed every message. Messages of Claude's subagents arrive in between: their
text is not reported, but their model requests count.
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

from toolstead.adapters.claude.spending import ClaudeUsage
from toolstead.errors import InvocationError, LimitError, RuntimeFailureError
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.run import NOTHING_USED

logger = logging.getLogger(__name__)

_LONGEST_COMPLAINT = 2_000
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
    """

    def __init__(self, turn: Turn, spending: ClaudeUsage, *, max_turns: int) -> None:
        self.turn = turn
        self.end: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.acted = False
        self.halt: InvocationError | None = None
        self.stopping: asyncio.Task[None] | None = None
        self._spending = spending
        self._max_turns = max_turns
        self._replies: set[str] = set()
        self._agents: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self.unprocessed: set[str] = set()
        self.calls: set[str | None] = set()
        self._streamed = ""
        self._usage = NOTHING_USED
        self._outcome: Answer | InvocationError | None = None
        self._idle = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.end.done()

    def made_by(self, call_id: str, agent_id: str) -> None:
        """Note a call of a subagent."""
        if (parent := self._agents.get(agent_id)) is not None:
            self._parents[call_id] = parent

    def parent_of(self, call_id: str | None) -> dict[str, str]:
        """For the port: the call that started the subagent of this call; nothing for the turn's own calls."""
        parent = self._parents.get(call_id) if call_id is not None else None
        return {} if parent is None else {"parent_call_id": parent}

    def take_message(self, message: Message) -> None:
        """Process a message of the program."""
        match message:
            case StreamEvent(parent_tool_use_id=None, event=event):
                self._take_stream_event(event)
            case AssistantMessage():
                self._count_replies(message)
                if message.parent_tool_use_id is None:
                    self._take_assistant(message)
            case UserMessage(uuid=str(id)):
                self.unprocessed.discard(id)
            case ResultMessage():
                self._take_result(message)
            case SystemMessage(subtype="session_state_changed", data=data):
                self._idle = data.get("state") == "idle"
            case SystemMessage(subtype="task_started", data={"task_id": str(agent), "tool_use_id": str(call_id)}):
                self._agents[agent] = call_id
            case SystemMessage(subtype="api_retry", data=data):
                self._take_retry(data)
            case _:
                pass
        if self._idle and self._outcome is not None and not self.unprocessed:
            self.end_turn(self._outcome)

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
            case {"type": "message_start", "message": {"id": str(id)}}:
                self._streamed = id
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if text:
                self.turn.tell("message.delta", {"text": text})
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}} if text:
                self.turn.tell("thinking", {"text": text})
            case _:
                pass

    def _count_replies(self, message: AssistantMessage) -> None:
        """Count replies. Claude Code limits its own, but not those of its subagents."""
        if message.message_id is None or message.error is not None:
            return
        self._replies.add(message.message_id)
        others = message.parent_tool_use_id is not None  # the turn's own answer is still to come
        if len(self._replies) > self._max_turns or (others and len(self._replies) == self._max_turns):
            self.halt = self._limit_error()

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

    def _limit_error(self) -> LimitError:
        return LimitError(
            f"stopped after {self._max_turns} turns without a final answer; runtime.claude.max_turns allows no more",
            limit="turns",
        )

    def _take_assistant(self, message: AssistantMessage) -> None:
        """Process a whole message; its text is reported only if it was not streamed."""
        if message.message_id == self._streamed or message.error is not None:
            return
        for block in message.content:
            if isinstance(block, TextBlock) and block.text:
                self.turn.tell("message.delta", {"text": block.text})

    def _take_result(self, message: ResultMessage) -> None:
        used = self._spending.usage_since(message)
        if used != NOTHING_USED:
            self._usage += used
            self.turn.tell("usage", used.to_json())
        if message.subtype == "error_max_turns":
            self._outcome = self._limit_error()
        elif message.is_error or message.subtype != "success":
            self._outcome = RuntimeFailureError(_failure_text(message))
        else:
            self._outcome = Answer(text=message.result or "", usage=self._usage)


def _failure_text(message: ResultMessage) -> str:
    """Why a turn has no answer, as the program reports it."""
    words = "; ".join(message.errors or []) or (message.result or "").strip()
    words = words or f"it ended with {message.subtype!r} and gave no reason"
    if message.api_error_status == 401:
        words += f" ({_CHECK_KEY})"
    return f"Claude failed: {words[:_LONGEST_COMPLAINT]}"
