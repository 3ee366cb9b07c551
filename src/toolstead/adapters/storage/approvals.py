"""Approvals in the database: the operations that ask and decide, and the queries.

They are rare, so each operation runs statements of its own, inside the transaction that it shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from toolstead.adapters.storage.ledger import Ledger, Needs
from toolstead.adapters.storage.rows import event_number, from_json, storable, to_json
from toolstead.adapters.storage.tables import approvals
from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import NewEvent, Resolution
from toolstead.types.approval import Approval
from toolstead.types.event import Event

_OPEN: ColumnElement[bool] = approvals.c.decision.is_(None)


class AddApproval:
    """Keep a question, numbered as the event that tells of it."""

    __slots__ = ("_drafts", "_values")

    def __init__(self, approval: Approval, events: Sequence[NewEvent]) -> None:
        if not events:
            raise ValueError(f"approval {approval.id} needs an event that tells of it")
        self._values = _values(approval)
        self._drafts = [(event, to_json(event.data)) for event in events]

    def needs(self, needs: Needs) -> None:
        """Nothing."""

    def apply(self, ledger: Ledger) -> list[Event]:
        """Add it, with its events."""
        told = ledger.add_events(self._drafts)
        ledger.connection.execute(insert(approvals).values(n=event_number(told[-1].id), **self._values))
        return told


class ResolveApproval:
    """Give a question its one decision."""

    __slots__ = ("_drafts", "_id", "_values")

    def __init__(self, id: str, resolution: Resolution) -> None:
        self._id = id
        self._values: dict[str, Any] = {
            "decision": resolution.decision,
            "decided_input": None if resolution.input is None else to_json(resolution.input),
            "decision_reason": storable(resolution.reason),
            "decided_at": resolution.decided_at,
        }
        self._drafts = [(event, to_json(event.data)) for event in resolution.events]

    def needs(self, needs: Needs) -> None:
        """Nothing: the condition stands in the statement."""

    def apply(self, ledger: Ledger) -> list[Event] | None:
        """Decide it, if nobody did."""
        deciding = update(approvals).where(approvals.c.id == self._id, _OPEN).values(**self._values)
        if ledger.connection.execute(deciding).rowcount == 0:
            return None
        return ledger.add_events(self._drafts)


class ResolveApprovals:
    """Decide several questions in one commit; what each got, in order."""

    __slots__ = ("_each",)

    def __init__(self, resolutions: Sequence[tuple[str, Resolution]]) -> None:
        self._each = [ResolveApproval(one, resolution) for one, resolution in resolutions]

    def needs(self, needs: Needs) -> None:
        """Nothing."""

    def apply(self, ledger: Ledger) -> list[list[Event] | None]:
        """Decide those that are open."""
        return [one.apply(ledger) for one in self._each]


def find_approval(connection: Connection, id: str) -> Approval:
    """Raises NotFoundError."""
    row = connection.execute(select(approvals).where(approvals.c.id == id)).first()
    if row is None:
        raise NotFoundError("approval", id)
    return _approval_from(row)


def list_pending(connection: Connection) -> list[tuple[int, Approval]]:
    """Those without a decision with their numbers, oldest first."""
    wanted = select(approvals).where(_OPEN).order_by(approvals.c.n)
    return [(row[0], _approval_from(row)) for row in connection.execute(wanted)]


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


def _values(approval: Approval) -> dict[str, Any]:
    return {
        "id": approval.id,
        "call_id": storable(approval.call_id),
        "tool": approval.tool,
        "input": to_json(approval.input),
        "reason": storable(approval.reason),
        "asked_by": storable(approval.asked_by),
        "thread_id": approval.thread_id,
        "run_id": approval.run_id,
        "task_id": approval.task_id,
        "owner": approval.owner,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "decision": approval.decision,
        "decided_input": None if approval.decided_input is None else to_json(approval.decided_input),
        "decision_reason": storable(approval.decision_reason),
        "decided_at": approval.decided_at,
    }


def _approval_from(row: Sequence[Any]) -> Approval:
    _, own_id, call_id, tool, asked_input, reason, asked_by, thread_id, run_id, task_id = row[:10]
    owner, requested_at, expires_at, decision, decided_input, decision_reason, decided_at = row[10:]
    return Approval(
        id=own_id,
        call_id=call_id,
        tool=tool,
        input=from_json(asked_input),
        reason=reason,
        asked_by=asked_by,
        thread_id=thread_id,
        run_id=run_id,
        task_id=task_id,
        owner=owner,
        requested_at=requested_at,
        expires_at=expires_at,
        decision=decision,
        decided_input=None if decided_input is None else from_json(decided_input),
        decision_reason=decision_reason,
        decided_at=decided_at,
    )
