from __future__ import annotations

import pytest

from tests.unit.adapters.claude.said import result
from toolstead.adapters.claude.turn_progress import ClaudeUsage
from toolstead.types.run import Usage

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
