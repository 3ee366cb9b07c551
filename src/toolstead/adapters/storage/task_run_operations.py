"""Writes that concern a task and its runs: taking a task over, and starting the runs that work on it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from sqlalchemy import bindparam, update

from toolstead.adapters.storage.ledger import Ledger, Operation, encode_events
from toolstead.adapters.storage.operations import end_run_row
from toolstead.adapters.storage.tables import MESSAGES, RUNS, THREADS, UsedKey, messages
from toolstead.adapters.storage.task_operations import UPDATE_TASK, check_claim, list_unfinished
from toolstead.adapters.storage.task_queries import note_woken
from toolstead.adapters.storage.tree_budgets import change_share
from toolstead.delegation.budget import Exhausted, TokenWish, TreeShare, explain_exhausted
from toolstead.delegation.task_store import TaskClaim
from toolstead.errors import LimitError
from toolstead.orchestrator.endings import end_lost_run
from toolstead.orchestrator.store import Accepted
from toolstead.types.event import NewEvent
from toolstead.types.run import Run
from toolstead.types.task import SHAPE, Task
from toolstead.types.thread import Message, Thread

_ANSWER_AGAIN = (
    update(messages)
    .where(messages.c.id == bindparam("message"), messages.c.thread_id == bindparam("thread"))
    .values(run_id=bindparam("run"))
)


def claim_task(task_id: str, epoch: int, owner: str, now: float) -> Operation[Task | None]:
    """Become the owner of a task; runs of it that others hold end as `lost`.

    So do other runs of its thread that the owner before holds, such as one that answers a signal: they would keep the
    successor waiting, for ever where that process is frozen. What a third process runs there goes on.
    """

    def claim_row(ledger: Ledger) -> Task | None:
        task = ledger.known.find_task(task_id)
        if task is None or not task.is_open or task.epoch != epoch or task.queued_at is not None or task.shape > SHAPE:
            return None
        deadline = task.deadline if task.deadline is not None else now + task.timeout
        changes = {"owner": owner, "epoch": epoch + 1, "deadline": deadline}
        ledger.connection.execute(UPDATE_TASK.values(**changes), {"task": task_id})
        for run in list_unfinished(ledger, task.thread_id):
            if run.owner != owner and (run.task_id == task_id or run.owner == task.owner):
                end_run_row(ledger, run, end_lost_run(run, now))
        return structs.replace(task, **changes)

    return Operation(apply=claim_row, claimed=(task_id,))


def accept_run(
    run: Run,
    *,
    thread: Thread,
    key: str,
    message: Message | None = None,
    answers: str | None = None,
    claim: TaskClaim | None = None,
    wish: TokenWish | None = None,
    events: Sequence[NewEvent] = (),
) -> Operation[Accepted]:
    """Keep a run of a task, or one that is woken for results; the same key gives what it was used for.

    Args:
        run: The run.
        thread: Its thread, made where it is not there.
        key: Its idempotency key in the thread.
        message: The message that it answers; None where it has one already, or answers results alone.
        answers: The stored message that a lost run was to answer.
        claim: That of its task; without one the run is woken for the results that wait in its thread.
        wish: The envelope that its turn begins with; None where it asks before each request instead.
        events: Stored with it.

    Raises LimitError where the tree has nothing left for the envelope.
    """
    run_row, thread_row = RUNS.encode_row(run), THREADS.encode_row(thread)
    message_row = None if message is None else MESSAGES.encode_row(message)
    drafts = encode_events(events)

    def add_rows(ledger: Ledger) -> Accepted:
        if claim is not None:  # first: whoever lost its claim must not find the run of its successor
            check_claim(ledger, claim)
        if (used := ledger.keys.get((thread.id, key))) is not None:
            return Accepted(message_id=used.message_id, run_id=used.run_id, fresh=False)
        if claim is None and not note_woken(ledger.connection, thread.id, run.id):
            return Accepted(message_id="", run_id="", fresh=False)
        share = None if wish is None else _reserve_envelope(ledger, run, wish)
        ledger.add_thread(thread.id, thread_row)
        message_id = answers or ("" if message is None else message.id)
        if message_row is not None:
            ledger.add_row(MESSAGES, message_row)
        elif answers is not None:
            ledger.connection.execute(_ANSWER_AGAIN, {"message": answers, "thread": thread.id, "run": run.id})
        ledger.add_run(run, run_row)
        ledger.add_key(
            UsedKey(thread_id=thread.id, key=key, message_id=message_id, run_id=run.id, created_at=run.created_at)
        )
        stored = ledger.add_events(drafts)
        return Accepted(message_id=message_id, run_id=run.id, fresh=True, events=stored, share=share)

    return Operation(
        apply=add_rows,
        threads=(thread.id,),
        keys=((thread.id, key),),
        claimed=() if claim is None else (claim.task_id,),
        roots=() if wish is None else (run.root_run_id or run.id,),
    )


def _reserve_envelope(ledger: Ledger, run: Run, wish: TokenWish) -> TreeShare:
    share = TreeShare(run_id=run.id, root_run_id=run.root_run_id or run.id)
    found = change_share(ledger.known, share, wish, is_new=True)
    if isinstance(found, Exhausted):
        raise LimitError(explain_exhausted(found), limit=found.limit)
    return found.share
