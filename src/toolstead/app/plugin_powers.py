"""The powers of plugins, made of the stead's own parts: each serves only the plugin it was made for.

What a power is made of is imported when it is used: most plugins use none of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.app.plugin_files import PluginFiles
from toolstead.errors import LimitError, RefusedError, ToolError, UnknownAgentError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.ports import HttpAnswer, absent_power
from toolstead.types.call import Caller
from toolstead.types.event import TYPES
from toolstead.types.result import Failure, ToolResult

if TYPE_CHECKING:
    import httpx2

    from toolstead.app.delegating import DelegationParts
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.orchestrator.shared_files import SharedFiles
    from toolstead.orchestrator.store import Store
    from toolstead.plugins.hook_runner import HookRunner
    from toolstead.plugins.ports import Search
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.tools.dispatch import Dispatcher
    from toolstead.tools.handlers.http_client import GuardedClient
    from toolstead.tools.handlers.http_guard import AllowedHosts
    from toolstead.types.run import Run
    from toolstead.types.thread import Message

logger = logging.getLogger(__name__)

LONGEST_KEY = 512
LARGEST_VALUE = 1_048_576
MOST_NESTED = 16
MOST_CALLS = 256
MOST_BROADCASTS = 64
_OWN_WORDS = frozenset(event.partition(".")[0] for event in TYPES)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the powers are made of.

    Attributes:
        open_store: The database, opened when it is first needed.
        conversations: Threads and runs, opened likewise.
        open_files: The shared files, opened likewise.
        open_delegation: Delegated work, opened likewise.
        hooks: Those of all plugins, for broadcasts.
        http: The guarded client and the hosts that the settings allow now.
        search: Searches the web; None where nothing can.
    """

    open_store: Callable[[], Awaitable[Store]]
    conversations: Callable[[], Awaitable[Orchestrator]]
    open_files: Callable[[], Awaitable[SharedFiles]]
    open_delegation: Callable[[], Awaitable[DelegationParts]]
    dispatcher: Callable[[], Dispatcher]
    log: EventLog
    hooks: HookRunner
    http: Callable[[], tuple[GuardedClient, AllowedHosts]]
    search: Search | None = None


def create_context(name: str, parts: Parts, *, first_party: bool) -> PluginContext:
    """The context of a plugin, with every power that this stead has."""
    from toolstead.app.task_powers import PluginTasks

    return PluginContext(
        name=name,
        logger=logging.getLogger(f"toolstead.plugin.{name}"),
        store=PluginStore(name, parts),
        invoker=PluginAgents(parts),
        threads=PluginThreads(name, parts, first_party=first_party),
        files=PluginFiles(name, parts.open_files),
        tasks=PluginTasks(parts.open_delegation, parts.log.emit),
        http=PluginHttp(parts),
        search=parts.search or absent_power("search", "no search provider is configured"),
        call_tool=PluginCalls(name, parts),
    )


class PluginStore:
    """A plugin's own key-value space."""

    def __init__(self, plugin: str, parts: Parts) -> None:
        self._space = plugin
        self._parts = parts

    async def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        data = await (await self._parts.open_store()).get_value(self._space, _check_key(key))
        return default if data is None else msgspec.json.decode(data)

    async def set(self, key: str, value: Any) -> None:
        """Keep a JSON value."""
        _check_json(value)
        data = msgspec.json.encode(value)
        if len(data) > LARGEST_VALUE:
            raise ValueError(f"the value of {key!r} has {len(data):,} bytes; at most {LARGEST_VALUE:,} are kept")
        await (await self._parts.open_store()).set_value(self._space, _check_key(key), data)

    async def delete(self, key: str) -> bool:
        """Forget it; False when there was none."""
        return await (await self._parts.open_store()).delete_value(self._space, _check_key(key))

    async def keys(self, prefix: str = "") -> list[str]:
        """The keys, sorted."""
        return await (await self._parts.open_store()).list_keys(self._space, prefix)


