"""The port to what the server offers besides tools: prompts, resources, completions, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from toolstead.types.client_parts import ClientLists, FilledPrompt, ListKind, ServerIdentity
from toolstead.types.content import EmbeddedResource


class OfferedParts(Protocol):
    """What a server offers besides tools. `app/client_parts` is one."""

    @property
    def lists(self) -> ClientLists:
        """What is listed now; another object when it changed."""
        ...

    @property
    def identity(self) -> ServerIdentity:
        """What the server says of itself now; another object when it changed."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether `lists` is complete; before that, `prepare` has to be awaited."""
        ...

    async def prepare(self) -> None:
        """Read what is listed, the first time."""
        ...

    def subscribe(self, listener: Callable[[ListKind], None]) -> Callable[[], None]:
        """Subscribe to changes of the lists; the returned function unsubscribes. A listener must not raise."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> FilledPrompt:
        """Raises InvalidRequestError or FailedRequestError."""
        ...

    async def read_resource(self, uri: str, may_see: Callable[[str], bool]) -> Sequence[EmbeddedResource]:
        """Raises NotFoundError, InvalidRequestError, FailedRequestError or StorageError.

        Args:
            uri: The address.
            may_see: Whether the reader may call a tool.
        """
        ...

    async def complete_argument(self, prompt: str, argument: str, text: str, given: Mapping[str, str]) -> Sequence[str]:
        """Raises InvalidRequestError or FailedRequestError."""
        ...

    async def complete_variable(
        self, template: str, variable: str, text: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Raises InvalidRequestError or FailedRequestError."""
        ...
