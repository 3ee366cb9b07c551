"""Usage of a turn, from results that report cost and tokens of the whole conversation.

The per-turn figures of a result leave out subagents and the compaction of a long conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from claude_agent_sdk import ResultMessage

from toolstead.types.run import Usage

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
    """Computes the part of one result from the running totals."""

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
