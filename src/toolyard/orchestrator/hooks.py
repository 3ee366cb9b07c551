"""The hooks of the message pipeline, as the orchestrator calls them. The plugins' runner implements this.

Nobody implements them yet, and then they cost nothing. Above: the orchestrator. Below: the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.invoker.runtime import Warmth
from toolyard.types.thread import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoking:
    """What a hook may know of the invocation it is asked about.

    Attributes:
        session: How the session was found: `warm`, `resumed` or `cold`.
    """

    run_id: str
    agent: str
    model: str
    runtime: str
    session: Warmth


class MessageHooks(Protocol):
    """Called in this order for every message."""

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """A message was stored."""
        ...

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt that the model is told; the session is held."""
        ...

    async def on_after_invoke(self, thread_id: str, result: str) -> None:
        """The answer was stored."""
        ...

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        """An event was told to everybody."""
        ...


class NoHooks:
    """Nobody wants to be called."""

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """Do nothing."""

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt as it is."""
        return prompt

    async def on_after_invoke(self, thread_id: str, result: str) -> None:
        """Do nothing."""

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        """Do nothing."""
