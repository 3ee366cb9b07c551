"""Posts that carry an idempotency key and come at once: they are one post, and get one answer.

The store keeps the keys, over restarts. This is only about twins that are under way together: what the first of
them does to a run cannot be taken back when the second is found in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from toolstead.orchestrator.store import Accepted

Post = Callable[[], Coroutine[Any, Any, Accepted]]


class KeyedPosts:
    """The posts with a key that are under way."""

    def __init__(self) -> None:
        self._posts: dict[tuple[str, str], asyncio.Task[Accepted]] = {}

    async def once(self, thread_id: str, key: str | None, post: Post) -> Accepted:
        """Post, or wait for the same key's post that is under way. Whoever leaves does not end it for the others."""
        if key is None:
            return await post()
        name = (thread_id, key)
        task = self._posts.get(name)
        if task is None:
            task = self._posts[name] = asyncio.create_task(post(), name="toolstead-keyed-post")
            task.add_done_callback(lambda _: self._posts.pop(name))
        return await asyncio.shield(task)
