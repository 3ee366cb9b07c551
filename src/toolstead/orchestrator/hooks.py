"""The hooks of the message pipeline, as the orchestrator calls them. The plugins' runner implements this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from toolstead.types.run import Invoking, Run
    from toolstead.types.thread import Role


class MessageHooks(Protocol):
    """Called in this order for every message."""

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """A message was stored."""
        ...

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt that is sent to the model; the session is held."""
        ...

    async def on_after_invoke(self, thread_id: str, result: Run) -> None:
        """A run has ended, and that is stored."""
        ...

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        """An event was broadcast."""
        ...


class NoHooks:
    """No hooks."""

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """Do nothing."""

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt unchanged."""
        return prompt

    async def on_after_invoke(self, thread_id: str, result: Run) -> None:
        """Do nothing."""

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        """Do nothing."""
