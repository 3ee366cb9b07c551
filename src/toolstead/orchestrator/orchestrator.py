"""The orchestrator: a message in, an answer out, everything stored on the way.

message → on_message → take the session → on_before_invoke → invoke → stored answer →
on_after_invoke → broadcast. One invocation at a time for each thread, in order of arrival, many
threads at once. A run has exactly one end, and it is stored with its answer and its last events in
one commit.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from toolstead.errors import (
    InvocationError,
    NotFoundError,
    StorageError,
    TimedOutError,
    UnknownToolError,
)
from toolstead.invoker.invoker import Invocation, Invoker
from toolstead.invoker.key import session_key
from toolstead.invoker.pool import SessionRequest
from toolstead.invoker.runtime import Runtime, SessionSpec
from toolstead.invoker.runtime_calls import OwnFor
from toolstead.orchestrator.endings import code_of, completed, end_type, ended, last_event, told, used
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.hooks import MessageHooks, NoHooks
from toolstead.orchestrator.ids import Ids, kept_id, resumable
from toolstead.orchestrator.lane import Job, Lane
from toolstead.orchestrator.neighbours import Neighbours
from toolstead.orchestrator.request import CallTool, Defaults, RunRequest
from toolstead.orchestrator.store import Accepted, Behind, Ending, Store
from toolstead.types.call import Caller
from toolstead.types.event import Event
from toolstead.types.result import ToolResult
from toolstead.types.run import Invoking, Run, Warmth
from toolstead.types.thread import Message, Role, Thread

logger = logging.getLogger(__name__)

RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)
LONGEST_TITLE = 80
STOPPED = "the process that ran it was stopped"
DELETED = "its thread was deleted"
LEFT = "whoever asked left before it was stored"
LAST_EVENTS = frozenset({"completed", "error", "cancelled"})
"""A run's stream ends with exactly one of these."""


