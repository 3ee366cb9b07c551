"""A conversation: its messages, in order."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "system"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said.

    Attributes:
        id: Unique over all threads; later messages of a thread have later ones.
        kind: `text`, or what else it is, such as a delegated task's `result`.
        created_at: Seconds since the epoch.
        run_id: The run it belongs to, if any.
    """

    id: str
    thread_id: str
    role: Role
    content: str
    created_at: float
    kind: str = "text"
    run_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers have."""
        return {
            "id": self.id,
            "role": self.role,
            "kind": self.kind,
            "content": self.content,
            "createdAt": self.created_at,
        }


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation and what it is held with.

    Attributes:
        session_id: The runtime's own id of the conversation, with which it can be resumed.
        parent_thread_id: The delegating thread, for the thread of a delegated task.
    """

    id: str
    created_at: float
    title: str = ""
    agent: str = ""
    runtime: str = ""
    model: str = ""
    parent_thread_id: str | None = None
    session_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers have, without the messages."""
        shown: dict[str, Any] = {
            "id": self.id,
            "title": self.title,
            "agent": self.agent,
            "runtime": self.runtime,
            "model": self.model,
            "createdAt": self.created_at,
        }
        if self.parent_thread_id is not None:
            shown["parentThreadId"] = self.parent_thread_id
        return shown
