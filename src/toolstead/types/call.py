"""A tool call: its caller, and the decisions of a gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from toolstead.types.result import ToolResult

Tell = Callable[[str, Mapping[str, Any]], None]
"""Emits an event of the running turn: its type and its data. Never blocks."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a tool is called. Passed along with every call, never kept globally."""

    thread_id: str = "default"
    call_id: str | None = None
    parent_call_id: str | None = None
    """The call that started the calling agent, where the runtime itself started it."""
    task_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    depth: int = 0
    root_run_id: str | None = None
    """The run at the top of the tree; None where the run itself is."""
    may_spawn: bool = True
    """Whether its run may start agents; a tool that does is unknown to one that may not."""
    cwd: Path | None = None
    """The folder that the run works in; None for the project's root."""
    profile: str | None = None
    """The profile that narrows what the caller sees, and what every run sees that it starts; None for no profile."""
    client_thread: str | None = None
    """The thread in which an MCP client delegates; None for every other caller."""
    transport: str = "python"
    """How the call reached Toolstead: `mcp`, `rest`, `cli` or `python`; a call in a run has a `run_id` besides."""
    client: str | None = None
    """The name that the calling MCP client gives itself, where it is known."""
    nested: int = 0
    """How many tools stand between the caller and this call: a tool may call tools, but not endlessly."""


ANONYMOUS = Caller()


CallTool = Callable[[str, Mapping[str, Any] | None, Caller], Awaitable["ToolResult"]]
"""Calls a tool by its name through the dispatcher, on behalf of a caller.

Raises UnknownToolError; every other failure is a result.
"""


class CallTurnTool(Protocol):
    """Calls a tool on behalf of the turn that is running."""

    def __call__(
        self,
        name: str,
        input: Mapping[str, Any],
        *,
        call_id: str | None = None,
        parent_call_id: str | None = None,
    ) -> Awaitable[ToolResult]:
        """Call it; every failure is a result, an unknown tool too.

        Args:
            name: Its name.
            input: Its arguments.
            call_id: The model's own id of the call.
            parent_call_id: The call that started the calling agent, where the runtime itself started it.
        """
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A validated call, as a gate sees it.

    A struct, because every gate and every observer gets one of its own: 0.2 µs instead of 1.

    Attributes:
        call_id: The model's own id of the call where there is one, else ours.
    """

    name: str
    input: Mapping[str, Any]
    caller: Caller
    call_id: str = ""


class Allow(msgspec.Struct, frozen=True):
    """Let the call through."""


class Deny(msgspec.Struct, frozen=True):
    """Refuse the call; the model reads the reason."""

    reason: str


class Rewrite(msgspec.Struct, frozen=True):
    """Let the call through with other arguments; they are validated again."""

    input: Mapping[str, Any]


class Ask(msgspec.Struct, frozen=True):
    """Request an approval: a person sees the call and the reason; no answer in time denies it.

    Attributes:
        reason: Why a person should look at it.
        timeout: Seconds to wait; the tool's own deadline does not run meanwhile.
    """

    reason: str
    timeout: float = 300.0


Decision = Allow | Deny | Rewrite | Ask | None
"""A gate's decision; None is no opinion."""
