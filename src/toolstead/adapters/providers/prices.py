"""Usage and cost of a reply."""

from __future__ import annotations

import logging

from pydantic_ai.messages import ModelResponse

from toolstead.types.run import Usage

logger = logging.getLogger(__name__)


class Prices:
    """Prices of one model; an unknown price is logged once and counts as 0."""

    def __init__(self, name: str) -> None:
        """Set the model's name for the log."""
        self._name = name
        self._is_told = False

    def usage_of(self, response: ModelResponse) -> Usage:
        """The usage and cost of a reply."""
        return Usage(
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cost=self._cost_of(response),
        )

    def _cost_of(self, response: ModelResponse) -> float:
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError) as error:
            # LookupError: the price list does not have it. The others: a reply without a usable count of tokens.
            if not self._is_told:
                self._is_told = True
                logger.warning("the price of %s is not known, so its cost counts as 0: %s", self._name, error)
            return 0.0
