"""A run's share of its tree's budget, in the process that runs it.

    alone ──first delegation──▶ shared ──▶ (ended: the commit of the run's end settles it)

As long as nothing was delegated in a tree, its root alone spends, and the limits of its turn suffice: nothing is
stored. From the first delegation on, and for every run below a root, the store grants what may be used:

- the kernel asks before each request (`reserve`) and gives back what it did not use (`release`);
- a runtime that asks the model itself has an envelope, which is topped up when half of it is used. When there is
  nothing left for that, its turn is ended: it exceeds its budget by one reply at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.delegation.budget import (
    ENVELOPE_TOKENS,
    Exhausted,
    Grant,
    TokenWish,
    TreeShare,
    explain_exhausted,
)
from toolstead.delegation.outages import outlast_outage
from toolstead.delegation.task_store import TaskStore
from toolstead.errors import InvocationError, LimitError, NotFoundError, StorageError
from toolstead.invoker.clock import Clock
from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.task import TreeBudget

logger = logging.getLogger(__name__)

RELEASE_SECONDS = 0.05
"""How long after a request what it did not use is given back: most runs ask again, or end, before."""
WAIT_SECONDS = 0.05
"""How often a request looks whether others have given back what it needs."""

ENVELOPE = TokenWish(least=1, most=ENVELOPE_TOKENS, is_request=False)


class RunShare:
    """What one run may use. `used` is kept up to date by whoever hears the runtime's reports.

    Attributes:
        used: What the run has used so far.
        is_shared: Whether the store grants what may be used.
    """

    def __init__(
        self,
        *,
        run_id: str,
        root_run_id: str,
        budget: TreeBudget,
        is_shared: bool,
        store: TaskStore,
        clock: Clock,
        on_exhausted: Callable[[str, str], None],
    ) -> None:
        """Reserve nothing yet.

        Args:
            run_id: The run.
            root_run_id: The root of its tree.
            budget: What the tree may use, where the run is its root.
            is_shared: Whether something was delegated in the tree already.
            store: Grants.
            clock: Waits.
            on_exhausted: Ends the turn; called with the limit that is reached, and a sentence.
        """
        self.used = NOTHING_USED
        self.is_shared = is_shared
        self._run_id, self._root = run_id, root_run_id
        self._budget = budget
        self._store, self._clock, self._on_exhausted = store, clock, on_exhausted
        self._granted: TreeShare | None = None
        self._asks_before = False
        self._is_scarce = False
        self._asking = asyncio.Lock()
        self._tasks = OwnedTasks()
        self._number = 0

    def describe_tree(self) -> tuple[TreeBudget, TreeShare | None]:
        """The tree as it is to be stored with its first delegation, and the root's own share of it."""
        if self.is_shared:
            return self._budget, None
        used = self.used
        share = TreeShare(
            run_id=self._run_id,
            root_run_id=self._root,
            used=used,
            granted_tokens=used.input_tokens + used.output_tokens,
            granted_cost=used.cost,
        )
        tree = TreeBudget(
            root_run_id=self._root,
            token_budget=self._budget.token_budget,
            cost_budget=self._budget.cost_budget,
            spent_tokens=share.granted_tokens,
            spent_cost=used.cost,
        )
        return tree, share

    def begin_sharing(self) -> None:
        """Note that the tree is stored."""
        self.is_shared = True

    def take_grant(self, share: TreeShare | None) -> None:
        """Note the envelope that the run was accepted with."""
        self._granted = share

    def note_usage(self, usage: Usage) -> None:
        """Add what the runtime reports; a turn with an envelope is topped up, or ended."""
        self.used += usage
        if self.is_shared and not self._asks_before and not self._is_ample():
            self._tasks.start(self._top_up(), name=f"toolstead-envelope-{self._run_id}")

    async def reserve(self, *, least: int, most: int, base_cost: float, token_cost: float) -> int:
        """Reserve tokens for one request to a model; waits while other requests hold what is missing.

        Raises:
            LimitError: The tree has not enough left.
            InvocationError: Another process has ended the run.
            StorageError: The database does not answer.
        """
        self._asks_before = True
        if self._is_scarce:
            await self._step_back()
        wish = TokenWish(least=least, most=most, base_cost=base_cost, token_cost=token_cost)
        while True:
            found = await self._ask(wish)
            if isinstance(found, Grant):
                self._is_scarce = found.tokens < most
                return found.tokens
            if not found.may_wait:
                raise LimitError(explain_exhausted(found), limit=found.limit)
            await self._clock.sleep(WAIT_SECONDS)

    def release(self) -> None:
        """Give back what the last request did not use, unless the run asks again or ends in a moment."""
        self._tasks.start(self._release_soon(self._number), name=f"toolstead-release-{self._run_id}")

    async def close(self) -> None:
        """Ask for nothing more; the commit of the run's end gives back the rest."""
        await self._tasks.end_all()

    def _is_ample(self) -> bool:
        granted, used = self._granted, self.used
        if granted is None:
            return False
        before = granted.used
        half_tokens = (granted.granted_tokens + before.input_tokens + before.output_tokens) / 2
        has_money = granted.granted_cost <= 0 or used.cost < (granted.granted_cost + before.cost) / 2
        return used.input_tokens + used.output_tokens < half_tokens and has_money

    async def _top_up(self) -> None:
        try:
            async with self._asking:
                if self._is_ample():
                    return
                found = await self._grant(ENVELOPE)
        except (StorageError, NotFoundError) as error:
            logger.warning("run %s: its budget could not be topped up: %s", self._run_id, error)
            return
        except InvocationError as error:
            self._on_exhausted("run", str(error))
            return
        if isinstance(found, Exhausted):
            self._on_exhausted(found.limit, explain_exhausted(found))

    async def _ask(self, wish: TokenWish) -> Grant | Exhausted:
        async with self._asking:
            self._number += 1
            return await outlast_outage(lambda: self._grant(wish), self._clock, about=f"run {self._run_id}")

    async def _grant(self, wish: TokenWish) -> Grant | Exhausted:
        share = TreeShare(run_id=self._run_id, root_run_id=self._root, used=self.used)
        found = await self._store.reserve_share(share, wish)
        self._granted = found.share
        return found

    async def _release_soon(self, number: int) -> None:
        await self._clock.sleep(RELEASE_SECONDS)
        async with self._asking:
            if number == self._number:
                await self._give_back()

    async def _step_back(self) -> None:
        """Let others go first, where there is not enough for all: whoever asked again at once would always be first."""
        async with self._asking:
            self._number += 1
            await self._give_back()
        await self._clock.sleep(2 * WAIT_SECONDS)

    async def _give_back(self) -> None:
        try:
            await self._store.settle_share(TreeShare(run_id=self._run_id, root_run_id=self._root, used=self.used))
        except StorageError as error:
            logger.warning("run %s: its reservation waits for its end: %s", self._run_id, error)
