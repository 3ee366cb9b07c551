"""The writes that many callers make at once, each a small value that a batch applies.

An operation names what must be known, and has a function that decides and leaves rows in the ledger. One that is
refused (a `ToolsteadError`) is refused before it left anything there. Rows are made when the operation is made, so
what a caller changes afterwards changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import structs
from sqlalchemy import Connection, insert, update

from toolstead.adapters.storage.ledger import Draft, Ledger, Operation, encode_events, encode_steps
from toolstead.adapters.storage.queries import remove_command
from toolstead.adapters.storage.rows import event_number
from toolstead.adapters.storage.tables import (
    APPROVALS,
    MESSAGES,
    PENDING,
    RESOLVE,
    RUNS,
    THREADS,
    UsedKey,
    approvals,
)
from toolstead.adapters.storage.task_operations import end_waited_children
from toolstead.adapters.storage.task_queries import take_waiting
from toolstead.adapters.storage.task_settlement import INTERRUPTED, add_late_usage, settle_run
from toolstead.adapters.storage.tree_budgets import settle_run_share
from toolstead.errors import LimitError, NotFoundError
from toolstead.orchestrator.store import Accepted, Begun, Behind, Ending, Resolution
from toolstead.types.approval import Approval
from toolstead.types.event import Event, NewEvent
from toolstead.types.run import ENDS, Run, TreeLimits
from toolstead.types.step import StepBatch
from toolstead.types.thread import Message, Thread

T = TypeVar("T")


def run_directly(work: Callable[[Connection], T]) -> Operation[T]:
    """A write with statements of its own: it shares the transaction only."""
    return Operation(apply=lambda ledger: work(ledger.connection), is_direct=True)


def add_thread(thread: Thread) -> Operation[None]:
    """Keep a thread; one that is there stays as it is."""
    row = THREADS.encode_row(thread)
    return Operation(apply=lambda ledger: ledger.add_thread(thread.id, row), threads=(thread.id,))


def add_message(
    message: Message,
    events: Sequence[NewEvent] = (),
    *,
    idempotency_key: str | None = None,
    command_id: str | None = None,
) -> Operation[Accepted]:
    """Keep a message that starts no run, with its events, or give what the key was used for.

    The command that it came with is removed.
    """
    row = MESSAGES.encode_row(message)
    drafts = encode_events(events)

    def add_rows(ledger: Ledger) -> Accepted:
        if message.thread_id not in ledger.threads:
            raise NotFoundError("thread", message.thread_id)
        if command_id is not None:
            remove_command(ledger.connection, command_id)
        if (used := ledger.keys.get((message.thread_id, idempotency_key))) is not None:
            return Accepted(message_id=used.message_id, run_id=used.run_id, fresh=False)
        ledger.add_row(MESSAGES, row)
        return _store_accepted(ledger, message, message.run_id or "", idempotency_key, drafts)

    return Operation(apply=add_rows, threads=(message.thread_id,), keys=_keys_of(message, idempotency_key))


def append_events(events: Sequence[NewEvent], steps: Sequence[StepBatch] = ()) -> Operation[list[Event]]:
    """Keep events, and the steps of runs that are there."""
    drafts = encode_events(events)
    rows = encode_steps(steps)

    def add_rows(ledger: Ledger) -> list[Event]:
        ledger.add_steps(rows)
        return ledger.add_events(drafts)

    return Operation(apply=add_rows)


def accept_message(
    message: Message,
    run: Run,
    *,
    thread: Thread | None = None,
    idempotency_key: str | None = None,
    limits: TreeLimits | None = None,
    events: Sequence[NewEvent] = (),
) -> Operation[Accepted]:
    """Keep a message and the run that will answer it, or give what the key was used for."""
    if message.thread_id != run.thread_id:
        raise ValueError(f"message {message.id} and run {run.id} must be of one thread")
    row, run_row = MESSAGES.encode_row(message), RUNS.encode_row(run)
    thread_row = THREADS.encode_row(
        thread
        or Thread(
            id=message.thread_id, created_at=message.created_at, agent=run.agent, runtime=run.runtime, model=run.model
        )
    )
    drafts = encode_events(events)

    def add_rows(ledger: Ledger) -> Accepted:
        if (used := ledger.keys.get((message.thread_id, idempotency_key))) is not None:
            return Accepted(message_id=used.message_id, run_id=used.run_id, fresh=False)
        if limits is not None:
            _check_limits(ledger, run, limits)
        ledger.add_thread(message.thread_id, thread_row)
        ledger.add_row(MESSAGES, row)
        ledger.add_run(run, run_row)
        return _store_accepted(ledger, message, run.id, idempotency_key, drafts)

    return Operation(
        apply=add_rows,
        threads=(message.thread_id,),
        keys=_keys_of(message, idempotency_key),
        families=() if limits is None else [one for one in (run.parent_run_id, run.root_run_id) if one],
    )


def _check_limits(ledger: Ledger, run: Run, limits: TreeLimits) -> None:
    """Refuse a child that its parent's limits do not allow.

    Raises:
        LimitError: Which limit, and how to raise it.
    """
    children, below = ledger.children.get(run.parent_run_id, 0), ledger.descendants.get(run.root_run_id, 0)
    if run.depth > limits.max_depth:
        what, limit = f"runs may be {limits.max_depth} deep, and this one would be {run.depth}", "depth"
    elif children >= limits.max_fanout:
        what, limit = f"one run may start {limits.max_fanout} agents, and this one has started {children}", "fanout"
    elif below >= limits.max_descendants:
        what, limit = f"a tree may have {limits.max_descendants} runs below its root, and has {below}", "descendants"
    else:
        return
    raise LimitError(f"LimitReached: {what}; do the work yourself. limits.max_{limit} sets this", limit=limit)


def begin_run(run: Run, started_at: float, events: Sequence[NewEvent] = ()) -> Operation[Begun | Behind | None]:
    """Queued becomes running, if the run still waits and no other goes before it."""
    begun = structs.replace(run, status="running", started_at=started_at)
    drafts = encode_events(events)

    def begin_row(ledger: Ledger) -> Begun | Behind | None:
        queue = ledger.queues[run.thread_id]
        if queue.waiting.get(run.id, ("", ""))[1] != "queued":
            return None
        if ahead := queue.runs_before(run.id):
            return Behind(runs=ahead)
        last = queue.last
        ledger.begin_run(begun)
        results = take_waiting(ledger.connection, run.thread_id, run.id) if queue.has_results else ()
        return Begun(events=ledger.add_events(drafts), last=last, session_id=queue.session_id, results=results)

    return Operation(apply=begin_row, queues=(run.thread_id,))


def end_runs(endings: Sequence[tuple[str, Ending]]) -> Operation[list[list[Event] | None]]:
    """End those runs that have no end yet, in one commit; what each got, in order."""
    written = [
        [MESSAGES.encode_row(one) for one in (*ending.results, ending.answer) if one is not None]
        for _, ending in endings
    ]
    drafts = [encode_events(ending.events) for _, ending in endings]
    steps = [encode_steps(ending.steps) for _, ending in endings]

    def end_rows(ledger: Ledger) -> list[list[Event] | None]:
        stored: list[list[Event] | None] = []
        for (run_id, ending), messages, events, taken in zip(endings, written, drafts, steps, strict=True):
            is_unfinished = run_id in ledger.runs and ledger.runs[run_id][0] not in ENDS
            if is_unfinished:
                for message in messages:
                    ledger.add_row(MESSAGES, message)
                ledger.end_run(run_id, ending)
                ledger.add_steps(taken)
                _settle_tasks(ledger, run_id, ending)
            stored.append(ledger.add_events(events) if is_unfinished else None)
        return stored

    return Operation(
        apply=end_rows,
        runs=[run_id for run_id, _ in endings],
        shares=[run_id for run_id, ending in endings if ending.shared_root is not None],
    )


def end_run_row(ledger: Ledger, run: Run, ending: Ending) -> None:
    """End a run that another process holds, and that has no end yet."""
    ledger.runs[run.id] = (run.status, run.thread_id)
    ledger.end_run(run.id, ending)
    _settle_tasks(ledger, run.id, ending)
    ledger.add_events(encode_events(ending.events))


def _settle_tasks(ledger: Ledger, run_id: str, ending: Ending) -> None:
    """What the end of a run means for its tree; of a run that another process held, nothing is known."""
    is_interrupted = ending.status in INTERRUPTED
    if ending.shared_root is not None or is_interrupted:
        settle_run_share(ledger.known, run_id, ending.usage, ending.shared_root)
    if ending.has_tasks and not is_interrupted:  # before the results are settled: theirs are among them
        end_waited_children(ledger, run_id, ending.ended_at)
    if ending.has_tasks or is_interrupted:
        settle_run(ledger.connection, run_id, ending.status, ending.ended_at)
    if ending.status == "cancelled" and ending.shared_root is not None and ending.usage is not None:
        add_late_usage(ledger.connection, run_id, ending.usage)


def add_approval(approval: Approval, events: Sequence[NewEvent]) -> Operation[list[Event]]:
    """Keep a question with its events, numbered as the last of them: that it was asked."""
    if not events:
        raise ValueError(f"approval {approval.id} needs an event that tells of it")
    values = APPROVALS.encode_values(approval)
    drafts = encode_events(events)

    def add_rows(ledger: Ledger) -> list[Event]:
        stored = ledger.add_events(drafts)
        ledger.connection.execute(insert(approvals).values(n=event_number(stored[-1].id), **values))
        return stored

    return Operation(apply=add_rows)


def resolve_approvals(resolutions: Sequence[tuple[str, Resolution]]) -> Operation[list[list[Event] | None]]:
    """Decide those questions that are open, in one commit; what each got, in order."""
    made = [(own_id, RESOLVE.encode_values(one), encode_events(one.events)) for own_id, one in resolutions]

    def resolve_rows(ledger: Ledger) -> list[list[Event] | None]:
        stored: list[list[Event] | None] = []
        for own_id, values, drafts in made:
            deciding = update(approvals).where(approvals.c.id == own_id, PENDING).values(**values)
            is_decided = ledger.connection.execute(deciding).rowcount > 0
            stored.append(ledger.add_events(drafts) if is_decided else None)
        return stored

    return Operation(apply=resolve_rows)


def _store_accepted(ledger: Ledger, message: Message, run_id: str, key: str | None, drafts: list[Draft]) -> Accepted:
    if key is not None:
        ledger.add_key(
            UsedKey(
                thread_id=message.thread_id,
                key=key,
                message_id=message.id,
                run_id=run_id,
                created_at=message.created_at,
            )
        )
    return Accepted(message_id=message.id, run_id=run_id, fresh=True, events=ledger.add_events(drafts))


def _keys_of(message: Message, key: str | None) -> tuple[tuple[str, str], ...]:
    return () if key is None else ((message.thread_id, key),)
