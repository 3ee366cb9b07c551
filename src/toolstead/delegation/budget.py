"""Budgets of a whole tree: what is granted of what is left. Pure; the store applies it inside a commit.

A run asks before each request to a model, or, where its runtime asks the model itself, for an envelope: a bounded
share that is topped up while the turn goes on. Spent and reserved together never exceed the tree's budget.

A request is granted as much as it wishes. When there is less, it waits while other single requests hold something,
because they settle soon; then it gets what is left, if that is enough to begin. An envelope is never waited for: its
turn may itself wait for the one that asks.
"""

from __future__ import annotations

import msgspec

from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.task import TreeBudget

ENVELOPE_TOKENS = 50_000
"""The largest envelope of a turn."""
ENVELOPE_COST = 0.5
ENVELOPE_SHARE = 4
"""An envelope is at most one part in so many of what is left, so that a child finds something."""
REPLY_TOKENS = 32_000
"""What is reserved for a reply; when there is less, the request says so to the model."""


class TreeShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has used of its tree's budget, and what it may use without asking again.

    Attributes:
        is_request: Whether it is granted for one request to a model, which settles soon; else for a turn.
    """

    run_id: str
    root_run_id: str
    used: Usage = NOTHING_USED
    granted_tokens: int = 0
    granted_cost: float = 0.0
    is_request: bool = False


class TokenWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a run wishes to use next.

    Attributes:
        least: Tokens without which it cannot begin.
        most: Tokens that it wishes.
        base_cost: USD of the first `least` tokens.
        token_cost: USD of each token beyond.
        is_request: Whether it is for one request, else for an envelope.
    """

    least: int
    most: int
    base_cost: float = 0.0
    token_cost: float = 0.0
    is_request: bool = True


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may use from now on, beyond what it has used.

    Attributes:
        tree: The tree with it.
        share: The run's share with it.
    """

    tokens: int
    cost: float
    tree: TreeBudget
    share: TreeShare


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """There is not enough left.

    Attributes:
        limit: `tokens` or `cost`.
        may_wait: Whether requests in flight may give back enough.
        tree: The tree as it is.
        share: The run's share, which is given back.
    """

    limit: str
    may_wait: bool
    tree: TreeBudget
    share: TreeShare


def settle_share(tree: TreeBudget, share: TreeShare, used: Usage) -> tuple[TreeBudget, TreeShare]:
    """The tree and the share after the run has used so much in all, and holds nothing more."""
    before = share.used
    tokens = _sum_tokens(used) - _sum_tokens(before)
    held_tokens = max(0, share.granted_tokens - _sum_tokens(before))
    held_cost = max(0.0, share.granted_cost - before.cost)
    is_held = share.is_request and held_tokens > 0
    tree = msgspec.structs.replace(
        tree,
        spent_tokens=tree.spent_tokens + tokens,
        spent_cost=tree.spent_cost + (used.cost - before.cost),  # nothing, exactly, when the same is said twice
        reserved_tokens=max(0, tree.reserved_tokens - held_tokens),
        reserved_cost=max(0.0, tree.reserved_cost - held_cost),
        in_flight=tree.in_flight - is_held,
    )
    if tree.reserved_tokens == 0:
        tree = msgspec.structs.replace(tree, reserved_cost=0.0)  # sums of parts of cents leave dust
    share = msgspec.structs.replace(
        share, used=used, granted_tokens=_sum_tokens(used), granted_cost=used.cost, is_request=False
    )
    return tree, share


def grant_share(tree: TreeBudget, share: TreeShare, used: Usage, wish: TokenWish) -> Grant | Exhausted:
    """Note what a run has used so far, give back what it held, and grant what it wishes next, if there is enough."""
    tree, share = settle_share(tree, share, used)
    most = wish.most if wish.is_request else max(wish.least, min(wish.most, tree.left_tokens // ENVELOPE_SHARE))
    tokens, limit = min(most, tree.left_tokens), "tokens"
    if wish.token_cost > 0:
        affordable = wish.least + int(max(0.0, tree.left_cost - wish.base_cost) / wish.token_cost)
        if affordable < tokens:
            tokens, limit = affordable, "cost"
    has_money = tree.left_cost > 0 and wish.base_cost <= tree.left_cost
    if not has_money:
        tokens, limit = 0, "cost"
    may_wait = wish.is_request and tree.in_flight > 0
    if tokens < wish.least or (tokens < most and may_wait):
        return Exhausted(limit=limit, may_wait=may_wait, tree=tree, share=share)
    cost = min(wish.base_cost + (tokens - wish.least) * wish.token_cost, tree.left_cost)
    if not wish.is_request:
        cost = min(ENVELOPE_COST, max(tree.left_cost / ENVELOPE_SHARE, cost))
    tree = msgspec.structs.replace(
        tree,
        reserved_tokens=tree.reserved_tokens + tokens,
        reserved_cost=tree.reserved_cost + cost,
        in_flight=tree.in_flight + (wish.is_request and tokens > 0),
    )
    share = msgspec.structs.replace(
        share,
        granted_tokens=_sum_tokens(used) + tokens,
        granted_cost=used.cost + cost,
        is_request=wish.is_request,
    )
    return Grant(tokens=tokens, cost=cost, tree=tree, share=share)


def explain_exhausted(found: Exhausted) -> str:
    """The sentence of a run that gets no more."""
    tree = found.tree
    if found.limit == "tokens":
        used = f"{tree.spent_tokens:,} tokens were used and {tree.reserved_tokens:,} are reserved by other runs"
        return f"stopped: {used} in the whole tree, limits.token_budget is {tree.token_budget:,}"
    used = f"${tree.spent_cost:.4f} was spent and ${tree.reserved_cost:.4f} is reserved by other runs"
    return f"stopped: {used} in the whole tree, limits.cost_budget is ${tree.cost_budget:.2f}"


def _sum_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
