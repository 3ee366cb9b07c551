"""Posts that carry an idempotency key: each key of a thread counts once.

The store keeps the keys of messages that began a run, over restarts. This remembers, for a while, also
those that were given to a run that was under way, and makes twins that come at once wait for one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from toolyard.orchestrator.store import Accepted

MOST_REMEMBERED = 10_000

Post = Callable[[], Coroutine[Any, Any, Accepted]]


class KeyedPosts:
    """What each key was answered with, the newest of them."""

    def __init__(self) -> None:
        self._posts: dict[tuple[str, str], asyncio.Task[Accepted]] = {}

    async def once(self, thread_id: str, key: str | None, post: Post) -> Accepted:
        """Post, unless this key was posted before; one that failed may be tried again."""
        if key is None:
            return await post()
        name = (thread_id, key)
        task = self._posts.get(name)
        if task is None:
            while len(self._posts) >= MOST_REMEMBERED:
                del self._posts[next(iter(self._posts))]
            task = self._posts[name] = asyncio.create_task(post(), name="toolyard-keyed-post")
            task.add_done_callback(lambda done: self._forget_failure(name, done))
        return await asyncio.shield(task)

    def _forget_failure(self, name: tuple[str, str], done: asyncio.Task[Accepted]) -> None:
        if (done.cancelled() or done.exception() is not None) and self._posts.get(name) is done:
            del self._posts[name]
