"""Delegated work as plugins use it: `ctx.tasks`, made of the stead's delegation and agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from toolstead.errors import (
    InvocationError,
    NotFoundError,
    RefusedError,
    StaleClaimError,
    StorageError,
    ToolError,
    UnknownAgentError,
)
from toolstead.nearest_names import suggest

if TYPE_CHECKING:
    from toolstead.app.delegating import DelegationParts
    from toolstead.delegation.order import Order
    from toolstead.delegation.task_store import Admitted, Holder, Refusal
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.types.call import Caller
    from toolstead.types.task import Task

MOST_LISTED = 100
FLUSH_CHARACTERS = 400
"""How much of a sub-agent's text is gathered before it is told to the stream of the run that waits."""
NO_RUN = "is for agents at work: talk to an agent instead, and let it decide whom to give the work"

ITEM_FIELDS: Mapping[str, type] = {
    "agent_id": str,
    "prompt": str,
    "context": Mapping,
    "conversation_id": str,
    "markdown": str,
    "model": str,
}
"""What an item of `ctx.tasks.delegate` may have, and of which kind."""

OpenDelegation = Callable[[], Awaitable["DelegationParts"]]


class PluginTasks:
    """Delegated work, for one plugin."""

    def __init__(self, open_delegation: OpenDelegation, emit: Callable[[str, Mapping[str, Any], Caller], None]) -> None:
        """Open nothing yet.

        Args:
            open_delegation: Delegation and the agents, opened when they are first needed.
            emit: Takes the events of a call.
        """
        self._open, self._emit = open_delegation, emit

    async def start(
        self,
        prompt: str,
        *,
        parent: ToolMeta,
        agent: str | None = None,
        model: str | None = None,
        max_attempts: int = 5,
        context: Mapping[str, Any] | None = None,
    ) -> str:
        """Start a detached task, and give its id."""
        from toolstead.delegation.order import Order

        caller = parent.caller
        starter = find_starter(parent)
        parts = await self._open()
        order = await parts.complete_order(
            Order(
                agent=agent or starter,
                prompt=prompt,
                model=model or "",
                max_attempts=max_attempts,
                context=context,
            ),
            caller,
        )
        [found] = await _refuse_errors(parts.delegation.delegate([order], caller, mode="detached"))
        task = _read_admitted(found)
        self._tell_started(task, parent)
        return task.id

    async def delegate(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        meta: ToolMeta,
        mode: Literal["immediate", "detached"] = "immediate",
        queue: bool = False,
    ) -> list[dict[str, Any]]:
        """Start several tasks, and wait for them unless they are detached."""
        caller = find_delegator(meta)
        parts = await self._open()
        entries: list[dict[str, Any]] = [{} for _ in items]
        orders: dict[int, Order] = {}
        for place, item in enumerate(items):
            try:
                check_item(item, place + 1)
                orders[place] = await parts.make_order(item, caller)
            except (ToolError, InvocationError) as error:
                code = "AgentNotFound" if isinstance(error, UnknownAgentError) else "InvalidRequest"
                entries[place] = describe_refusal(item, code, str(error))
        if mode == "immediate":
            for place, order in list(orders.items()):
                if (why := parts.delegation.runs.find_room(order.runtime, order.model, order.agent)) is not None:
                    entries[place] = describe_refusal(items[place], "LimitReached", f"LimitReached: {why}")
                    del orders[place]
        found: Sequence[Admitted | Refusal] = []
        if orders:
            delegating = parts.delegation.delegate(list(orders.values()), caller, mode=mode, may_queue=queue)
            found = await _refuse_errors(delegating)
        started = dict(zip(orders, found, strict=True))
        await self._finish(parts, started, items, entries, meta, waits=mode == "immediate")
        return entries

    async def status(self, task_id: str) -> dict[str, Any]:
        """How far it is, what was attempted, and the evidence."""
        parts = await self._open()
        return await parts.describe_task(task_id)

    async def cancel(self, task_id: str) -> None:
        """End it, and what it delegated."""
        await (await self._open()).delegation.cancel(task_id)

    async def list(self, *, meta: ToolMeta) -> list[dict[str, Any]]:
        """The tasks that the thread of a call delegated, the newest first."""
        from toolstead.delegation.task_store import TaskFilter

        caller = find_delegator(meta)
        store = (await self._open()).delegation.store
        found = await store.list_tasks(TaskFilter(parent_thread_id=caller.thread_id), limit=MOST_LISTED)
        if caller.client_thread is not None:
            await self._deliver(found, meta)
        return [describe_entry(task) for task in found]

    async def read(self, task_id: str, *, meta: ToolMeta, offset: int = 0) -> dict[str, Any]:
        """A task of the thread of a call, with its result from an offset on."""
        from toolstead.types.task import LONGEST_SUMMARY

        task = await self._find_own(task_id, meta)
        store = (await self._open()).delegation.store
        whole = await store.read_task_result(task.id) or ""
        part = whole[offset : offset + LONGEST_SUMMARY * 4]
        entry = describe_entry(task)
        entry |= {"summary": part, "offset": offset, "size": len(whole)}
        if offset + len(part) < len(whole):
            entry["next_offset"] = offset + len(part)
        if meta.caller.client_thread is not None:
            await self._deliver([task], meta)
        return entry

    async def cancel_own(self, task_id: str, *, meta: ToolMeta) -> dict[str, Any]:
        """End a task of the thread of a call."""
        task = await self._find_own(task_id, meta)
        ended = await (await self._open()).delegation.cancel(task.id, "the agent that delegated it cancelled it")
        return describe_entry(ended)

    async def checkin(self, message: str, *, meta: ToolMeta) -> None:
        """Report the task's progress to the parent thread."""
        check_run(meta)
        await _refuse_errors((await self._open()).delegation.check_in(meta.caller, message))

    async def signal(self, message: str, *, meta: ToolMeta) -> None:
        """Give the parent's agent a message, which it answers."""
        check_run(meta)
        await _refuse_errors((await self._open()).delegation.signal(meta.caller, message))

    async def _find_own(self, task_id: str, meta: ToolMeta) -> Task:
        caller = find_delegator(meta)
        try:
            task = await (await self._open()).delegation.store.read_task(task_id)
        except NotFoundError:
            raise ToolError(f"there is no task {task_id!r}; the action `list` shows yours") from None
        if task.parent_thread_id != caller.thread_id:
            raise ToolError(f"task {task_id!r} was delegated by somebody else; the action `list` shows yours")
        return task

    async def _deliver(self, found: Sequence[Task], meta: ToolMeta) -> None:
        """Note that an MCP client has read these results."""
        store = (await self._open()).delegation.store
        ended = [task.id for task in found if not task.is_open and task.delivered_at is None]
        if ended:
            await store.take_results(ended, (await self._open()).now())

    async def _finish(
        self,
        parts: DelegationParts,
        started: Mapping[int, Admitted | Refusal],
        items: Sequence[Mapping[str, Any]],
        entries: list[dict[str, Any]],
        meta: ToolMeta,
        *,
        waits: bool,
    ) -> None:
        from toolstead.delegation.task_store import Refusal

        waiting: dict[int, asyncio.Task[Task]] = {}
        for place, one in started.items():
            if isinstance(one, Refusal):
                entries[place] = describe_refusal(items[place], one.code, one.message, one.holders)
                continue
            self._tell_started(one.task, meta)
            entries[place] = describe_entry(one.task) | ({"position": one.position} if one.position else {})
            if waits:
                waiting[place] = asyncio.create_task(self._wait_for(parts, one.task, meta))
        try:
            for place, ending in waiting.items():
                entries[place] = describe_entry(await ending)
        except asyncio.CancelledError:
            for ending in waiting.values():
                ending.cancel()
            ids = [one.task.id for one in started.values() if not isinstance(one, Refusal)]
            await asyncio.shield(parts.delegation.abandon(ids, meta.caller.run_id))
            raise

    async def _wait_for(self, parts: DelegationParts, task: Task, meta: ToolMeta) -> Task:
        from toolstead.types.task import SUCCESSES

        gathered: list[str] = []

        def flush() -> None:
            if gathered:
                self._emit("delegate.delta", {**_name_call(task, meta), "text": "".join(gathered)}, meta.caller)
                gathered.clear()

        def take_text(text: str) -> None:
            gathered.append(text)
            if sum(map(len, gathered)) >= FLUSH_CHARACTERS:
                flush()

        with parts.listen(task.id, take_text):
            ended = await parts.delegation.wait_for_task(task.id)
        flush()
        kind = "delegate.completed" if ended.outcome in SUCCESSES else "delegate.failed"
        self._emit(kind, {**_name_call(task, meta), **describe_entry(ended)}, meta.caller)
        return ended

    def _tell_started(self, task: Task, meta: ToolMeta) -> None:
        about = {**_name_call(task, meta), "mode": task.mode, "prompt": task.prompt}
        about |= {"queued": True} if task.waits_for_slot else {}
        self._emit("delegate.started", about, meta.caller)


