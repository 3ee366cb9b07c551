"""The orchestrator: a message in, an answer out, everything stored on the way.

message → on_message → take the session → on_before_invoke → invoke → stored answer →
on_after_invoke → broadcast. One invocation at a time for each thread, in order of arrival, many
threads at once. A run has exactly one end, and it is stored with its answer and its last events in
one commit. Above: the doors. Below: the invoker, the store port, the event log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from toolyard.errors import (
    InvocationError,
    NotFoundError,
    StorageError,
    TimedOutError,
    UnknownToolError,
)
from toolyard.invoker.invoker import Invocation, Invoker
from toolyard.invoker.key import session_key
from toolyard.invoker.pool import SessionRequest
from toolyard.invoker.runtime import Runtime, SessionSpec, Warmth
from toolyard.orchestrator.endings import begun, code_of, completed, ended, last_event, lost, told
from toolyard.orchestrator.event_log import EventLog
from toolyard.orchestrator.hooks import Invoking, MessageHooks, NoHooks
from toolyard.orchestrator.ids import Ids
from toolyard.orchestrator.lane import Job, Lane
from toolyard.orchestrator.store import Accepted, Ending, Store
from toolyard.types.call import Caller
from toolyard.types.event import Event
from toolyard.types.result import ToolResult
from toolyard.types.run import Run, Usage
from toolyard.types.thread import Message, Role, Thread

logger = logging.getLogger(__name__)

RECOVER_SECONDS = 10.0
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)
LONGEST_TITLE = 80
LAST_EVENTS = frozenset({"completed", "error", "cancelled"})
"""A run's stream ends with exactly one of these."""


