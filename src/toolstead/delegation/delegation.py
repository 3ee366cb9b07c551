"""Delegation: hands work to sub-agents, and sees to it that each task ends in exactly one outcome.

Its parts: `admission` decides what may start, `attempts` works on one task, `sweep` takes up what nobody works on,
`run_share` and `budget` bound what a tree may use. Tools, REST and plugins are thin layers above this.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from msgspec import structs

from toolstead.concurrency.owned_tasks import OwnedTasks, finish_despite_cancellation
from toolstead.delegation.attempts import DelegationTerms, TaskAttempts
from toolstead.delegation.engine import Engine
from toolstead.delegation.order import Order, name_order
from toolstead.delegation.outages import outlast_outage
from toolstead.delegation.review import ReviewTask
from toolstead.delegation.run_context import RunContext
from toolstead.delegation.sweep import TaskSweep
from toolstead.delegation.task_runs import TaskRuns
from toolstead.delegation.task_store import AdmissionRequest, Admitted, Refusal, TasksEnded, TaskStore
from toolstead.errors import NotFoundError, RefusedError, StorageError
from toolstead.invoker.clock import Clock
from toolstead.types.call import Caller
from toolstead.types.run import TreeLimits
from toolstead.types.task import SUCCESSES, Task, TaskMode, TreeBudget

logger = logging.getLogger(__name__)

NO_PARENT = "nobody delegated this work: there is no parent to report to"
NO_CAP = 10**9
POLL_SECONDS = 0.2
"""How often a task of another process is looked at by whoever waits for it."""
_Wake = tuple[str, str | None, str | None]
"""The thread, the run and the task that delegated: results of the same are the same to whoever is woken."""
CANCEL_SECONDS = 1.0
"""How long cancelling waits for the runs of the cancelled tasks to end."""


class TaskHooks(Protocol):
    """Plugins that are told of tasks; `plugins/hook_runner.py` has them."""

    async def on_task_create(self, thread_id: str, task_id: str) -> None:
        """Work was delegated, and has not begun."""
        ...

    async def on_task_failed(self, thread_id: str, task_id: str, error: str) -> None:
        """It ended without a result."""
        ...


class MakeId(Protocol):
    """Makes ids; see `orchestrator/ids.py`."""

    def new_id(self, kind: str) -> str:
        """An id such as `task_…`."""
        ...


class Delegation:
    """Delegated work of one project. `open` it before, `close` it after."""

    def __init__(
        self,
        *,
        store: TaskStore,
        runs: TaskRuns,
        engine: Engine,
        review: ReviewTask,
        hooks: TaskHooks,
        clock: Clock,
        ids: MakeId,
        project: str,
        terms: Callable[[], DelegationTerms],
        prepare: Callable[[Task], Awaitable[None]] | None = None,
    ) -> None:
        """Work on nothing yet.

        Args:
            store: What is kept.
            runs: Performs runs.
            engine: Executes the work.
            review: Reviews attempts.
            hooks: Plugins that are told.
            clock: Time.
            ids: Makes ids.
            project: Tasks of other projects in the same database are left alone.
            terms: The current settings.
            prepare: Makes the agent known that a task itself defines. Raises ToolsteadError.
        """
        self.store, self.runs = store, runs
        self._engine, self._hooks, self._clock, self._ids = engine, hooks, clock, ids
        self._project, self._terms, self._prepare = project, terms, prepare
        self._claimed: dict[str, Task] = {}
        """Tasks that were claimed when they were admitted, until the work on them begins."""
        self._held: set[str] = set()
        """Tasks that are being worked on."""
        self._ends: dict[str, asyncio.Future[Task]] = {}
        self._is_worker = False
        """Whether it takes up tasks or has started some; a command that only cancels one leaves the rest to others."""
        self._waking: dict[_Wake, Task | None] = {}
        """Who is being woken for results, and the newest result that came meanwhile."""
        self._background = OwnedTasks()
        self._attempts = TaskAttempts(
            store=store,
            runs=runs,
            review=review,
            clock=clock,
            terms=terms,
            wait_for_task=self.wait_for_task,
            claims_at_once=engine.claims_at_once,
            on_ended=self._note_ended,
        )
        self._sweep = TaskSweep(
            store=store,
            runs=runs,
            engine=engine,
            clock=clock,
            project=project,
            terms=terms,
            is_claimed=self._claimed.__contains__,
            begin=self._begin,
            list_held=lambda: self._held,
        )

    async def open(self, *, adopts: bool) -> None:
        """Begin; with `adopts`, also take up what other processes left."""
        self._is_worker = adopts
        await self._engine.open(self._work_on)
        self._sweep.open(adopts=adopts)

    def begin_close(self) -> None:
        """Judge no work any more: reviewers and commands may fail only because this process ends."""
        self._attempts.is_closing = True

    async def close(self) -> None:
        """Begin nothing more; what is being worked on is given back, so that another process can take it up."""
        self.begin_close()
        await self._sweep.close()
        await self._engine.close()
        await self._background.end_all()
        for task in self._claimed.values():
            logger.info("task %s was not begun; another process takes it up", task.id)

    async def delegate(
        self, orders: Sequence[Order], caller: Caller, *, mode: TaskMode, may_queue: bool = False
    ) -> list[Admitted | Refusal]:
        """Store and start tasks, each on its own terms; one that is refused does not concern the others.

        Raises:
            StaleClaimError: The task that the caller works on has ended, or another process holds it.
            StorageError: The database does not answer.
        """
        return await finish_despite_cancellation(self._delegate(orders, caller, mode, may_queue=may_queue))

    async def wait_for_task(self, task_id: str) -> Task:
        """Wait for the end of a task, whichever process works on it.

        Raises:
            NotFoundError: No such task, or it is gone with its thread.
        """
        while (task := await self._read_patiently(task_id)).is_open:
            ended = self._ends.get(task_id)
            if ended is None or ended.done():
                ended = self._ends[task_id] = asyncio.get_running_loop().create_future()
            await asyncio.wait((ended,), timeout=POLL_SECONDS)
            if ended.done():
                return ended.result()
        return task

    async def _read_patiently(self, task_id: str) -> Task:
        """A task, also while the database is away: whoever waits for it waits longer."""
        return await outlast_outage(
            lambda: self.store.read_task(task_id),
            self._clock,
            about=f"who waits for task {task_id}",
            seconds=math.inf,
            may_wait=lambda: not self._attempts.is_closing,
        )

    async def cancel(self, task_id: str, why: str = "it was cancelled") -> Task:
        """End a task and those below it, whichever processes work on them; one that has ended is unchanged.

        Raises:
            NotFoundError: No such task.
        """
        ended = await self.store.cancel_task(task_id, why, now=self._clock.now(), cap=self._terms().cap)
        # The runs first: one that waits for a cancelled child would go on with its result.
        cancelling = self._background.start(self._wait_for_runs(ended.runs), name=f"toolstead-cancel-{task_id}")
        await asyncio.sleep(0)
        await self._note_ended(ended, is_own=False)
        await asyncio.wait((cancelling,))
        return await self.store.read_task(task_id)

    async def abandon(self, task_ids: Sequence[str], run_id: str | None) -> None:
        """End tasks for which a call waited that was cancelled.

        They go on when this process stops, or was taken for dead: whoever repeats the call's run finds them again.
        """
        if self._attempts.is_closing:
            return
        why, unfinished = "the call that waited for it ended", list[str]()
        for task_id in task_ids:
            try:
                ended = await self.store.abandon_task(task_id, run_id, why, self._clock.now(), self._terms().cap)
            except StorageError as error:
                logger.warning("task %s ends with the run that waited for it: %s", task_id, error)
                continue
            await self._note_ended(ended, is_own=False)
            unfinished += ended.runs
        await self._wait_for_runs(unfinished)

    async def retry(self, task_id: str) -> Task:
        """Start the work of an ended task again, as a new task with a budget of its own.

        Raises:
            NotFoundError: No such task.
            RefusedError: It has not ended, or its agent has no free slot.
        """
        before = await self.store.read_task(task_id)
        if before.is_open:
            raise RefusedError(f"task {task_id} has not ended yet; cancel it first, or wait for it")
        if self._prepare is not None:
            await self._prepare(before)
        terms = self.runs.resolve_terms(before.agent, model=before.model, runtime=before.runtime)
        now, new_id = self._clock.now(), self._ids.new_id("task")
        task = Task(
            id=new_id,
            # An agent that the task itself defines is named after it.
            agent=before.agent.replace(before.id, new_id) if before.definition else before.agent,
            prompt=before.prompt,
            thread_id=self._ids.new_id("thread"),
            parent_thread_id=before.parent_thread_id,
            parent_run_id=before.parent_run_id,
            root_run_id=new_id,
            project=before.project,
            duplicate_key=new_id,
            created_at=now,
            timeout=terms.seconds,
            deadline=now + terms.seconds,
            depth=before.depth,
            max_attempts=before.max_attempts,
            retry_of=before.id,
            parent_agent=before.parent_agent,
            profile=before.profile,
            model=before.model,
            runtime=before.runtime,
            cwd=before.cwd,
            context=before.context,
            definition=before.definition,
        )
        limits = structs.replace(terms.limits, max_depth=max(terms.limits.max_depth, task.depth))
        request = AdmissionRequest(
            tasks=[task],
            limits=limits,
            cap=self._terms().cap,
            tree=structs.replace(terms.budget, root_run_id=new_id),
            may_queue=True,
            holds_claim=self._engine.claims_at_once,
        )
        [found] = await self.store.admit_tasks(request)
        if isinstance(found, Refusal):
            raise RefusedError(found.message)
        await self._start([found])
        return found.task

    async def check_in(self, caller: Caller, message: str) -> None:
        """Report the progress of the caller's task to the thread that delegated it; its model is not asked.

        Raises:
            RefusedError: The caller works on no task.
        """
        task, key = await self._name_message(caller, "checkin", message)
        await outlast_outage(lambda: self.runs.add_checkin(task, message, key), self._clock, about="a check-in")

    async def signal(self, caller: Caller, message: str) -> None:
        """Give a message to the agent that delegated the caller's task, which answers it.

        Raises:
            RefusedError: The caller works on no task.
        """
        task, key = await self._name_message(caller, "signal", message)
        await outlast_outage(lambda: self.runs.send_signal(task, message, key), self._clock, about="a signal")

    async def _delegate(
        self, orders: Sequence[Order], caller: Caller, mode: TaskMode, *, may_queue: bool
    ) -> list[Admitted | Refusal]:
        context = self.runs.find_context(caller.run_id) if caller.run_id is not None else None
        if caller.run_id is not None and context is None:
            raise RefusedError(f"run {caller.run_id} has ended; it can delegate nothing any more")
        tasks = [self._create_task(order, caller, context, mode, number) for number, order in enumerate(orders)]
        if context is None:  # an MCP client: each task is the root of a tree of its own
            found: list[Admitted | Refusal] = []
            for task in tasks:
                terms = self.runs.resolve_terms(task.agent, model=task.model, runtime=task.runtime)
                tree = structs.replace(terms.budget, root_run_id=task.id)
                found += await self._admit([task], terms.limits, tree, None, may_queue=may_queue)
        else:
            tree = self._find_root(context).share.describe_tree()[0]
            is_capped = all(order.is_capped for order in orders)
            found = await self._admit(tasks, context.limits, tree, context, may_queue=may_queue, is_capped=is_capped)
        await self._start([one for one in found if isinstance(one, Admitted)])
        return found

    async def _admit(
        self,
        tasks: Sequence[Task],
        limits: TreeLimits,
        tree: TreeBudget,
        context: RunContext | None,
        *,
        may_queue: bool,
        is_capped: bool = True,
    ) -> list[Admitted | Refusal]:
        request = AdmissionRequest(
            tasks=tasks,
            limits=limits,
            cap=self._terms().cap if is_capped else NO_CAP,
            tree=tree,
            share=None if context is None else self._find_root(context).share.describe_tree()[1],
            parent=None if context is None else context.claim,
            may_queue=may_queue,
            holds_claim=self._engine.claims_at_once,
        )
        found = await outlast_outage(lambda: self.store.admit_tasks(request), self._clock, about="a delegation")
        if context is not None and any(isinstance(one, Admitted) for one in found):
            context.has_tasks = True
            above: RunContext | None = context
            while above is not None:
                above.share.begin_sharing()
                above = above.above
        return found

    def _find_root(self, context: RunContext) -> RunContext:
        """The root of a run's tree, as far as this process performs it: it has the budget of the tree."""
        return self.runs.find_context(context.run.root_run_id or context.run.id) or context

    def _create_task(
        self, order: Order, caller: Caller, context: RunContext | None, mode: TaskMode, number: int
    ) -> Task:
        terms = self.runs.resolve_terms(order.agent, model=order.model, runtime=order.runtime)
        now, task_id = self._clock.now(), order.task_id or self._ids.new_id("task")
        seconds = terms.seconds if order.seconds is None else min(order.seconds, terms.seconds)
        if context is not None and (mode == "immediate" or context.claim is not None):
            seconds = min(seconds, max(0.001, context.deadline - now))
        return Task(
            id=task_id,
            agent=order.agent,
            prompt=order.prompt,
            thread_id=order.thread_id or self._ids.new_id("thread"),
            parent_thread_id=caller.thread_id,
            parent_run_id=caller.run_id,
            parent_task_id=None if context is None or context.claim is None else context.claim.task_id,
            root_run_id=task_id if context is None else caller.root_run_id or context.run.id,
            project=self._project,
            duplicate_key=task_id if context is None else name_order(order, context, caller, number),
            created_at=now,
            timeout=seconds,
            deadline=now + seconds,
            mode=mode,
            depth=caller.depth + 1,
            max_attempts=max(1, order.max_attempts),
            parent_agent=caller.agent_id or "",
            profile=caller.profile,
            model=order.model,
            runtime=order.runtime,
            cwd=order.cwd,
            context=order.context,
            definition=order.definition,
            continues=order.thread_id is not None,
        )

    async def _start(self, admitted: Sequence[Admitted]) -> None:
        """Work on fresh tasks that have a slot, after the plugins were told."""
        self._is_worker = True
        fresh = [one.task for one in admitted if one.is_fresh]
        ready = [task for task in fresh if not task.waits_for_slot]
        if self._engine.claims_at_once:
            self._claimed |= {task.id: task for task in ready}
        # Ours, and nobody works on it: the answer of the commit that stored it was lost on the way.
        ready += [one.task for one in admitted if not one.is_fresh and self._is_idle(one.task)]
        try:
            for task in fresh:
                await self._hooks.on_task_create(task.thread_id, task.id)
        finally:  # what is claimed is worked on, however often the call is cancelled
            await self._engine.submit([task.id for task in ready])

    def _is_idle(self, task: Task) -> bool:
        is_begun = self._engine.is_working_on(task.id) or task.id in self._claimed
        return task.is_open and task.owner == self.store.owner and not is_begun

    async def _begin(self, started: Sequence[Task]) -> None:
        """Work on queued tasks that have a slot now."""
        if started:
            self._claimed |= {task.id: task for task in started if task.owner == self.store.owner}
            await self._engine.submit([task.id for task in started])

    async def _work_on(self, task_id: str) -> None:
        """Claim a task, unless it was claimed when it was admitted, and work on it until its end."""
        try:
            task = self._claimed.pop(task_id, None)
            if task is None:
                seen = await self._read_patiently(task_id)
                task = await self.store.claim_task(task_id, seen.epoch, self._clock.now()) if seen.is_open else None
            if task is not None:
                if self._prepare is not None:
                    await self._prepare(task)
                self._held.add(task_id)
                await self._attempts.finish_task(task)
        except NotFoundError:
            logger.info("task %s is gone with its thread", task_id)
        except StorageError as error:
            logger.warning("task %s is taken up later: %s", task_id, error)
        except Exception:
            logger.exception("the work on task %s failed; it is taken up again", task_id)
        finally:
            self._held.discard(task_id)

    async def _note_ended(self, ended: TasksEnded, *, is_own: bool = True) -> None:
        """Tell everybody who waits, let queued tasks begin, and wake the threads that delegated."""
        for number, task in enumerate(ended.tasks):
            self._held.discard(task.id)  # nobody takes it away any more: what follows is not interrupted
            if (waiting := self._ends.pop(task.id, None)) is not None and not waiting.done():
                waiting.set_result(task)
            if number or not is_own:
                self._engine.stop_working_on(task.id)
        if self._is_worker:
            await self._begin(ended.started)
        for task in ended.tasks:
            if task.outcome not in SUCCESSES:
                why = task.error.message if task.error is not None else str(task.outcome)
                await self._hooks.on_task_failed(task.thread_id, task.id, why)
            if self._is_worker and task.taken_by is None and task.parent_run_id is not None:
                self._wake_soon(task)
        if is_own and ended.runs:
            self._background.start(self._wait_for_runs(ended.runs), name="toolstead-cancel-children")

    def _wake_soon(self, task: Task) -> None:
        """Wake a thread once for the results that come together, and once more for those that come meanwhile."""
        place = _name_wake(task)
        if place in self._waking:
            self._waking[place] = task
        else:
            self._background.start(self._wake(task), name=f"toolstead-wake-{task.id}")
            self._waking[place] = None

    async def _wake(self, task: Task) -> None:
        place, newest = _name_wake(task), task
        try:
            while newest is not None:
                self._waking[place] = None
                try:
                    await self._sweep.wake_thread(newest)
                except StorageError as error:
                    logger.warning("the result of task %s is delivered later: %s", newest.id, error)
                newest = self._waking[place]
        finally:
            del self._waking[place]

    async def _wait_for_runs(self, run_ids: Sequence[str]) -> None:
        """Cancel the runs of ended tasks, and wait for their ends; their owners were asked in the same commit."""
        work: list[Awaitable[Any]] = [self.runs.cancel_run(run_id, "its task has ended") for run_id in run_ids]
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await asyncio.gather(*work, return_exceptions=True)
        except TimeoutError:
            logger.warning("runs of cancelled tasks have not ended after %g seconds: %s", CANCEL_SECONDS, run_ids)

    async def _name_message(self, caller: Caller, kind: str, message: str) -> tuple[Task, str]:
        context = self.runs.find_context(caller.run_id) if caller.run_id is not None else None
        if context is None or context.claim is None:
            raise RefusedError(NO_PARENT)
        digest = blake2b(f"{kind}\0{message}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        number = context.number_call(digest, caller.call_id)
        task = await self._read_patiently(context.claim.task_id)
        return task, f"{kind}.{task.id}.{context.turn}.{digest}.{number}"


def _name_wake(task: Task) -> _Wake:
    return task.parent_thread_id, task.parent_run_id, task.parent_task_id
