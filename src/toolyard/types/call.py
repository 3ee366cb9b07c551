"""A tool call: who calls, and what a gate may say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf a tool is called. Passed along with every call, never kept globally."""

    thread_id: str = "default"
    call_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    depth: int = 0


ANONYMOUS = Caller()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A validated call, as a gate sees it."""

    name: str
    input: Mapping[str, Any]
    caller: Caller


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the call through."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse the call; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Let the call through with other arguments; they are validated again."""

    input: Mapping[str, Any]


Decision = Allow | Deny | Rewrite | None
