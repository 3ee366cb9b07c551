"""What was used, and whether it may go on; also when an API says nonsense."""

from __future__ import annotations

import math

import pytest

from toolstead.errors import LimitError
from toolstead.kernel.activation import Limits
from toolstead.kernel.spending import Spending
from toolstead.types.run import Usage


def test_everything_is_summed() -> None:
    spending = Spending(Limits())
    for _ in range(3):
        spending.add(Usage(input_tokens=100, output_tokens=10, cost=0.5))
    assert spending.usage == Usage(input_tokens=300, output_tokens=30, cost=1.5)


@pytest.mark.parametrize(("used", "most"), [(0, None), (68_000, None), (68_001, 31_999), (99_999, 1), (100_000, 1)])
def test_how_much_may_be_said_shrinks_with_the_budget(used: int, most: int | None) -> None:
    spending = Spending(Limits(tokens=100_000))
    spending.add(Usage(input_tokens=used))
    assert spending.most_output == most


def test_a_limit_is_reached_when_it_is_used_up_and_not_before() -> None:
    spending = Spending(Limits(turns=2, tokens=100, cost=1))
    spending.add(Usage(input_tokens=50, output_tokens=49, cost=0.99))
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
    assert spending.add(told) == counted
    assert spending.usage == counted
    assert "a model's API says" in caplog.text


def test_a_cost_that_is_no_number_leaves_the_limit_in_force() -> None:
    spending = Spending(Limits(cost=1))
    spending.add(Usage(cost=math.nan))
    spending.add(Usage(cost=1.0))
    with pytest.raises(LimitError, match="cost_budget"):
        spending.begin_turn()
