"""Whatever comes in whatever order, the pool keeps its promises.

A plan is a list of things that happen at moments of a virtual clock: messages (with children,
failures, losses, timeouts and cancellations), prewarmings, steering, evictions, long pauses. While
it is carried out, the runtime below and the store above watch every promise; at the end nothing
may be left: no session, no task, no room, no timer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.virtual_time import DeadlockError, run_virtually
from toolstead.errors import InvocationError, NoRoomError, RuntimeFailureError, SessionLostError, TimedOutError
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.lease import SessionRequest
from toolstead.invoker.pool import STARTS, SessionPool
from toolstead.invoker.runtime import Answer, SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult
from toolstead.types.run import Warmth

THREADS = ("a", "b", "c", "d")
TTL = 480.0


@dataclass(frozen=True)
class Message:
    """A message, and what becomes of it."""

    thread: str
    at: float = 0.0
    seconds: float = 0.0
    end: str = "answer"
    model: str = "m"
    tools: tuple[str, ...] = ()
    owns_process: bool = True
    timeout: float | None = None
    cancel_after: float | None = None
    prewarmed: bool = False
    children: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Deed:
    """Something else that happens to a thread."""

    kind: str
    thread: str
    at: float
    owns_process: bool = True
    model: str = "m"


@dataclass(frozen=True)
class Plan:
    most_idle: int
    most_live: int
    resumes: bool
    messages: list[Message]
    deeds: list[Deed]
    close_at: float | None = None


@dataclass
class Conversation:
    id: str
    known: list[int] = field(default_factory=list)


class WatchedRuntime:
    """A runtime that checks what is done to it."""

    name = "watched"

    def __init__(self, world: World, *, owns_process: bool, resumes: bool) -> None:
        self.world = world
        self.owns_process = owns_process
        self.resumes = resumes
        self.conversations: dict[str, Conversation] = {}
        self.ids = itertools.count(1)
        self.starting = 0
        self.alive: set[WatchedSession] = set()
        self.processes = 0

    def resolve_model(self, model: str) -> str:
        return model

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> WatchedSession:
        self.starting += 1
        self.processes += 1
        try:
            if self.owns_process:
                self.world.must(self.starting <= STARTS, "no more starts at once than allowed")
                self.world.must(self.processes <= self.world.plan.most_live, "no more processes than max_live")
            await asyncio.sleep(1)
            found = None
            if resume is not None and self.resumes:
                found = self.conversations.get(resume)
                if found is None:
                    raise SessionLostError(resume)
            conversation = found or Conversation(f"{self.owns_process}-{next(self.ids)}")
            self.conversations[conversation.id] = conversation
            session = WatchedSession(self, spec, thread_id, conversation, is_resumed=found is not None)
            self.alive.add(session)
        except BaseException:
            self.processes -= 1
            raise
        finally:
            self.starting -= 1
        return session


class WatchedSession:
    def __init__(
        self, runtime: WatchedRuntime, spec: SessionSpec, thread: str, conversation: Conversation, *, is_resumed: bool
    ) -> None:
        self.runtime, self.spec, self.thread, self.conversation = runtime, spec, thread, conversation
        self.is_resumed = is_resumed
        self.is_usable = True
        self.running = False
        self.is_closed = False

    @property
    def id(self) -> str | None:
        return self.conversation.id

    async def run(self, turn: Turn) -> Answer:
        world = self.runtime.world
        told = [int(number) for number in turn.prompt.split()]
        message = world.messages[told[-1]]
        world.must(self.is_usable and not self.is_closed, "a turn runs on an open session")
        world.must(message.thread == self.thread, "a turn runs in its own thread")
        world.must(world.running[self.thread] == 0, "one invocation at a time in a thread")
        world.must(self.spec == world.spec(message), "a session is built with what is asked for")
        world.running[self.thread] += 1
        self.running = True
        try:
            world.must(not set(told) & set(self.conversation.known), "the history is never given twice")
            self.conversation.known += told
            missing = set(world.stored[self.thread]) - set(self.conversation.known)
            world.must(not missing, "a session is never without its history")
            await asyncio.sleep(message.seconds)
            if message.children:
                await turn.call_tool("delegate", {"number": told[-1]})
            return self.end(message.end)
        finally:
            self.running = False
            world.running[self.thread] -= 1

    def end(self, how: str) -> Answer:
        world = self.runtime.world
        match how:
            case "fail":
                raise RuntimeFailureError("as planned")
            case "crash":
                raise ZeroDivisionError("as planned")
            case "lose":
                del self.runtime.conversations[self.conversation.id]
                raise SessionLostError("as planned")
            case "die":
                self.is_usable = False
            case "rotate":
                del self.runtime.conversations[self.conversation.id]
                self.conversation.id = f"{self.runtime.owns_process}-{next(self.runtime.ids)}"
                self.runtime.conversations[self.conversation.id] = self.conversation
            case _:
                pass
        return Answer(text=str(world.loop.time()))

    async def steer(self, text: str) -> bool:
        return self.running

    async def adapt_to(self, spec: SessionSpec) -> bool:
        await asyncio.sleep(1)
        if replace(spec, model="") != replace(self.spec, model=""):
            return False
        self.spec = spec
        return True

    async def close(self) -> None:
        world = self.runtime.world
        world.must(not self.is_closed, "a session is closed once")
        world.must(not self.running or world.closing, "a busy session is never evicted")
        self.is_closed = True
        self.is_usable = False
        await asyncio.sleep(2)
        self.runtime.processes -= 1
        self.runtime.alive.discard(self)


class World:
    """Carries out a plan: the caller's side, with a store as simple as can be."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        self.closing = False
        self.runtimes = {owns: WatchedRuntime(self, owns_process=owns, resumes=plan.resumes) for owns in (True, False)}
        self.pool = SessionPool(ttl=TTL, most_idle=plan.most_idle, most_live=plan.most_live, clock=self.loop.time)
        self.invoker = Invoker(self.pool)
        self.messages: list[Message] = []
        self.stored: dict[str, list[int]] = defaultdict(list)
        self.session_ids: dict[str, str | None] = {}
        self.order: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Thread → its runs, one at a time: what the store decides for the orchestrator."""
        self.running: Counter[str] = Counter()
        self.arrivals = itertools.count()
        self.started: dict[str, list[int]] = defaultdict(list)
        self.ends: Counter[str] = Counter()
        self.starts = 0
        self.broken: list[str] = []

    def must(self, holds: bool, promise: str) -> None:
        """Note a broken promise; an assertion down there would be taken for a crash of the runtime."""
        if not holds:
            self.broken.append(promise)

    def spec(self, message: Message | Deed) -> SessionSpec:
        tools = message.tools if isinstance(message, Message) else ()
        return SessionSpec(agent="x", model=message.model, cwd=Path("/"), tools=tools)

    def request(self, message: Message | Deed, *, may_wait: bool = True) -> SessionRequest:
        return SessionRequest(
            runtime=self.runtimes[message.owns_process],
            spec=self.spec(message),
            thread_id=message.thread,
            resume=self.session_ids.get(message.thread),
            has_history=bool(self.stored[message.thread]),
            may_wait=may_wait,
        )

    async def carry_out(self) -> None:
        tasks = [asyncio.create_task(self._at(message.at, self.send(message))) for message in self.plan.messages]
        tasks += [asyncio.create_task(self._at(deed.at, self.do(deed))) for deed in self.plan.deeds]
        if self.plan.close_at is not None:
            tasks.append(asyncio.create_task(self._at(self.plan.close_at, self.close())))
        await asyncio.gather(*tasks)
        for message in self.plan.messages[:1] if self.plan.close_at is None else ():
            await self.send(replace(message, end="answer", timeout=None, cancel_after=None, prewarmed=True))
        await self.close()

    async def _at(self, moment: float, work: Any) -> None:
        await asyncio.sleep(moment)
        await work

    async def send(self, message: Message, *, may_wait: bool = True) -> str:
        """A message from its arrival to its end."""
        task = asyncio.create_task(self.invoke(message, may_wait=may_wait))
        if message.cancel_after is not None:
            await asyncio.wait((task,), timeout=message.cancel_after)
            task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        match end:
            case str():
                how = end
            case NoRoomError():
                assert not may_wait, "a root was refused"
                how = "refused"
            case TimedOutError():
                assert message.timeout is not None
                how = "timeout"
            case asyncio.CancelledError():
                assert message.cancel_after is not None
                how = "cancelled"
            case SessionLostError():
                assert message.end == "lose"
                how = "lost"
            case RuntimeFailureError():
                assert message.end in {"fail", "crash"} or self.closing
                how = "failed"
            case InvocationError():
                assert self.closing
                how = "closed"
            case _:
                raise end
        self.ends[how] += 1
        return how

    async def invoke(self, message: Message, *, may_wait: bool) -> str:
        number = len(self.messages)
        self.messages.append(message)
        order, hits = self.order[message.thread], None
        warm = message.prewarmed and await self.invoker.pool.prewarm(self.request(message, may_wait=may_wait))
        if warm and not order.locked() and not self.is_busy(message.thread):
            hits = self.pool.stats().hits
        arrival = next(self.arrivals)
        if order.locked() and not may_wait:
            raise NoRoomError("a child does not wait behind another run of its thread")
        async with order:
            await self.run(message, number, arrival, hits, may_wait=may_wait)
            await asyncio.sleep(0.5)
            self.stored[message.thread].append(number)
        return "answered"

    async def run(self, message: Message, number: int, arrival: int, hits: int | None, *, may_wait: bool) -> None:
        tries = itertools.count()

        async def before(prompt: str, warmth: Warmth) -> str:
            if next(tries) == 0:
                self.starts += 1
                self.must(hits is None or self.pool.stats().hits == hits + 1, "prewarmed, then a message: a hit")
                self.started[message.thread].append(arrival)
                self.check()
            await asyncio.sleep(0.5)
            history = self.stored[message.thread] if warmth == "cold" else []
            return " ".join(map(str, [*history, number]))

        async def call_tool(name: str, input: Mapping[str, Any] | None, caller: Caller) -> ToolResult:
            assert input is not None
            children = self.messages[input["number"]].children
            async with asyncio.TaskGroup() as group:
                ends = [group.create_task(self.send(child, may_wait=False)) for child in children]
            return ToolResult.of_json([end.result() for end in ends])

        await self.invoker.invoke(
            self.request(message, may_wait=may_wait),
            prompt="",
            caller=Caller(thread_id=message.thread),
            tell=lambda kind, data: None,
            call_tool=call_tool,
            timeout=message.timeout,
            before=before,
            on_session_id=lambda now: self.session_ids.__setitem__(message.thread, now),
        )

    async def do(self, deed: Deed) -> None:
        try:
            match deed.kind:
                case "prewarm":
                    await self.invoker.pool.prewarm(self.request(deed))
                case "steer":
                    taken = await self.invoker.steer(deed.thread, "and another thing")
                    assert not taken or self.running[deed.thread]
                case _:
                    self.pool.evict(deed.thread)
        except InvocationError:
            assert self.closing
        self.check()

    def is_busy(self, thread: str) -> bool:
        slot = self.pool._slots.get(thread)
        return slot is not None and slot.is_used

    def check(self) -> None:
        """What holds at every moment."""
        assert sum(slot.has_room for slot in self.pool._idle) <= self.plan.most_idle, "more idle sessions than max"
        assert sum(slot.has_room for slot in self.pool._slots.values()) <= self.plan.most_live
        for slot in self.pool._idle:
            assert not slot.is_used
            assert slot.session is not None
            assert not slot.session.running  # type: ignore[attr-defined] - it is a watched one

    async def close(self) -> None:
        self.closing = True
        await self.invoker.close()

    def check_the_end(self) -> None:
        assert not self.broken, self.broken
        for thread, arrivals in self.started.items():
            assert arrivals == sorted(arrivals), f"not in order of arrival in {thread}"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task is left"
        assert not self.pool._slots, "a slot is left"
        assert self.pool._rooms._value >= self.plan.most_live, "a room is left"
        assert not self.pool._idle, "a timer is left"
        for runtime in self.runtimes.values():
            assert not runtime.alive, "a session is left"
            assert runtime.processes == 0
        stats = self.pool.stats()
        assert (stats.idle, stats.live) == (0, 0)
        assert stats.hits <= self.starts


async def carry_out(plan: Plan) -> World:
    world = World(plan)
    await world.carry_out()
    world.check_the_end()
    return world


moments = st.one_of(st.integers(0, 8), st.integers(0, 1500)).map(float)
durations = st.sampled_from([0.0, 0.0, 1.0, 3.0, 30.0, 500.0])
how_it_ends = st.sampled_from(["answer"] * 6 + ["fail", "crash", "lose", "die", "rotate"])


def messages(depth: int = 2) -> st.SearchStrategy[Message]:
    children = st.lists(messages(depth - 1), max_size=2).map(tuple) if depth else st.just(())
    return st.builds(
        Message,
        thread=st.sampled_from(THREADS),
        at=moments,
        seconds=durations,
        end=how_it_ends,
        model=st.sampled_from(["m", "m", "n"]),
        tools=st.sampled_from([(), (), ("t",)]),
        owns_process=st.sampled_from([True, True, True, False]),
        timeout=st.one_of(st.none(), st.none(), st.sampled_from([0.0, 1.5, 20.0])),
        cancel_after=st.one_of(st.none(), st.none(), st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 5.0, 40.0])),
        prewarmed=st.booleans(),
        children=children,
    )


deeds = st.builds(
    Deed,
    kind=st.sampled_from(["prewarm", "prewarm", "steer", "evict"]),
    thread=st.sampled_from(THREADS),
    at=moments,
    owns_process=st.sampled_from([True, True, False]),
    model=st.sampled_from(["m", "n"]),
)
plans = st.builds(
    Plan,
    most_idle=st.integers(0, 3),
    most_live=st.integers(1, 3),
    resumes=st.booleans(),
    messages=st.lists(messages(), max_size=8),
    deeds=st.lists(deeds, max_size=6),
    close_at=st.one_of(st.none(), st.none(), moments),
)


@pytest.mark.promise("S3")
@pytest.mark.promise("S4")
@given(plan=plans)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_whatever_comes_in_whatever_order_the_pool_keeps_its_promises(plan: Plan) -> None:
    run_virtually(carry_out(plan))


@pytest.mark.promise("S4")
@pytest.mark.parametrize("most_live", [1, 2, 3])
def test_parents_that_wait_for_children_never_lock_the_pool(most_live: int) -> None:
    family = tuple(
        Message(thread, children=tuple(Message(t, seconds=1) for t in "wxyz"), seconds=1, at=0.0) for thread in THREADS
    )
    root = [Message(f"root {number}", children=family) for number in range(4)]
    plan = Plan(most_idle=1, most_live=most_live, resumes=True, messages=root, deeds=[])
    world = run_virtually(carry_out(plan))
    assert world.ends["answered"] >= 4
    assert world.ends["refused"] > 0


def test_the_loop_of_these_tests_sees_a_deadlock() -> None:
    with pytest.raises(DeadlockError):
        run_virtually(asyncio.Event().wait())
