"""Whole results behind handles, for callers that were shown only a part.

They are written after the call, to the database, which is opened for the first one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.errors import StorageError

if TYPE_CHECKING:
    from toolstead.orchestrator.store import Store
    from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

LARGEST = 32 * 1024 * 1024
MOST_WAITING = 64 * 1024 * 1024


class KeptResults:
    """Keeps results on their way into the database, bounded."""

    def __init__(self, opened: Callable[[], Awaitable[Store]]) -> None:
        self._opened = opened
        self._waiting = 0
        self._writing: set[asyncio.Task[None]] = set()

    def __call__(self, result: ToolResult) -> str | None:
        """Store a result; return its handle, or None when it is too large."""
        try:
            data = msgspec.json.encode(result.to_json())
        except (TypeError, UnicodeEncodeError):  # half characters and the like, which no file can hold
            return None
        if len(data) > LARGEST or self._waiting + len(data) > MOST_WAITING:
            logger.warning("a result of %s bytes is not kept: at most %s are", f"{len(data):,}", f"{LARGEST:,}")
            return None
        handle = f"res_{secrets.token_urlsafe(16)}"
        self._waiting += len(data)
        task = asyncio.create_task(self._keep_result(handle, data), name=f"toolstead-keep-{handle}")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return handle

    async def read(self, handle: str) -> Any:
        """A kept result, as JSON.

        Raises:
            NotFoundError: No such result.
            StorageError: It cannot be read.
        """
        await self.wait_until_written()
        store = await self._opened()
        return msgspec.json.decode(await store.read_result(handle))

    async def wait_until_written(self) -> None:
        """Wait until what is being written is written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    async def _keep_result(self, handle: str, data: bytes) -> None:
        try:
            await (await self._opened()).keep_result(handle, data)
        except StorageError as error:
            logger.warning("the whole result %s could not be kept: %s", handle, error)
        finally:
            self._waiting -= len(data)
