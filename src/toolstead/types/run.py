"""One invocation of an agent in a thread."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

RunStatus = Literal["queued", "running", "completed", "failed", "timeout", "cancelled", "stopped", "lost"]
RunEnd = Literal["completed", "failed", "timeout", "cancelled", "stopped", "lost"]

Warmth = Literal["warm", "resumed", "cold"]
"""How a session was found: already open, opened with its conversation, or opened empty."""

ENDS: frozenset[str] = frozenset(get_args(RunEnd))


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What an invocation used; the cost in USD."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers and events have."""
        return {"inputTokens": self.input_tokens, "outputTokens": self.output_tokens, "cost": self.cost}


NOTHING_USED = Usage()


class RunError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run did not complete: a word for programs, a sentence for people."""

    code: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers and events have."""
        return {"code": self.code, "message": self.message}


class Invoking(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation that is about to begin, as `on_before_invoke` is told of it.

    Attributes:
        session: How the session was found: `warm` and `resumed` ones know the conversation, a `cold` one does not.
    """

    run_id: str
    agent: str
    model: str
    runtime: str
    session: Warmth


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run; runs form a tree.

    Attributes:
        prompt: What it was asked, as the caller wrote it.
        owner: The process that holds it; another one may touch it only when that one is dead.
        started_at: Seconds since the epoch; none while it is queued.
        parent_run_id: The run whose tool call started it; `parent_agent` is that run's agent.
        task_id: The delegated task it works on.
        depth: How many runs stand above it.
    """

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

    @property
    def ended(self) -> bool:
        """Whether it has its end."""
        return self.status in ENDS

    def to_json(self) -> dict[str, Any]:
        """The shape that HTTP answers have."""
        return {
            "id": self.id,
            "threadId": self.thread_id,
            "parentRunId": self.parent_run_id,
            "agent": self.agent,
            "runtime": self.runtime,
            "model": self.model,
            "status": self.status,
            "result": self.result,
            "error": self.error.to_json() if self.error is not None else None,
            "usage": self.usage.to_json(),
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
        }
