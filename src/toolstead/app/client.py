"""One interface to a stead, wherever it is, and the implementation for a stead in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead

OnEvent = Callable[[str, dict[str, Any]], object]
"""Takes the type and the data of one event."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The options of a run besides its prompt; None leaves a choice to the thread and the settings."""

    thread_id: str | None = None
    runtime: str | None = None
    agent: str | None = None
    model: str | None = None
    timeout: float | None = None


class SteadClient(Protocol):
    """A stead, as a command sees it. Every answer has the shape that REST gives it.

    What the stead refuses is raised: its own error in this process, a `ServeError` with its words from a server.
    """

    @property
    def url(self) -> str | None:
        """The address of the server that answers; None when this process does."""
        ...

    @property
    def lost_server(self) -> str | None:
        """The address of a server that should answer for the project, and does not any more."""
        ...

    async def describe_state(self) -> Mapping[str, Any]:
        """The runtime that answers, and why that one."""
        ...

    async def reload_tools(self) -> dict[str, Any]:
        """Read every source of tools again; return what changed."""
        ...

    async def list_plugins(self) -> list[dict[str, Any]]:
        """Every plugin, its secrets masked."""
        ...

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, and set some of its settings; return its new state."""
        ...

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Delete what was set for a plugin; return its new state."""
        ...

    async def list_threads(self, limit: int) -> list[dict[str, Any]]:
        """Conversations, the newest first."""
        ...

    async def read_thread(self, id: str) -> dict[str, Any]:
        """A conversation with its messages."""
        ...

    async def rename_thread(self, id: str, title: str) -> None:
        """Give a conversation another title."""
        ...

    async def delete_thread(self, id: str) -> None:
        """Delete a conversation; what runs in it is ended."""
        ...

    async def run_agent(self, prompt: str, options: RunOptions, on_event: OnEvent) -> dict[str, Any]:
        """Ask an agent, and wait for the end of its run. Cancelling this cancels the run."""
        ...


class InProcessClient:
    """A stead that is open in this process."""

    url = None

    def __init__(self, stead: Toolstead, *, lost_server: str | None = None) -> None:
        self._stead = stead
        self.lost_server = lost_server

    async def describe_state(self) -> Mapping[str, Any]:
        """See `SteadClient`."""
        return self._stead.state()

    async def reload_tools(self) -> dict[str, Any]:
        """See `SteadClient`."""
        return (await self._stead.registry.reload_plugins()).to_json()

    async def list_plugins(self) -> list[dict[str, Any]]:
        """See `SteadClient`."""
        return self._stead.plugins.show_plugins()

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """See `SteadClient`."""
        return await self._stead.plugins.change_plugin(name, enabled=enabled, settings=settings)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """See `SteadClient`."""
        return await self._stead.plugins.reset_plugin(name)

    async def list_threads(self, limit: int) -> list[dict[str, Any]]:
        """See `SteadClient`."""
        store = (await self._stead.conversations()).store
        return [thread.to_json() for thread in await store.list_threads(limit=limit)]

    async def read_thread(self, id: str) -> dict[str, Any]:
        """See `SteadClient`."""
        store = (await self._stead.conversations()).store
        thread = await store.read_thread(id)
        return {**thread.to_json(), "messages": [message.to_json() for message in await store.list_messages(id)]}

    async def rename_thread(self, id: str, title: str) -> None:
        """See `SteadClient`."""
        await (await self._stead.conversations()).store.update_thread(id, title=title)

    async def delete_thread(self, id: str) -> None:
        """See `SteadClient`."""
        await (await self._stead.conversations()).delete_thread(id)

    async def run_agent(self, prompt: str, options: RunOptions, on_event: OnEvent) -> dict[str, Any]:
        """See `SteadClient`."""
        run = await self._stead.invoke(
            prompt, on_message=lambda event: on_event(event.type, dict(event.data)), **msgspec.structs.asdict(options)
        )
        return run.to_json()

    async def list_events(self, thread_id: str) -> list[dict[str, Any]]:
        """Everything that was stored of a conversation, as the database has it."""
        from toolstead.orchestrator.store import EventFilter

        store = (await self._stead.conversations()).store
        found: list[dict[str, Any]] = []
        after: str | None = None
        while page := await store.list_events(EventFilter(thread_id=thread_id), after=after):
            found.extend(event.to_json() for event in page)
            after = page[-1].id
        return found
