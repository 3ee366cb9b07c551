"""What a turn of Claude Code used: as its results report it, and before that as its replies do.

Tokens that were read from a cache or written to one count like any other input token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import ResultMessage
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price

from toolstead.types.run import NOTHING_USED, Usage

# Relative prices of Anthropic's models, the same for all of them: input, written to and read from the cache, output.
_OF_TURN = {
    "input_tokens": 1.0,
    "cache_creation_input_tokens": 1.25,
    "cache_read_input_tokens": 0.1,
    "output_tokens": 5.0,
}
_OF_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_OF_MODEL = {
    "inputTokens": 1.0,
    "cacheCreationInputTokens": 1.25,
    "cacheReadInputTokens": 0.1,
    "outputTokens": 5.0,
}
_LEAST_COST = 1e-9
"""In USD, less than any token costs: a smaller difference comes from adding fractions."""


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
    """Counts what the replies of a turn used, before a result of the program reports the whole.

    Replies that broke off count, as they do in a result. The cost is an estimate by the price list.
    """

    def __init__(self, model: str) -> None:
        """Begin without replies.

        Args:
            model: The session's, for the price of a reply whose own model the price list does not have.
        """
        self._model = model.removeprefix("anthropic:")
        self._replies: dict[str, _Reply] = {}
        self._new = NOTHING_USED

    def add_counts(self, id: str, counts: Mapping[str, Any] | None, *, model: object = None) -> None:
        """Note the tokens of a reply; later counts of the same reply are never smaller."""
        reply = self._replies.setdefault(id, _Reply())
        if isinstance(model, str):
            reply.model = model
        for name in _OF_TURN:
            reply.counts[name] = max(
                reply.counts.get(name, 0), _read_count(None if counts is None else counts.get(name))
            )
        before, reply.used = reply.used, self._price_reply(reply)
        self._new += subtract_usage(reply.used, before)

    def take_new(self) -> Usage:
        """What was added since this was last called."""
        new, self._new = self._new, NOTHING_USED
        return new

    def has_input(self, id: str, counts: Mapping[str, Any]) -> bool:
        """Whether a reply is known, and read exactly these tokens: no other reply of its conversation does."""
        reply = self._replies.get(id)
        return reply is not None and all(reply.counts[name] == _read_count(counts.get(name)) for name in _OF_INPUT)

    def _price_reply(self, reply: _Reply) -> Usage:
        """The usage of one reply. Each has a price of its own: its model, and its length decide."""
        read, written = _sum_tokens([reply.counts], _OF_TURN)
        used = PricedUsage(
            input_tokens=read,
            cache_write_tokens=int(reply.counts["cache_creation_input_tokens"]),
            cache_read_tokens=int(reply.counts["cache_read_input_tokens"]),
            output_tokens=written,
        )
        cost = _estimate_cost(used, reply.model)
        if cost is None:
            cost = _estimate_cost(used, self._model)
        return Usage(input_tokens=read, output_tokens=written, cost=cost or 0.0)


@dataclass(slots=True)
class _Reply:
    """One reply: its counts as the API names them, the model that gave it, and what that makes."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    model: str = ""
    used: Usage = NOTHING_USED


def subtract_usage(whole: Usage, known: Usage) -> Usage:
    """What a usage has beyond a known part of it; nothing of it is negative."""
    cost = whole.cost - known.cost
    return Usage(
        input_tokens=max(0, whole.input_tokens - known.input_tokens),
        output_tokens=max(0, whole.output_tokens - known.output_tokens),
        cost=cost if cost >= _LEAST_COST else 0.0,
    )


def _estimate_cost(used: PricedUsage, model: str) -> float | None:
    """The price of a reply by the price list; None if it does not have the model."""
    try:
        return float(calc_price(used, model, provider_id="anthropic").total_price)
    except (LookupError, ValueError):
        return None


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
