"""One interface to a stead, wherever it is: in this process, or behind its HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from toolstead.app.approval_client import HttpApprovals, InProcessApprovals
from toolstead.app.file_client import HttpFiles, InProcessFiles
from toolstead.app.server_file import ServerFile
from toolstead.app.task_client import HttpTasks, InProcessTasks
from toolstead.app.tool_client import HttpTools, InProcessTools
from toolstead.errors import RefusedRequestError, ServeError

if TYPE_CHECKING:
    import httpx2

    from toolstead.app.places import Places
    from toolstead.app.stead import Toolstead

OnEvent = Callable[[str, dict[str, Any]], object]
"""Takes the type and the data of one event."""

SECONDS = 60.0
"""How long a server may take for one answer; a stream of events may be silent for longer."""

PROBE_SECONDS = 5.0
"""How long a server may take to say that it is there, when another one can be asked instead."""
_THREADS_TOGETHER = 500
"""Threads that a server lists in one answer."""
_PLUGIN = frozenset({"name", "version", "enabled", "state", "tools", "settings"})
_RELOAD = frozenset({"success", "toolCount", "errors", "added", "removed", "changed"})


class InProcessClient:
    """A stead that is open in this process.

    Attributes:
        files: Its shared files.
        tasks: Its delegated tasks.
        approvals: The calls that wait for a person.

        tools: Its tools.
    """

    url = None

    @property
    def database(self) -> str:
        """Which database it looks at."""
        from toolstead.app.database import describe_database

        return describe_database(self._stead.places)

    def __init__(self, stead: Toolstead, *, lost_server: str | None = None) -> None:
        self._stead = stead
        self.files, self.tasks = InProcessFiles(stead), InProcessTasks(stead)
        self.approvals = InProcessApprovals(stead)

        self.tools = InProcessTools(stead)
        self.lost_server = lost_server

    async def describe_state(self, model: str = "") -> Mapping[str, Any]:
        """The runtime that answers for a model, or for the settings' one, and why that one; or what is missing."""
        return self._stead.state(model)

    async def check_agent(self, *, agent: str, model: str, runtime: str) -> None:
        """Refuse what could not be asked, as asking does; empty names leave a choice to the settings.

        Raises:
            RuntimeFailureError: No model can be asked; the text says what to do.
        """
        await (await self._stead.conversations()).agents.check_agent(agent, model=model, runtime=runtime)

    async def reload_tools(self) -> dict[str, Any]:
        """Read every source of tools again; return what changed."""
        return (await self._stead.registry.reload_plugins()).to_json()

    async def list_tools(self) -> list[dict[str, Any]]:
        """Every tool that can be called."""
        return [tool.to_json() for tool in self._stead.registry.list_tools()]

    async def list_agents(self) -> list[dict[str, Any]]:
        """Every agent, by name."""
        agents = (await self._stead.agents()).catalogue.agents
        return [agents[name].to_json() for name in sorted(agents)]

    async def list_plugins(self) -> list[dict[str, Any]]:
        """Every plugin, its secrets masked."""
        return self._stead.plugins.show_plugins()

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, and set some of its settings; return its new state."""
        return await self._stead.plugins.change_plugin(name, enabled=enabled, settings=settings)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Delete what was set for a plugin; return its new state."""
        return await self._stead.plugins.reset_plugin(name)

    async def list_threads(
        self, limit: int, *, own: bool = False, roots: bool = False, prefix: str = ""
    ) -> list[dict[str, Any]]:
        """Conversations, the last used first.

        Args:
            limit: At most so many.
            own: Only those of the project.
            roots: Only those that no other one started.
            prefix: Only those whose ids begin so.
        """
        from toolstead.types.thread import ThreadFilter

        conversations = await self._stead.conversations()
        wanted = ThreadFilter(project=conversations.project if own else None, are_roots=roots, prefix=prefix)
        return [thread.to_json() for thread in await conversations.store.list_threads(wanted, limit=limit)]

    async def read_thread(self, id: str) -> dict[str, Any]:
        """A conversation with its messages."""
        store = (await self._stead.conversations()).store
        thread = await store.read_thread(id)
        return {**thread.to_json(), "messages": [message.to_json() for message in await store.list_messages(id)]}

    async def rename_thread(self, id: str, title: str) -> None:
        """Give a conversation another title."""
        await (await self._stead.conversations()).store.update_thread(id, title=title)

    async def delete_thread(self, id: str) -> None:
        """Delete a conversation; what runs in it is ended."""
        await (await self._stead.conversations()).delete_thread(id)

    async def run_agent(
        self,
        prompt: str,
        on_event: OnEvent,
        *,
        thread_id: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        runtime: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Ask an agent, and wait for the end of its run. Cancelling this cancels the run.

        None leaves a choice to the thread and the settings.
        """
        run = await self._stead.invoke(
            prompt,
            thread_id=thread_id,
            agent=agent,
            model=model,
            runtime=runtime,
            timeout=timeout,
            on_message=lambda event: on_event(event.type, dict(event.data)),
        )
        return run.to_json()

    async def list_events(self, thread_id: str, types: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Everything that was stored of a conversation, or what is of some types, as the database has it."""
        from toolstead.orchestrator.log_store import EventFilter

        store = (await self._stead.conversations()).store
        found: list[dict[str, Any]] = []
        after: str | None = None
        wanted = EventFilter(thread_id=thread_id, types=None if types is None else frozenset(types))
        while page := await store.list_events(wanted, after=after):
            found.extend(event.to_json() for event in page)
            after = page[-1].id
        return found


class NoListenerError(ServeError):
    """The server has gone."""


class LostAnswerError(ServeError):
    """The server ended while it answered; the text says what is stored and how to go on."""


class HttpClient:
    """A running server; close it at the end. What it refuses is a `ServeError` with its own message.

    Attributes:
        url: Its address.
        files: Its shared files.
        tasks: Its delegated tasks.
        approvals: The calls that wait for a person.

        tools: Its tools.
    """

    lost_server = None
    database = ""

    def __init__(self, url: str, token: str) -> None:
        """Prepare a client; connect to nothing yet.

        Raises:
            ServeError: The address is not valid.
        """
        if not url.startswith(("http://", "https://")):
            raise ServeError(f"{url}: an address begins with http:// or https://")
        self.url = url.rstrip("/")
        self.files = HttpFiles(self._send_request, self._check_keys)
        self.tasks = HttpTasks(self._send_request, self._check_keys, self._follow_events)
        self.approvals = HttpApprovals(self._send_request, self._check_keys, self._follow_events)

        self.tools = HttpTools(self._send_request, self._check_keys)
        import httpx2  # not above: most commands find no server

        # A token goes to the address it is for, and nowhere else: no proxies, no redirects.
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=SECONDS,
            trust_env=False,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def is_listening(self, *, is_last: bool = True) -> bool:
        """Whether the server is there; one that died may still be on the list.

        Args:
            is_last: Whether there is no other to ask; else one that does not answer soon counts as absent, too.

        Raises:
            ServeError: Something else answers at its address, or nothing does in time.
        """
        try:
            async with asyncio.timeout(None if is_last else PROBE_SECONDS):
                await self.describe_state()
        except NoListenerError:
            return False
        except (ServeError, TimeoutError):
            if is_last:
                raise
            return False
        return True

    async def describe_state(self, model: str = "") -> Mapping[str, Any]:
        """See `InProcessClient`."""
        return await self._send_request("GET", f"/api/health{f'?model={_quote_id(model)}' if model else ''}")

    async def check_agent(self, *, agent: str, model: str, runtime: str) -> None:
        """See `InProcessClient`; only a model's name is known here, keys and agents are the server's to refuse."""
        if model and not runtime and not agent:
            from toolstead.adapters.providers.catalogue import find_model  # not above: few commands need it

            state = await self.describe_state()
            if state.get("runtime") in (None, "kernel"):  # others know names that are in no table
                find_model(model)

    async def reload_tools(self) -> dict[str, Any]:
        """See `InProcessClient`."""
        return self._check_keys(await self._send_request("POST", "/api/tools/reload", {}), _RELOAD)

    async def list_tools(self) -> list[dict[str, Any]]:
        """See `InProcessClient`."""
        return self._check_keys(await self._send_request("GET", "/api/tools"), {"tools"})["tools"]

    async def list_agents(self) -> list[dict[str, Any]]:
        """See `InProcessClient`."""
        return self._check_keys(await self._send_request("GET", "/api/agents"), {"agents"})["agents"]

    async def list_plugins(self) -> list[dict[str, Any]]:
        """See `InProcessClient`."""
        found: Any = self._check_keys(await self._send_request("GET", "/api/plugins"), {"plugins"})["plugins"]
        if not isinstance(found, list):
            raise self._foreign_server()
        return [self._check_keys(plugin, _PLUGIN) for plugin in cast("list[Any]", found)]

    async def change_plugin(
        self, name: str, *, enabled: bool, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """See `InProcessClient`."""
        body = {"enabled": enabled, **({"settings": dict(settings)} if settings is not None else {})}
        return self._check_keys(await self._send_request("PATCH", f"/api/plugins/{_quote_id(name)}", body), _PLUGIN)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """See `InProcessClient`."""
        return self._check_keys(await self._send_request("POST", f"/api/plugins/{_quote_id(name)}/reset"), _PLUGIN)

    async def list_threads(
        self, limit: int, *, own: bool = False, roots: bool = False, prefix: str = ""
    ) -> list[dict[str, Any]]:
        """See `InProcessClient`."""
        found: list[dict[str, Any]] = []
        chosen = f"{'&own=true' if own else ''}{'&roots=true' if roots else ''}"
        query = chosen = f"{chosen}{f'&prefix={_quote_id(prefix)}' if prefix else ''}"
        while len(found) < limit:
            wanted = min(limit - len(found), _THREADS_TOGETHER)
            answer = await self._send_request("GET", f"/api/threads?limit={wanted}{query}")
            page: list[dict[str, Any]] = self._check_keys(answer, {"threads"})["threads"]
            found += page
            if len(page) < wanted:
                break
            query = f"{chosen}&before={_quote_id(page[-1]['id'])}"
        return found

    async def read_thread(self, id: str) -> dict[str, Any]:
        """See `InProcessClient`."""
        path = f"/api/threads/{_quote_id(id)}"
        thread = self._check_keys(await self._send_request("GET", path), {"messages"})
        while (following := thread.pop("next", None)) is not None:
            page = self._check_keys(
                await self._send_request("GET", f"{path}?after={_quote_id(str(following))}"), {"messages"}
            )
            thread = {**page, "messages": [*thread["messages"], *page["messages"]]}
        return thread

    async def rename_thread(self, id: str, title: str) -> None:
        """See `InProcessClient`."""
        await self._send_request("PATCH", f"/api/threads/{_quote_id(id)}", {"title": title})

    async def delete_thread(self, id: str) -> None:
        """See `InProcessClient`."""
        await self._send_request("DELETE", f"/api/threads/{_quote_id(id)}")

    async def run_agent(
        self,
        prompt: str,
        on_event: OnEvent,
        *,
        thread_id: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        runtime: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """See `InProcessClient`."""
        options = {"threadId": thread_id, "agent": agent, "model": model, "runtime": runtime, "timeout": timeout}
        body = {"prompt": prompt, **{key: value for key, value in options.items() if value is not None}}
        accepted = self._check_keys(await self._send_request("POST", "/api/runs", body), {"runId", "threadId"})
        run, thread = f"/api/runs/{accepted['runId']}", accepted["threadId"]
        try:
            async with self._follow_events(f"{run}/events") as events:
                async for event in events:
                    on_event(event["type"], event["data"])
            return await self._send_request("GET", run)
        except asyncio.CancelledError:
            await self._send_request("POST", f"{run}/cancel", {})
            raise
        except RefusedRequestError:
            raise
        except ServeError as error:
            if await self.is_listening(is_last=False):
                raise
            raise LostAnswerError(
                f"the server at {self.url} ended while it answered. What is stored: toolstead threads show {thread}."
                f" To go on: toolstead ask --thread {thread} TEXT"
            ) from error

    async def list_events(self, thread_id: str, types: Collection[str] | None = None) -> list[dict[str, Any]]:
        """See `InProcessClient`."""
        chosen = "" if types is None else f"&type={','.join(types)}"
        async with self._follow_events(f"/api/threads/{_quote_id(thread_id)}/events?follow=false{chosen}") as events:
            return [event async for event in events]

    async def _send_request(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that a route answers; None for an answer without a body.

        Raises:
            NoListenerError: The server is gone.
            ServeError: It cannot be reached, or refused; its own message is in the text.
        """
        async with self._open(method, path, body) as response:
            data = await response.aread()
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise self._foreign_server(path) from None

    @asynccontextmanager
    async def _follow_events(self, path: str) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
        """The events of a stream, which begins before this is entered; it ends when the server ends it."""
        async with self._open("GET", path, accept="text/event-stream", seconds=None) as response:
            yield _read_events(response)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: Any = None, *, accept: str = "*/*", seconds: float | None = SECONDS
    ) -> AsyncGenerator[httpx2.Response]:
        import httpx2

        address = f"{self.url}{path}"
        headers = {"Accept": accept, **({"Content-Type": "application/json"} if body is not None else {})}
        # Not by the library, which raises for what is no JSON, such as half a character: the server says that better.
        data = json.dumps(body).encode() if body is not None else None
        try:
            async with self._client.stream(method, address, content=data, headers=headers, timeout=seconds) as response:
                if not response.is_success:
                    problem = _read_problem(await response.aread())
                    raise RefusedRequestError(
                        f"{address} answered {response.status_code}: {problem['detail']}",
                        status=response.status_code,
                        problem=problem,
                    )
                yield response
        except (httpx2.ConnectError, httpx2.TimeoutException, httpx2.InvalidURL) as error:
            causes = [cause for cause in _find_causes(error) if isinstance(cause, OSError)]
            if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
                raise NoListenerError(f"{self.url} cannot be reached: no server listens there") from None
            # The system's own error message, where there is one.
            if "WRONG_VERSION_NUMBER" in str(error):
                raise ServeError(f"{self.url} answers, but speaks http and not https; write http://") from None
            messages = [str(error) or type(error).__name__, *filter(None, map(str, causes))]
            raise ServeError(f"{address} cannot be reached: {messages[-1]}") from None
        except httpx2.TransportError as error:
            raise ServeError(f"{address} broke off in the middle of its answer: {error!r}") from None

    def _check_keys(self, answer: Any, keys: frozenset[str] | set[str]) -> dict[str, Any]:
        if not isinstance(answer, dict) or not keys.issubset(cast("dict[str, Any]", answer)):
            raise self._foreign_server()
        return cast("dict[str, Any]", answer)

    def _foreign_server(self, path: str = "") -> ServeError:
        return ServeError(f"{self.url}{path} answered, but not as a Toolstead server does")


SteadClient = InProcessClient | HttpClient
"""A stead, as a command sees it. Every answer has the shape that REST gives it.

What the stead refuses is raised: its own error in this process, a `ServeError` with its words from a server.
"""


@asynccontextmanager
async def open_client(
    places: Places, create_stead: Callable[[], Toolstead], *, url: str | None, read_token: Callable[[], str]
) -> AsyncGenerator[SteadClient]:
    """The server that was named, else the project's newest that answers, else a stead in this process.

    Args:
        places: Where the project and the data are.
        create_stead: Makes the stead where no server answers.
        url: The server to ask, instead of the project's own.
        read_token: The token for a server that is not one of this user's; empty for none.

    Raises:
        ServeError: The one that was named has an address that cannot be asked.
    """
    servers = ServerFile(places.data)
    if url is not None:
        known = servers.find_url(url)
        # A server's token is never sent to another address: that one gets the token of the settings, or none.
        given = os.environ.get("TOOLSTEAD_TOKEN", "")  # which a person gave, so it counts before one that was found
        token = given if given not in ("", "auto") else (known.token if known else "") or read_token()
        async with aclosing(HttpClient(url, token)) as client:
            yield client
            return
    listed = servers.list_servers(places.project)
    for number, server in enumerate(listed, 1):
        async with aclosing(HttpClient(server.url, server.token)) as client:
            if await client.is_listening(is_last=number == len(listed)):
                yield client
                return
    async with create_stead() as stead:
        yield InProcessClient(stead, lost_server=listed[0].url if listed else None)


async def _read_events(response: httpx2.Response) -> AsyncGenerator[dict[str, Any]]:
    """Each event of a stream. Not line by line as the library has lines: texts may have U+2028 and the like in them."""
    held = b""
    async for data in response.aiter_bytes():
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


def _quote_id(id: str) -> str:
    return quote(id, safe="")


def _read_problem(data: bytes) -> dict[str, Any]:
    """A problem document; of another answer, its text as the detail of one."""
    try:
        document: Any = json.loads(data)
        return {**document, "detail": str(document["detail"])}
    except (ValueError, KeyError, TypeError):
        return {"detail": data.decode("utf-8", "replace")[:500]}


def _find_causes(error: BaseException | None) -> list[BaseException]:
    """An error and those it came from: the libraries wrap the system's error, once for each address."""
    if error is None:
        return []
    several: Any = getattr(error, "exceptions", None)  # of an exception group
    below = several or (error.__cause__ or error.__context__,)
    return [error, *(cause for one in below for cause in _find_causes(one))]