def describe_entry(task: Task) -> dict[str, Any]:
    """A task as the agent that delegated it sees it."""
    entry: dict[str, Any] = {
        "agent_id": task.agent,
        "run_id": task.id,
        "conversation_id": task.thread_id,
        "status": task.outcome or ("queued" if task.waits_for_slot else "running"),
    }
    if task.ended_at is not None:
        if task.summary is not None:
            entry["summary"] = task.summary
            if task.result_size > len(task.summary):
                entry["size"] = task.result_size
        entry["duration"] = round(max(0.0, task.ended_at - task.created_at), 3)
    if task.error is not None:
        entry["error"] = {"code": task.error.code, "message": task.error.message}
    return entry


def check_item(item: Mapping[str, Any], number: int) -> None:
    """Check the members of an item of `ctx.tasks.delegate`.

    Raises:
        ToolError: One is unknown, missing, or of a wrong kind.
    """
    if not isinstance(cast("Any", item), Mapping):
        raise ToolError(f"item {number} is no mapping; give {{'agent_id': …, 'prompt': …}}")
    for name, value in item.items():
        if name not in ITEM_FIELDS:
            hint = suggest(str(name), ITEM_FIELDS, otherwise=f"there are {', '.join(ITEM_FIELDS)}")
            raise ToolError(f"item {number}: {name!r} is no field; {hint}")
        if value is not None and not isinstance(value, ITEM_FIELDS[name]):
            raise ToolError(f"item {number}: {name!r} must be {'a mapping' if name == 'context' else 'text'}")
    if not item.get("prompt"):
        raise ToolError(f"item {number}: 'prompt' is missing: what the agent is to do")
    if not any(item.get(name) for name in ("agent_id", "markdown", "conversation_id")):
        raise ToolError(f"item {number}: 'agent_id' is missing: who is to do it ('markdown' defines an agent instead)")


