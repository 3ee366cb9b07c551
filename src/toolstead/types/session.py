"""An open session, as it is shown to people who operate a server."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from toolstead.types.sent import SentStruct


class SessionInfo(SentStruct, frozen=True, kw_only=True):
    """An open connection to a runtime.

    Attributes:
        key: Its place in the pool: the thread, or the run where it has none.
        thread_id: The thread whose conversation it holds; null where it has none.
        agent: The agent it was built for.
        model: The model; empty for the runtime's own choice.
        runtime: Whose session it is.
        state: `live` while a run uses or opens it, else `idle`.
        started_at: When it was opened, in seconds since the epoch; null while it is being opened.
        idle_seconds: How long it has waited for a message.
        owns_process: Whether it is a process of its own.
    """

    key: str
    thread_id: str | None
    agent: str
    model: str
    runtime: str
    state: Literal["idle", "live"]
    started_at: float | None
    idle_seconds: Annotated[float, msgspec.Meta(ge=0)]
    owns_process: bool
