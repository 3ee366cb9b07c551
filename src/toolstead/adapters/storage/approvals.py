"""Approvals in the database: the operations that ask and decide, and the queries.

They are rare, so each operation runs statements of its own, inside the transaction that it shares.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from toolstead.adapters.storage.ledger import Ledger
from toolstead.adapters.storage.operations import Operation, encode_events
from toolstead.adapters.storage.rows import event_number
from toolstead.adapters.storage.tables import APPROVALS, RESOLVE, approvals
from toolstead.orchestrator.store import Resolution
from toolstead.types.approval import Approval
from toolstead.types.event import Event, NewEvent

_OPEN: ColumnElement[bool] = approvals.c.decision.is_(None)


def add_approval(approval: Approval, events: Sequence[NewEvent]) -> Operation[list[Event]]:
    """Keep a question with its events, numbered as the last of them, which tells of it."""
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
            deciding = update(approvals).where(approvals.c.id == own_id, _OPEN).values(**values)
            is_decided = ledger.connection.execute(deciding).rowcount > 0
            stored.append(ledger.add_events(drafts) if is_decided else None)
        return stored

    return Operation(apply=resolve_rows)


def list_pending(connection: Connection) -> list[tuple[int, Approval]]:
    """Those without a decision with their numbers, oldest first."""
    wanted = select(approvals).where(_OPEN).order_by(approvals.c.n)
    return [(row[0], APPROVALS.decode_row(row)) for row in connection.execute(wanted)]


def pending_ids(connection: Connection, owner: str) -> frozenset[str]:
    """The ids of a process's questions that have no decision."""
    return frozenset(connection.execute(select(approvals.c.id).where(_OPEN, approvals.c.owner == owner)).scalars())


def last_pending_of(connection: Connection, owner: str) -> int:
    """The number of a process's newest question without a decision; 0 when there is none."""
    return connection.execute(select(func.max(approvals.c.n)).where(_OPEN, approvals.c.owner == owner)).scalar() or 0


def remove_approvals(connection: Connection, thread_id: str) -> None:
    """Those of a thread, decided or not."""
    connection.execute(delete(approvals).where(approvals.c.thread_id == thread_id))


def expire_approvals(connection: Connection, before: float) -> int:
    """Delete what was decided longer ago."""
    return connection.execute(delete(approvals).where(approvals.c.decided_at < before)).rowcount
