"""Work that outlives a call or a hook, owned by the plugin that began it: `ctx.run_background`."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Coroutine
from typing import Any

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.plugins.health import Health, describe_crash

logger = logging.getLogger(__name__)

MOST = 100


class BackgroundTasks:
    """The background work of one plugin: named, bounded in number, cancelled when the plugin stops.

    Work that raises is logged and makes the plugin degraded; it ends nothing else, not even with `sys.exit()`.
    """

    def __init__(self, plugin: str, health: Health) -> None:
        self._plugin = plugin
        self._health = health
        self._tasks = OwnedTasks()
        self._ended = False

    def __call__(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> None:
        """Begin it.

        Raises:
            TypeError: It is no coroutine.
            RuntimeError: The plugin is stopped, has too much of it already, or calls from a worker thread.
        """
        if not inspect.iscoroutine(work):
            raise TypeError(
                f"plugin {self._plugin!r}: run_background takes a coroutine, such as watch(ctx), "
                f"not {type(work).__name__}"
            )
        name = name or getattr(work, "__qualname__", "work")
        if (refusal := self._refusal_reason(name)) is not None:
            work.close()
            raise RuntimeError(refusal)
        task = self._tasks.start(self._run(work, name), name=f"{self._plugin}: {name} (background)")
        # Cancelled before its first step, it would be lost with a warning.
        task.add_done_callback(lambda _: work.close())

    async def wait_until_done(self) -> None:
        """Wait until all of it has ended."""
        await self._tasks.wait_for_all()

    async def end_all(self) -> None:
        """Cancel all of it, and wait up to five seconds; what ignores that is named. Nothing new begins."""
        self._ended = True
        await self._tasks.end_all()

    def _refusal_reason(self, name: str) -> str | None:
        begin = f"plugin {self._plugin!r} cannot begin {name!r} in the background"
        if self._ended:
            return f"{begin}: it is being stopped, or was"
        if len(self._tasks) >= MOST:
            return f"{begin}: {MOST} are running already, which is the maximum; wait for some to end"
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return f"{begin} from a worker thread; call it on the event loop (loop.call_soon_threadsafe)"
        return None

    async def _run(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        try:
            await work
        except (Exception, SystemExit) as error:
            logger.exception("plugin %r: %r in the background failed", self._plugin, name)
            self._health.report_status("degraded", f"background work {name!r}: {describe_crash(error)}")
