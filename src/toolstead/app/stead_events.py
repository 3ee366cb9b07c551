"""The stored events of every process on a stead's database, for the client interface in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolstead.errors import InvocationError

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead


@asynccontextmanager
async def follow_stored_events(
    stead: Toolstead, types: Collection[str]
) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
    """Events of these types from now on, of every process and every project on the database.

    What happens after this is entered is in it, so that a look at the store afterwards misses nothing.
    """
    from toolstead.orchestrator.log_store import EventFilter

    feed = (await stead.conversations()).log.feed
    if feed is None:
        raise InvocationError("everything is being closed; try again when it runs again")
    with await feed.open_reader(EventFilter(types=frozenset(types))) as reader:
        yield (event.to_json() async for event in reader)
