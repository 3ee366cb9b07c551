"""The writes that many callers make at once, each a small value that a batch applies.

`needs` says what must be known, `apply` decides and leaves rows in the ledger. An operation that is
refused (a `ToolsteadError`) is refused before it left anything there. Texts and JSON are made when
the operation is made, so what a caller changes afterwards changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection

from toolstead.adapters.storage.ledger import Draft, Ledger, Needs
from toolstead.adapters.storage.rows import ending_values, message_values, run_values, thread_values, to_json
from toolstead.adapters.storage.run_commands import remove_command
from toolstead.orchestrator.store import Accepted, Begun, Behind, Ending, NewEvent
from toolstead.types.event import Event
from toolstead.types.run import ENDS, Run
from toolstead.types.thread import Message, Thread

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Operation(Protocol[T_co]):
    """A write that shares its transaction, and its visits to the database, with others."""

    def needs(self, needs: Needs) -> None:
        """Say what must be known."""
        ...

    def apply(self, ledger: Ledger) -> T_co:
        """Decide, and leave rows."""
        ...


class Direct(Generic[T]):
    """A write with statements of its own: it shares the transaction only."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work


class AddThread:
    """Keep a thread; one that is there stays as it is."""

    __slots__ = ("_thread", "_values")

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._values = thread_values(thread)

    def needs(self, needs: Needs) -> None:
        """Whether the thread is there."""
        needs.threads.add(self._thread.id)

    def apply(self, ledger: Ledger) -> None:
        """Add it if it is new."""
        if not ledger.has_thread(self._thread.id):
            ledger.add_thread(self._thread.id, self._values)


class AddMessage:
    """Keep a message that starts no run."""

    __slots__ = ("_command_id", "_drafts", "_key", "_message", "_values")

    def __init__(
        self, message: Message, key: str | None, events: Sequence[NewEvent], command_id: str | None = None
    ) -> None:
        if key is not None and message.run_id is None:
            raise ValueError(f"message {message.id} belongs to no run, so that there is nothing to keep a key for")
        self._message = message
        self._key = None if key is None else (message.thread_id, key)
        self._values = message_values(message)
        self._drafts = _drafts(events)
        self._command_id = command_id

    def needs(self, needs: Needs) -> None:
        """Whether the thread is there, and the key is used."""
        needs.threads.add(self._message.thread_id)
        if self._key is not None:
            needs.keys.add(self._key)

    def apply(self, ledger: Ledger) -> Accepted:
        """Add it, with its events, or give what the key was used for."""
        message = self._message
        ledger.check_thread(message.thread_id)
        if self._command_id is not None:
            remove_command(ledger.connection, self._command_id)
        if self._key is not None and (holder := ledger.holder_of(self._key)) is not None:
            return Accepted(message_id=holder[0], run_id=holder[1], fresh=False)
        ledger.add_message(self._values)
        run_id = message.run_id or ""
        if self._key is not None:
            ledger.add_key(self._key, (message.id, run_id), message.created_at)
        return Accepted(message_id=message.id, run_id=run_id, fresh=True, events=ledger.add_events(self._drafts))


class Append:
    """Keep events."""

    __slots__ = ("_drafts",)

    def __init__(self, events: Sequence[NewEvent]) -> None:
        self._drafts = _drafts(events)

    def needs(self, needs: Needs) -> None:
        """Nothing."""

    def apply(self, ledger: Ledger) -> list[Event]:
        """Add them."""
        return ledger.add_events(self._drafts)


