"""What a reply used, and what that cost."""

from __future__ import annotations

import logging

from pydantic_ai.messages import ModelResponse

from toolstead.types.run import Usage

logger = logging.getLogger(__name__)


class Prices:
    """Prices of one model; a model without a known price is named once and then counted as free."""

    def __init__(self, name: str) -> None:
        """Take the name that the log uses."""
        self._name = name
        self._is_told = False

    def usage_of(self, response: ModelResponse) -> Usage:
        """What a reply used."""
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