class Orchestrator:
    """Runs agents in threads. `open` it before, `close` it after."""

    def __init__(
        self,
        *,
        store: Store,
        log: EventLog,
        invoker: Invoker,
        call_tool: CallTool,
        defaults: Defaults,
        own_tools: OwnFor | None = None,
        hooks: MessageHooks | None = None,
    ) -> None:
        self.store = store
        self.invoker = invoker
        self.log = log
        self._call_tool = call_tool
        self._own_tools = own_tools
        self._defaults = defaults
        self._hooks = hooks or NoHooks()
        self._ids = Ids()
        self._lanes: dict[str, Lane] = {}
        self._entrances: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._jobs: dict[str, Job] = {}
        self._closing = False
        self._neighbours = Neighbours(store, log, invoker.pool)

    async def open(self) -> None:
        """End the runs of processes that died, now and from time to time."""
        await self._neighbours.open()

    async def close(self) -> None:
        """End what runs, store its end, close the sessions."""
        self._closing = True
        await self._neighbours.close()
        await self._end_jobs(list(self._jobs.values()), STOPPED)
        await self.invoker.close()

    async def submit(self, request: RunRequest, *, only_for_caller: bool = False) -> Accepted:
        """Store a message, and let its thread answer it when its turn comes.

        What is being stored is stored also when the caller is cancelled meanwhile, and then it is answered too.

        Args:
            request: What is asked.
            only_for_caller: A caller that is cancelled has the run cancelled with it.

        Raises:
            StorageError: It could not be stored; nothing will happen then.
            RuntimeFailureError: No such runtime, or no such model of it.
        """
        thread_id = request.thread_id or self._ids.new("thread")
        seen = self._neighbours.changed_ids
        # One after the other: the first message of a thread has to make it, and would be overtaken.
        async with self._entrances.setdefault(thread_id, asyncio.Lock()):
            thread = await self._thread(thread_id, request)
        if self._closing:
            raise InvocationError("everything is being closed; try again when it runs again")
        now, model = time.time(), request.model or thread.model or self._defaults.model
        runtime = self._defaults.runtime(request.runtime or thread.runtime, model)
        run = Run(
            id=self._ids.new("run"),
            thread_id=thread_id,
            prompt=request.prompt,
            created_at=now,
            owner=self.store.owner,
            agent=request.agent or thread.agent or self._defaults.agent,
            runtime=runtime.name,
            model=runtime.resolve(model),
        )
        message = self._message(run, "user", request.prompt, now)
        # It is known before it is stored: closing waits for it from here on.
        job = self._jobs[run.id] = Job(
            run=run, thread=thread, seen=seen, resume=request.session_id, cwd=request.cwd, timeout=request.timeout
        )
        try:
            accepted = await self.store.accept(
                message, run, idempotency_key=request.idempotency_key, events=[told(message, now)]
            )
        except asyncio.CancelledError:
            # Whether it is stored, its lane will see: it asks after this write.
            job.wanted_end = LEFT if only_for_caller else job.wanted_end
            self._lane(thread_id).add(job)
            raise
        except BaseException as error:
            if isinstance(error, StorageError):
                self._neighbours.doubt(run)
            self._drop(job)
            raise
        if not accepted.fresh:
            self._drop(job)
            return accepted
        self.log.publish(accepted.events)
        self._lane(thread_id).add(job)
        return accepted

    async def steer(self, request: RunRequest) -> Accepted:
        """Give a message to the invocation that runs in its thread; without one it is a message as any other."""
        key = request.idempotency_key
        if request.thread_id is not None and key is not None:
            used = await self.store.accepted(request.thread_id, key)
            if used is not None:
                return used
        lane = self._lanes.get(request.thread_id or "")
        job = lane.current if lane is not None else None
        if request.thread_id is None or job is None:
            return await self.submit(request)
        if not await self.invoker.steer(session_key(request.thread_id), request.prompt):
            return await self.submit(request)
        now = time.time()
        message = self._message(job.run, "user", request.prompt, now)
        accepted = await self.store.add_message(message, [told(message, now)], idempotency_key=key)
        if not accepted.fresh:
            logger.warning("run %s was told a message that another process took at the same time", job.run.id)
            return accepted
        self.log.publish(accepted.events)
        await self._observed(self._hooks.on_message(message.thread_id, "user", message.content))
        return accepted

    async def add_note(self, thread_id: str, content: str, *, kind: str = "text") -> Message:
        """Put a message of the system into a thread; nobody answers it. Raises NotFoundError for the thread."""
        now = time.time()
        message = Message(
            id=self._ids.new("msg"), thread_id=thread_id, role="system", content=content, created_at=now, kind=kind
        )
        self.log.publish((await self.store.add_message(message, [told(message, now)])).events)
        await self._observed(self._hooks.on_message(thread_id, "system", content))
        return message

    async def cancel(self, run_id: str) -> Run:
        """Ask for a run's end, and wait for it. One that has ended stays as it is.

        Raises:
            NotFoundError: No such run.
            InvocationError: Another process holds it.
        """
        job = self._jobs.get(run_id)
        if job is None:
            run = await self.store.run(run_id)
            if not run.ended:
                raise InvocationError(f"run {run_id!r} is held by another process, {run.owner}; cancel it there")
            return run
        self._end_job(job, "it was cancelled")
        return await asyncio.shield(job.ended)

    async def wait(self, run_id: str) -> Run:
        """Wait for a run's end, whichever process holds it.

        Raises:
            NotFoundError: No such run.
        """
        job = self._jobs.get(run_id)
        return await (self._neighbours.end_of(run_id) if job is None else asyncio.shield(job.ended))

    async def prewarm(self, thread_id: str) -> tuple[bool, str]:
        """Open a thread's session ahead of its next message: whether it is warm, and its runtime.

        Raises:
            NotFoundError: No such thread.
            RuntimeFailureError: No session can be had.
        """
        up_to_date = await self._neighbours.may_prewarm(thread_id)
        thread = await self.store.thread(thread_id)
        model = thread.model or self._defaults.model
        runtime = self._defaults.runtime(thread.runtime, model)
        if not up_to_date:
            return False, runtime.name
        request = self._session(
            thread,
            runtime,
            agent=thread.agent or self._defaults.agent,
            model=runtime.resolve(model),
            has_history=bool(await self.store.messages(thread_id, limit=1)),
        )
        return await self.invoker.prewarm(request), runtime.name

    async def delete_thread(self, thread_id: str) -> None:
        """End what runs in a thread, then delete it with all that is in it.

        Raises:
            NotFoundError: No such thread.
        """
        await self.store.thread(thread_id)
        await self._end_jobs([job for job in self._jobs.values() if job.run.thread_id == thread_id], DELETED)
        self.invoker.pool.evict(session_key(thread_id), outdated=True)
        await self.log.catch_up()  # who reads along learns how its runs ended
        await self.store.delete_thread(thread_id)

    async def recover(self) -> None:
        """End the runs of processes that are dead."""
        await self._neighbours.recover()

    async def _thread(self, thread_id: str, request: RunRequest) -> Thread:
        """The thread as it is stored, or as it would be."""
        try:
            return await self.store.thread(thread_id)
        except NotFoundError:
            model = request.model or self._defaults.model
            self._defaults.runtime(request.runtime, model).resolve(model)  # refused before anything is stored
            title = " ".join(request.prompt.split())
            title = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
            thread = Thread(id=thread_id, created_at=time.time(), title=title)
            await self.store.create_thread(thread)
            return thread

    def _end_job(self, job: Job, why: str) -> None:
        lane = self._lanes.get(job.run.thread_id)
        if lane is not None:
            lane.end_job(job, why)
        job.wanted_end = job.wanted_end or why  # one that is still being stored is in no lane yet

    async def _end_jobs(self, jobs: Sequence[Job], why: str) -> None:
        for job in jobs:
            self._end_job(job, why)
        if jobs:
            await asyncio.wait([job.ended for job in jobs])

    def _drop(self, job: Job) -> None:
        """Forget a job that was not stored."""
        del self._jobs[job.run.id]
        job.ended.cancel()

    def _lane(self, thread_id: str) -> Lane:
        lane = self._lanes.get(thread_id)
        if lane is None:
            lane = self._lanes[thread_id] = Lane(self._perform, partial(self._forget_lane, thread_id))
        return lane

    def _message(self, run: Run, role: Role, content: str, now: float) -> Message:
        return Message(
            id=self._ids.new("msg"),
            thread_id=run.thread_id,
            role=role,
            content=content,
            created_at=now,
            run_id=run.id,
        )

    def _forget_lane(self, thread_id: str) -> None:
        del self._lanes[thread_id]

    async def _perform(self, job: Job) -> bool:
        """One run, from its turn to its end; never raises, also when it is cancelled. False: others go first."""
        try:
            ending = await self._invoke(job)
        except asyncio.CancelledError:
            ending = ended("cancelled", "cancelled", job.wanted_end or "it was cancelled")
        except TimedOutError as error:
            ending = ended("timeout", "timeout", str(error))
        except InvocationError as error:
            ending = ended("failed", code_of(error), str(error))
        except StorageError as error:
            ending = ended("failed", "storage", str(error))
        except Exception:
            crash = f"run_crash_{secrets.token_hex(4)}"
            logger.exception("crash %s: run %s", crash, job.run.id)
            ending = ended("failed", "crash", f"something went wrong inside ({crash}); the log has the details")
        if ending is None:
            return False
        job.ending = True
        await self._finish(job, ending)
        return True

    async def _invoke(self, job: Job) -> Ending | None:
        run = job.run
        if job.wanted_end is not None:
            return ended("cancelled", "cancelled", job.wanted_end)
        beginning = await self._neighbours.begin(job, self._lane(run.thread_id))
        if isinstance(beginning, Behind):
            return None
        if beginning is None:
            return ended("cancelled", "cancelled", "somebody else gave it an end")
        run = job.run
        self.log.publish(beginning.events)
        await self._observed(self._hooks.on_message(run.thread_id, "user", run.prompt))
        folder = None if job.cwd is None else self._defaults.cwd / job.cwd
        caller = Caller(thread_id=run.thread_id, run_id=run.id, agent_id=run.agent, cwd=folder)
        outcome = await self.invoker.invoke(
            Invocation(
                prompt=run.prompt,
                session=await self._request_of(job),
                caller=caller,
                tell=partial(self._tell, job, caller),
                call_tool=self._call,
                own_tools=self._own_tools,
                timeout=job.timeout if job.timeout is not None else self._defaults.timeout,
            ),
            before=partial(self._before, run),
            on_session_id=partial(_note_session, job),
        )
        answer = outcome.answer
        return completed(run, answer, self._message(run, "assistant", answer.text, time.time()))

    def _tell(self, job: Job, caller: Caller, type: str, data: Mapping[str, Any]) -> None:
        if type == "usage":
            job.used += used(data)
        self.log.emit(type, data, caller)

    async def _finish(self, job: Job, ending: Ending) -> None:
        """Store a run's end with everything it told before; then whoever waits for it is told."""
        run = job.run
        last = last_event(run, ending)
        if ending.usage is None:
            ending = structs.replace(ending, usage=job.used)
        if job.session is not None:
            ending = structs.replace(ending, session_id=kept_id(run.runtime, job.session[0]))
        least = structs.replace(ending, events=[*ending.events, *([last] if last is not None else [])])
        ending = structs.replace(least, events=[*await self.log.take(run.id), *least.events])
        ended = ending.given_to(run)
        failures = 0
        while True:
            try:
                events = await self._store_end(job, ending)
                if events is None:
                    ended = await self.store.run(run.id)  # somebody else gave it its end
                break
            except NotFoundError:  # it is gone with its thread
                events = None
                break
            except StorageError as error:
                if self._closing and failures:
                    logger.exception("the end of run %s could not be stored; it will be found as lost", run.id)
                    events = None
                    break
                logger.warning("the end of run %s waits for the database: %s", run.id, error)
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
            except Exception:
                logger.exception("run %s told something that cannot be stored", run.id)
                if ending is least:
                    self._neighbours.doubt(run)
                    events = None
                    break
                ending = least
        del self._jobs[run.id]
        self._neighbours.changed_ids += (
            job.session is not None
        )  # only now: whoever read the thread before must look again
        if events is not None:
            self.log.publish(events)
            await self._after(ended)
        job.ended.set_result(ended)

    async def _store_end(self, job: Job, ending: Ending) -> list[Event] | None:
        if job.session is not None and ending.session_id is None:
            await self.store.update_thread(job.run.thread_id, session_id=None)
        return await self.store.end_run(job.run.id, ending)

    async def _after(self, run: Run) -> None:
        hooks = self._hooks
        if run.result is not None:
            await self._observed(hooks.on_message(run.thread_id, "assistant", run.result))
        await self._observed(hooks.on_after_invoke(run.thread_id, run))
        await self._observed(hooks.on_broadcast(end_type(run.status), run.to_json()))

    async def _observed(self, hook: Awaitable[None]) -> None:
        """Let somebody watch: whatever comes of that, the run goes on."""
        try:
            await hook
        except Exception:
            logger.exception("a hook failed; the run goes on without it")

    async def _before(self, run: Run, prompt: str, warmth: Warmth) -> str:
        about = Invoking(run_id=run.id, agent=run.agent, model=run.model, runtime=run.runtime, session=warmth)
        return await self._hooks.on_before_invoke(run.thread_id, prompt, about)

    async def _call(
        self, caller: Caller, name: str, input: Mapping[str, Any], *, call_id: str | None = None
    ) -> ToolResult:
        try:
            return await self._call_tool(name, input, structs.replace(caller, call_id=call_id) if call_id else caller)
        except UnknownToolError as error:
            return ToolResult.error(str(error))

    async def _request_of(self, job: Job) -> SessionRequest:
        run, thread = job.run, job.thread
        if job.seen != self._neighbours.changed_ids:
            thread = await self.store.thread(run.thread_id)
        has_history = thread.session_id is not None or len(await self.store.messages(run.thread_id, limit=2)) > 1
        return self._session(
            thread,
            self._defaults.runtime(run.runtime),
            agent=run.agent,
            model=run.model,
            cwd=job.cwd,
            resume=job.resume,
            has_history=has_history,
        )

    def _session(
        self,
        thread: Thread,
        runtime: Runtime,
        *,
        agent: str,
        model: str,
        has_history: bool,
        cwd: str | None = None,
        resume: str | None = None,
    ) -> SessionRequest:
        """The session of a thread: the one place where prewarming and invoking say what they want."""
        folder = self._defaults.cwd if cwd is None else self._defaults.cwd / cwd
        return SessionRequest(
            runtime=runtime,
            spec=SessionSpec(agent=agent, model=model, cwd=folder, tools=self._defaults.tools()),
            thread_id=thread.id,
            resume=resume or resumable(thread.session_id, runtime.name),
            has_history=has_history,
        )


async def watched_run(
    orchestrator: Orchestrator, log: EventLog, request: RunRequest, on_event: Callable[[Event], object] | None
) -> Run:
    """Submit a request and wait for its end; every event of the run is told, in order. Cancelling cancels the run."""
    with log.stream() if on_event is not None else nullcontext() as stream:
        accepted = await orchestrator.submit(request, only_for_caller=True)
        try:
            if stream is not None and on_event is not None:
                async for event in stream:
                    if event.run_id == accepted.run_id:
                        on_event(event)
                        if event.type in LAST_EVENTS:
                            break
            return await orchestrator.wait(accepted.run_id)
        except asyncio.CancelledError:
            await orchestrator.cancel(accepted.run_id)
            raise


def _note_session(job: Job, session_id: str | None) -> None:
    job.session = (session_id,)
