"""A runtime that does what a test says, step by step, and the requests to go with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolstead.errors import SessionLostError
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.lease import SessionRequest
from toolstead.invoker.runtime import Answer, Runtime, SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult

SPEC = SessionSpec(agent="main", model="m", cwd=Path("/project"), tools=("a", "b"))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def echo(turn: Turn) -> Answer:
    """The way a bench session answers unless told otherwise."""
    return Answer(text=turn.prompt)


@dataclass(eq=False)
class BenchSession:
    runtime: BenchRuntime
    spec: SessionSpec
    thread_id: str
    id: str | None
    is_resumed: bool
    is_usable: bool = True
    closes: int = 0
    turns: list[str] = field(default_factory=list)

    async def run(self, turn: Turn) -> Answer:
        self.turns.append(turn.prompt)
        return await self.runtime.act(turn)

    async def steer(self, text: str) -> bool:
        return await self.runtime.on_steer(text)

    async def adapt_to(self, spec: SessionSpec) -> bool:
        if not await self.runtime.on_adapt(spec):
            return False
        self.spec = spec
        return True

    async def close(self) -> None:
        self.closes += 1
        self.is_usable = False
        await self.runtime.on_close(self)


async def _no(_: object) -> bool:
    return False


async def _nothing(_: object) -> None:
    return None


@dataclass(eq=False)
class BenchRuntime:
    """Each `on_…` is what happens; a test puts its own there."""

    owns_process: bool = True
    name: str = "bench"
    can_resume: bool = True
    act: Callable[[Turn], Awaitable[Answer]] = echo
    on_open: Callable[[SessionSpec], Awaitable[None]] = _nothing
    on_steer: Callable[[str], Awaitable[bool]] = _no
    on_adapt: Callable[[SessionSpec], Awaitable[bool]] = _no
    on_close: Callable[[BenchSession], Awaitable[None]] = _nothing
    sessions: list[BenchSession] = field(default_factory=list)
    resumes: list[str | None] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    def resolve_model(self, model: str) -> str:
        return model

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> BenchSession:
        self.resumes.append(resume)
        if resume in self.lost:
            raise SessionLostError(f"no conversation {resume}")
        await self.on_open(spec)
        own = resume or f"id-{len(self.sessions) + 1}"
        session = BenchSession(self, spec, thread_id, own, resume is not None and self.can_resume)
        self.sessions.append(session)
        return session

    @property
    def open_now(self) -> list[BenchSession]:
        return [session for session in self.sessions if not session.closes]


class Gate:
    """A turn that says when it has begun, and ends when it is let."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, turn: object) -> Answer:
        self.begun.set()
        await self.let.wait()
        return Answer(text="let")


def request(runtime: Runtime, thread: str | None = "t", **more: Any) -> SessionRequest:
    return SessionRequest(**{"runtime": runtime, "spec": SPEC, "thread_id": thread, **more})


async def no_tool(name: str, input: Mapping[str, Any] | None, caller: Caller) -> ToolResult:
    return ToolResult.error(f"unknown tool {name}")


async def invoke(invoker: Invoker, session: SessionRequest, prompt: str = "hello", **more: Any) -> Answer:
    plain = {"caller": Caller(thread_id=session.key), "tell": lambda kind, data: None, "call_tool": no_tool}
    return await invoker.invoke(session, prompt=prompt, **{**plain, **more})


async def settle() -> None:
    """Let everything that can happen now happen."""
    for _ in range(20):
        await asyncio.sleep(0)
