"""The store port: what is kept. `adapters/storage` implements it; the orchestrator and the event log use it.

Every method that writes returns only when what it wrote is committed. Writes of many callers may
share a commit, and take effect in the order they were called. A write that was begun is finished
also when its caller stops waiting for it. A run gets its end once: a second caller gets None.
Every method may raise `StorageError`; a write that does has written nothing, unless the message says
that the connection was lost during the commit.

What goes in and out are structs: to define a frozen dataclass costs a start 0.5 ms, and one of these 0.02.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from toolstead.delegation.budget import TokenWish, TreeShare
    from toolstead.delegation.task_store import TaskClaim, TaskStore
    from toolstead.orchestrator.log_store import EventFilter, LogStore, MessagePage
    from toolstead.types.approval import Approval, ApprovalDecision
    from toolstead.types.event import Event, NewEvent
    from toolstead.types.plugin_row import PluginRow
    from toolstead.types.result import KeptResult
    from toolstead.types.run import Run, RunEnd, RunError, TreeLimits, Usage
    from toolstead.types.step import RunStep, StepBatch
    from toolstead.types.task import Task
    from toolstead.types.thread import ListedThread, Message, Thread, ThreadFilter
    from toolstead.types.vfs import FileChange, FileLimits, FileVersion, SharedFile

StructT = TypeVar("StructT", bound=msgspec.Struct)
OnCommit = Callable[[str, str, "Sequence[Event]"], None]
"""Takes the positions before and after a commit, and the events that it stored.

What lies between the position after one commit and that before the next was stored by other processes.
"""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is stored, and the run that will answer it.

    Attributes:
        run_id: Empty when no run does.
        fresh: False when a message with the same idempotency key was there already.
        events: The events stored with it; empty unless fresh.
        share: What the run may use of its tree's budget from the start.
    """

    message_id: str
    run_id: str
    fresh: bool
    events: Sequence[Event] = ()
    share: TreeShare | None = None


class HeldRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of some process."""

    id: str
    owner: str


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that runs now.

    Attributes:
        events: The events stored with that.
        last: The run that began in the thread before it; the process that held that one knows the conversation best.
        session_id: The thread's session id as it is now; the thread itself may have been read long before.
        results: The tasks whose results this turn holds.
    """

    events: Sequence[Event]
    last: HeldRun | None
    session_id: str | None = None
    results: Sequence[Task] = ()


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """A run that may not begin yet.

    Attributes:
        runs: Those that go first, oldest first: unfinished ones that came earlier, and one that runs.
    """

    runs: Sequence[HeldRun]


class RunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What one process asks of a run that another process holds.

    Attributes:
        id: For `steer` the id that the message will have.
        kind: `signal` is a `steer` of a sub-agent: its message is of kind `signal`.
        text: For `cancel` the reason, for `steer` the message.
        key: For `steer` the idempotency key of the message; by it the sender finds out that the message was stored.
    """

    id: str
    run_id: str
    kind: Literal["cancel", "steer", "signal"]
    text: str
    created_at: float
    key: str | None = None


class StoredChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of something stored: of every field that both name alike; None leaves a field as it was."""

    def given_to(self, stored: StructT) -> StructT:
        """The stored value as it is with this change."""
        shared = set(stored.__struct_fields__) & set(self.__struct_fields__)
        changes = {name: value for name in shared if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(stored, **changes)


class Ending(StoredChange, frozen=True, kw_only=True):
    """How a run ends: stored in one commit with its answer and its last event.

    Attributes:
        steps: Those that are not stored yet.
        results: The results that its turn held, as messages.
        has_tasks: Whether it took results, or delegated.
        shared_root: The root of its tree, where the runs of the tree share a budget.
    """

    status: RunEnd
    ended_at: float
    result: str | None = None
    error: RunError | None = None
    usage: Usage | None = None
    answer: Message | None = None
    session_id: str | None = None
    events: Sequence[NewEvent] = ()
    steps: Sequence[StepBatch] = ()
    results: Sequence[Message] = ()
    has_tasks: bool = False
    shared_root: str | None = None


class Resolution(StoredChange, frozen=True, kw_only=True):
    """How an approval is decided: stored in one commit with its event.

    Attributes:
        decided_input: The arguments to go on with instead; None when they stay as they are.
    """

    decision: ApprovalDecision
    decided_at: float
    decision_reason: str = ""
    decided_input: Mapping[str, Any] | None = None
    events: Sequence[NewEvent] = ()


class EventPage(list["Event"]):
    """Some events.

    Attributes:
        is_last: Whether none of those that were asked for follow.
    """

    is_last = True


class ConversationStore(Protocol):
    """Everything that is kept but tasks."""

    owner: str
    """This process, as runs and tasks name it."""

    # The numbered log.

    async def append_events(self, events: Sequence[NewEvent], steps: Sequence[StepBatch] = ()) -> list[Event]:
        """Keep events in this order; their ids are assigned in commit order. Steps come along in the same commit.

        Steps of a run that is not there, and steps that are there already, are not kept.
        """
        ...

    async def list_events(
        self, wanted: EventFilter, *, after: str | None = None, until: str | None = None, limit: int = 500
    ) -> EventPage:
        """Events after an id and up to another, oldest first. Raises NotFoundError for what cannot be an id.

        A page has at most `limit` events and about 8 MiB, but at least one event.

        The `message.delta` events of a run that ended are joined: several that follow each other, in what is wanted
        and between the two ids, are one, with the id of the last. No text comes twice, and none is left out,
        whichever ids are given and whenever the run ends.
        """
        ...

    async def event_position(self) -> str:
        """The id up to which everything is committed, by whichever process; later events have later ids.

        The listener was called for all commits of this process up to it.
        """
        ...

    def on_commit(self, listener: OnCommit) -> None:
        """Call this listener for each commit of this process, in order, before the callers that wait for it."""
        ...

    # Threads and their messages.

    async def create_thread(self, thread: Thread) -> None:
        """Keep a new thread; one that is there already stays as it is."""
        ...

    async def read_thread(self, id: str) -> Thread:
        """Raises NotFoundError."""
        ...

    async def list_threads(
        self, wanted: ThreadFilter | None = None, *, limit: int = 100, before: str | None = None
    ) -> list[ListedThread]:
        """Those that were used last come first: by their last message that was answered or is to be.

        `before` is the id of the last one of the page before. Raises NotFoundError for it.
        """
        ...

    async def update_thread(self, id: str, **changes: str | None) -> Thread:
        """Change title, agent, runtime, model or session_id. Raises NotFoundError."""
        ...

    async def list_thread_tree(self, id: str) -> list[str]:
        """The ids of a thread and of every thread below it; of the thread alone when it is not there."""
        ...

    async def delete_thread(self, id: str) -> None:
        """Delete it, and every thread below it, with messages, runs, steps, events and idempotency keys.

        Raises NotFoundError.

        Shared files belong to the root of a thread tree, and are deleted with that thread.

        A run of it that is still going on finds, when it ends, that it is gone; end it first.
        """
        ...

    async def list_messages(self, thread_id: str, *, limit: int | None = None) -> list[Message]:
        """Its messages, oldest first; with a limit the newest of them."""
        ...

    async def list_message_page(
        self, thread_id: str, *, after: str | None = None, limit: int = 200, max_bytes: int = 8 << 20
    ) -> MessagePage:
        """Its next messages after one of them, oldest first: at most `limit`, and at most `max_bytes` of content.

        A message that is larger than `max_bytes` is a page of its own. Raises NotFoundError for `after`.
        """
        ...

    async def add_message(
        self,
        message: Message,
        events: Sequence[NewEvent] = (),
        *,
        idempotency_key: str | None = None,
        command_id: str | None = None,
    ) -> Accepted:
        """Keep a message that starts no run, with its events. Raises NotFoundError for its thread.

        A key that the thread has seen gives the ids it was used for, and keeps nothing. The command that the message
        came with is removed in the same commit.
        """
        ...

    async def find_accepted(self, thread_id: str, idempotency_key: str) -> Accepted | None:
        """What a key of a thread was used for, not fresh; None when it was not used."""
        ...

    # Runs, and which processes hold them.

    async def accept_message(
        self,
        message: Message,
        run: Run,
        *,
        thread: Thread | None = None,
        idempotency_key: str | None = None,
        limits: TreeLimits | None = None,
        events: Sequence[NewEvent] = (),
    ) -> Accepted:
        """Keep a message and the queued run that will answer it, in one commit.

        A thread that is not there is made as `thread` says, else with the run's agent, runtime and model.
        A key that the thread has seen gives the ids it was used for, and keeps nothing. With `limits`, those of its
        parent, a run that would exceed one is refused with a LimitError: its depth, the children of its parent and
        the descendants of its root are counted in this commit.
        """
        ...

    async def accept_run(
        self,
        run: Run,
        *,
        thread: Thread,
        key: str,
        message: Message | None = None,
        answers: str | None = None,
        claim: TaskClaim | None = None,
        wish: TokenWish | None = None,
        events: Sequence[NewEvent] = (),
    ) -> Accepted:
        """Keep a queued run that works on a task, or is woken for results of tasks, in one commit.

        A key that the thread has seen gives the ids it was used for, and keeps nothing. `answers` is a message that
        an earlier run was to answer, and was lost. Without a claim, the run is woken for the results that wait in the
        thread; where none does, nothing is kept and the run's id is empty. `wish` is the envelope of its turn.
        Raises StaleClaimError, and LimitError where the tree has nothing left for the envelope.
        """
        ...

    async def begin_run(self, run: Run, started_at: float, events: Sequence[NewEvent] = ()) -> Begun | Behind | None:
        """Queued becomes running; None when it is not queued any more, or is gone with its thread.

        One run at a time in each thread, in the order in which they were accepted, whichever processes hold
        them: while another one runs, or an older one is unfinished, it stays queued, and gets the runs that go first.
        A run that begins takes the results of tasks that wait in its thread.
        """
        ...

    async def end_run(self, id: str, ending: Ending) -> list[Event] | None:
        """Give a run its one end; None when it has one already, or is gone with its thread."""
        ...

    async def read_run(self, id: str) -> Run:
        """Raises NotFoundError."""
        ...

    async def list_steps(self, run_id: str, *, after: int = 0, limit: int = 50) -> list[RunStep]:
        """The steps of a run after a number, as they are stored, in order; none for a run that is not there."""
        ...

    async def add_command(self, command: RunCommand) -> bool:
        """Keep a command for the process that holds an unfinished run; False when the run has ended."""
        ...

    async def list_commands(self) -> list[RunCommand]:
        """The commands for this process's runs, oldest first."""
        ...

    async def has_command(self, id: str) -> bool:
        """Whether a command is still there: neither carried out nor refused nor withdrawn."""
        ...

    async def remove_command(self, id: str) -> bool:
        """Remove a command that is refused, carried out or withdrawn; False when it was there no more."""
        ...

    async def list_runs(self, *, thread_id: str | None = None, unfinished: bool = False, limit: int = 100) -> list[Run]:
        """The newest first."""
        ...

    async def recover_runs(self, ending_for: Callable[[Run], Ending]) -> list[tuple[Run, list[Event]]]:
        """End the runs of processes that are dead, and only those: `ending_for(run)` gives each its Ending.

        What comes back are the runs as they ended, each with the events stored with its end.
        """
        ...

    # Results behind handles, plugins' switches and settings, and their key-value spaces.

    async def keep_result(self, handle: str, result: KeptResult) -> None:
        """Keep a whole result."""
        ...

    async def read_result(self, handle: str) -> KeptResult:
        """Raises NotFoundError."""
        ...

    async def list_plugins(self) -> Mapping[str, PluginRow]:
        """What was set, by plugin."""
        ...

    async def replace_plugin(self, name: str, before: PluginRow, after: PluginRow) -> bool:
        """Set this instead of what was set before; False when that was not it, and nothing is changed.

        An empty row stands for one that is not there.
        """
        ...

    async def reset_plugin(self, name: str) -> bool:
        """Forget what was set; False when nothing was."""
        ...

    async def get_value(self, space: str, key: str) -> bytes | None:
        """A value of a plugin's own space."""
        ...

    async def set_value(self, space: str, key: str, value: bytes) -> None:
        """Keep a value."""
        ...

    async def delete_value(self, space: str, key: str) -> bool:
        """Forget a value; False when there was none."""
        ...

    async def list_keys(self, space: str, prefix: str = "") -> list[str]:
        """The keys of a space, sorted."""
        ...

    # Shared files. They belong to the root of the thread's tree: each thread of the tree reads and writes the same.

    async def read_file(self, thread_id: str, path: str, *, version: int | None = None) -> SharedFile | None:
        """A version of a file, the newest unless one is named; a deletion too. None when there is none."""
        ...

    async def list_files(self, thread_id: str, prefix: str = "") -> list[FileVersion]:
        """The newest version of each file that is not deleted, sorted by path."""
        ...

    async def list_file_versions(
        self, thread_id: str, path: str, *, limit: int = 100, before: int | None = None
    ) -> list[FileVersion]:
        """The versions of a file, the newest first; with `before` only older ones than that."""
        ...

    async def write_file(self, change: FileChange, limits: FileLimits) -> FileVersion:
        """Keep a change as the file's next version, whose number is given in the commit.

        Raises FileConflictError, InvalidFileError and NotFoundError as `file_change.make_version` says.
        """
        ...

    # Questions to a person; each gets its decision once, whichever processes ask and decide.

    async def add_approval(self, approval: Approval, events: Sequence[NewEvent]) -> list[Event]:
        """Keep a question, with its events; the last of them is that it was asked."""
        ...

    async def resolve_approval(self, id: str, resolution: Resolution) -> list[Event] | None:
        """Give a question its one decision; None when it has one already, or is gone."""
        ...

    async def read_approval(self, id: str) -> Approval:
        """Raises NotFoundError."""
        ...

    async def pending_approvals(self) -> list[Approval]:
        """Those without a decision, oldest first."""
        ...

    async def pending_ids(self, owner: str) -> frozenset[str]:
        """The ids of a process's questions that have no decision."""
        ...

    async def recover_approvals(
        self, resolution_for: Callable[[Approval], Resolution]
    ) -> list[tuple[Approval, list[Event]]]:
        """Decide the questions of processes that are dead, and only those.

        What comes back are the approvals as they were decided, each with its events.
        """
        ...

    async def expire_rows(self, before: float, kinds: Collection[str] = ("events", "results", "keys", "steps")) -> int:
        """Delete what is older and belongs to no unfinished run; give the number of rows.

        `keys` are idempotency keys. A result belongs to no run. The `steps` of a run go together, by its end.
        """
        ...

    async def close(self) -> None:
        """Finish what is being written, give up this process's lock, close."""
        ...


if TYPE_CHECKING:

    class Store(ConversationStore, LogStore, TaskStore, Protocol):
        """Everything that is kept."""

else:
    Store = ConversationStore  # a name for annotations; the port of tasks would cost every start 2 ms
