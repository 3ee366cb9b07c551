"""Writes to tasks: each transition is one operation, and is checked against the task's epoch.

They run statements of their own inside the shared transaction: what one admits, the next one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, bindparam, func, literal, select, update

from toolstead.adapters.storage.known_tasks import KnownTasks
from toolstead.adapters.storage.ledger import Ledger, Operation, encode_events
from toolstead.adapters.storage.queries import add_command
from toolstead.adapters.storage.rows import pad_list, storable_text
from toolstead.adapters.storage.tables import ATTEMPTS, RUNS, TASKS, runs, tasks
from toolstead.adapters.storage.task_queries import COLUMNS, IS_OPEN
from toolstead.adapters.storage.tree_budgets import add_tree, check_unfinished
from toolstead.delegation.admission import AdmissionFacts, Queued, decide_admission
from toolstead.delegation.task_events import create_created_event, create_ended_event, create_evaluated_event
from toolstead.delegation.task_store import (
    AdmissionRequest,
    Admitted,
    Holder,
    Refusal,
    TaskClaim,
    TaskEnd,
    TasksEnded,
)
from toolstead.errors import StaleClaimError
from toolstead.orchestrator.store import RunCommand
from toolstead.types.run import ENDS, Run, RunError, Usage
from toolstead.types.task import LONGEST_SUMMARY, Attempt, Task

CLOSED = "the task that delegated it has ended"

_HOLDS_SLOT = IS_OPEN & tasks.c.queued_at.is_(None)
_OF_AGENT = (tasks.c.project == bindparam("project")) & (tasks.c.agent == bindparam("agent"))
_OF_KEYS = select(*COLUMNS).where(tasks.c.duplicate_key.in_(bindparam("given", expanding=True)))
_HOLDERS = select(tasks.c.id, tasks.c.deadline).where(_OF_AGENT, _HOLDS_SLOT).order_by(tasks.c.n)
_TALKING = select(tasks.c.id, tasks.c.deadline).where(tasks.c.thread_id == bindparam("thread"), IS_OPEN)
_COUNT_QUEUED = select(func.count()).where(_OF_AGENT, IS_OPEN, tasks.c.queued_at.is_not(None))
# Runs that a plugin started count too; the runs of a task are counted by the task.
_OWN_CHILD = (runs.c.attempt == 1) & runs.c.task_id.is_(None) & runs.c.parent_run_id.is_not(None)
_FAMILY = select(
    select(func.count()).select_from(tasks).where(tasks.c.parent_run_id == bindparam("run")).scalar_subquery(),
    select(func.count())
    .select_from(runs)
    .where(runs.c.parent_run_id == bindparam("run"), _OWN_CHILD)
    .scalar_subquery(),
    select(func.count()).select_from(tasks).where(tasks.c.root_run_id == bindparam("root")).scalar_subquery(),
    select(func.count()).select_from(runs).where(runs.c.root_run_id == bindparam("root"), _OWN_CHILD).scalar_subquery(),
)
UPDATE_TASK = update(tasks).where(tasks.c.id == bindparam("task"))
_UNFINISHED_RUNS = (
    select(runs).where(runs.c.thread_id == bindparam("thread"), runs.c.ended_at.is_(None)).order_by(runs.c.n)
)
_SET_RESULT = UPDATE_TASK.values(result=bindparam("whole"))
_USED = select(
    func.coalesce(func.sum(runs.c.input_tokens), 0),
    func.coalesce(func.sum(runs.c.output_tokens), 0),
    func.coalesce(func.sum(runs.c.cost), 0.0),
).where(runs.c.task_id == bindparam("task"))
_PARENT_RUNS = select(runs.c.id).where(runs.c.id == bindparam("run"), runs.c.ended_at.is_(None))


def _ancestors_query() -> Any:
    up = select(tasks.c.id, tasks.c.parent_task_id, tasks.c.agent, tasks.c.prompt, literal(0).label("level"))
    up = up.where(tasks.c.id == bindparam("task")).cte("up", recursive=True)
    above = tasks.alias("above")
    up = up.union_all(
        select(above.c.id, above.c.parent_task_id, above.c.agent, above.c.prompt, up.c.level + 1).join(
            up, above.c.id == up.c.parent_task_id
        )
    )
    return select(up.c.id, up.c.agent, up.c.prompt).order_by(up.c.level)


def _blocked_query() -> Any:
    """The tasks that have a queued one below them; each task waits for those below it."""
    up = select(tasks.c.parent_task_id.label("id")).where(
        tasks.c.project == bindparam("project"),
        IS_OPEN,
        tasks.c.queued_at.is_not(None),
        tasks.c.parent_task_id.is_not(None),
    )
    up = up.cte("blocked", recursive=True)
    above = tasks.alias("above")
    return select(
        up.union(
            select(above.c.parent_task_id).join(up, above.c.id == up.c.id).where(above.c.parent_task_id.is_not(None))
        ).c.id
    )


def _below_query() -> Any:
    down = select(tasks.c.id).where(tasks.c.parent_task_id == bindparam("task"), IS_OPEN).cte("down", recursive=True)
    below = tasks.alias("below")
    down = down.union(
        select(below.c.id).join(down, below.c.parent_task_id == down.c.id).where(below.c.outcome.is_(None))
    )
    return select(*COLUMNS).where(tasks.c.id.in_(select(down.c.id))).order_by(tasks.c.n)


_ANCESTORS, _BLOCKED, _BELOW = _ancestors_query(), _blocked_query(), _below_query()


def admit_tasks(request: AdmissionRequest, owner: str) -> Operation[list[Admitted | Refusal]]:
    """Store the tasks that may be started, each counted with those before it."""
    own = [task for task in request.tasks if task.retry_of is None]  # the run of one that is repeated may have ended
    delegating = {task.parent_run_id for task in own if task.parent_run_id is not None}

    def admit_rows(ledger: Ledger) -> list[Admitted | Refusal]:
        if request.parent is not None:
            check_claim(ledger, request.parent)
        for run_id in delegating:
            check_unfinished(ledger, run_id)
        connection, first = ledger.connection, request.tasks[0]
        known = _find_duplicates(connection, request.tasks)
        tree = ledger.known.find_tree(first.root_run_id)
        counted = connection.execute(_FAMILY, {"run": first.parent_run_id or "", "root": first.root_run_id}).one()
        parent = first.parent_task_id
        above: Sequence[Any] = connection.execute(_ANCESTORS, {"task": parent}).all() if parent is not None else ()
        facts = AdmissionFacts(
            children=counted[0] + counted[1],
            descendants=counted[2] + counted[3],
            tree=tree or request.tree,
            ancestors=[(row.agent, row.prompt) for row in above],
        )
        found: list[Admitted | Refusal] = []
        agents: dict[str, _AgentSlots | None] = {}
        for task in request.tasks:
            if (joined := known.get(task.duplicate_key)) is not None:
                found.append(Admitted(task=_join_task(connection, joined, task), is_fresh=False))
                continue
            slots = agents.setdefault(task.agent, None) or _AgentSlots(connection, task)
            agents[task.agent] = slots
            admitted = _admit_task(ledger, task, request, facts, slots, owner=owner, above={row.id for row in above})
            found.append(admitted)
            if isinstance(admitted, Admitted):
                facts.children, facts.descendants = facts.children + 1, facts.descendants + 1
        ledger.write_rows(TASKS)  # the statements of later operations count them
        if tree is None and any(isinstance(one, Admitted) and one.is_fresh for one in found):
            add_tree(ledger.known, request.tree, request.share)
        return found

    return Operation(
        apply=admit_rows,
        runs=delegating,
        claimed=() if request.parent is None else (request.parent.task_id,),
        roots=[task.root_run_id for task in request.tasks[:1]],
    )


class _AgentSlots:
    """The slots of one agent while a commit admits tasks: read once, and kept up to date."""

    def __init__(self, connection: Connection, task: Task) -> None:
        self._connection = connection
        self._agent = {"project": task.project, "agent": task.agent}
        self.holders = [Holder(run_id=row[0], deadline=row[1]) for row in connection.execute(_HOLDERS, self._agent)]
        self._queued: int | None = None
        self._blocked: set[str] | None = None

    def take_slot(self, task: Task) -> None:
        """Note that a task has one now."""
        self.holders.append(Holder(run_id=task.id, deadline=task.deadline))

    def join_queue(self) -> int:
        """The place of the next task that waits for one."""
        if self._queued is None:
            self._queued = self._connection.execute(_COUNT_QUEUED, self._agent).scalar_one()
        self._queued += 1
        return self._queued

    def find_stuck(self, above: set[str]) -> bool:
        """Whether every holder waits for a queued task, where one below these tasks would be queued too.

        All tasks of a commit are below the same ones: what it queues blocks no others.
        """
        if self._blocked is None:
            self._blocked = set(self._connection.execute(_BLOCKED, {"project": self._agent["project"]}).scalars())
        return all(one.run_id in self._blocked or one.run_id in above for one in self.holders)


def _admit_task(
    ledger: Ledger,
    task: Task,
    request: AdmissionRequest,
    facts: AdmissionFacts,
    slots: _AgentSlots,
    *,
    above: set[str],
    owner: str,
) -> Admitted | Refusal:
    facts.holders = slots.holders
    is_full = len(slots.holders) >= request.cap
    facts.is_stuck = request.may_queue and is_full and slots.find_stuck(above)
    facts.talking = _find_talking(ledger.connection, task) if task.continues else None
    decided = decide_admission(task, request, facts)
    if isinstance(decided, Refusal):
        return decided
    position = 0
    if isinstance(decided, Queued):
        position = slots.join_queue()
        task = structs.replace(task, queued_at=task.created_at, deadline=None)
    else:
        if request.holds_claim:
            task = structs.replace(task, owner=owner, epoch=1)
        slots.take_slot(task)
    ledger.add_row(TASKS, TASKS.encode_row(task))
    ledger.add_events(encode_events([create_created_event(task, position)]))
    return Admitted(task=task, is_fresh=True, position=position)


def _find_talking(connection: Connection, task: Task) -> Holder | None:
    """The open task in the conversation that a new one goes on with."""
    row = connection.execute(_TALKING, {"thread": task.thread_id}).first()
    return None if row is None else Holder(run_id=row.id, deadline=row.deadline)


def _find_duplicates(connection: Connection, wanted: Sequence[Task]) -> Mapping[str, Task]:
    rows = connection.execute(_OF_KEYS, pad_list([task.duplicate_key for task in wanted]))
    return {task.duplicate_key: task for task in map(TASKS.decode_row, rows)}


def _join_task(connection: Connection, stored: Task, again: Task) -> Task:
    """The task that an equal call started, now as one of the run that calls again."""
    changes: dict[str, Any] = {"parent_run_id": again.parent_run_id, "mode": again.mode}
    is_waited_for = again.mode == "immediate"
    if not stored.is_open and is_waited_for and stored.delivered_at is None:
        changes["taken_by"] = again.parent_run_id
    connection.execute(UPDATE_TASK.values(**changes), {"task": stored.id})
    return structs.replace(stored, **changes)


def return_task(claim: TaskClaim) -> Operation[bool]:
    """Give up a claim."""
    held = update(tasks).where(tasks.c.id == claim.task_id, tasks.c.epoch == claim.epoch, IS_OPEN)
    # The epoch moves on: a write of the claim that is given up must not come after it.
    giving = held.values(owner=None, epoch=claim.epoch + 1)
    return Operation(apply=lambda ledger: ledger.connection.execute(giving).rowcount == 1)


def record_attempt(claim: TaskClaim, attempt: Attempt, feedback: str) -> Operation[Task]:
    """Store a rejected attempt; the next one begins."""

    def record_row(ledger: Ledger) -> Task:
        task = check_claim(ledger, claim)
        if task.attempt > attempt.number:  # it was stored, and the answer was lost on the way
            return task
        ledger.add_attempt(ATTEMPTS.encode_row(attempt))
        changes = {"attempt": attempt.number + 1, "feedback": feedback}
        ledger.connection.execute(UPDATE_TASK.values(**changes), {"task": task.id})
        ledger.add_events(encode_events([create_evaluated_event(task, attempt)]))
        return structs.replace(task, **changes)

    return Operation(apply=record_row, claimed=(claim.task_id,))


def end_task(claim: TaskClaim, end: TaskEnd, owner: str | None) -> Operation[TasksEnded]:
    """Give a task its outcome, and end its open children."""

    def end_rows(ledger: Ledger) -> TasksEnded:
        task = check_claim(ledger, claim)
        if end.attempt is not None:
            ledger.add_attempt(ATTEMPTS.encode_row(end.attempt))
            ledger.add_events(encode_events([create_evaluated_event(task, end.attempt)]))
        return _end_branch(ledger, task, end, owner)

    return Operation(apply=end_rows, claimed=(claim.task_id,))


def cancel_task(task_id: str, why: str, now: float, cap: int) -> Operation[TasksEnded]:
    """End a task and those below it as `cancelled`, whoever works on them."""

    def cancel_rows(ledger: Ledger) -> TasksEnded:
        task = ledger.known.find_task(task_id)
        if task is None or not task.is_open:
            return TasksEnded()
        error = RunError(code="cancelled", message=why)
        return _end_branch(ledger, task, TaskEnd(outcome="cancelled", ended_at=now, cap=cap, error=error))

    return Operation(apply=cancel_rows, is_direct=True)  # it sees a run that was accepted a moment ago


def abandon_task(task_id: str, run_id: str | None, why: str, now: float, cap: int) -> Operation[TasksEnded]:
    """End a task as `cancelled` if the call of this run still waits for it."""

    def abandon_rows(ledger: Ledger) -> TasksEnded:
        task = ledger.known.find_task(task_id)
        if task is None or not task.is_open or task.mode != "immediate" or task.parent_run_id != run_id:
            return TasksEnded()
        error = RunError(code="cancelled", message=why)
        return _end_branch(ledger, task, TaskEnd(outcome="cancelled", ended_at=now, cap=cap, error=error))

    return Operation(apply=abandon_rows, is_direct=True)


def end_waited_children(ledger: Ledger, run_id: str, now: float) -> None:
    """End the open tasks that a run waited for: the run has ended, and nothing waits for them any more."""
    waited = select(*COLUMNS).where(tasks.c.parent_run_id == run_id, tasks.c.mode == "immediate", IS_OPEN)
    for row in ledger.connection.execute(waited).all():
        error = RunError(code="cancelled", message="the run that waited for it has ended")
        _end_branch(ledger, TASKS.decode_row(row), TaskEnd(outcome="cancelled", ended_at=now, cap=0, error=error))


def _end_branch(ledger: Ledger, task: Task, end: TaskEnd, owner: str | None = None) -> TasksEnded:
    found = ledger.connection.execute(_BELOW, {"task": task.id}).all() if end.may_have_children else ()
    below = [TASKS.decode_row(row) for row in found]
    closing = TaskEnd(
        outcome="cancelled",
        ended_at=end.ended_at,
        cap=end.cap,
        error=RunError(code="cancelled", message=CLOSED),
    )
    ended = [*(_end_row(ledger, one, closing) for one in reversed(below)), _end_row(ledger, task, end)]
    cancelled = [one for one in ended if one.outcome == "cancelled" or one.id != task.id]
    unfinished = [run for one in cancelled for run in _cancel_runs(ledger, one)]
    started = [
        begun for one in _agents_of(ended) for begun in _start_queued(ledger.known, one, end.cap, end.ended_at, owner)
    ]
    return TasksEnded(tasks=ended[::-1], started=started, runs=unfinished)


def _end_row(ledger: Ledger, task: Task, end: TaskEnd) -> Task:
    result, usage = end.result, end.usage
    if usage is None:
        used: Any = ledger.find_in_runs(_USED, task=task.id).one()
        usage = Usage(input_tokens=used[0], output_tokens=used[1], cost=used[2])
    taken_by = None
    if task.mode == "immediate" and task.parent_run_id is not None:
        taken_by = ledger.find_in_runs(_PARENT_RUNS, run=task.parent_run_id).scalar()
    ended = structs.replace(
        task,
        outcome=end.outcome,
        ended_at=end.ended_at,
        error=end.error,
        summary=None if result is None else result[:LONGEST_SUMMARY],
        result_size=len(result or ""),
        usage=usage,
        owner=None,
        epoch=task.epoch + 1,
        queued_at=None,
        taken_by=taken_by,
    )
    if result is not None and len(result) > LONGEST_SUMMARY:
        ledger.connection.execute(_SET_RESULT, {"task": task.id, "whole": storable_text(result)})
    ledger.known.end_task(task, ended)
    ledger.add_events(encode_events([create_ended_event(ended)]))
    return ended


def list_unfinished(ledger: Ledger, thread_id: str) -> list[Run]:
    """The unfinished runs of a thread, oldest first; not those that end with the same commit."""
    found = [RUNS.decode_row(row) for row in ledger.connection.execute(_UNFINISHED_RUNS, {"thread": thread_id}).all()]
    return [run for run in found if ledger.runs.get(run.id, (run.status, ""))[0] not in ENDS]


def _cancel_runs(ledger: Ledger, task: Task) -> list[str]:
    """Ask the owners of a task's unfinished runs to cancel them."""
    found = list_unfinished(ledger, task.thread_id)
    for run in found:
        why = task.error.message if task.error is not None else "its task has ended"
        command = RunCommand(
            id=f"end_{run.id}", run_id=run.id, kind="cancel", text=why, created_at=task.ended_at or 0.0
        )
        add_command(ledger.connection, command)
    return [run.id for run in found]


