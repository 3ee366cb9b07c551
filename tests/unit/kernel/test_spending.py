"""What was used, and whether it may go on; also when an API says nonsense."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from tests.unit.kernel.scripted_model import Bench, Hang, ScriptedModel, calls, fault, says, use
from toolstead.errors import LimitError
from toolstead.kernel.activation import Limits, Spending
from toolstead.kernel.loop import converse
from toolstead.types.run import Usage


def test_everything_is_summed() -> None:
    spending = Spending(Limits())
    for _ in range(3):
        spending.settle(Usage(input_tokens=100, output_tokens=10, cost=0.5))
    assert spending.usage == Usage(input_tokens=300, output_tokens=30, cost=1.5)


@pytest.mark.parametrize(("used", "most"), [(0, None), (68_000, None), (68_001, 31_999), (99_999, 1), (100_000, 1)])
async def test_how_much_may_be_said_shrinks_with_the_budget(used: int, most: int | None) -> None:
    spending = Spending(Limits(tokens=100_000))
    spending.settle(Usage(input_tokens=used))
    assert await spending.reserve(Request()) == most


def test_a_limit_is_reached_when_it_is_used_up_and_not_before() -> None:
    spending = Spending(Limits(turns=2, tokens=100, cost=1))
    spending.settle(Usage(input_tokens=50, output_tokens=49, cost=0.99))
    spending.begin_turn()
    spending.begin_turn()
    with pytest.raises(LimitError, match="2 turns"):
        spending.begin_turn()


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        (Usage(input_tokens=-100, output_tokens=5), Usage(input_tokens=0, output_tokens=5)),
        (Usage(input_tokens=5, output_tokens=-(10**30)), Usage(input_tokens=5, output_tokens=0)),
        (Usage(input_tokens=10**30), Usage(input_tokens=10**12)),
        (Usage(output_tokens=1, cost=math.nan), Usage(output_tokens=1)),
        (Usage(cost=-5.0), Usage()),
        (Usage(cost=math.inf), Usage(cost=1e12)),
    ],
)
def test_nonsense_never_gives_anything_back(told: Usage, counted: Usage, caplog: pytest.LogCaptureFixture) -> None:
    spending = Spending(Limits())
    assert spending.settle(told) == counted
    assert spending.usage == counted
    assert "a model's API says" in caplog.text


def test_a_cost_that_is_no_number_leaves_the_limit_in_force() -> None:
    spending = Spending(Limits(cost=1))
    spending.settle(Usage(cost=math.nan))
    spending.settle(Usage(cost=1.0))
    with pytest.raises(LimitError, match="cost_budget"):
        spending.begin_turn()


class Request:
    """A request of 1,000 tokens; its prices are not known."""

    def estimate_tokens(self) -> int:
        return 1_000

    def estimate_cost(self, tokens: int) -> tuple[float, float]:
        return 0.0, 0.0


class Tree:
    """A tree that grants so many tokens to a request."""

    is_shared = True

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.noted: list[Any] = []

    async def reserve(self, *, least: int, most: int, base_cost: float, token_cost: float) -> int:
        self.noted.append((least, most))
        return min(self.tokens, most)

    def release(self) -> None:
        self.noted.append("released")


@pytest.mark.parametrize(("granted", "most"), [(10**6, None), (33_000, None), (32_999, 31_999), (1_001, 1)])
async def test_a_reply_may_have_what_the_tree_grants_beyond_the_request(granted: int, most: int | None) -> None:
    tree = Tree(granted)
    spending = Spending(Limits(tokens=10**9), tree)
    assert await spending.reserve(Request()) == most
    spending.settle(Usage(input_tokens=900))
    assert tree.noted == [(1_001, 33_000), "released"]


class SharedBudget:
    """Tokens that several loops share: what one has reserved, another cannot have."""

    def __init__(self, tokens: int, *, each: int) -> None:
        self.left = tokens
        self.each = each
        self.open = 0
        self.noted: list[str] = []

    def begin_turn(self) -> None:
        self.noted.append("turn")

    async def reserve(self, request: Any) -> int | None:
        if self.left < self.each:
            raise LimitError("the tree has nothing left", limit="tokens")
        self.left -= self.each
        self.open += 1
        self.noted.append("reserve")
        return self.each

    def settle(self, usage: Usage) -> Usage:
        self.left += self.each - usage.input_tokens - usage.output_tokens
        self.open -= 1
        self.noted.append(f"settle {usage.input_tokens + usage.output_tokens}")
        return usage


async def test_the_loop_reserves_before_each_request_and_settles_after_it() -> None:
    budget = SharedBudget(100, each=40)
    model = ScriptedModel(calls(use("echo"), usage=Usage(input_tokens=7)), says("Done.", usage=Usage(output_tokens=3)))
    bench = Bench(model, budget=budget).hear()
    conclusion = await converse(bench.conversation, bench.activation)
    assert budget.noted == ["turn", "reserve", "settle 7", "turn", "reserve", "settle 3"]
    assert (budget.left, [request.max_tokens for request in model.requests]) == (90, [40, 40])
    assert conclusion.usage == Usage(input_tokens=7, output_tokens=3)


async def test_what_was_reserved_for_a_request_that_failed_is_free_for_the_next_try() -> None:
    budget = SharedBudget(40, each=40)
    bench = Bench(ScriptedModel(fault("busy"), says("Done.")), budget=budget, limits=Limits(first_wait=0.001)).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."
    assert budget.noted == ["turn", "reserve", "settle 0", "reserve", "settle 0"]


async def test_a_request_that_is_cancelled_is_settled() -> None:
    budget = SharedBudget(40, each=40)
    bench = Bench(ScriptedModel([Hang(60)]), budget=budget).hear()
    running = asyncio.create_task(converse(bench.conversation, bench.activation))
    while not bench.model.open:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (budget.open, budget.left) == (0, 40)


async def test_two_loops_that_share_a_budget_never_have_more_than_it_holds() -> None:
    budget = SharedBudget(40, each=40)
    first, second = (
        Bench(ScriptedModel([Hang(60)]), budget=budget).hear(),
        Bench(ScriptedModel(says("Done.")), budget=budget).hear(),
    )
    running = asyncio.create_task(converse(first.conversation, first.activation))
    while not first.model.open:
        await asyncio.sleep(0)
    with pytest.raises(LimitError, match="nothing left"):
        await converse(second.conversation, second.activation)
    assert not second.model.requests
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (await converse(second.conversation, second.activation)).text == "Done."
