"""A conversation: its messages, in order."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from toolstead.types.run import RunStatus
from toolstead.types.sent import SentStruct

Role = Literal["user", "assistant", "system"]


class Message(SentStruct, frozen=True, kw_only=True):
    """One message of a thread.

    Attributes:
        id: Its id, unique over all threads; later messages of a thread have later ones.
        role: Who sent it.
        content: The text.
        created_at: When it was sent, in seconds since 1970.
        kind: `text`, or what else it is, such as a delegated task's `result`.
        run_id: The run it belongs to, if any.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"thread_id", "run_id"})

    id: str
    thread_id: str
    role: Role
    content: str
    created_at: float
    kind: str = "text"
    run_id: str | None = None


class Thread(SentStruct, frozen=True, kw_only=True):
    """A conversation and what it is held with.

    Attributes:
        id: Its id.
        created_at: When it began, in seconds since 1970.
        title: What it is called.
        agent: Which agent answers; empty for the settings' one.
        runtime: What drives the model; empty for the settings' one.
        model: Which model; empty for the settings' one.
        parent_thread_id: The thread that delegated this one's task.
        project: The folder of the project that it was begun in; absent where an older version began it.
        session_id: The runtime's own id of the conversation, with which it can be resumed.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"session_id"})
    optional: ClassVar[frozenset[str]] = frozenset({"parent_thread_id", "project"})

    id: str
    created_at: float
    title: str = ""
    agent: str = ""
    runtime: str = ""
    model: str = ""
    parent_thread_id: str | None = None
    session_id: str | None = None
    project: str | None = None


class ListedThread(Thread, frozen=True, kw_only=True):
    """A conversation in a list: with how it stands.

    Attributes:
        status: That of its last run; null before its first message.
        answered_by: The agent of its last run; empty before its first message.
        used_at: When its last run ended, or else began, in seconds since 1970; when the thread began where it has none.
    """

    status: RunStatus | None
    answered_by: str
    used_at: float


class ThreadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads are wanted; an empty one wants all. Several conditions must all hold.

    Attributes:
        project: The folder of their project.
        are_roots: Only those that no other thread started.
        prefix: What their ids begin with.
    """

    project: str | None = None
    are_roots: bool = False
    prefix: str = ""
