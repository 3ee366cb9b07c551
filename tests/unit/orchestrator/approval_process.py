"""A process that asks and decides, as far as the database knows, with a store that fails when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from tests.waiting import PATIENCE
from toolstead.adapters.storage.store import open_store
from toolstead.errors import StorageError
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store
from toolstead.types.approval import Approval
from toolstead.types.call import Allow, Ask, Caller, Deny, Rewrite, ToolCall
from toolstead.types.event import Event

ASK = Ask("it is a mail", timeout=600)
CALL = ToolCall(
    name="mail__send",
    input={"to": "ada", "copies": 1},
    caller=Caller(thread_id="t", run_id="r", task_id="k"),
    call_id="call_1",
)
OTHER = ToolCall(name="mail__send", input={}, caller=Caller(thread_id="t"))


class Flaky:
    """A store whose writing about approvals, or looking for them, fails when told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: set[str] = set()
        self.fails_after: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in self.failing | self.fails_after:
            return found

        async def broken(*given: Any, **more: Any) -> Any:
            if name in self.fails_after:
                await found(*given, **more)
            raise StorageError("the disk is full")

        return broken


class Process:
    """What one process has: its store, its log, its approvals."""

    def __init__(self, store: Store, problems_of: Callable[..., Awaitable[list[str]]] | None = None) -> None:
        self.store = Flaky(store)
        self.log = EventLog()
        self.log.attach_store(cast("Store", self.store))
        given = {} if problems_of is None else {"problems_of": problems_of}
        self.approvals = Approvals(open_store=self.open, log=self.log, **given)

    async def open(self) -> Store:
        return cast("Store", self.store)

    def ask(self, call: ToolCall = CALL, ask: Ask = ASK) -> asyncio.Task[Allow | Deny | Rewrite]:
        return asyncio.create_task(self.approvals.ask_person(call, ask, "careful"))

    async def waiting(self, count: int = 1) -> list[Approval]:
        """What waits, once so many do."""
        async with asyncio.timeout(PATIENCE):
            while len(found := await self.store.pending_approvals()) != count:
                await asyncio.sleep(0.005)
        return found

    async def told(self) -> list[Event]:
        """The events of approvals, as they are stored."""
        return [one for one in await self.store.list_events(EventFilter()) if one.type.startswith("approval.")]

    async def outcome(self) -> list[tuple[str, str]]:
        """How each that was asked ended: exactly one end for each, and none for what nobody asked."""
        events = await self.told()
        asked = [one.data["approvalId"] for one in events if one.type == "approval.requested"]
        ended = {one.data["approvalId"]: one for one in events if one.type == "approval.resolved"}
        assert len(events) == len(asked) + len(ended)
        assert set(asked) == set(ended)
        return [(ended[one].data["decision"], ended[one].data["reason"]) for one in asked]

    async def close(self) -> None:
        self.store.failing.clear()
        self.store.fails_after.clear()
        await self.approvals.close()
        await self.log.detach_store()
        await self.store.close()


@asynccontextmanager
async def on(folder: Path, **more: Any) -> AsyncIterator[Process]:
    process = Process(await open_store(folder / "toolstead.db"), **more)
    try:
        yield process
    finally:
        await process.close()


async def soon(task: asyncio.Task[Any]) -> Any:
    return await asyncio.wait_for(task, PATIENCE)
