"""Works on one task: attempts, turns, review, outcome.

    claim ──▶ attempt ──▶ turn: a run, repeated while it is lost ──▶ children open? wait, and another turn
                ▲                                                        │no
                │                                                        ▼
                └── rejected, attempts left ◀── review ── accepted, unknown, rejected for good ──▶ end

Every step can be repeated by another process: a run has a key made of task, attempt, turn and try, so the run that is
stored is found again, and a run that has ended is not run again. What is stored decides; nothing is kept here.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import structs

from toolstead.concurrency.suspended_coroutine import render_seconds
from toolstead.delegation.outages import outlast_outage
from toolstead.delegation.review import ReviewResult, ReviewTask
from toolstead.delegation.task_runs import NO_RESULTS, StartedRun, TaskRunRequest, TaskRuns
from toolstead.delegation.task_store import TaskClaim, TaskEnd, TaskFilter, TasksEnded, TaskStore
from toolstead.delegation.task_texts import write_feedback, write_order
from toolstead.errors import InvocationError, LimitError, NotFoundError, StaleClaimError, StorageError
from toolstead.invoker.clock import Clock
from toolstead.types.run import Run, RunError
from toolstead.types.task import Attempt, Task, TaskOutcome

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

MOST_TRIES = 5
"""How often a turn is tried whose process or database dies in it: what kills its process is not repeated for ever."""
INTERRUPTED = frozenset({"lost", "stopped"})
MOST_TURNS = 1_000
STALLED = "stalled"
"""The code of a task whose run reported nothing for too long."""


class DelegationTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that work on tasks needs.

    Attributes:
        cap: Open tasks that each agent may have.
        stall_seconds: How long a run may report nothing.
    """

    cap: int = 5
    stall_seconds: float = 600.0


class TaskStopped(Exception):  # noqa: N818 - carries an outcome, and is no error
    """The work on a task is over: how it ends."""

    def __init__(self, outcome: TaskOutcome, code: str, message: str, result: str | None = None) -> None:
        self.outcome: TaskOutcome = outcome
        self.error = RunError(code=code, message=message)
        self.result = result
        super().__init__(message)


