"""One interface to a stead, wherever it is: the running server of a project answers, or this process does.

    open_client ── a server was named, or runs for the project ──▸ HttpClient (`http_client`)
                └─ otherwise ──▸ InProcessClient

Above: the commands, chat and console. Below: the public object; the HTTP client, imported when a server is asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toolstead.app.server_file import ServerFile

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.stead import Toolstead

OnEvent = Callable[[str, dict[str, Any]], object]
"""Takes the type and the data of one event."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a run is asked for besides its prompt; what is None is left to the thread and the settings."""

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

    async def describe_state(self) -> Mapping[str, Any]:
        """The runtime that answers, and why that one."""
        ...

    async def reload_tools(self) -> dict[str, Any]:
        """Read every source of tools again: what changed."""
        ...

    async def list_plugins(self) -> list[dict[str, Any]]:
        """Every plugin, its secrets masked."""
        ...

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, and set some of its settings: how it is now."""
        ...

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Forget what was set for a plugin: how it is now."""
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
    """A stead that is open in this process.

    Attributes:
        lost_server: The address of a server that should answer for the project, and does not any more.
    """

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
        return self._stead.plugins.shown()

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """See `SteadClient`."""
        return await self._stead.plugins.change(name, enabled=enabled, settings=settings)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """See `SteadClient`."""
        return await self._stead.plugins.reset(name)

    async def list_threads(self, limit: int) -> list[dict[str, Any]]:
        """See `SteadClient`."""
        store = (await self._stead.conversations()).store
        return [thread.to_json() for thread in await store.threads(limit=limit)]

    async def read_thread(self, id: str) -> dict[str, Any]:
        """See `SteadClient`."""
        store = (await self._stead.conversations()).store
        thread = await store.thread(id)
        return {**thread.to_json(), "messages": [message.to_json() for message in await store.messages(id)]}

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
        while page := await store.events(EventFilter(thread_id=thread_id), after=after):
            found.extend(event.to_json() for event in page)
            after = page[-1].id
        return found


@asynccontextmanager
async def open_client(
    places: Places, create_stead: Callable[[], Toolstead], *, url: str | None, read_token: Callable[[], str]
) -> AsyncGenerator[SteadClient]:
    """The server that was named, else the project's own if one runs, else a stead in this process.

    Args:
        places: Where the project and the data are.
        create_stead: Makes the stead where no server answers.
        url: The server to ask, instead of the project's own.
        read_token: The token for a server that is not one of this user's; empty for none.

    Raises:
        ServeError: The one that was named has an address that cannot be asked.
    """
    servers = ServerFile(places.data)
    known = servers.find(places.project) if url is None else servers.find_url(url)
    address = url if known is None else known.url
    if address is not None:
        from toolstead.app.http_client import HttpClient

        # The token of one server is nobody else's business: another address gets what the settings say, or none.
        async with HttpClient(address, known.token if known is not None else read_token()) as client:
            if url is not None or await client.is_listening():
                yield client
                return
    async with create_stead() as stead:
        yield InProcessClient(stead, lost_server=address)
