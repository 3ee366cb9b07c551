"""Notices, while a process runs, that the user approved or revoked something, or that files changed.

The scope is small and may lie anywhere, so it is looked at twice a second instead of watched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from toolstead.app.trust.approvals import Stamp, difference
from toolstead.app.trust.approved import ProjectTrust
from toolstead.app.trust.snapshot import Mark, take_mark
from toolstead.errors import ToolsteadError
from toolstead.schema.visible import escaped

logger = logging.getLogger("toolstead.trust")

POLL_SECONDS = 0.5
_YOUNG_NS = 1_000_000_000

OnNews = Callable[[], Awaitable[object]]


class TrustWatcher:
    """Looks at a project's files and its approval while open: `async with watcher:`."""

    def __init__(
        self, trust: ProjectTrust, on_news: OnNews, *, follow: bool = False, interval: float = POLL_SECONDS
    ) -> None:
        """Prepare to watch.

        Args:
            trust: The project's trust.
            on_news: Awaited when the approval, or what waits for one, became another.
            follow: Approve every change of the project's files as it comes: for authors.
            interval: Seconds between two looks.
        """
        self._trust = trust
        self._on_news = on_news
        self._follow = follow
        self._interval = interval
        self._seen: tuple[Stamp, Mark | str] | None = None
        self._task: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Look once, and tell if there is news."""
        seen = await asyncio.to_thread(self._look)
        if self._seen == seen and not _is_young(seen[1]):
            return
        self._seen = seen
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        await self._on_news()

    async def __aenter__(self) -> Self:
        # Between the last look and this one something may have changed; mostly nothing has, and nobody need read anew.
        self._seen = await asyncio.to_thread(self._look)
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        if await asyncio.to_thread(self._trust.look):
            await self._on_news()
        self._task = asyncio.create_task(self._watch(), name="toolstead-trust")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.check()
            except Exception:
                logger.exception("a change of what %s brings could not be taken", self._trust.project)

    def _look(self) -> tuple[Stamp, Mark | str]:
        trust = self._trust
        try:
            mark: Mark | str = take_mark(trust.project, without=trust.users_own)
        except ToolsteadError as error:
            mark = str(error)
        return trust.approvals.stamp(trust.project), mark


def _is_young(mark: Mark | str) -> bool:
    """Whether a file is so new that another write may have left the same time, size and inode."""
    return not isinstance(mark, str) and any(time.time_ns() - changed < _YOUNG_NS for _, _, changed, _, _ in mark)


def approve_changes(trust: ProjectTrust) -> bool:
    """Approve what the project brings now, if it is not what was approved; say whether it was other."""
    try:
        snapshot = trust.snapshot()
        changes = difference(trust.approvals.read(trust.project), snapshot)
        if changes:
            trust.approvals.approve(trust.project, snapshot)
            logger.info("%s: approved as it changed: %s", escaped(str(trust.project)), changes)
    except ToolsteadError as error:
        logger.warning("%s", error)
        return False
    return bool(changes)
