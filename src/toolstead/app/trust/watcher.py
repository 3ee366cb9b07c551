"""Notices, while a process runs, that the user approved or revoked something, or that files changed.

The scope is small and may lie anywhere, so it is polled twice a second instead of watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolstead.app.trust.approvals import Stamp, compare_snapshot
from toolstead.app.trust.approved import ProjectTrust
from toolstead.app.trust.snapshot import Mark, take_mark
from toolstead.app.watching import POLL_SECONDS, PollingWatcher, is_young
from toolstead.errors import ToolsteadError
from toolstead.schema.visible import escape_unseen

logger = logging.getLogger("toolstead.trust")

OnNews = Callable[[], Awaitable[object]]


class TrustWatcher(PollingWatcher):
    """Polls a project's files and its approval while open: `async with watcher:`."""

    def __init__(
        self, trust: ProjectTrust, on_news: OnNews, *, follow: bool = False, interval: float = POLL_SECONDS
    ) -> None:
        """Prepare to watch.

        Args:
            trust: The project's trust.
            on_news: Awaited when the approval, or what waits for one, changed.
            follow: Approve every change of the project's files as it comes: for authors.
            interval: Seconds between two checks.
        """
        super().__init__("trust", interval)
        self._trust = trust
        self._on_news = on_news
        self._follow = follow
        self._seen: tuple[Stamp, Mark | str] | None = None

    async def check(self) -> None:
        """Check once, and report a change if there is one."""
        seen = await asyncio.to_thread(self._take_marks)
        is_settled = isinstance(seen[1], str) or not any(is_young(changed) for _, _, changed, _, _ in seen[1])
        if self._seen == seen and is_settled:
            return
        self._seen = seen
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        await self._on_news()

    async def check_first(self) -> None:
        """Report only if something changed since the trust was last checked; mostly nothing has."""
        self._seen = await asyncio.to_thread(self._take_marks)
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        if await asyncio.to_thread(self._trust.refresh_approval):
            await self._on_news()

    def _take_marks(self) -> tuple[Stamp, Mark | str]:
        trust = self._trust
        try:
            mark: Mark | str = take_mark(trust.project, without=trust.users_own)
        except ToolsteadError as error:
            mark = str(error)
        return trust.approvals.approval_stamp(trust.project), mark


def approve_changes(trust: ProjectTrust) -> bool:
    """Approve what the project brings now; return whether it differed from what was approved."""
    try:
        snapshot = trust.take_snapshot()
        changes = compare_snapshot(trust.approvals.read(trust.project), snapshot)
        if changes:
            trust.approvals.approve_snapshot(trust.project, snapshot)
            logger.info("%s: approved as it changed: %s", escape_unseen(str(trust.project)), changes)
    except ToolsteadError as error:
        logger.warning("%s", error)
        return False
    return bool(changes)
