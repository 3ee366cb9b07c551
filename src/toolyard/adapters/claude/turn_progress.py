"""One turn as Claude Code tells of it: text, thinking, results, what it used, and when it is really over.

A turn can have several results: a message that came while the last answer was given is answered with one of its
own. It is over when the program is idle and has taken up every message. Above: the session. Below: the SDK's
messages.
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

from toolyard.adapters.claude.spending import Spending
from toolyard.errors import InvocationError, RuntimeFailureError
from toolyard.invoker.runtime import Answer, Turn
from toolyard.types.run import NOTHING_USED

logger = logging.getLogger(__name__)

_LONGEST_COMPLAINT = 2_000


class TurnProgress:
    """What has come of a turn so far.

    Attributes:
        turn: What is to be done.
        end: Its answer, or why there is none.
        acted: Whether a tool was used: then the turn must not be tried again from its beginning.
    """

    def __init__(self, turn: Turn, spending: Spending) -> None:
        self.turn = turn
        self.end: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.acted = False
        self._spending = spending
        self._untaken: set[str] = set()
        self._calls: set[str] = set()
        self._streamed = ""
        self._usage = NOTHING_USED
        self._outcome: Answer | InvocationError | None = None
        self._idle = False

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.end.done()

    def said(self, id: str) -> None:
        """A message was given to the program; the turn goes on until that was taken up."""
        self._untaken.add(id)

    def unsaid(self, id: str) -> None:
        """It was not given after all."""
        self._untaken.discard(id)

    def called(self, call_id: str | None) -> None:
        """A call has come to us: one of our tools, or the question whether one of Claude's own may be used."""
        if call_id is not None:
            self._calls.add(call_id)

    def knows(self, call_id: str) -> bool:
        """Whether a call has come to us."""
        return call_id in self._calls

    def take(self, message: Message) -> None:
        """Learn from a message of the program."""
        match message:
            case StreamEvent(parent_tool_use_id=None, event=event):
                self._stream(event)
            case AssistantMessage(parent_tool_use_id=None):
                self._assistant(message)
            case UserMessage(uuid=str(id)):
                self._untaken.discard(id)
            case ResultMessage():
                self._result(message)
            case SystemMessage(subtype="session_state_changed", data=data):
                self._idle = data.get("state") == "idle"
            case _:
                pass
        if self._idle and self._outcome is not None and not self._untaken:
            self._finish(self._outcome)

    def fail(self, error: InvocationError) -> None:
        """End it without an answer."""
        self._finish(error)

    def _finish(self, outcome: Answer | InvocationError) -> None:
        if self.end.done():
            return
        if isinstance(outcome, Answer):
            self.end.set_result(outcome)
        else:
            self.end.set_exception(outcome)
            self.end.exception()  # whoever waited may have left

    def _stream(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"type": "message_start", "message": {"id": str(id)}}:
                self._streamed = id
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if text:
                self.turn.tell("message.delta", {"text": text})
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}} if text:
                self.turn.tell("thinking", {"text": text})
            case _:
                pass

    def _assistant(self, message: AssistantMessage) -> None:
        """A whole message; its text is told only when it did not come in pieces."""
        if message.message_id == self._streamed or message.error is not None:
            return
        for block in message.content:
            if isinstance(block, TextBlock) and block.text:
                self.turn.tell("message.delta", {"text": block.text})

    def _result(self, message: ResultMessage) -> None:
        used = self._spending.of(message)
        if used != NOTHING_USED:
            self._usage += used
            self.turn.tell("usage", used.to_json())
        if message.is_error or message.subtype != "success":
            self._outcome = RuntimeFailureError(_complaint(message))
        else:
            self._outcome = Answer(text=message.result or "", usage=self._usage)


def _complaint(message: ResultMessage) -> str:
    """Why a turn has no answer, in the program's own words."""
    match message.subtype:
        case "error_max_turns":
            return f"Claude stopped after {message.num_turns} turns, the most it may take"
        case "error_max_budget_usd":
            return "Claude stopped at the most that a turn may cost"
        case _:
            pass
    words = "; ".join(message.errors or []) or (message.result or "").strip()
    words = words or f"it ended with {message.subtype!r} and no word about why"
    if message.api_error_status == 401:
        words += " (check ANTHROPIC_API_KEY)"
    return f"Claude failed: {words[:_LONGEST_COMPLAINT]}"
