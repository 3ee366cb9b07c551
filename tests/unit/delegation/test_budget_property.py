"""The budget of a tree against a model of it, over any interleaving of several runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstead.delegation.budget import Exhausted, TokenWish, TreeShare, grant_share, settle_share
from toolstead.types.run import Usage
from toolstead.types.task import TreeBudget

RUNS = 4
TOLERANCE = 1e-9

RunNumber = st.integers(0, RUNS - 1)
Request = st.tuples(st.just("request"), RunNumber, st.integers(1, 60), st.integers(0, 80), st.integers(0, 3))
Envelope = st.tuples(st.just("envelope"), RunNumber, st.integers(1, 30), st.integers(0, 60), st.just(0))
Settle = st.tuples(st.just("settle"), RunNumber, st.integers(0, 100), st.booleans(), st.just(0))
Steps = st.lists(Request | Settle, max_size=60)
MixedSteps = st.lists(Request | Envelope | Settle, max_size=60)


@dataclass
class Book:
    """What a simple bookkeeper would write down: for each run what it used and holds."""

    budget: int
    money: float
    tree: TreeBudget = field(init=False)
    shares: list[TreeShare] = field(init=False)
    used: list[Usage] = field(default_factory=lambda: [Usage()] * RUNS)
    held: list[tuple[int, float, bool]] = field(default_factory=lambda: [(0, 0.0, False)] * RUNS)

    def __post_init__(self) -> None:
        self.tree = TreeBudget(root_run_id="r", token_budget=self.budget, cost_budget=self.money)
        self.shares = [TreeShare(run_id=f"run_{n}", root_run_id="r") for n in range(RUNS)]

    def ask(self, run: int, wish: TokenWish) -> None:
        before = self.held[run]
        found = grant_share(self.tree, self.shares[run], self.used[run], wish)
        self.tree, self.shares[run], self.held[run] = found.tree, found.share, (0, 0.0, False)
        others = sum(is_request for _, _, is_request in self.held)
        left = self.budget - self.spent - sum(tokens for tokens, _, _ in self.held)
        if isinstance(found, Exhausted):
            assert found.may_wait == (wish.is_request and others > 0), before
            if not found.may_wait and found.limit == "tokens":
                assert left < wish.least
        else:
            assert wish.least <= found.tokens <= wish.most
            assert found.tokens <= left
            if wish.is_request and others:
                assert found.tokens == wish.most  # else it waits until they have settled
            self.held[run] = found.tokens, found.cost, wish.is_request

    def settle(self, run: int, part: int) -> None:
        """Use a part, in percent, of what the run holds; more than it holds is never used by a request."""
        tokens, cost, _ = self.held[run]
        spent = Usage(input_tokens=tokens * part // 100, cost=cost * part / 100)
        self.used[run] = self.used[run] + spent
        self.tree, self.shares[run] = settle_share(self.tree, self.shares[run], self.used[run])
        self.held[run] = (0, 0.0, False)

    @property
    def spent(self) -> int:
        return sum(one.input_tokens + one.output_tokens for one in self.used)

    def check(self) -> None:
        tree = self.tree
        assert tree.spent_tokens == self.spent
        assert abs(tree.spent_cost - sum(one.cost for one in self.used)) < TOLERANCE
        assert tree.reserved_tokens == sum(tokens for tokens, _, _ in self.held)
        assert abs(tree.reserved_cost - sum(cost for _, cost, _ in self.held)) < TOLERANCE
        assert tree.in_flight == sum(is_request for _, _, is_request in self.held) >= 0
        assert tree.spent_tokens + tree.reserved_tokens <= tree.token_budget
        assert tree.spent_cost + tree.reserved_cost <= tree.cost_budget + TOLERANCE


def play(book: Book, steps: list[tuple[str, int, int, int, int]]) -> None:
    for kind, run, first, second, price in steps:
        if kind == "settle":
            book.settle(run, first)
            if second:  # the answer was lost on the way, and the same is said again
                again = settle_share(book.tree, book.shares[run], book.used[run])
                assert again == (book.tree, book.shares[run])
        else:
            wish = TokenWish(
                least=first,
                most=first + second,
                base_cost=first * price / 1_000,
                token_cost=price / 1_000,
                is_request=kind == "request",
            )
            book.ask(run, wish)
        book.check()
    for run in range(RUNS):
        book.settle(run, 0)
        book.check()
    assert (book.tree.reserved_tokens, book.tree.reserved_cost, book.tree.in_flight) == (0, 0.0, 0)


@pytest.mark.promise("B2")
@given(st.integers(1, 300), st.floats(0.001, 1.0), MixedSteps)
def test_spent_and_reserved_never_exceed_the_budget_and_nothing_stays_reserved(
    budget: int, money: float, steps: list[tuple[str, int, int, int, int]]
) -> None:
    play(Book(budget, money), steps)


@given(st.integers(1, 300), Steps)
def test_whoever_may_wait_gets_at_least_what_it_needs_or_a_refusal_once_the_others_have_settled(
    budget: int, steps: list[tuple[str, int, int, int, int]]
) -> None:
    book = Book(budget, 1e6)
    play(book, steps)
    left = budget - book.spent
    found = grant_share(book.tree, book.shares[0], book.used[0], TokenWish(least=1, most=10))
    if left:
        assert not isinstance(found, Exhausted)
        assert found.tokens == min(10, left)
    else:
        assert isinstance(found, Exhausted)
        assert not found.may_wait


def test_a_turn_that_used_more_than_its_envelope_leaves_no_negative_reservation() -> None:
    book = Book(1_000, 5.0)
    book.ask(0, TokenWish(least=1, most=100, is_request=False))
    book.ask(1, TokenWish(least=1, most=100))
    over = Usage(input_tokens=400, output_tokens=600, cost=6.0)
    tree, share = settle_share(book.tree, book.shares[0], over)
    assert (tree.spent_tokens, tree.reserved_tokens, tree.in_flight) == (1_000, 100, 1)
    refused = grant_share(tree, share, over, TokenWish(least=1, most=1))
    assert isinstance(refused, Exhausted)
    assert tree.left_tokens <= 0
