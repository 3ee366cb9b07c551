"""What one activation of an agent is made of: its model, tools, budget, limits and event sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from toolstead.kernel.model import Model
from toolstead.types.call import CallTurnTool, Tell
from toolstead.types.run import Usage
from toolstead.types.tool import ToolInfo

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

    async def reserve(self) -> int | None:
        """Reserve an amount for one request; it may wait for others to settle.

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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent is stopped, whatever it wants. The invoker limits its time.

    Attributes:
        turns: Requests that are answered, in one activation.
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


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """One agent at work."""

    model: Model
    offer: Offer
    call_tool: CallTurnTool
    tell: Tell
    budget: Budget
    instructions: str = ""
    limits: Limits = Limits()
