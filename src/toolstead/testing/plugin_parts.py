"""What a plugin's powers are made of in a test: a store, conversations, a network and a log, all in memory.

The powers themselves are those of a real stead (`app.plugin_powers`), so that what they refuse there they refuse
here.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolstead.errors import NotFoundError, ToolError
from toolstead.orchestrator.file_change import make_version
from toolstead.orchestrator.request import RunRequest
from toolstead.orchestrator.store import Accepted
from toolstead.plugins.ports import HttpAnswer
from toolstead.tools.handlers.http_client import OutgoingRequest
from toolstead.tools.handlers.http_guard import AddressGuard, AllowedHosts
from toolstead.tools.handlers.http_url import parse_url
from toolstead.types.call import Caller
from toolstead.types.event import Event
from toolstead.types.run import Run, RunError
from toolstead.types.thread import Message, Role, Thread
from toolstead.types.vfs import FileChange, FileLimits, FileVersion, SharedFile, TreeUsage

MessageLike = Message | tuple[Role, str] | str
"""A message of a thread: whole, as role and text, or the text of a user's."""

SOMEWHERE = "93.184.215.14"
"""An address of the public internet that every name has; nothing is ever sent there."""


class MemoryStore:
    """The part of a store that plugins reach: their values, messages, and shared files. Each thread is a root."""

    def __init__(self, history: Mapping[str, Sequence[MessageLike]]) -> None:
        self._values: dict[tuple[str, str], bytes] = {}
        self._threads: dict[str, list[Message]] = {thread_id: [] for thread_id in history}
        self._numbers = itertools.count(1)
        self._files: dict[tuple[str, str], list[SharedFile]] = {}
        for thread_id, messages in history.items():
            for message in messages:
                self.add_message(thread_id, message)

    async def get_value(self, space: str, key: str) -> bytes | None:
        """A value of a plugin's own space."""
        return self._values.get((space, key))

    async def set_value(self, space: str, key: str, value: bytes) -> None:
        """Keep a value."""
        self._values[space, key] = value

    async def delete_value(self, space: str, key: str) -> bool:
        """Forget a value; False when there was none."""
        return self._values.pop((space, key), None) is not None

    async def list_keys(self, space: str, prefix: str = "") -> list[str]:
        """The keys of a space, sorted."""
        return sorted(key for held, key in self._values if held == space and key.startswith(prefix))

    async def read_thread(self, id: str) -> Thread:
        """Raises NotFoundError."""
        if id not in self._threads:
            raise NotFoundError("thread", id)
        return Thread(id=id, created_at=0.0)

    async def list_messages(self, thread_id: str, *, limit: int | None = None) -> list[Message]:
        """Its messages, oldest first; with a limit the newest of them."""
        all_of_it = self._threads.get(thread_id, [])
        return all_of_it[max(0, len(all_of_it) - limit) :] if limit is not None else list(all_of_it)

    async def list_runs(self, *, thread_id: str, limit: int) -> list[Run]:
        """The stored runs of a thread: none, since nothing is performed here."""
        return []

    async def read_file(self, thread_id: str, path: str, *, version: int | None = None) -> SharedFile | None:
        """A version of a file, the newest unless one is named."""
        versions = self._files.get((thread_id, path), [])
        return next((one for one in reversed(versions) if version in (None, one.version)), None)

    async def list_files(self, thread_id: str, prefix: str = "") -> list[FileVersion]:
        """The newest version of each file that is not deleted, sorted by path."""
        newest = [versions[-1] for (held, _), versions in sorted(self._files.items()) if held == thread_id]
        return [one.without_content() for one in newest if not one.deleted and one.path.startswith(prefix)]

    async def list_file_versions(
        self, thread_id: str, path: str, *, limit: int = 100, before: int | None = None
    ) -> list[FileVersion]:
        """The versions of a file, the newest first."""
        versions = self._files.get((thread_id, path), [])
        older = [one for one in reversed(versions) if before is None or one.version < before]
        return [one.without_content() for one in older[:limit]]

    async def write_file(self, change: FileChange, limits: FileLimits) -> FileVersion:
        """Keep a change as the file's next version."""
        versions = self._files.get((change.thread_id, change.path), [])
        texts = {one.version: one.content for one in versions}
        kept = [versions for (held, _), versions in self._files.items() if held == change.thread_id]
        usage = TreeUsage(
            files=len(kept), versions=sum(map(len, kept)), bytes=sum(one.size for versions in kept for one in versions)
        )
        made = make_version(change, versions[-1] if versions else None, usage, limits, texts.get)
        self._files.setdefault((change.thread_id, change.path), []).append(made)
        return made.without_content()

    def add_message(
        self, thread_id: str, message: MessageLike, *, kind: str = "text", run_id: str | None = None
    ) -> Message:
        """Put a message into a thread, which is created if it is not there."""
        if not isinstance(message, Message):
            role, content = ("user", message) if isinstance(message, str) else message
            message = Message(
                id=self.new_id("msg"),
                thread_id=thread_id,
                role=role,
                content=content,
                created_at=time.time(),
                kind=kind,
                run_id=run_id,
            )
        self._threads.setdefault(thread_id, []).append(message)
        return message

    def new_id(self, kind: str) -> str:
        """An id that nothing else has."""
        return f"{kind}_{next(self._numbers):06}"