def start_queued(project: str, cap: int, now: float, owner: str | None) -> Operation[list[Task]]:
    """Give every free slot of a project's agents to the tasks that wait for one."""
    agents = select(tasks.c.agent).where(tasks.c.project == project, IS_OPEN, tasks.c.queued_at.is_not(None)).distinct()

    def start_rows(ledger: Ledger) -> list[Task]:
        waiting = ledger.connection.execute(agents).scalars().all()
        return [task for one in waiting for task in _start_queued(ledger.known, (project, one), cap, now, owner)]

    return Operation(apply=start_rows)


def _agents_of(ended: Iterable[Task]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((task.project, task.agent) for task in ended))


def _start_queued(known: KnownTasks, agent: tuple[str, str], cap: int, now: float, owner: str | None) -> list[Task]:
    """Give free slots of an agent to the tasks that wait for one, oldest first; an owner works on them at once."""
    started: list[Task] = []
    while cap and (task := known.take_queued(agent, cap)) is not None:
        task = structs.replace(
            task, queued_at=None, deadline=now + task.timeout, owner=owner, epoch=task.epoch + (owner is not None)
        )
        known.start_task(task)
        started.append(task)
    return started


def check_claim(ledger: Ledger, claim: TaskClaim) -> Task:
    """The task of a claim that still holds. Raises StaleClaimError."""
    task = ledger.known.find_task(claim.task_id)
    if task is None or not task.is_open or task.epoch != claim.epoch:
        raise StaleClaimError(claim.task_id)
    return task
