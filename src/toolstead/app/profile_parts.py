"""What MCP clients under a profile are offered besides tools: what the profile's rules show, by the same names.

Whole results follow their tools; files of the project follow the tool `file-reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolstead.app.client_parts import ClientParts, Listener
from toolstead.types.client_parts import ClientLists, FilledPrompt, ServerIdentity
from toolstead.types.content import EmbeddedResource

if TYPE_CHECKING:
    from toolstead.tools.registry import Registry


class ProfileParts:
    """The part of a stead's prompts and resources that a profile shows."""

    def __init__(self, parts: ClientParts, registry: Registry, profile: str) -> None:
        self._parts, self._registry, self._profile = parts, registry, profile
        self._listed: tuple[object, object, ClientLists] | None = None

    @property
    def lists(self) -> ClientLists:
        """What is listed now; another object when it or the profile changed."""
        whole, rules = self._parts.lists, self._registry.find_profile(self._profile)
        if self._listed is None or self._listed[0] is not whole or self._listed[1] is not rules:
            self._listed = whole, rules, self._parts.list_shown(self._shows)
        return self._listed[2]

    @property
    def identity(self) -> ServerIdentity:
        """What the server says of itself: the same under every profile."""
        return self._parts.identity

    @property
    def is_ready(self) -> bool:
        """Whether the files were read."""
        return self._parts.is_ready

    async def prepare(self) -> None:
        """Read the files, the first time."""
        await self._parts.prepare()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Subscribe to changes of the lists, by the profile too; the returned function unsubscribes."""

        def note_profiles() -> None:
            listener("prompts")
            listener("resources")

        ends = (
            self._parts.subscribe(listener),
            self._registry.subscribe(lambda swap: note_profiles() if swap.changes_profiles else None),
        )

        def end_subscriptions() -> None:
            for end in ends:
                end()

        return end_subscriptions

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> FilledPrompt:
        """Fill a prompt in; raises as `ClientParts` does."""
        return await self._parts.get_prompt(name, arguments, self._shows)

    async def read_resource(self, uri: str, may_see: Callable[[str], bool]) -> Sequence[EmbeddedResource]:
        """Read a resource; raises as `ClientParts` does."""
        return await self._parts.read_resource(uri, may_see, self._shows)

    async def complete_argument(self, prompt: str, argument: str, text: str, given: Mapping[str, str]) -> Sequence[str]:
        """What an argument of a prompt may be; raises as `ClientParts` does."""
        return await self._parts.complete_argument(prompt, argument, text, given, self._shows)

    async def complete_variable(
        self, template: str, variable: str, text: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """What a variable in an address may be; raises as `ClientParts` does."""
        return await self._parts.complete_variable(template, variable, text, given, self._shows)

    def _shows(self, name: str) -> bool:
        rules = self._registry.find_profile(self._profile)
        return rules is not None and rules[name] is None