class TaskAttempts:
    """Works on tasks that this process claims."""

    def __init__(
        self,
        *,
        store: TaskStore,
        runs: TaskRuns,
        review: ReviewTask,
        clock: Clock,
        terms: Callable[[], DelegationTerms],
        wait_for_task: Callable[[str], Awaitable[Task]],
        claims_at_once: bool,
        on_ended: Callable[[TasksEnded], Awaitable[None]],
    ) -> None:
        """Work on nothing yet.

        Args:
            store: What is kept.
            runs: Performs runs.
            review: Reviews attempts.
            clock: Time.
            terms: The current settings.
            wait_for_task: Waits for the end of another task.
            claims_at_once: Whether this process works on the queued tasks that get the slot of an ended one.
            on_ended: Takes what a task's end changed.
        """
        self._store, self._runs, self._review, self._clock = store, runs, review, clock
        self._terms, self._wait_for_task, self._on_ended = terms, wait_for_task, on_ended
        self._claims_at_once = claims_at_once
        self._watched: dict[str, str] = {}
        """Task → its run that is waited for: what it said so far is kept when the task is cut off."""
        self.is_closing = False

    async def finish_task(self, task: Task) -> None:
        """Work on a claimed task until it has its outcome, or another process holds it."""
        claim = TaskClaim(task_id=task.id, epoch=task.epoch)
        try:
            end = await self._reach_end(task, claim)
            await self._store_end(claim, end)
        except StaleClaimError:
            logger.info("task %s has ended, or another process works on it", task.id)
        except asyncio.CancelledError:
            if self.is_closing:
                await self._store.return_task(claim)
            raise
        finally:
            self._watched.pop(task.id, None)

    async def _reach_end(self, task: Task, claim: TaskClaim) -> TaskEnd:
        left = (task.deadline or self._clock.now() + task.timeout) - self._clock.now()
        deadline = asyncio.timeout(max(left, 0.0))
        try:
            async with deadline:
                return await self._make_attempts(task, claim)
        except TaskStopped as stopped:
            result = await self._read_watched(task) if stopped.error.code == STALLED else stopped.result
            return self._make_end(stopped.outcome, result=result, error=stopped.error)
        except TimeoutError:
            if not deadline.expired():
                raise
            error = RunError(code="timeout", message=f"the task was not finished after {render_seconds(task.timeout)}")
            return self._make_end("timeout", result=await self._read_watched(task), error=error)

    async def _make_attempts(self, task: Task, claim: TaskClaim) -> TaskEnd:
        while True:
            run, is_alone = await self._finish_turns(task, claim)
            answer = run.result or ""
            review = await self._review(task, run, answer)
            if self.is_closing and review.accepted is not True:
                raise asyncio.CancelledError  # what rejects it may be the end of this process; another one reviews it
            attempt = self._note_attempt(task, run, review)
            if review.accepted is True:
                end = self._make_end("completed", result=answer, attempt=attempt)
                return structs.replace(end, usage=run.usage, may_have_children=False) if is_alone else end
            if review.accepted is None:
                error = RunError(code="unverified", message=review.feedback)
                return self._make_end("completed_unverified", result=answer, attempt=attempt, error=error)
            if (why := await self._find_reason_to_stop(task, attempt)) is not None:
                error = RunError(code="rejected", message=f"{why}: {review.feedback}")
                return self._make_end("rejected", result=answer, attempt=attempt, error=error)
            task = await self._store_safely(
                lambda attempt=attempt, review=review: self._store.record_attempt(claim, attempt, review.feedback)
            )

    def _note_attempt(self, task: Task, run: Run, review: ReviewResult) -> Attempt:
        digest = blake2b((run.result or "").strip().encode("utf-8", "replace"), digest_size=16).hexdigest()
        return Attempt(
            task_id=task.id,
            number=task.attempt,
            run_id=run.id,
            accepted=review.accepted,
            feedback=review.feedback,
            defect=review.defect,
            answer_digest=digest,
            ended_at=self._clock.now(),
        )

    async def _find_reason_to_stop(self, task: Task, attempt: Attempt) -> str | None:
        """Why a rejected attempt is the last one; None when another one may do better."""
        if attempt.number >= task.max_attempts:
            return f"rejected on the last of {task.max_attempts} attempts" if task.max_attempts > 1 else "rejected"
        for earlier in await self._store_safely(lambda: self._store.list_attempts(task.id)):
            if attempt.defect and earlier.defect == attempt.defect:
                return f"attempt {attempt.number} has the same defect as attempt {earlier.number}"
            if earlier.answer_digest == attempt.answer_digest:
                return f"attempt {attempt.number} repeats the answer of attempt {earlier.number}"
        return None

    async def _finish_turns(self, task: Task, claim: TaskClaim) -> tuple[Run, bool]:
        """The run whose answer is reviewed: the last turn of the attempt, after all that it delegated has ended.

        The flag says that the task has had this run alone, and that it delegated nothing.
        """
        for turn in range(1, MOST_TURNS):
            run, is_alone = await self._finish_turn(task, claim, turn)
            if run.error is None or run.error.code != NO_RESULTS:  # else the turn that has them is the answer
                self._check_run(task, run, await self._read_partly(run))
            if is_alone:
                return run, True
            await self._wait_for_children(task)
            # First the other turns of its thread, such as one that answers a signal: they may give results back.
            last = await self._store_safely(lambda run=run: self._runs.read_last_answer(task, run))
            if not await self._has_another_turn(task, turn):
                return last, False
        raise TaskStopped("failed", "turns", f"the task took more than {MOST_TURNS} turns")

    async def _finish_turn(self, task: Task, claim: TaskClaim, turn: int) -> tuple[Run, bool]:
        """Run a turn to its end; one whose process died is run again, and answers the same message."""
        answers: str | None = None
        lost = 0
        for number in itertools.count(1):
            started = await self._start_run(task, claim, turn=turn, number=number, answers=answers)
            context = self._runs.find_context(started.run_id)
            run = await self._watch_run(task, started.run_id)
            if run.status not in INTERRUPTED:
                # Nobody but this run can have delegated, and it did not: nothing has to be looked for.
                is_first = started.is_fresh and (task.attempt, turn, number) == (1, 1, 1) and task.epoch == 1
                return run, is_first and context is not None and not context.has_tasks
            if self.is_closing:
                raise asyncio.CancelledError
            answers = started.message_id or None
            has_failed = run.error is not None and run.error.code == "storage"
            lost += run.status == "lost" or has_failed
            if lost >= MOST_TRIES:
                why = "the database failed in it" if has_failed else "the process that worked on it died"
                raise TaskStopped("lost", "lost", f"{why}, {MOST_TRIES} times")
        raise AssertionError("there is always another number")

    async def _start_run(
        self, task: Task, claim: TaskClaim, *, turn: int, number: int, answers: str | None
    ) -> StartedRun:
        if turn > 1:
            prompt = None
        elif task.attempt == 1:
            prompt = write_order(task.prompt, task.context)
        else:
            prompt = write_feedback(task, task.feedback, task.attempt)
        request = TaskRunRequest(
            task=task,
            claim=claim,
            key=_name_run(task, turn, number),
            turn=f"{task.attempt}.{turn}",
            seconds=max(0.001, (task.deadline or self._clock.now() + task.timeout) - self._clock.now()),
            prompt=prompt,
            answers=answers,
            is_new_thread=(task.epoch, task.attempt, turn, number) == (1, 1, 1, 1) and not task.continues,
        )
        try:
            return await self._store_safely(lambda: self._runs.start_run(request))
        except LimitError as error:
            raise TaskStopped("budget", "budget", str(error)) from None
        except InvocationError as error:
            if self.is_closing:
                raise asyncio.CancelledError from None
            raise TaskStopped("failed", "agent", str(error)) from None

    async def _watch_run(self, task: Task, run_id: str) -> Run:
        """Wait for a run's end; one that reports nothing for too long is ended."""
        self._watched[task.id] = run_id
        waiting = asyncio.ensure_future(self._runs.wait_for_run(run_id))
        try:
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=self._find_stall(task, run_id))
            return await waiting
        except NotFoundError:
            raise TaskStopped("cancelled", "cancelled", "its thread was deleted") from None
        except BaseException:
            waiting.cancel()
            await self._end_run(run_id)
            raise

    def _find_stall(self, task: Task, run_id: str) -> float:
        """The seconds after which the run would have been silent for too long. Raises TaskStopped."""
        limit = self._terms().stall_seconds
        context = self._runs.find_context(run_id)
        silent = 0.0 if context is None else self._clock.monotonic() - context.last_event
        if silent >= limit:
            raise TaskStopped("timeout", STALLED, f"{task.agent} reported nothing for {limit:g} seconds")
        return limit - silent

    async def _end_run(self, run_id: str) -> None:
        """End the run of work that is over: another process repeats it when this one stops."""
        try:
            if self.is_closing:
                await self._runs.stop_run(run_id)
            else:
                await self._runs.cancel_run(run_id, "the work on its task is over")
        except (NotFoundError, StorageError) as error:
            logger.warning("run %s could not be ended: %s", run_id, error)

    def _check_run(self, task: Task, run: Run, partly: str | None) -> None:
        """Raise what becomes of a task whose run has no answer."""
        if run.status == "completed":
            return
        code = run.error.code if run.error is not None else run.status
        message = run.error.message if run.error is not None else f"its run ended as {run.status}"
        if run.status in ("timeout", "cancelled"):
            raise TaskStopped("timeout" if run.status == "timeout" else "cancelled", code, message, partly)
        raise TaskStopped("budget" if code == "budget" else "failed", code, message, partly)

    async def _read_partly(self, run: Run) -> str | None:
        """What a run said that did not come to its answer."""
        return None if run.status == "completed" else await self._read_progress(run.id)

    async def _read_watched(self, task: Task) -> str | None:
        """What the run said that was cut off with its task."""
        run_id = self._watched.get(task.id)
        return None if run_id is None else await self._read_progress(run_id)

    async def _read_progress(self, run_id: str) -> str | None:
        try:
            return await self._runs.read_progress(run_id) or None
        except StorageError:
            return None

    async def _wait_for_children(self, task: Task) -> None:
        while children := await self._store_safely(
            lambda: self._store.list_tasks(TaskFilter(parent_task_id=task.id, is_open=True))
        ):
            await asyncio.gather(*(self._wait_for_task(child.id) for child in children))

    async def _has_another_turn(self, task: Task, turn: int) -> bool:
        """Whether results wait for another turn, or another process has begun it."""
        if await self._store_safely(lambda: self._store.list_waiting(task.thread_id)):
            return True
        return await self._store_safely(lambda: self._runs_have(task, turn + 1))

    async def _runs_have(self, task: Task, turn: int) -> bool:
        return await self._store.has_run_key(task.thread_id, _name_run(task, turn, 1))

    def _make_end(
        self,
        outcome: TaskOutcome,
        *,
        result: str | None = None,
        error: RunError | None = None,
        attempt: Attempt | None = None,
    ) -> TaskEnd:
        return TaskEnd(
            outcome=outcome,
            ended_at=self._clock.now(),
            cap=self._terms().cap,
            result=result,
            error=error,
            attempt=attempt,
        )

    async def _store_end(self, claim: TaskClaim, end: TaskEnd) -> None:
        claims = self._claims_at_once
        ended = await self._store_safely(lambda: self._store.end_task(claim, end, claims_started=claims))
        await self._on_ended(ended)

    async def _store_safely(self, write: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat a step until the database answers; each step may be repeated."""
        try:
            return await outlast_outage(
                write, self._clock, about="a task", seconds=math.inf, may_wait=lambda: not self.is_closing
            )
        except StorageError as error:
            if self.is_closing:
                raise asyncio.CancelledError from error
            raise


def _name_run(task: Task, turn: int, number: int) -> str:
    """The key of a run: another process that repeats the same step makes the same."""
    return f"{task.id}.{task.attempt}.{turn}.{number}"
