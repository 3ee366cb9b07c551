"""The caller's own side of a call whose deadline stands still while a person or a model there is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolstead.concurrency.pausable_deadline import PausableDeadline

if TYPE_CHECKING:
    from toolstead.plugins.tool_meta import Client
    from toolstead.types.tool import JSONSchema


class PatientClient:
    """Passes everything on to the transport's client, which bounds how long an answer may take.

    Attributes:
        deadline: The call's; it stands still while the client is asked.
    """

    __slots__ = ("_client", "deadline")

    def __init__(self, client: Client) -> None:
        self._client = client
        self.deadline = PausableDeadline()

    async def log(self, level: str, text: str) -> None:
        """Show the caller a log line."""
        await self._client.log(level, text)

    async def elicit(self, message: str, schema: JSONSchema, *, key: str | None = None) -> Mapping[str, Any]:
        """Ask the person at the client."""
        with self.deadline:
            return await self._client.elicit(message, schema, key=key)

    async def sample(self, prompt: str, max_tokens: int, *, key: str | None = None) -> str:
        """Let the client's own model answer a prompt."""
        with self.deadline:
            return await self._client.sample(prompt, max_tokens, key=key)