class PluginAgents:
    """Invoking agents."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def invoke(
        self,
        prompt: str,
        *,
        thread_id: str | None = None,
        model: str | None = None,
        session_id: str | None = None,
        timeout: float | None = None,
        agent: str | None = None,
        meta: ToolMeta | None = None,
    ) -> Run:
        """Ask an agent, and wait for the end of its run. Cancelling cancels the run."""
        from toolstead.orchestrator.orchestrator import watched_run
        from toolstead.orchestrator.request import RunRequest

        request = RunRequest(
            prompt=prompt,
            thread_id=thread_id,
            model=model or "",
            session_id=session_id,
            timeout=timeout,
            agent=agent or "",
            profile=None if meta is None else meta.caller.profile,
        )
        if meta is not None and meta.run_id is not None:
            request = request.as_child_of(meta.caller)
        try:
            return await watched_run(await self._parts.conversations(), self._parts.log, request, None)
        except (LimitError, UnknownAgentError) as error:  # a model can act on these
            raise ToolError(str(error)) from error

    async def prewarm(self, thread_id: str) -> bool:
        """Open a thread's session ahead of its next message."""
        warm, _ = await (await self._parts.conversations()).prewarm(thread_id)
        return warm


class PluginThreads:
    """Conversations and broadcasts."""

    def __init__(self, plugin: str, parts: Parts, *, first_party: bool) -> None:
        self._plugin = plugin
        self._parts = parts
        self._first_party = first_party
        self._broadcasting = 0

    async def history(self, thread_id: str, *, limit: int | None = None) -> list[Message]:
        """Its messages, oldest first; with a limit the newest of them."""
        return await (await self._parts.open_store()).list_messages(thread_id, limit=limit)

    async def send(self, thread_id: str, content: str, *, kind: str = "text", wake: bool = False) -> str:
        """Put a message into a thread, and give its id."""
        from toolstead.orchestrator.request import RunRequest

        orchestrator = await self._parts.conversations()
        if not wake:
            return (await orchestrator.add_note(thread_id, content, kind=kind)).id
        # Whoever the last run of the thread worked for, the woken one works for: it must not see more.
        last = await orchestrator.store.list_runs(thread_id=thread_id, limit=1)
        profile = last[0].profile if last else None
        accepted = await orchestrator.submit(
            RunRequest(prompt=content, thread_id=thread_id, thread_must_exist=True, profile=profile)
        )
        return accepted.message_id

    async def broadcast(
        self, event: str, data: Mapping[str, Any], *, thread_id: str | None = None, meta: ToolMeta | None = None
    ) -> None:
        """Send an event to the log, its readers and the other plugins."""
        self._check_type(event)
        _check_json(data)
        if self._broadcasting >= MOST_BROADCASTS:
            raise RefusedError(
                f"{self._plugin} broadcasts {MOST_BROADCASTS} events at once already; an on_broadcast hook probably"
                " answers each broadcast with another, without end"
            )
        caller = meta.caller if meta is not None else Caller(thread_id=thread_id) if thread_id is not None else None
        self._broadcasting += 1
        try:
            self._parts.log.emit(event, dict(data), caller, keep=True)
            await self._parts.hooks.on_broadcast(event, data, source=self._plugin)
        finally:
            self._broadcasting -= 1

    def _check_type(self, event: str) -> None:
        word = event.partition(".")[2] if isinstance(event, str) and event.startswith(f"{self._plugin}.") else ""  # pyright: ignore[reportUnnecessaryIsInstance] - plugins are other people's code
        if not word or not word.replace("_", "").replace(".", "").isalnum() or len(event) > 100:
            raise ValueError(f"{event!r}: an event of this plugin is called {self._plugin}.<word>")
        if self._plugin in _OWN_WORDS and not self._first_party:
            raise ValueError(
                f"{event!r}: events that begin with {self._plugin!r} are Toolstead's own; rename the plugin"
            )