def _name_call(task: Task, meta: ToolMeta) -> dict[str, Any]:
    return {"callId": meta.call_id, "agentId": task.agent, "runId": task.id, "conversationId": task.thread_id}


def describe_refusal(
    item: Mapping[str, Any], code: str, message: str, holders: Sequence[Holder] = ()
) -> dict[str, Any]:
    """The entry of an item that is refused."""
    error: dict[str, Any] = {"code": code, "message": message}
    if holders:
        error["holders"] = [{"run_id": one.run_id, "deadline": one.deadline} for one in holders]
    agent = item.get("agent_id") if isinstance(cast("Any", item), Mapping) else None
    return {"agent_id": agent or "", "status": "refused", "error": error}


def find_delegator(meta: ToolMeta) -> Caller:
    """The caller, if it may delegate: a run, or an MCP client in a thread of its own. Raises ToolError."""
    caller = meta.caller
    if caller.run_id is None:
        if caller.client_thread is None:
            raise ToolError(f"this tool {NO_RUN}")
        return msgspec.structs.replace(caller, thread_id=caller.client_thread)
    return caller


def find_starter(meta: ToolMeta) -> str:
    """The agent that calls `start`. Raises ToolError for a caller that is none."""
    if meta.caller.run_id is None or meta.caller.agent_id is None:
        raise ToolError(f"delegating {NO_RUN}")
    return meta.caller.agent_id


def check_run(meta: ToolMeta) -> None:
    """Refuse a caller that is no agent. Raises ToolError."""
    if meta.caller.run_id is None:
        raise ToolError(f"this tool {NO_RUN}")


def _read_admitted(found: Admitted | Refusal) -> Task:
    from toolstead.delegation.task_store import Refusal

    if isinstance(found, Refusal):
        raise ToolError(found.message)
    return found.task


async def _refuse_errors(work: Awaitable[Any]) -> Any:
    """Await it; what a model can read instead of a crash becomes a ToolError."""
    try:
        return await work
    except (InvocationError, StaleClaimError, StorageError) as error:
        raise ToolError(str(error)) from error
    except RefusedError:
        raise
