"""One turn as Claude Code reports it: text, thinking, results, usage, and when it is really over.

A turn can have several results: a message that arrives during the last answer gets a result of its own. The turn is
over when the program is idle and has processed every message. Messages of Claude's subagents arrive in between: their
text is not reported, but their model requests count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
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
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price

from toolstead.errors import InvocationError, LimitError, RuntimeFailureError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, explain_turn_limit
from toolstead.types.run import NOTHING_USED, Usage

logger = logging.getLogger(__name__)

_LONGEST_REASON = 2_000
_REFUSED = (401, 403)
"""HTTP statuses for a key that is unknown or lacks permission."""
_CHECK_KEY = "check ANTHROPIC_API_KEY"

# Relative prices of Anthropic's models, the same for all of them: input, written to and read from the cache, output.
_OF_TURN = {
    "input_tokens": 1.0,
    "cache_creation_input_tokens": 1.25,
    "cache_read_input_tokens": 0.1,
    "output_tokens": 5.0,
}
_OF_MODEL = {
    "inputTokens": 1.0,
    "cacheCreationInputTokens": 1.25,
    "cacheReadInputTokens": 0.1,
    "outputTokens": 5.0,
}


class ClaudeUsage:
    """Computes the usage of one result from results that report cost and tokens of the whole conversation.

    The per-turn figures of a result leave out subagents and the compaction of a long conversation.
    """

    def __init__(self, *, resumed: bool) -> None:
        self._total: float | None = None if resumed else 0.0
        self._tokens: tuple[int, int] | None = None if resumed else (0, 0)

    def usage_since(self, result: ResultMessage) -> Usage:
        """The usage since the previous result."""
        tokens: Mapping[str, Any] = result.usage or {}
        read, written = self._tokens_since(_sum_tokens([tokens], _OF_TURN), result.model_usage or {})
        return Usage(input_tokens=read, output_tokens=written, cost=self._cost_of(result, tokens))

    def _tokens_since(self, turn: tuple[int, int], models: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """The tokens of all models since the previous result: at least those of the turn itself."""
        if not models:
            return turn
        before, self._tokens = self._tokens, _sum_tokens(models.values(), _OF_MODEL)
        if before is None:  # a resumed conversation may include its earlier tokens
            return turn
        read, written = self._tokens
        return max(turn[0], read - before[0]), max(turn[1], written - before[1])

    def _cost_of(self, result: ResultMessage, tokens: Mapping[str, Any]) -> float:
        total = result.total_cost_usd
        if total is None:
            return 0.0
        before, self._total = self._total, total
        if before is None:  # a resumed conversation may include its earlier cost
            return total * _share_of_turn(tokens, result.model_usage or {})
        return total - before if total >= before else total


class ReplyUsage:
    """Adds up what the replies of a turn have used so far, before the program reports the whole: for the budget."""

    def __init__(self, model: str) -> None:
        self._model = model.removeprefix("anthropic:")
        self._replies: dict[str, dict[str, float]] = {}

    def add_counts(self, id: str, counts: Mapping[str, Any] | None) -> None:
        """Note the tokens of a reply; later counts of the same reply are never smaller."""
        known = self._replies.setdefault(id, {})
        for name in _OF_TURN:
            known[name] = max(known.get(name, 0), _read_count(None if counts is None else counts.get(name)))

    @property
    def total(self) -> Usage:
        """The usage of all replies; its cost is by the price list, and 0 where that does not have the model."""
        read, written = _sum_tokens(self._replies.values(), _OF_TURN)
        return Usage(input_tokens=read, output_tokens=written, cost=self._estimate_cost())

    def _estimate_cost(self) -> float:
        fresh, stored, cached, written = (
            int(sum(counts[name] for counts in self._replies.values())) for name in _OF_TURN
        )
        usage = PricedUsage(
            input_tokens=fresh + stored + cached,
            cache_write_tokens=stored,
            cache_read_tokens=cached,
            output_tokens=written,
        )
        try:
            return float(calc_price(usage, self._model, provider_id="anthropic").total_price)
        except (LookupError, ValueError):
            return 0.0


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
        self._usage = NOTHING_USED
        self._outcome: Answer | InvocationError | None = None
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
            case UserMessage(uuid=str(id)):
                self.unprocessed.discard(id)
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
            case {"type": "message_start", "message": {"id": str(id), **message}}:
                self._streamed = id
                self._replied.add_counts(id, message.get("usage"))
            case {"type": "message_delta", "usage": usage, "delta": {"stop_reason": reason}}:
                self._replied.add_counts(self._streamed, usage)
                if reason == "tool_use":
                    self._halt_at_budget()
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
        if others:
            self._replied.add_counts(message.message_id, message.usage)
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

    def _limit_error(self) -> LimitError:
        return explain_turn_limit(self._spec, "claude", self._max_turns)

    def _halt_at_budget(self) -> None:
        """Halt where another request is to follow and the budget is used up; the answer itself is never cut off."""
        self.halt = self.halt or self.turn.limits.find_excess(self._replied.total)

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
    reason = "; ".join(message.errors or []) or (message.result or "").strip()
    reason = reason or f"it ended with {message.subtype!r} and gave no reason"
    if message.api_error_status == 401:
        reason += f" ({_CHECK_KEY})"
    return f"Claude failed: {reason[:_LONGEST_REASON]}"


def _sum_tokens(counts: Collection[Mapping[str, Any]], names: Iterable[str]) -> tuple[int, int]:
    """Tokens that were read and written; the last of the names is what was written."""
    *read, written = [sum(_read_count(each.get(name)) for each in counts) for name in names]
    return int(sum(read)), int(written)


def _share_of_turn(tokens: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> float:
    """This turn's share of the total usage, by weight."""
    turn = sum(_read_count(tokens.get(name)) * weight for name, weight in _OF_TURN.items())
    whole = sum(
        _read_count(model.get(name)) * weight for model in models.values() for name, weight in _OF_MODEL.items()
    )
    return turn / whole if whole > turn else 1.0


def _read_count(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0
