"""How one task is worked on, turn by turn, where other turns of its thread come in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from tests.unit.delegation.reviewed_task import RUN, make_task
from toolstead.delegation.attempts import DelegationTerms, TaskAttempts
from toolstead.delegation.review import ReviewResult
from toolstead.delegation.task_runs import NO_RESULTS, StartedRun, TaskRunRequest
from toolstead.delegation.task_store import TaskClaim, TaskEnd, TasksEnded
from toolstead.invoker.clock import REAL_CLOCK
from toolstead.types.run import Run, RunError
from toolstead.types.task import Task

DONE = structs.replace(RUN, status="completed", result="first")
NOTHING = structs.replace(RUN, status="cancelled", error=RunError(code=NO_RESULTS, message="another turn has them"))


class Thread:
    """The thread of a task: the runs that its turns become, and the results that wait there after each look."""

    def __init__(self, runs: Sequence[Run], waiting: Sequence[bool], last: Run) -> None:
        self.runs, self.waiting, self.last = list(runs), list(waiting), last
        self.ends: list[TaskEnd] = []
        self.done: list[str] = []

    def find_context(self, run_id: str) -> None:
        return None

    async def start_run(self, request: TaskRunRequest) -> StartedRun:
        self.done.append(f"turn {request.turn}")
        return StartedRun(run_id="run_1", message_id="m", is_fresh=True)

    async def wait_for_run(self, run_id: str) -> Run:
        return self.runs.pop(0)

    async def read_progress(self, run_id: str) -> str:
        return ""

    async def read_last_answer(self, task: Task, run: Run) -> Run:
        self.done.append("others ended")
        return self.last

    async def list_tasks(self, wanted: object) -> list[Task]:
        return []

    async def list_waiting(self, thread_id: str) -> list[Task]:
        self.done.append("looked")
        return [make_task("child")] if self.waiting.pop(0) else []

    async def has_run_key(self, thread_id: str, key: str) -> bool:
        return False

    async def end_task(self, claim: TaskClaim, end: TaskEnd, *, claims_started: bool) -> TasksEnded:
        self.ends.append(end)
        return TasksEnded()


async def finish(thread: Any) -> TaskEnd:
    async def accept(task: Task, run: Run, answer: str) -> ReviewResult:
        return ReviewResult(accepted=True)

    async def note(ended: TasksEnded) -> None:
        pass

    async def wait(task_id: str) -> Task:
        raise AssertionError("there are no children")

    attempts = TaskAttempts(
        store=thread,
        runs=thread,
        review=accept,
        clock=REAL_CLOCK,
        terms=DelegationTerms,
        wait_for_task=wait,
        claims_at_once=True,
        on_ended=note,
    )
    task = structs.replace(make_task(), epoch=2, deadline=REAL_CLOCK.now() + 60)
    await attempts.finish_task(task)
    return thread.ends[0]


async def test_the_other_turns_of_the_thread_end_before_its_results_are_looked_for() -> None:
    thread = Thread([DONE, DONE], [True, False], DONE)
    end = await finish(thread)
    assert (end.outcome, end.result) == ("completed", "first")
    assert thread.done == ["turn 1.1", "others ended", "looked", "turn 1.2", "others ended", "looked"]


async def test_where_another_turn_took_the_results_its_answer_is_that_of_the_task() -> None:
    thread = Thread([DONE, NOTHING], [True, False], structs.replace(DONE, result="with the results"))
    end = await finish(thread)
    assert (end.outcome, end.result) == ("completed", "with the results")


async def test_a_turn_that_somebody_cancelled_ends_the_task() -> None:
    cancelled = structs.replace(RUN, status="cancelled", error=RunError(code="cancelled", message="not wanted"))
    end = await finish(Thread([DONE, cancelled], [True], DONE))
    assert end.outcome == "cancelled"