class CallTool(Protocol):
    """The dispatcher's way to call a tool."""

    async def __call__(self, name: str, input: Mapping[str, Any] | None, caller: Caller) -> ToolResult:
        """Raises UnknownToolError; every other failure is a result."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a run takes when neither it nor its thread says otherwise.

    Attributes:
        runtime: Finds a runtime by its name; an empty one means the settings' choice. It raises
            RuntimeFailureError for one that cannot be had.
        tools: The names of the tools that are offered now.
    """

    agent: str
    model: str
    cwd: Path
    timeout: float
    runtime: Callable[[str], Runtime]
    tools: Callable[[], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for. Everything but the prompt may be left to the thread and the settings."""

    prompt: str
    thread_id: str | None = None
    session_id: str | None = None
    agent: str = ""
    model: str = ""
    runtime: str = ""
    cwd: str | None = None
    timeout: float | None = None
    idempotency_key: str | None = None


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
        hooks: MessageHooks | None = None,
    ) -> None:
        self.store = store
        self.invoker = invoker
        self.log = log
        self._call_tool = call_tool
        self._defaults = defaults
        self._hooks = hooks or NoHooks()
        self._ids = Ids()
        self._lanes: dict[str, Lane] = {}
        self._jobs: dict[str, Job] = {}
        self._closing = False
        self._recovering: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """End the runs of processes that died, now and from time to time."""
        await self.recover()
        self._recovering = asyncio.create_task(self._recover_again(), name="toolyard-recovery")

    async def close(self) -> None:
        """End what runs, store its end, close the sessions."""
        self._closing = True
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
        lanes = tuple(self._lanes.values())
        for lane in lanes:
            lane.end("the process that ran it was stopped")
        await asyncio.gather(*(lane.ended() for lane in lanes))
        await self.invoker.close()

    async def submit(self, request: RunRequest) -> Accepted:
        """Store a message, and let its thread answer it when its turn comes.

        Raises:
            StorageError: It could not be stored; nothing will happen then.
            RuntimeFailureError: No such runtime.
        """
        if self._closing:
            raise InvocationError("everything is being closed; try again when it runs again")
        thread_id = request.thread_id or self._ids.new("thread")
        thread = await self._thread(thread_id, request)
        now = time.time()
        run = Run(
            id=self._ids.new("run"),
            thread_id=thread_id,
            prompt=request.prompt,
            created_at=now,
            owner=self.store.owner,
            agent=request.agent or thread.agent or self._defaults.agent,
            runtime=self._defaults.runtime(request.runtime or thread.runtime).name,
            model=request.model or thread.model or self._defaults.model,
        )
        message = self._message(run, "user", request.prompt, now)
        accepted = await self.store.accept(
            message, run, idempotency_key=request.idempotency_key, events=[told(message, now)]
        )
        if accepted.fresh:
            self.log.publish(accepted.events)
            job = Job(run=run, resume=request.session_id, cwd=request.cwd, timeout=request.timeout)
            self._jobs[run.id] = job
            self._lane(thread_id).add(job)
        return accepted

    async def steer(self, request: RunRequest) -> Accepted:
        """Give a message to the invocation that runs in its thread; without one it is a message as any other."""
        lane = self._lanes.get(request.thread_id or "")
        job = lane.current if lane is not None else None
        if request.thread_id is None or job is None:
            return await self.submit(request)
        if not await self.invoker.steer(session_key(request.thread_id), request.prompt):
            return await self.submit(request)
        now = time.time()
        message = self._message(job.run, "user", request.prompt, now)
        self.log.publish(await self.store.add_message(message, [told(message, now)]))
        return Accepted(message_id=message.id, run_id=job.run.id, fresh=True)

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
        self._lane(job.run.thread_id).end_job(job, "it was cancelled")
        return await asyncio.shield(job.ended)

    async def wait(self, run_id: str) -> Run:
        """Wait for a run's end.

        Raises:
            NotFoundError: No such run.
        """
        job = self._jobs.get(run_id)
        return await (self.store.run(run_id) if job is None else asyncio.shield(job.ended))

    async def prewarm(self, thread_id: str) -> tuple[bool, str]:
        """Open a thread's session ahead of its next message: whether it is warm, and its runtime.

        Raises:
            NotFoundError: No such thread.
            RuntimeFailureError: No session can be had.
        """
        thread = await self.store.thread(thread_id)
        runtime = self._defaults.runtime(thread.runtime)
        request = self._session(
            thread,
            runtime,
            agent=thread.agent or self._defaults.agent,
            model=thread.model or self._defaults.model,
            has_history=bool(await self.store.messages(thread_id, limit=1)),
        )
        return await self.invoker.prewarm(request), runtime.name

    async def delete_thread(self, thread_id: str) -> None:
        """End what runs in a thread, then delete it with all that is in it.

        Raises:
            NotFoundError: No such thread.
        """
        await self.store.thread(thread_id)
        if (lane := self._lanes.get(thread_id)) is not None:
            lane.end("its thread was deleted")
            await lane.ended()
        self.invoker.pool.evict(session_key(thread_id))
        await self.store.delete_thread(thread_id)

    async def recover(self) -> None:
        """End the runs of processes that are dead."""
        for run, events in await self.store.recover(lost):
            logger.warning("run %s was lost with its process %s", run.id, run.owner)
            self.log.publish(events)

    async def _recover_again(self) -> None:
        while True:
            await asyncio.sleep(RECOVER_SECONDS)
            try:
                await self.recover()
            except StorageError as error:
                logger.warning("runs of dead processes could not be looked for: %s", error)

    async def _thread(self, thread_id: str, request: RunRequest) -> Thread:
        """The thread as it is stored, or as it would be."""
        try:
            return await self.store.thread(thread_id)
        except NotFoundError:
            title = " ".join(request.prompt.split())
            title = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
            thread = Thread(id=thread_id, created_at=time.time(), title=title)
            await self.store.create_thread(thread)
            return thread

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

    async def _perform(self, job: Job) -> None:
        """One run, from its turn to its end; never raises."""
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
        task = asyncio.create_task(self._finish(job, ending), name=f"toolyard-end-{job.run.id}")
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:  # too late to end it: it has its end
                continue

    async def _invoke(self, job: Job) -> Ending:
        run = job.run
        if job.wanted_end is not None:
            return ended("cancelled", "cancelled", job.wanted_end)
        await self._hooks.on_message(run.thread_id, "user", run.prompt)
        started = time.time()
        events = await self.store.begin_run(run.id, started, [begun(run, started)])
        if events is None:
            return ended("cancelled", "cancelled", "somebody else gave it an end")
        job.run = run = replace(run, status="running", started_at=started)
        self.log.publish(events)
        thread = await self.store.thread(run.thread_id)
        caller = Caller(thread_id=run.thread_id, run_id=run.id, agent_id=run.agent)
        outcome = await self.invoker.invoke(
            Invocation(
                prompt=run.prompt,
                session=await self._request_of(job, thread),
                caller=caller,
                tell=partial(self.log.emit, caller=caller),
                call_tool=partial(self._call, caller),
                timeout=job.timeout if job.timeout is not None else self._defaults.timeout,
            ),
            before=partial(self._before, run),
            on_session_id=partial(_note_session, job),
        )
        answer = outcome.answer
        return completed(run, answer, self._message(run, "assistant", answer.text, time.time()))

    async def _finish(self, job: Job, ending: Ending) -> None:
        """Store a run's end with everything it told before; then whoever waits for it is told."""
        run = job.run
        last = last_event(run, ending)
        said = [*self.log.take(run.id), *ending.events, *([last] if last is not None else [])]
        ending = replace(ending, events=said)
        failures = 0
        while True:
            try:
                if job.session is not None:
                    kept = _kept_id(run.runtime, job.session[0])
                    await self.store.update_thread(run.thread_id, session_id=kept)
                events = await self.store.end_run(run.id, ending)
                break
            except StorageError as error:
                logger.warning("the end of run %s waits for the database: %s", run.id, error)
                if self._closing and failures:
                    events = None
                    break
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
        ended = replace(
            run,
            status=ending.status,
            ended_at=ending.ended_at,
            result=ending.result,
            error=ending.error,
            usage=ending.usage or Usage(),
        )
        del self._jobs[run.id]
        if events is not None:
            self.log.publish(events)
            await self._after(ended)
        job.ended.set_result(ended)

    async def _after(self, run: Run) -> None:
        try:
            if run.result is not None:
                await self._hooks.on_message(run.thread_id, "assistant", run.result)
                await self._hooks.on_after_invoke(run.thread_id, run.result)
            await self._hooks.on_broadcast("run.ended", run.to_json())
        except Exception:
            logger.exception("hooks after run %s failed", run.id)

    async def _before(self, run: Run, prompt: str, warmth: Warmth) -> str:
        about = Invoking(run_id=run.id, agent=run.agent, model=run.model, runtime=run.runtime, session=warmth)
        return await self._hooks.on_before_invoke(run.thread_id, prompt, about)

    async def _call(
        self, caller: Caller, name: str, input: Mapping[str, Any], *, call_id: str | None = None
    ) -> ToolResult:
        try:
            return await self._call_tool(name, input, replace(caller, call_id=call_id) if call_id else caller)
        except UnknownToolError as error:
            return ToolResult.error(str(error))

    async def _request_of(self, job: Job, thread: Thread) -> SessionRequest:
        run = job.run
        earlier = await self.store.messages(run.thread_id, limit=2)
        return self._session(
            thread,
            self._defaults.runtime(run.runtime),
            agent=run.agent,
            model=run.model,
            cwd=job.cwd,
            resume=job.resume,
            has_history=len(earlier) > 1,
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
            resume=resume or _resumable(thread.session_id, runtime.name),
            has_history=has_history,
        )


async def watched_run(
    orchestrator: Orchestrator, log: EventLog, request: RunRequest, on_event: Callable[[Event], object] | None
) -> Run:
    """Submit a request and wait for its end; every event of the run is told, in order. Cancelling cancels the run."""
    with log.stream() if on_event is not None else nullcontext() as stream:
        accepted = await orchestrator.submit(request)
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


def _kept_id(runtime: str, session_id: str | None) -> str | None:
    """A session's id as a thread keeps it: it means something to its own runtime only."""
    return None if session_id is None else f"{runtime}:{session_id}"


def _resumable(kept: str | None, runtime: str) -> str | None:
    owner, _, session_id = (kept or "").partition(":")
    return session_id if session_id and owner == runtime else None
