"""The words for programs that say why no answer came: of a run and of a step alike."""

from __future__ import annotations

from toolstead.errors import (
    LimitError,
    ModelError,
    NoRoomError,
    SessionLostError,
    StorageError,
    TimedOutError,
    UnknownAgentError,
)

_ERROR_CODES: dict[type[Exception], str] = {
    NoRoomError: "no_room",
    SessionLostError: "session_lost",
    LimitError: "limit",
    TimedOutError: "timeout",
    UnknownAgentError: "agent",
    StorageError: "storage",
}


def find_error_code(error: BaseException) -> str:
    """The word of an error; `runtime` for one that has none of its own."""
    if isinstance(error, ModelError):
        return f"model_{error.fault}"
    if isinstance(error, LimitError) and error.limit in ("tokens", "cost"):
        return "budget"
    return next((code for kind, code in _ERROR_CODES.items() if isinstance(error, kind)), "runtime")
