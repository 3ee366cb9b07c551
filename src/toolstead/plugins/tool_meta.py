"""One call, as its handler sees it: `ToolMeta`, and the caller's own side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toolstead.concurrency.worker_threads import is_call_abandoned, is_in_worker, wait_on_loop
from toolstead.errors import DefinitionError, NoClientError

if TYPE_CHECKING:
    from toolstead.types.call import Caller
    from toolstead.types.tool import JSONSchema

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives progress: how far, of how much, a message."""


class Declared(Protocol):
    """What a tool declares that a call must know."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def progress(self) -> bool:
        """Whether it may report progress."""
        ...

    @property
    def interactive(self) -> bool:
        """Whether it may talk to its caller."""
        ...


class Client(Protocol):
    """The caller's own side, for tools declared with `interactive=True`."""

    async def log(self, level: str, text: str) -> None:
        """Show the caller a log line (`debug`, `info`, `warning`, `error`, …)."""
        ...

    async def elicit(self, message: str, schema: JSONSchema, *, key: str | None = None) -> Mapping[str, Any]:
        """Ask the person at the client: `{"action": "accept"|"decline"|"cancel", "content"?: {…}}`.

        The tool's deadline does not run meanwhile.

        Args:
            message: What the person reads.
            schema: A flat object schema: what is to be filled in.
            key: What this question is called towards clients of the newest protocol version; made up unless given.
        """
        ...

    async def sample(self, prompt: str, max_tokens: int, *, key: str | None = None) -> str:
        """Let the client's own model answer a prompt. The deadline and `key` are as in `elicit`."""
        ...


class _Sent:
    """What a report from a thread gives back: it was passed on already, and may be awaited nevertheless."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


_SENT = _Sent()


class ToolMeta(msgspec.Struct, eq=False):
    """One call, as its handler sees it.

    A struct, because one is built on most calls: 0.13 µs where an `__init__` takes 0.3. It refers to the caller
    instead of copying its fields, and the call's id is made when it is first asked for.

    Attributes:
        caller: On whose behalf; pass it on with `ctx.call_tool(…, meta=meta)`.
        cwd: The folder that the call works in.
    """

    _tool: Declared
    caller: Caller
    cwd: Path
    _new_id: Callable[[], str]
    _progress: Progress | None = None
    _client: Client | None = None
    _call_id: str | None = None

    @property
    def call_id(self) -> str:
        """The model's own id of the call where there is one, else ours."""
        if self._call_id is None:
            self._call_id = self.caller.call_id or self._new_id()
        return self._call_id

    @property
    def thread_id(self) -> str:
        """The run's thread, else the caller's, else `default`."""
        return self.caller.thread_id

    @property
    def task_id(self) -> str | None:
        """The delegated task, where the call is part of one."""
        return self.caller.task_id

    @property
    def run_id(self) -> str | None:
        """The run, where the call is part of one."""
        return self.caller.run_id

    @property
    def session_id(self) -> str | None:
        """The runtime's session, where there is one."""
        return self.caller.session_id

    @property
    def agent_id(self) -> str | None:
        """The agent that calls."""
        return self.caller.agent_id

    @property
    def parent_agent_id(self) -> str | None:
        """The agent that delegated to the one that calls."""
        return self.caller.parent_agent_id

    @property
    def depth(self) -> int:
        """How deep in the tree of runs; the root is 0."""
        return self.caller.depth

    @property
    def wants_progress(self) -> bool:
        """Whether the caller receives progress; if not, skip reports that are costly to make."""
        return self._progress is not None

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller of this call has gone, though its function goes on: for a plain `def` to look at.

        An `async def` is cancelled instead.
        """
        return is_call_abandoned()

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress to the caller; does nothing when the caller does not receive it.

        An `async def` awaits it. In a plain `def` the call alone reports, and raises `asyncio.CancelledError` when
        the caller of the tool has gone.

        Raises:
            DefinitionError: The tool was not declared with `progress=True`.
        """
        if not self._tool.progress:
            raise DefinitionError(
                tool=self._tool.name,
                field="progress",
                reason="only a tool declared with progress=True may report progress",
            )

        async def send() -> None:
            if self._progress is not None:
                await self._progress(progress, total, message)

        if not is_in_worker():
            return send()
        wait_on_loop(send)
        return _SENT

    @property
    def client(self) -> Client:
        """The caller's own side: to log to it, to ask its person, to use its model.

        Raises:
            DefinitionError: The tool was not declared with `interactive=True`.
            NoClientError: The call came through an interface without a client (REST, CLI, Python).
        """
        if not self._tool.interactive:
            raise DefinitionError(
                tool=self._tool.name,
                field="interactive",
                reason="only a tool declared with interactive=True may talk to its caller",
            )
        if self._client is None:
            raise NoClientError(f"tool {self._tool.name!r}: this caller cannot be asked; call it from an MCP client")
        return self._client
