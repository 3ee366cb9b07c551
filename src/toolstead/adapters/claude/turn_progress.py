"""One turn as Claude Code tells of it: text, thinking, results, what it used, and when it is really over.

A turn can have several results: a message that came while the last answer was given is answered with one of its own.
It is over when the program is idle and has taken up every message. Agents that Claude starts by itself tell of
themselves in between: what they say is theirs, and is not told; how often they ask a model counts.
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
"""What an API answers to a key that it does not know, or that may not do this."""
_CHECK_KEY = "check ANTHROPIC_API_KEY"


class TurnProgress:
    """What has come of a turn so far.

    Attributes:
        turn: What is to be done.
        end: Its answer, or why there is none.
        acted: Whether a tool was used: then the turn must not be tried again from its beginning.
        halt: Why it is to be stopped: it has used up its replies and would go on, or its key is refused.
        stopping: What stops it then.
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
        self._untaken: set[str] = set()
        self._calls: set[str] = set()
        self._streamed = ""
        self._usage = NOTHING_USED
        self._outcome: Answer | InvocationError | None = None
        self._idle = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.end.done()

    def note_sent(self, id: str) -> None:
        """A message was given to the program; the turn goes on until that was taken up."""
        self._untaken.add(id)

    def note_unsent(self, id: str) -> None:
        """It was not given after all."""
        self._untaken.discard(id)

    def note_call(self, call_id: str | None) -> None:
        """A call has come to us: one of our tools, or the question whether one of Claude's own may be used."""
        if call_id is not None:
            self._calls.add(call_id)

    def made_by(self, call_id: str, agent_id: str) -> None:
        """A call is one of an agent that Claude started by itself."""
        if (parent := self._agents.get(agent_id)) is not None:
            self._parents[call_id] = parent

    def parent_of(self, call_id: str | None) -> dict[str, str]:
        """For the port: the call that started the agent which made this one; nothing for one of the turn's own."""
        parent = self._parents.get(call_id) if call_id is not None else None
        return {} if parent is None else {"parent_call_id": parent}

    def knows_call(self, call_id: str) -> bool:
        """Whether a call has come to us."""
        return call_id in self._calls

    def take_message(self, message: Message) -> None:
        """Learn from a message of the program."""
        match message:
            case StreamEvent(parent_tool_use_id=None, event=event):
                self._take_stream_event(event)
            case AssistantMessage():
                self._count_replies(message)
                if message.parent_tool_use_id is None:
                    self._take_assistant(message)
            case UserMessage(uuid=str(id)):
                self._untaken.discard(id)
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
        if self._idle and self._outcome is not None and not self._untaken:
            self._finish_turn(self._outcome)

    def fail_turn(self, error: InvocationError) -> None:
        """End it without an answer."""
        self._finish_turn(error)

    def _finish_turn(self, outcome: Answer | InvocationError) -> None:
        if self.end.done():
            return
        outcome = self.halt or outcome
        if isinstance(outcome, Answer):
            self.end.set_result(outcome)
        else:
            self.end.set_exception(outcome)
            self.end.exception()  # whoever waited may have left

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
        """Count replies. Claude Code bounds its own, and not those of the agents that it starts."""
        if message.message_id is None or message.error is not None:
            return
        self._replies.add(message.message_id)
        others = message.parent_tool_use_id is not None  # the turn's own answer is still to come
        if len(self._replies) > self._max_turns or (others and len(self._replies) == self._max_turns):
            self.halt = self._limit_error()

    def _take_retry(self, data: Mapping[str, Any]) -> None:
        """A request has failed, and is about to be made again: of whose key is refused, that comes to nothing.

        Once it may help: a login that has expired is renewed.
        """
        attempt, status = data.get("attempt"), data.get("error_status")
        why = f"{data.get('error') or 'no answer'}{'' if status is None else f', status {status}'}"
        if status in _REFUSED and isinstance(attempt, int) and attempt > 1:
            self.halt = RuntimeFailureError(f"Claude failed: the API refuses the key or login ({why}); {_CHECK_KEY}")
            return
        logger.warning("Claude Code asks the API again, try %s of %s: %s", attempt, data.get("max_retries"), why)

    def _limit_error(self) -> LimitError:
        return LimitError(
            f"stopped after {self._max_turns} turns without a final answer; runtime.claude.max_turns allows no more",
            limit="turns",
        )

    def _take_assistant(self, message: AssistantMessage) -> None:
        """A whole message; its text is told only when it did not come in pieces."""
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
    """Why a turn has no answer, in the program's own words."""
    words = "; ".join(message.errors or []) or (message.result or "").strip()
    words = words or f"it ended with {message.subtype!r} and no word about why"
    if message.api_error_status == 401:
        words += f" ({_CHECK_KEY})"
    return f"Claude failed: {words[:_LONGEST_COMPLAINT]}"
