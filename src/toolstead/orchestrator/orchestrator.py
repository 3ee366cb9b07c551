"""The orchestrator: a message in, an answer out, everything stored on the way.

One run at a time for each thread, in order of arrival, many threads at once, whichever processes share the
database. Its parts: `performer` takes a run from its place in line to its end, `commands` reaches runs of other
processes, `recovery` ends those of dead ones, `freshness` keeps warm sessions up to date.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from weakref import WeakValueDictionary

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.delegation.run_context import RunContext
from toolstead.delegation.run_share import ENVELOPE, RunShare
from toolstead.errors import InvocationError, NotFoundError, StorageError
from toolstead.invoker.clock import REAL_CLOCK, Clock
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.runtime_calls import OwnFor
from toolstead.orchestrator.commands import RunCommands
from toolstead.orchestrator.endings import create_message_event
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.freshness import SessionFreshness
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.parts import ActiveRun, ActiveRuns, OrchestratorParts
from toolstead.orchestrator.performer import RunPerformer
from toolstead.orchestrator.recovery import Recovery
from toolstead.orchestrator.request import AgentConfigs, RunConfig, RunRequest
from toolstead.orchestrator.store import Accepted, RunCommand, Store
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.handlers.secrets import Mask
from toolstead.types.call import CallTool
from toolstead.types.event import Event
from toolstead.types.run import Run, RunEnd, TreeLimits
from toolstead.types.task import TreeBudget
from toolstead.types.thread import Message, Thread

logger = logging.getLogger(__name__)

LONGEST_TITLE = 80
KERNEL = "kernel"
"""The runtime that reserves before each request; the others have an envelope for a turn."""
NO_LIMIT = 10**12
MOST_WAITING = 1_000
"""When so many messages wait already, the next one waits too instead of steering a run of another process."""
CANCELLED = "it was cancelled"
STOPPED = "the process that ran it was stopped"
DELETED = "its thread was deleted"
LEFT = "its caller left before it was stored"
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
        agents: AgentConfigs,
        hooks: HookRunner,
        own_tools: OwnFor | None = None,
        find_mask: Callable[[], Mask] = Mask,
        clock: Clock = REAL_CLOCK,
        ids: Ids | None = None,
    ) -> None:
        self.store, self.log, self.invoker = store, log, invoker
        self._parts = parts = OrchestratorParts(
            store=store,
            log=log,
            invoker=invoker,
            call_tool=call_tool,
            own_tools=own_tools,
            find_mask=find_mask,
            agents=agents,
            hooks=hooks,
            clock=clock,
            ids=ids or Ids(),
        )
        self.agents, self._active = agents, parts.active
        self.on_task_text: Callable[[str, str], None] | None = None
        """Called with a task's id and each piece of text that its agent says in this process."""
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._steering = OwnedTasks()
        self._recovery = Recovery(parts)
        self._freshness = SessionFreshness(store, invoker.pool)
        self._performer = RunPerformer(parts, self._recovery, self._freshness, self._pass_text_on)
        self._commands = RunCommands(parts, self._performer, self._recovery)

    @property
    def runs(self) -> ActiveRuns:
        """The runs that this process owns."""
        return self._active

    @property
    def project(self) -> str:
        """The folder of the project, as threads name it."""
        return str(self.agents.cwd)

    async def open(self) -> None:
        """End the runs of dead processes, now and periodically; poll for commands to our own runs."""
        await self._recovery.open()
        self._commands.open()

    async def close(self) -> None:
        """End the open runs as `stopped`, store their ends, close the sessions."""
        self._performer.is_closing = True
        await self._recovery.close()
        await self._commands.close()
        await self._steering.end_all()
        await self._end_runs(list(self._active.values()), "stopped", STOPPED)
        await self.invoker.close()

    async def submit(self, request: RunRequest, *, only_for_caller: bool = False) -> Accepted:
        """Store a message, and start its run when the earlier runs of the thread have ended.

        A message that is being stored is stored and answered even when the caller is cancelled meanwhile.

        Args:
            request: What is asked.
            only_for_caller: A caller that is cancelled has the run cancelled with it.

        Raises:
            StorageError: It could not be stored, and no run is started.
            UnknownAgentError: No such agent.
            RuntimeFailureError: No such runtime, or no such model of it.
            LimitError: It is a child, and its parent's limits allow no more.
            NotFoundError: The thread must exist, and does not.
            StaleClaimError: It works on a task that another process holds, or that has ended.
        """
        thread_id = request.thread_id or self._parts.ids.new_id("thread")
        # Reads end in any order, but concurrent messages must be stored in order of arrival.
        async with self._reading.setdefault(thread_id, asyncio.Lock()):
            thread = await self._find_thread(thread_id, request)
            if request.parent_run_id is None:
                await self.agents.check_agent(
                    request.agent or thread.agent,
                    model=request.model or thread.model,
                    runtime=request.runtime or thread.runtime,
                )
        if self._performer.is_closing:
            raise InvocationError("Toolstead is shutting down; try again after the restart")
        active = self._create_run(thread, request)
        run = active.run
        # It is registered before it is stored: closing waits for it from here on.
        self._active.add(active)
        try:
            accepted = await self._store_run(active, thread)
        except asyncio.CancelledError:
            # `begin_run` finds out whether it was stored: that write comes after this one.
            if only_for_caller:
                active.request_end("cancelled", LEFT)
            self._performer.start(active)
            raise
        except BaseException as error:
            if isinstance(error, StorageError):
                self._recovery.note_doubtful(run)
            self._drop_run(active)
            raise
        if accepted.fresh:
            active.context.share.take_grant(accepted.share)
            self._performer.start(active)
        else:
            self._drop_run(active)
        return accepted

    async def _store_run(self, active: ActiveRun, thread: Thread) -> Accepted:
        run, request = active.run, active.request
        has_words = not request.is_woken and request.answers is None
        message = self._performer.create_message(run, "user", request.prompt, run.created_at, kind=request.kind)
        events = [create_message_event(message)] if has_words else []
        if request.claim is None and not request.is_woken:
            return await self.store.accept_message(
                message,
                run,
                thread=thread,
                idempotency_key=request.idempotency_key,
                limits=self._limits_of_parent(active),
                events=events,
            )
        return await self.store.accept_run(
            run,
            thread=thread,
            key=request.idempotency_key or run.id,
            message=message if has_words else None,
            answers=request.answers,
            claim=request.claim,
            wish=None if run.runtime == KERNEL else ENVELOPE,
            events=events,
        )

    async def steer(self, request: RunRequest) -> Accepted:
        """Give a message to the turn that runs in its thread, in any process; without one, submit it as usual.

        Returns when that is decided. Cancelling the caller does not stop it.
        """
        return await asyncio.shield(self._steering.start(self._steer(request), name="toolstead-steer"))

    async def add_note(self, thread_id: str, content: str, *, kind: str = "text") -> Message:
        """Put a system message into a thread, without a run. Raises NotFoundError for the thread."""
        message = Message(
            id=self._parts.ids.new_id("msg"),
            thread_id=thread_id,
            role="system",
            content=content,
            created_at=self._parts.clock.now(),
            kind=kind,
        )
        await self.store.add_message(message, [create_message_event(message)])
        await self._performer.run_observer(self._parts.hooks.on_message(thread_id, "system", content))
        return message

    async def cancel(self, run_id: str, why: str = CANCELLED) -> Run:
        """Cancel a run of any process, and wait for its end. One that has ended is unchanged.

        Raises:
            NotFoundError: No such run.
        """
        active = self._active.get(run_id)
        if active is not None:
            active.request_end("cancelled", why)
            return await asyncio.shield(active.ended)
        run = await self.store.read_run(run_id)
        if run.has_ended:
            return run
        await self.store.add_command(
            RunCommand(
                id=self._parts.ids.new_id("cancel"),
                run_id=run_id,
                kind="cancel",
                text=why,
                created_at=self._parts.clock.now(),
            )
        )
        return await self._recovery.wait_for_end(run_id)

    def has_waiting_run(self, thread_id: str) -> bool:
        """Whether a run of this process waits for its turn in a thread."""
        return any(
            active.run.thread_id == thread_id and active.run.started_at is None for active in self._active.values()
        )

    def _pass_text_on(self, task_id: str, text: str) -> None:
        if self.on_task_text is not None:
            self.on_task_text(task_id, text)

    def find_context(self, run_id: str) -> RunContext | None:
        """What delegation knows of a run that this process performs."""
        active = self._active.get(run_id)
        return None if active is None else active.context

    async def stop_run(self, run_id: str) -> None:
        """End a run of this process as `stopped`, so that another process repeats its work."""
        if (active := self._active.get(run_id)) is not None:
            active.request_end("stopped", STOPPED)
            await asyncio.wait((active.ended,))

    async def wait(self, run_id: str) -> Run:
        """Wait for the end of a run of any process.

        Raises:
            NotFoundError: No such run.
        """
        active = self._active.get(run_id)
        return await (self._recovery.wait_for_end(run_id) if active is None else asyncio.shield(active.ended))

    async def prewarm(self, thread_id: str) -> tuple[bool, str]:
        """Open a thread's session ahead of its next message; return whether it is warm, and its runtime.

        Raises:
            NotFoundError: No such thread.
            RuntimeFailureError: No session is available.
        """
        is_fresh = await self._freshness.may_prewarm(thread_id)
        thread = await self.store.read_thread(thread_id)
        config = self.agents.resolve_agent(thread.agent, model=thread.model, runtime=thread.runtime)
        runtime = config.runtime
        if not is_fresh:
            return False, runtime.name
        request = self._performer.request_session(
            thread_id,
            config,
            stored=thread.session_id,
            may_spawn=config.tree.max_depth > 0,
            has_history=bool(await self.store.list_messages(thread_id, limit=1)),
        )
        return await self.invoker.pool.prewarm(request), runtime.name

    async def delete_thread(self, thread_id: str) -> None:
        """End the runs of a thread and of those below it in all processes, then delete them with everything in them.

        Raises:
            NotFoundError: No such thread.
        """
        await self.store.read_thread(thread_id)
        for one in await self.store.list_thread_tree(thread_id):  # its own run first: it starts no more below it
            ours = [active for active in self._active.values() if active.run.thread_id == one]
            await self._end_runs(ours, "cancelled", DELETED)
            others = await self.store.list_runs(thread_id=one, unfinished=True, limit=MOST_WAITING)
            await asyncio.gather(*(self.cancel(run.id, DELETED) for run in others))
            self._freshness.mark_outdated(one)
        await self.log.catch_up()  # readers get the ends of its runs
        await self.store.delete_thread(thread_id)

    async def _find_thread(self, thread_id: str, request: RunRequest) -> Thread:
        """The stored thread, or the one that its first message will create."""
        try:
            if request.is_new_thread:
                raise NotFoundError("thread", thread_id)
            return await self.store.read_thread(thread_id)
        except NotFoundError:
            if request.thread_must_exist:
                raise
            title = " ".join(request.prompt.split())
            title = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
            of_user = request.parent_thread_id is None  # what it was begun with goes on; a task says so every time
            return Thread(
                id=thread_id,
                created_at=self._parts.clock.now(),
                title=title,
                agent=request.agent if of_user else "",
                runtime=request.runtime if of_user else "",
                model=request.model if of_user else "",
                parent_thread_id=request.parent_thread_id,
                project=self.project,
            )

    def _create_run(self, thread: Thread, request: RunRequest) -> ActiveRun:
        """The run that will answer a request. Raises UnknownAgentError and RuntimeFailureError."""
        config = self.agents.resolve_agent(
            request.agent or thread.agent,
            model=request.model or thread.model,
            runtime=request.runtime or thread.runtime,
            is_child=request.parent_run_id is not None,
        )
        parent = self._active.get(request.parent_run_id or "")
        run = Run(
            id=self._parts.ids.new_id("run"),
            thread_id=thread.id,
            prompt=request.prompt,
            created_at=self._parts.clock.now(),
            owner=self.store.owner,
            agent=config.agent,
            runtime=config.runtime.name,
            model=config.model,
            parent_run_id=request.parent_run_id,
            parent_agent=request.parent_agent,
            root_run_id=request.root_run_id,
            task_id=request.task_id,
            depth=request.depth,
            attempt=request.attempt,
            profile=request.profile,
        )
        limits = config.tree if parent is None else parent.context.limits.limit_child(config.tree)
        return ActiveRun(run=run, request=request, context=self._create_context(run, request, config, limits, parent))

    def _create_context(
        self, run: Run, request: RunRequest, config: RunConfig, limits: TreeLimits, parent: ActiveRun | None
    ) -> RunContext:
        def stop_at_budget(limit: str, why: str) -> None:
            if (active := self._active.get(run.id)) is not None:
                logger.warning("run %s is ended at its budget (%s): %s", run.id, limit, why)
                active.request_end("failed", why, code="budget")

        root = run.root_run_id or run.id
        seconds = request.timeout if request.timeout is not None else config.timeout
        return RunContext(
            run=run,
            limits=limits,
            share=RunShare(
                run_id=run.id,
                root_run_id=root,
                budget=TreeBudget(
                    root_run_id=root,
                    token_budget=NO_LIMIT if config.turn.tokens is None else config.turn.tokens,
                    cost_budget=NO_LIMIT if config.turn.cost is None else config.turn.cost,
                ),
                is_shared=request.belongs_to_tree or (parent is not None and parent.context.share.is_shared),
                store=self.store,
                clock=self._parts.clock,
                on_exhausted=stop_at_budget,
            ),
            deadline=run.created_at + seconds,
            claim=request.claim,
            turn=request.turn,
            last_event=self._parts.clock.monotonic(),
            above=None if parent is None else parent.context,
        )

    def _limits_of_parent(self, active: ActiveRun) -> TreeLimits | None:
        """What the run's parent may start; None for a run without one, and for another try of a child's work."""
        run = active.run
        if run.parent_run_id is None or run.attempt > 1:
            return None
        parent = self._active.get(run.parent_run_id)
        return (parent or active).context.limits

    async def _steer(self, request: RunRequest) -> Accepted:
        thread_id, key = request.thread_id, request.idempotency_key
        if thread_id is None:
            return await self.submit(request)
        if key is not None and (used := await self.store.find_accepted(thread_id, key)) is not None:
            return used
        active = self._active.running.get(thread_id)
        if active is not None:
            now = self._parts.clock.now()
            message = self._performer.create_message(active.run, "user", request.prompt, now, kind=request.kind)
            return await self._commands.give_message(active, message, key=key) or await self.submit(request)
        unfinished = await self.store.list_runs(thread_id=thread_id, unfinished=True, limit=MOST_WAITING)
        for run in unfinished:
            if run.status == "running" and run.owner != self.store.owner:
                is_signal = request.kind == "signal"
                sent = await self._commands.send_steer(run, request.prompt, key, is_signal=is_signal)
                return sent or await self.submit(request)
        return await self.submit(request)

    async def _end_runs(self, runs: Sequence[ActiveRun], status: RunEnd, why: str) -> None:
        for active in runs:
            active.request_end(status, why)
        if runs:
            await asyncio.wait([active.ended for active in runs])

    def _drop_run(self, active: ActiveRun) -> None:
        """Forget a run that was not stored."""
        self._active.remove(active)
        active.ended.cancel()


async def watched_run(
    orchestrator: Orchestrator, log: EventLog, request: RunRequest, on_event: Callable[[Event], object] | None
) -> Run:
    """Submit a request and wait for its end; emit every event of the run, in order. Cancelling cancels the run."""
    with log.open_stream() if on_event is not None else nullcontext() as stream:
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
