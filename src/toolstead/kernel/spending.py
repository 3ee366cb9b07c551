"""The default budget: what one activation has used so far, and whether it may go on."""

from __future__ import annotations

import logging

from toolstead.errors import LimitError
from toolstead.kernel.activation import Limits
from toolstead.types.run import NOTHING_USED, Usage

logger = logging.getLogger(__name__)

_SMALL = 32_000
_MOST = 10**12
"""More than any request can use or cost."""


class Spending:
    """A budget of one activation's own: counts turns, tokens and money; refuses when a limit is reached.

    Attributes:
        usage: What was used so far.
    """

    __slots__ = ("_limits", "_turns", "usage")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turns = 0
        self.usage = NOTHING_USED

    def begin_turn(self) -> None:
        """Another request is to be made.

        Raises:
            LimitError: A limit is reached: which one, how much was used, and what would raise it.
        """
        limits, usage = self._limits, self.usage
        if self._turns >= limits.turns:
            raise LimitError(
                f"stopped after {limits.turns} turns without a final answer; runtime.kernel.max_turns allows no more",
                limit="turns",
            )
        if usage.input_tokens + usage.output_tokens >= limits.tokens:
            used = f"{usage.input_tokens:,} tokens in and {usage.output_tokens:,} out"
            raise LimitError(
                f"stopped before turn {self._turns + 1}: {used} were used, limits.token_budget is {limits.tokens:,}",
                limit="tokens",
            )
        if usage.cost >= limits.cost:
            raise LimitError(
                f"stopped before turn {self._turns + 1}: ${usage.cost:.4f} was spent, limits.cost_budget is"
                f" ${limits.cost:.2f}",
                limit="cost",
            )
        self._turns += 1

    async def reserve(self) -> int | None:
        """How many tokens the next reply may have; None as long as the budget is not nearly used up."""
        left = self._limits.tokens - self.usage.input_tokens - self.usage.output_tokens
        return max(left, 1) if left < _SMALL else None

    def settle(self, usage: Usage) -> Usage:
        """Count a request, as the API says; never less than nothing, or a limit would not be one."""
        read, written, cost = usage.input_tokens, usage.output_tokens, usage.cost
        if not (0 <= read <= _MOST and 0 <= written <= _MOST and 0 <= cost <= _MOST):  # NaN is not either
            logger.warning("a model's API says that a request used %s tokens and %s, for $%s", read, written, cost)
            read, written = min(max(read, 0), _MOST), min(max(written, 0), _MOST)
            usage = Usage(input_tokens=read, output_tokens=written, cost=min(cost, float(_MOST)) if cost > 0 else 0.0)
        self.usage += usage
        return usage
