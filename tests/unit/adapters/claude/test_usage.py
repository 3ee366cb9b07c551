from __future__ import annotations

import pytest

from tests.unit.adapters.claude.said import result
from toolstead.adapters.claude.usage import ClaudeUsage, ReplyUsage, subtract_usage
from toolstead.types.run import NOTHING_USED, Usage

pytestmark = pytest.mark.requires("claude")

MODEL = {"inputTokens": 6, "outputTokens": 10, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}


def test_tokens_of_the_cache_count_as_input() -> None:
    tokens = {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 4}
    assert ClaudeUsage(resumed=False).usage_since(result(usage=tokens)) == Usage(input_tokens=321, output_tokens=4)


def test_the_tokens_of_a_result_are_what_those_of_all_models_have_grown_by() -> None:
    spending, turn = ClaudeUsage(resumed=False), {"input_tokens": 2, "output_tokens": 1}
    small = {**MODEL, "cacheReadInputTokens": 30, "cacheCreationInputTokens": 400}
    told = [{"m": MODEL}, {"m": MODEL, "small": small}, {"m": MODEL, "small": small}]
    used = [spending.usage_since(result(usage=turn, model_usage=models)) for models in told]
    assert [(each.input_tokens, each.output_tokens) for each in used] == [(6, 10), (436, 10), (2, 1)]


def test_a_resumed_conversation_does_not_bring_its_earlier_tokens_along() -> None:
    spending, turn = ClaudeUsage(resumed=True), {"input_tokens": 2, "output_tokens": 1}
    used = [spending.usage_since(result(usage=turn, model_usage={"m": MODEL, **more})) for more in ({}, {"n": MODEL})]
    assert [(each.input_tokens, each.output_tokens) for each in used] == [(2, 1), (6, 10)]


def test_the_cost_of_a_result_is_what_the_sum_has_grown_by() -> None:
    spending = ClaudeUsage(resumed=False)
    assert [spending.usage_since(result(total_cost_usd=total)).cost for total in (1.0, 1.5, 1.5)] == [1.0, 0.5, 0.0]
    assert spending.usage_since(result(total_cost_usd=0.25)).cost == 0.25  # a conversation that was begun anew


def test_a_resumed_conversation_does_not_bring_its_earlier_cost_along() -> None:
    spending = ClaudeUsage(resumed=True)
    tokens = {"input_tokens": 3, "output_tokens": 5}
    assert spending.usage_since(
        result(total_cost_usd=1.0, usage=tokens, model_usage={"m": MODEL})
    ).cost == pytest.approx(0.5)
    assert spending.usage_since(result(total_cost_usd=1.25)).cost == 0.25


def test_a_resumed_conversation_without_an_earlier_cost_costs_what_it_says() -> None:
    tokens = {"input_tokens": 6, "output_tokens": 10}
    spending = ClaudeUsage(resumed=True)
    assert spending.usage_since(result(total_cost_usd=1.0, usage=tokens, model_usage={"m": MODEL})).cost == 1.0


@pytest.mark.parametrize("odd", [None, "3", True, -3, [3]])
def test_what_is_no_number_counts_as_nothing(odd: object) -> None:
    assert ClaudeUsage(resumed=False).usage_since(result(usage={"input_tokens": odd})) == Usage()


def cost_of(*replies: tuple[str, int], model: str = "anthropic:claude-sonnet-5-5") -> float:
    """What replies of some models cost in one turn, by how much they read."""
    counted = ReplyUsage(model)
    for number, (own, read) in enumerate(replies):
        counted.add_counts(f"m{number}", {"input_tokens": read}, model=own)
    return counted.take_new().cost


def test_the_counts_of_a_reply_grow_and_only_what_is_new_is_taken() -> None:
    counted = ReplyUsage("anthropic:claude-x")
    counted.add_counts("m1", {"input_tokens": 5, "cache_read_input_tokens": 300, "output_tokens": 1})
    assert counted.take_new() == Usage(input_tokens=305, output_tokens=1)
    counted.add_counts("m1", {"input_tokens": 0, "output_tokens": 9})
    counted.add_counts("m2", {"input_tokens": 7, "cache_creation_input_tokens": 20})
    counted.add_counts("m3", None)
    assert counted.take_new() == Usage(input_tokens=27, output_tokens=8)
    assert counted.take_new() == NOTHING_USED


def test_each_reply_is_priced_on_its_own_as_long_ones_may_cost_more() -> None:
    reply = ("claude-sonnet-4-5", 150_000)
    assert cost_of(("claude-sonnet-4-5", 300_000)) > 1.5 * cost_of(reply, reply)  # a price that depends on the length
    assert cost_of(reply, reply) == pytest.approx(2 * cost_of(reply))


def test_a_reply_has_the_price_of_its_own_model_or_else_of_the_session() -> None:
    own, unknown = ("claude-opus-5-5", 1000), ("claude-x", 1000)
    assert cost_of(own) > cost_of(unknown) == cost_of(("claude-sonnet-5-5", 1000)) > 0
    assert cost_of(unknown, model="anthropic:claude-x") == 0


def test_tokens_of_the_cache_have_their_own_price() -> None:
    costs: list[float] = []
    for name in ("cache_read_input_tokens", "input_tokens", "cache_creation_input_tokens"):
        counted = ReplyUsage("anthropic:claude-sonnet-5-5")
        counted.add_counts("m1", {name: 1000})
        costs.append(counted.take_new().cost)
    assert 0 < costs[0] < costs[1] < costs[2]


def test_a_usage_beyond_another_is_never_negative_and_no_rounding() -> None:
    whole, known = (Usage(input_tokens=read, output_tokens=5, cost=cost) for read, cost in ((3, 0.1 + 0.2), (7, 0.3)))
    assert whole.cost > known.cost
    assert subtract_usage(whole, known) == NOTHING_USED
    assert subtract_usage(known, whole) == Usage(input_tokens=4)
    assert subtract_usage(Usage(cost=0.5), Usage(cost=0.25)) == Usage(cost=0.25)
