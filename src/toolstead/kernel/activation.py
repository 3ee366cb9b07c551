"""What one activation of an agent is made of: its model, tools, budget, limits, event sink and recorder.

`Spending` is the budget of one activation alone; others may share one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from toolstead.errors import LimitError
from toolstead.kernel.model import Model
from toolstead.kernel.recording import UNRECORDED, Recorder
from toolstead.types.call import CallTurnTool, Tell
from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.tool import JSONSchema, ToolInfo

logger = logging.getLogger(__name__)

_SMALL = 32_000
_MOST = 10**12
"""More than any request can use or cost."""

Offer = Callable[[], Sequence[ToolInfo]]
"""The tools that the agent may call now; the same object until they change."""


class Budget(Protocol):
    """What an activation may spend; one that many activations share refuses each of them.

    The loop reserves before every request to the model and settles what it used after it:

        begin_turn ─▸ reserve ─▸ request ─▸ settle ─▸ … (again for a retry: reserve, request, settle)
    """

    def begin_turn(self) -> None:
        """Another turn is to begin.

        Raises:
            LimitError: A limit is reached.
        """
        ...

    async def reserve(self, request: RequestSize) -> int | None:
        """Reserve an amount for one request; it may wait for others to settle.

        Args:
            request: How large it is; asked only where others share the budget.

        Returns:
            How many tokens the reply may have; None for as many as the model gives.

        Raises:
            LimitError: There is nothing left.
        """
        ...

    def settle(self, usage: Usage) -> Usage:
        """Count what the request used, nothing where it failed, and free the rest of its reservation.

        Called once for each `reserve`, also when the request is cancelled.

        Returns:
            What was counted.
        """
        ...


class RequestSize(Protocol):
    """How large a request to a model is."""

    def estimate_tokens(self) -> int:
        """Tokens that the model will read; rather too many than too few."""
        ...

    def estimate_cost(self, tokens: int) -> tuple[float, float]:
        """USD for reading so many tokens, and for each one that it writes; 0 where prices are not known."""
        ...


class ReservedTokens(Protocol):
    """A budget that several activations share."""

    @property
    def is_shared(self) -> bool:
        """Whether others use it too."""
        ...

    async def reserve(self, *, least: int, most: int, base_cost: float, token_cost: float) -> int:
        """Reserve tokens. Raises LimitError."""
        ...

    def release(self) -> None:
        """What was reserved last is not needed any more."""
        ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent is stopped, whatever it wants. The invoker limits its time.

    Attributes:
        turns: Requests that are answered, in one activation; `turns_from` is what sets it, for messages.
        tokens: In and out together.
        cost: In USD, as far as prices are known.
        attempts: Tries for one reply, the first included.
        first_wait: Seconds before the second try; doubled from then on, unless the API says how long.
        longest_wait: Seconds that are waited at most; an API that asks for more is given up.
        stall: Seconds without a piece of the answer after which the request is given up.
        same_failure: How often one call may fail with nothing that succeeds in between.
        failing_turns: Turns in a row in which every call fails.
        parallel: Calls at once.
        calls: Calls that one reply may want.
        reply: Characters that one reply may have, its arguments and what was thought included.
    """

    turns: int = 100
    turns_from: str = "runtime.kernel.max_turns"
    tokens: int = 500_000
    cost: float = 5.0
    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 120.0
    stall: float = 300.0
    same_failure: int = 3
    failing_turns: int = 20
    parallel: int = 16
    calls: int = 256
    reply: int = 10_000_000


class Spending:
    """The budget of one activation: counts turns, tokens and money; refuses when a limit is reached.

    Where it is part of a budget that others share, each request is reserved there too.

    Attributes:
        usage: What was used so far.
    """

    def __init__(self, limits: Limits, shared: ReservedTokens | None = None) -> None:
        self._limits = limits
        self._shared = shared
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
                f"stopped after {limits.turns} turns without a final answer; {limits.turns_from} allows no more",
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

    async def reserve(self, request: RequestSize) -> int | None:
        """How many tokens the next reply may have; None as long as the budget is not nearly used up."""
        left = self._limits.tokens - self.usage.input_tokens - self.usage.output_tokens
        if self._shared is not None and self._shared.is_shared:
            tokens = request.estimate_tokens()
            base, each = request.estimate_cost(tokens)
            granted = await self._shared.reserve(
                least=tokens + 1, most=tokens + _SMALL, base_cost=base + each, token_cost=each
            )
            left = min(left, granted - tokens)
        return max(left, 1) if left < _SMALL else None

    def settle(self, usage: Usage) -> Usage:
        """Count a request, as the API says; never less than nothing, or a limit would not be one."""
        read, written, cost = usage.input_tokens, usage.output_tokens, usage.cost
        if not (0 <= read <= _MOST and 0 <= written <= _MOST and 0 <= cost <= _MOST):  # NaN is not either
            logger.warning("a model's API says that a request used %s tokens and %s, for $%s", read, written, cost)
            read, written = min(max(read, 0), _MOST), min(max(written, 0), _MOST)
            usage = Usage(input_tokens=read, output_tokens=written, cost=min(cost, float(_MOST)) if cost > 0 else 0.0)
        self.usage += usage
        if self._shared is not None and self._shared.is_shared:
            self._shared.release()
        return usage


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """One agent at work; its answer should fit `result_schema`, where there is one."""

    model: Model
    offer: Offer
    call_tool: CallTurnTool
    tell: Tell
    budget: Budget
    instructions: str = ""
    limits: Limits = Limits()
    result_schema: JSONSchema | None = None
    recorder: Recorder = UNRECORDED
