"""One invocation of an agent in a thread."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

import msgspec

from toolstead.types.sent import SentStruct

RunStatus = Literal["queued", "running", "completed", "failed", "timeout", "cancelled", "stopped", "lost"]
RunEnd = Literal["completed", "failed", "timeout", "cancelled", "stopped", "lost"]

Warmth = Literal["warm", "resumed", "cold"]
"""How a session was found: already open, opened with its conversation, or opened empty."""

ENDS: frozenset[str] = frozenset(get_args(RunEnd))


class Usage(SentStruct, frozen=True, kw_only=True):
    """What it used.

    Attributes:
        input_tokens: Tokens that were read.
        output_tokens: Tokens that were written.
        cost: In USD.
    """

    input_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    output_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )


NOTHING_USED = Usage()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn ended with: the model's last text, and what all its requests used."""

    text: str
    usage: Usage = NOTHING_USED


class RunError(SentStruct, frozen=True, kw_only=True):
    """Why it did not complete.

    Attributes:
        code: A word for programs.
        message: A sentence for people.
    """

    code: str
    message: str


class TreeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far the tree below a run may grow; the commit that accepts a child counts.

    Attributes:
        max_depth: The depth of the deepest run; the root is 0. A run there is offered no tool that starts agents.
        max_fanout: Children of this run, finished ones included.
        max_descendants: Runs below the root of its tree.
    """

    max_depth: int = 5
    max_fanout: int = 8
    max_descendants: int = 64

    def limit_child(self, own: TreeLimits) -> TreeLimits:
        """The limits of a child with limits of its own: the tree's stay those of the root, and none is exceeded."""
        return TreeLimits(
            max_depth=min(self.max_depth, own.max_depth),
            max_fanout=own.max_fanout,
            max_descendants=self.max_descendants,
        )


class Invoking(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation that is about to begin, as `on_before_invoke` gets it.

    Attributes:
        session: How the session was found: `warm` and `resumed` ones know the conversation, a `cold` one does not.
        has_history: Whether there may be earlier messages in the thread.
    """

    run_id: str
    agent: str
    model: str
    runtime: str
    session: Warmth
    has_history: bool = True


class Run(SentStruct, frozen=True, kw_only=True):
    """One invocation of an agent; runs form a tree.

    Attributes:
        id: Its id.
        thread_id: Its thread.
        prompt: What it was asked, as the caller wrote it.
        created_at: Seconds since 1970.
        owner: The process that holds it; another one may touch it only when that one is dead.
        status: How far it is, or how it ended.
        parent_run_id: The run whose tool call started it; `parent_agent` is that run's agent.
        parent_agent: The agent of that run.
        task_id: The delegated task it works on.
        depth: How many runs stand above it.
        root_run_id: The run at the top of its tree; None for that run itself.
        attempt: Which try of the same work it is; only the first one counts as a child of its parent.
        profile: The profile that narrows what it may see and call; no profile does where it is absent.
        agent: Which agent.
        runtime: What drives the model.
        model: Which model; empty for the runtime's own.
        result: What it answered, when it completed.
        error: Why it did not complete.
        usage: What it used.
        started_at: When it began, in seconds since 1970; null while it is queued.
        ended_at: When it ended, in seconds since 1970.
    """

    unsent: ClassVar[frozenset[str]] = frozenset(
        {"prompt", "owner", "created_at", "parent_agent", "task_id", "depth", "root_run_id", "attempt"}
    )

    optional: ClassVar[frozenset[str]] = frozenset({"profile"})

    id: str
    thread_id: str
    prompt: str
    created_at: float
    owner: str
    status: RunStatus = "queued"
    parent_run_id: str | None = None
    agent: str = ""
    runtime: str = ""
    model: str = ""
    result: str | None = None
    error: RunError | None = None
    usage: Usage = NOTHING_USED
    started_at: float | None = None
    ended_at: float | None = None
    parent_agent: str = ""
    task_id: str | None = None
    depth: int = 0
    root_run_id: str | None = None
    attempt: int = 1
    profile: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has its end."""
        return self.status in ENDS


class ListedRun(Run, frozen=True, kw_only=True):
    """A run in a list or a tree: with its place there, and the beginnings of its texts.

    Attributes:
        prompt: The beginning of what it was asked.
        result: The beginning of what it answered, when it completed.
        created_at: When it was accepted, in seconds since 1970.
        root_run_id: The run at the top of its tree: itself, where it is that one. Of a task that no run delegated, the
            task.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"owner", "parent_agent"})
    optional: ClassVar[frozenset[str]] = frozenset({"profile", "task_id"})
