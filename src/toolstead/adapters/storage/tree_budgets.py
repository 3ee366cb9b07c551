"""The budgets of trees: rows that are read, changed by `delegation/budget` and written back inside one commit."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from toolstead.adapters.storage.known_tasks import KnownTasks
from toolstead.adapters.storage.ledger import Ledger, Operation
from toolstead.adapters.storage.tables import BUDGETS, budgets
from toolstead.delegation.budget import Exhausted, Grant, TokenWish, TreeShare, grant_share, settle_share
from toolstead.errors import InvocationError, NotFoundError
from toolstead.types.run import ENDS, Usage
from toolstead.types.task import TreeBudget

_TREE = select(budgets).where(budgets.c.root_run_id == bindparam("root"))


def find_tree(connection: Connection, root_run_id: str) -> TreeBudget | None:
    """The budget of a tree; None for one in which nothing was delegated."""
    row = connection.execute(_TREE, {"root": root_run_id}).first()
    return None if row is None else BUDGETS.decode_row(row)


def add_tree(known: KnownTasks, tree: TreeBudget, share: TreeShare | None) -> None:
    """Store the budget of a tree that has none, and what its root has used so far."""
    known.set_tree(tree, is_new=True)
    if share is not None:
        known.set_share(share, is_new=True)


def reserve_share(share: TreeShare, wish: TokenWish) -> Operation[Grant | Exhausted]:
    """Note what a run has used, and reserve more for it. Raises InvocationError for a run that has ended."""

    def reserve_row(ledger: Ledger) -> Grant | Exhausted:
        check_unfinished(ledger, share.run_id)
        return change_share(ledger.known, share, wish)

    return Operation(apply=reserve_row, runs=(share.run_id,), shares=(share.run_id,), roots=(share.root_run_id,))


def check_unfinished(ledger: Ledger, run_id: str) -> None:
    """Refuse what a run wants that has ended: another process took this one for dead, and nothing settles it again.

    Raises:
        InvocationError: It has ended.
    """
    if ledger.runs.get(run_id, ("", ""))[0] in ENDS:
        raise InvocationError(f"run {run_id} has ended; another process took its work over")


def change_share(known: KnownTasks, share: TreeShare, wish: TokenWish, *, is_new: bool = False) -> Grant | Exhausted:
    """Note what a run has used, and reserve more for it. Raises NotFoundError for the tree."""
    tree = known.find_tree(share.root_run_id)
    if tree is None:
        raise NotFoundError("tree", share.root_run_id)
    stored = None if is_new else known.find_share(share.run_id)
    before = stored or TreeShare(run_id=share.run_id, root_run_id=tree.root_run_id)
    found = grant_share(tree, before, share.used, wish)
    known.set_tree(found.tree)
    known.set_share(found.share, is_new=stored is None)
    return found


def settle_share_now(share: TreeShare) -> Operation[None]:
    """Note what a run has used, and give back what it holds."""
    return Operation(
        apply=lambda ledger: settle_run_share(ledger.known, share.run_id, share.used), shares=(share.run_id,)
    )


def settle_run_share(known: KnownTasks, run_id: str, used: Usage | None, root_run_id: str | None = None) -> None:
    """Give back what an ended run held; without a figure, it has used what it said last.

    A run that ended before it was granted anything has no share yet, and what it used counts all the same.
    """
    stored = share = known.find_share(run_id)
    if share is None and root_run_id is not None and used is not None:
        share = TreeShare(run_id=run_id, root_run_id=root_run_id)
    tree = None if share is None else known.find_tree(share.root_run_id)
    if share is not None and tree is not None:
        tree, share = settle_share(tree, share, used or share.used)
        known.set_tree(tree)
        known.set_share(share, is_new=stored is None)