class FakeConversations:
    """Conversations with a model whose answers are given.

    Attributes:
        store: Where messages are.
        sent: The messages that plugins put into threads.
        invoked: What agents were asked.
    """

    def __init__(self, store: MemoryStore, answers: Mapping[str, str | RunError]) -> None:
        self.store = store
        self.sent: list[Message] = []
        self.invoked: list[RunRequest] = []
        self._answers = answers
        self._runs: dict[str, Run] = {}

    async def add_note(self, thread_id: str, content: str, *, kind: str = "text") -> Message:
        """Put a message of the system into a thread."""
        await self.store.read_thread(thread_id)
        self.sent.append(self.store.add_message(thread_id, ("system", content), kind=kind))
        return self.sent[-1]

    async def submit(self, request: RunRequest, *, only_for_caller: bool = False) -> Accepted:
        """Take a message. One that a caller waits for is answered; any other is only noted."""
        if request.thread_id is not None and request.thread_must_exist:
            await self.store.read_thread(request.thread_id)
        thread_id = request.thread_id or self.store.new_id("thread")
        run_id = self.store.new_id("run")
        message = self.store.add_message(thread_id, ("user", request.prompt), run_id=run_id)
        if only_for_caller:
            self.invoked.append(request)
            self._runs[run_id] = self._answer_request(run_id, thread_id, request)
        else:
            self.sent.append(message)
        return Accepted(message_id=message.id, run_id=run_id, fresh=True)

    async def wait(self, run_id: str) -> Run:
        """A run's end."""
        return self._runs[run_id]

    async def prewarm(self, thread_id: str) -> tuple[bool, str]:
        """Every thread that is there can be warmed."""
        await self.store.read_thread(thread_id)
        return True, "scripted"

    def _answer_request(self, run_id: str, thread_id: str, request: RunRequest) -> Run:
        answer = next((given for pattern, given in self._answers.items() if re.search(pattern, request.prompt)), None)
        if answer is None:
            answer = RunError(
                code="runtime",
                message=f"no answer is given for {request.prompt[:200]!r}; give one with"
                " fake_context(answers={…: …})",
            )
        failed = isinstance(answer, RunError)
        if not failed:
            self.store.add_message(thread_id, ("assistant", answer), run_id=run_id)
        now = time.time()
        return Run(
            id=run_id,
            thread_id=thread_id,
            prompt=request.prompt,
            created_at=now,
            owner="test",
            status="failed" if failed else "completed",
            agent=request.agent or "main",
            runtime="scripted",
            model=request.model,
            result=None if failed else answer,
            error=answer if failed else None,
            started_at=now,
            ended_at=now,
            parent_run_id=request.parent_run_id,
            parent_agent=request.parent_agent,
            task_id=request.task_id,
            depth=request.depth,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request that a plugin sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    json: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """An answer as the powers read it."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    url: str

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, in one piece."""
        yield self.content


class FakeNetwork:
    """Pages instead of the internet, behind the guard that the internet is behind.

    Attributes:
        allowed: The hosts of the pages, which are reached whatever they are.
        requests: What was sent, and not refused.
    """

    def __init__(self, pages: Mapping[str, HttpAnswer | str | Exception]) -> None:
        self._pages = {str(parse_url(url)): page for url, page in pages.items()}
        self._guard = AddressGuard(resolver=_resolve_somewhere)
        self.allowed = AllowedHosts(frozenset((place.host, place.port) for place in map(parse_url, pages)))
        self.requests: list[SentRequest] = []

    @asynccontextmanager
    async def stream_response(self, request: OutgoingRequest, *, allowed: AllowedHosts) -> AsyncGenerator[_Response]:
        """The page of this address.

        Raises:
            RefusedError: The guard refuses the host.
            ToolError: There is no such page.
        """
        await self._guard.check_host(request.url.host, request.url.port, allowed)
        url = str(request.url)
        body = None if request.body is None else msgspec.json.decode(request.body)
        self.requests.append(SentRequest(method=request.method, url=url, headers=dict(request.headers), json=body))
        page = self._pages.get(url)
        if page is None:
            raise ToolError(f"{url} has no answer; give one with fake_context(pages={{{url!r}: …}})")
        if isinstance(page, Exception):
            raise page
        answer = HttpAnswer(status=200, content=page.encode()) if isinstance(page, str) else page
        yield _Response(status_code=answer.status, headers=answer.headers, content=answer.content, url=url)


class RecordingLog:
    """A log that only records: broadcasts of plugins and results of calls."""

    listening = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.broadcasts: list[Event] = []

    def emit(self, type: str, data: Mapping[str, Any], caller: Caller | None = None, *, keep: bool = False) -> None:
        """Record an event."""
        event = Event(
            id=f"{len(self.events) + 1:06}",
            type=type,
            time=time.time(),
            data=data,
            thread_id=caller.thread_id if caller else None,
            run_id=caller.run_id if caller else None,
            task_id=caller.task_id if caller else None,
        )
        self.events.append(event)
        if keep:  # only events that must not be lost are sent so, and here those are the broadcasts
            self.broadcasts.append(event)


async def _resolve_somewhere(_: str, __: int) -> list[str]:
    return [SOMEWHERE]
