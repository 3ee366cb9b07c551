"""What a turn used, from results that tell the tokens of a turn but the cost of a whole conversation.

Above: the turn's progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import ResultMessage

from toolyard.types.run import Usage

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


class Spending:
    """Tells the part of one result from the sum of all."""

    def __init__(self, *, resumed: bool) -> None:
        self._total: float | None = None if resumed else 0.0

    def of(self, result: ResultMessage) -> Usage:
        """What was used since the result before."""
        tokens: Mapping[str, Any] = result.usage or {}
        used = {name: _count(tokens.get(name)) for name in _OF_TURN}
        written = used.pop("output_tokens")
        return Usage(input_tokens=int(sum(used.values())), output_tokens=int(written), cost=self._cost(result, tokens))

    def _cost(self, result: ResultMessage, tokens: Mapping[str, Any]) -> float:
        total = result.total_cost_usd
        if total is None:
            return 0.0
        before, self._total = self._total, total
        if before is None:  # a resumed conversation may bring its earlier cost along
            return total * _share(tokens, result.model_usage or {})
        return total - before if total >= before else total


def _share(tokens: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> float:
    """How much of all that was used is this turn's, by weight."""
    turn = sum(_count(tokens.get(name)) * weight for name, weight in _OF_TURN.items())
    whole = sum(_count(model.get(name)) * weight for model in models.values() for name, weight in _OF_MODEL.items())
    return turn / whole if whole > turn else 1.0


def _count(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0
