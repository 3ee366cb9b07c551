"""What people look at, as a part of the store port: runs in lists and trees, events and messages from the newest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolstead.types.event import Event
    from toolstead.types.run import ListedRun, RunStatus
    from toolstead.types.thread import Message

MOST_IN_TREE = 2_000
"""Runs of one tree that are given."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are wanted; an empty one wants all. Several conditions must all hold."""

    thread_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    types: frozenset[str] | None = None


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages of a thread, in order.

    Attributes:
        has_more: Whether others follow.
    """

    messages: list[Message]
    has_more: bool


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are wanted; an empty one wants all. Several conditions must all hold.

    Attributes:
        project: The folder of the project that their threads were begun in.
        thread_id: Their thread.
        status: How far they are, or how they ended.
        is_active: Only those without an end, or only those with one.
        are_roots: Only those that no other run started.
    """

    project: str | None = None
    thread_id: str | None = None
    status: RunStatus | None = None
    is_active: bool | None = None
    are_roots: bool = False


class LogFilter(EventFilter, frozen=True, kw_only=True):
    """Which stored events are wanted.

    Attributes:
        root_run_id: Only those of the runs and the tasks of the tree below this root.
        tool: Only calls of this tool, their results, and the questions to a person about them.
    """

    root_run_id: str | None = None
    tool: str | None = None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some stored events, oldest first.

    Attributes:
        before: Older ones may be there before this id; None where there are none.
        after: Newer ones come after this id; None on a page before an id.
    """

    events: Sequence[Event]
    before: str | None = None
    after: str | None = None


class LogStore(Protocol):
    """The reads for people."""

    async def list_run_page(self, wanted: RunFilter, *, limit: int = 50, before: str | None = None) -> list[ListedRun]:
        """Runs with the beginnings of their texts, the newest first, and the next older ones than a run.

        Raises NotFoundError for `before`.
        """
        ...

    async def find_root(self, id: str) -> str:
        """The id of the root above a run; an id that no run has is taken for that of a root."""
        ...

    async def list_run_tree(
        self, root: str, *, project: str | None = None, limit: int = MOST_IN_TREE
    ) -> list[ListedRun]:
        """The root and every run below it, oldest first."""
        ...

    async def read_event_log(
        self, wanted: LogFilter, *, before: str | None = None, after: str | None = None, limit: int = 200
    ) -> LogPage:
        """The newest events, or the newest before an id, or the oldest after one. Raises NotFoundError for no id.

        A page costs the same wherever it is: where types or a tool are wanted, it looks at a bounded number of the
        others, so it may have few events or none, and `before` or `after` to go on with. Otherwise it has `limit`
        events, unless they are more than about 8 MiB. Joined `message.delta` events are as in `list_events`.
        """
        ...

    async def list_last_messages(
        self, thread_id: str, *, before: str | None = None, limit: int = 200, max_bytes: int = 8 << 20
    ) -> MessagePage:
        """The last messages of a thread, or the last ones before one of them, oldest first.

        As many as `list_message_page` gives; `has_more` is whether there are earlier ones. Raises NotFoundError for
        `before`.
        """
        ...
