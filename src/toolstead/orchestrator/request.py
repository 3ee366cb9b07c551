"""What is asked of the orchestrator, and what it takes where nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from toolstead.invoker.runtime import Runtime
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult


class CallTool(Protocol):
    """The dispatcher's way to call a tool."""

    async def __call__(self, name: str, input: Mapping[str, Any] | None, caller: Caller) -> ToolResult:
        """Raises UnknownToolError; every other failure is a result."""
        ...


class FindRuntime(Protocol):
    """Finds a runtime by its name."""

    def __call__(self, name: str, model: str = "") -> Runtime:
        """The runtime of this name; an empty one means the settings' choice for this model.

        Raises:
            RuntimeFailureError: There is none, or it cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a run takes when neither it nor its thread says otherwise.

    Attributes:
        runtime: Finds a runtime.
        tools: The names of the tools that are offered now.
    """

    agent: str
    model: str
    cwd: Path
    timeout: float
    runtime: FindRuntime
    tools: Callable[[], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for. Everything but the prompt may be left to the thread and the settings."""

    prompt: str
    thread_id: str | None = None
    session_id: str | None = None
    agent: str = ""
    model: str = ""
    runtime: str = ""
    cwd: str | None = None
    timeout: float | None = None
    idempotency_key: str | None = None