class PluginHttp:
    """The guarded client."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        timeout: float = 10.0,
        max_bytes: int = 1_048_576,
    ) -> HttpAnswer:
        """Send a request, and read at most so much of the answer."""
        from toolstead.tools.handlers.http_client import OutgoingRequest
        from toolstead.tools.handlers.http_url import parse_url

        try:
            place = parse_url(url)
        except ValueError as error:
            raise RefusedError(f"{url[:200]!r} is refused: {error}") from None
        request = OutgoingRequest(
            method=method.upper(),
            url=place,
            headers=dict(headers or {}),
            body=None if json is None else msgspec.json.encode(json),
        )
        client, allowed = self._parts.http()
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline, client.stream_response(request, allowed=allowed) as response:
                content = await _read_body(response, place.place, max_bytes)
                return HttpAnswer(
                    status=response.status_code,
                    headers={name.lower(): value for name, value in response.headers.items()},
                    content=content[:max_bytes],
                    cut=len(content) > max_bytes,
                    url=str(response.url),
                )
        except TimeoutError:
            if not deadline.expired():
                raise
            raise ToolError(f"{place.place} gave no complete answer within {timeout:g} seconds") from None


async def _read_body(response: httpx2.Response, place: str, max_bytes: int) -> bytes:
    """The body, and one piece more than is allowed where it is longer."""
    import httpx2  # loaded by now, for the request

    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > max_bytes:
                break
    except httpx2.DecodingError as error:
        raise ToolError(f"{place} sent a body that is not encoded as it says: {error}") from None
    return bytes(content)


class PluginCalls:
    """Calls tools on a plugin's behalf, with bounded nesting."""

    def __init__(self, plugin: str, parts: Parts) -> None:
        self._plugin = plugin
        self._parts = parts
        self._open = 0

    async def __call__(
        self, name: str, input: Mapping[str, Any] | None = None, *, meta: ToolMeta | None = None
    ) -> ToolResult:
        """Call a tool, in the thread and run of the call it comes from."""
        caller = meta.caller if meta is not None else Caller()
        if caller.nested >= MOST_NESTED:
            return self._refuse_call(
                name, f"{MOST_NESTED} tools call each other already; that is probably an endless recursion"
            )
        if self._open >= MOST_CALLS:
            return self._refuse_call(name, f"{MOST_CALLS} calls of this plugin are open already")
        self._open += 1
        try:
            inner = msgspec.structs.replace(caller, nested=caller.nested + 1, call_id=None)
            return await self._parts.dispatcher().call(name, input, inner)
        finally:
            self._open -= 1

    def _refuse_call(self, name: str, reason: str) -> ToolResult:
        logger.warning("plugin %r may not call %r now: %s", self._plugin, name, reason)
        return ToolResult.error(f"{name} was refused: {reason}", Failure.REFUSED)


def _check_key(key: str) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:  # pyright: ignore[reportUnnecessaryIsInstance] - plugins are other people's code
        raise ValueError(f"a key is a text of 1 to {LONGEST_KEY} characters, not {key!r:.100}")
    return key


def _check_json(value: Any) -> None:
    """Refuse a value that would not survive a round trip through JSON."""
    try:
        _check_value(value)
    except RecursionError:
        raise TypeError("a value that holds itself, or is nested this deep, is no JSON value") from None
    except UnicodeEncodeError:
        raise TypeError("a text with half a character (a lone surrogate) in it is no JSON value") from None


def _check_value(value: Any) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise TypeError(f"{value!r} is no JSON value")
        case str():
            value.encode()
        case None | bool() | int() | float():
            pass
        case list():
            for item in value:  # pyright: ignore[reportUnknownVariableType] - being looked at
                _check_value(item)
        case Mapping():
            for key, item in value.items():  # pyright: ignore[reportUnknownVariableType] - being looked at
                if not isinstance(key, str):
                    raise TypeError(f"the key {key!r:.100} of a JSON object must be text")
                _check_value(key)
                _check_value(item)
        case _:
            kind: str = type(value).__name__
            raise TypeError(f"a {kind} is no JSON value; store text, numbers, booleans, null, lists and objects")