class Accept:
    """Keep a message and the run that will answer it."""

    __slots__ = ("_drafts", "_key", "_message", "_message_values", "_run", "_run_values", "_thread_values")

    def __init__(
        self, message: Message, run: Run, key: str | None, events: Sequence[NewEvent], thread: Thread | None = None
    ) -> None:
        if message.thread_id != run.thread_id:
            raise ValueError(f"message {message.id} and run {run.id} must be of one thread")
        self._message = message
        self._run = run
        self._key = None if key is None else (message.thread_id, key)
        self._message_values = message_values(message)
        self._run_values = run_values(run)
        self._thread_values = thread_values(thread or _thread_for(message, run))
        self._drafts = _drafts(events)

    def needs(self, needs: Needs) -> None:
        """Whether the thread is there, and the key is used."""
        needs.threads.add(self._message.thread_id)
        if self._key is not None:
            needs.keys.add(self._key)

    def apply(self, ledger: Ledger) -> Accepted:
        """Add all of it, or give what the key was used for."""
        if self._key is not None and (holder := ledger.holder_of(self._key)) is not None:
            return Accepted(message_id=holder[0], run_id=holder[1], fresh=False)
        message, run = self._message, self._run
        if not ledger.has_thread(message.thread_id):
            ledger.add_thread(message.thread_id, self._thread_values)
        ledger.add_message(self._message_values)
        ledger.add_run(run.id, run.status, run.thread_id, run.owner, self._run_values)
        if self._key is not None:
            ledger.add_key(self._key, (message.id, run.id), message.created_at)
        return Accepted(message_id=message.id, run_id=run.id, fresh=True, events=ledger.add_events(self._drafts))


class BeginRun:
    """Queued becomes running, when its turn has come."""

    __slots__ = ("_drafts", "_id", "_started_at", "_thread_id")

    def __init__(self, run: Run, started_at: float, events: Sequence[NewEvent]) -> None:
        self._id = run.id
        self._thread_id = run.thread_id
        self._started_at = started_at
        self._drafts = _drafts(events)

    def needs(self, needs: Needs) -> None:
        """The unfinished runs of its thread."""
        needs.lines.add(self._thread_id)

    def apply(self, ledger: Ledger) -> Begun | Behind | None:
        """Begin it, if it still waits and nobody goes before it."""
        line = ledger.line(self._thread_id)
        if line.waiting.get(self._id, ("", ""))[1] != "queued":
            return None
        if ahead := line.before(self._id):
            return Behind(runs=ahead)
        last = line.last
        ledger.begin_run(self._id, self._thread_id, self._started_at)
        return Begun(events=ledger.add_events(self._drafts), last=last, session_id=line.session_id)


class EndRun:
    """Give a run its one end."""

    __slots__ = ("_answer_values", "_drafts", "_ending", "_id", "_values")

    def __init__(self, id: str, ending: Ending) -> None:
        self._id = id
        self._ending = ending
        self._values = ending_values(ending)
        self._answer_values = None if ending.answer is None else message_values(ending.answer)
        self._drafts = _drafts(ending.events)

    def needs(self, needs: Needs) -> None:
        """The run's status, and whether the answer's thread is there."""
        needs.runs.add(self._id)
        if self._ending.answer is not None:
            needs.threads.add(self._ending.answer.thread_id)

    def check(self, ledger: Ledger) -> None:
        """Refuse an answer whose thread is not there."""
        if self._ending.answer is not None and ledger.run_state(self._id) is not None:
            ledger.check_thread(self._ending.answer.thread_id)

    def apply(self, ledger: Ledger) -> list[Event] | None:
        """End it, if it has no end yet."""
        state = ledger.run_state(self._id)
        if state is None or state[0] in ENDS:
            return None
        self.check(ledger)
        if self._answer_values is not None:
            ledger.add_message(self._answer_values)
        ledger.end_run(self._id, self._ending.status, self._values)
        if self._ending.session_id is not None:
            ledger.set_session(state[1], self._ending.session_id)
        return ledger.add_events(self._drafts)


class EndRuns:
    """End several runs in one commit; what each got, in order."""

    __slots__ = ("_each",)

    def __init__(self, endings: Sequence[tuple[str, Ending]]) -> None:
        self._each = [EndRun(run_id, ending) for run_id, ending in endings]

    def needs(self, needs: Needs) -> None:
        """What each needs."""
        for one in self._each:
            one.needs(needs)

    def apply(self, ledger: Ledger) -> list[list[Event] | None]:
        """End those that have no end yet; a refusal comes before the first."""
        for one in self._each:
            one.check(ledger)
        return [one.apply(ledger) for one in self._each]


def _thread_for(message: Message, run: Run) -> Thread:
    return Thread(
        id=message.thread_id, created_at=message.created_at, agent=run.agent, runtime=run.runtime, model=run.model
    )


def _drafts(events: Sequence[NewEvent]) -> list[Draft]:
    return [(event, to_json(event.data)) for event in events]
