"""Whether our warm session of a thread is up to date when other processes also run in the thread.

A session is up to date when it served the run that began last in its thread.
"""

from __future__ import annotations

from toolstead.invoker.lease import session_key
from toolstead.invoker.pool import SessionPool
from toolstead.orchestrator.store import HeldRun, Store

MOST_PREWARMED = 1_000
MOST_NEVER_BEGUN = 20

NO_RUN = ""
"""Stands for the run that began last in a thread in which none has."""


class SessionFreshness:
    """Ends sessions that missed a part of their conversation."""

    def __init__(self, store: Store, pool: SessionPool) -> None:
        self._store = store
        self._pool = pool
        self._prewarmed: dict[str, str] = {}
        """Thread → the run after which its session was opened ahead of the next message."""

    async def may_prewarm(self, thread_id: str) -> bool:
        """Whether a session opened now would be up to date; ask before reading the thread.

        One that is open and is not up to date is ended.
        """
        newest = await self._store.list_runs(thread_id=thread_id, limit=MOST_NEVER_BEGUN)
        last = next((run for run in newest if run.started_at is not None), None)
        if last is not None and last.owner == self._store.owner:
            return True
        if last is not None and not last.has_ended:
            return False
        after = NO_RUN if last is None else last.id
        if self._prewarmed.get(thread_id) != after:
            self.mark_outdated(thread_id)
        while len(self._prewarmed) >= MOST_PREWARMED:
            del self._prewarmed[next(iter(self._prewarmed))]
        self._prewarmed[thread_id] = after
        return True

    def note_beginning(self, thread_id: str, last: HeldRun | None) -> None:
        """When a run of ours begins, end a session that neither served the run before it nor was opened after it."""
        ahead = self._prewarmed.pop(thread_id, None)
        if last is not None and last.owner == self._store.owner:
            return
        if ahead != (NO_RUN if last is None else last.id):
            self.mark_outdated(thread_id)

    def mark_outdated(self, thread_id: str) -> None:
        """Note that the pool's session of a thread may be out of date."""
        self._pool.evict(session_key(thread_id), outdated=True)
