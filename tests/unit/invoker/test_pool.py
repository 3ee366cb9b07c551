"""The pool: what it keeps, for how long, how many, and who gets it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import asdict, replace

import pytest

from tests.unit.invoker.bench import SPEC, BenchRuntime, BenchSession, Clock, request, settle
from tests.virtual_time import run_virtually
from toolstead.errors import InvocationError, NoRoomError, RuntimeFailureError, SessionLostError
from toolstead.invoker.lease import Lease
from toolstead.invoker.pool import STARTS, SessionPool
from toolstead.invoker.runtime import SessionSpec


def numbers(pool: SessionPool) -> tuple[int, int, int, int]:
    stats = pool.stats()
    return stats.hits, stats.misses, stats.rebuilt, stats.evicted


def rooms_taken(pool: SessionPool) -> int:
    return pool._most_live - pool._rooms._value


async def use(pool: SessionPool, runtime: BenchRuntime, thread: str = "t", **more: object) -> Lease:
    lease = await pool.acquire(request(runtime, thread, **more))
    lease.slot.has_conversation = True
    await pool.release(lease, keep=True)
    return lease


@pytest.mark.promise("S3")
async def test_a_session_is_opened_once_and_found_warm_after_that() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    first, second = await use(pool, runtime), await use(pool, runtime)
    assert (first.warmth, second.warmth) == ("cold", "warm")
    assert first.session is second.session
    assert numbers(pool) == (1, 1, 0, 0)
    assert asdict(pool.stats()) == {"idle": 1, "live": 1, "hits": 1, "misses": 1, "rebuilt": 0, "evicted": 0}
    await pool.close()


@pytest.mark.promise("S3")
async def test_prewarm_then_message_is_a_hit() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    assert await pool.prewarm(request(runtime))
    lease = await use(pool, runtime, has_history=False)
    assert lease.warmth == "warm"
    assert numbers(pool) == (1, 0, 0, 0)
    await pool.close()


async def test_a_prewarmed_session_without_the_history_is_told_as_cold_so_that_somebody_gives_it() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    await pool.prewarm(request(runtime))
    assert (await use(pool, runtime, has_history=True)).warmth == "cold"
    assert (await use(pool, runtime, has_history=True)).warmth == "warm"
    await pool.prewarm(request(runtime, "resumed", resume="x"))
    assert (await use(pool, runtime, "resumed", has_history=True)).warmth == "warm"
    assert pool.stats().hits == 3
    await pool.close()


async def test_what_an_earlier_session_knew_is_not_taken_for_known_by_the_next_one() -> None:
    pool, runtime = SessionPool(), BenchRuntime(can_resume=False)
    await use(pool, runtime)
    pool.evict("t")
    await pool.prewarm(request(runtime))
    assert (await use(pool, runtime, has_history=True)).warmth == "cold"
    await pool.close()


async def test_a_conversation_is_resumed_where_there_is_one() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    assert (await use(pool, runtime, resume="old")).warmth == "resumed"
    assert runtime.resumes == ["old"]
    await pool.close()


async def test_a_conversation_that_is_gone_begins_anew() -> None:
    pool, runtime = SessionPool(), BenchRuntime(lost={"old"})
    lease = await use(pool, runtime, resume="old")
    assert (lease.warmth, lease.session.id) == ("cold", "id-1")
    assert runtime.resumes == ["old", None]
    await pool.close()


@pytest.mark.promise("S3")
async def test_a_session_built_with_something_else_is_rebuilt_on_the_same_conversation_and_is_no_hit() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    first = await use(pool, runtime)
    second = await use(pool, runtime, spec=replace(SPEC, tools=("c",)))
    assert second.session is not first.session
    assert (second.warmth, second.session.id) == ("resumed", "id-1")
    assert numbers(pool) == (0, 1, 1, 0)
    assert len(runtime.open_now) == 1
    await pool.close()


async def test_a_session_that_adapts_is_kept_and_counted_as_rebuilt_once() -> None:
    async def yes(spec: SessionSpec) -> bool:
        return True

    pool, runtime = SessionPool(), BenchRuntime(on_adapt=yes)
    other = replace(SPEC, model="n")
    first, second = await use(pool, runtime), await use(pool, runtime, spec=other)
    assert second.session is first.session
    assert second.warmth == "warm"
    assert numbers(pool) == (0, 1, 1, 0)
    await use(pool, runtime, spec=other)
    assert numbers(pool) == (1, 1, 1, 0)
    await pool.close()


async def test_a_session_that_crashes_while_it_adapts_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async def crash(spec: SessionSpec) -> bool:
        raise ZeroDivisionError

    pool, runtime = SessionPool(), BenchRuntime(on_adapt=crash)
    await use(pool, runtime)
    lease = await use(pool, runtime, spec=replace(SPEC, model="n"))
    assert lease.session is runtime.sessions[1]
    assert "could not be reconfigured" in caplog.text
    await pool.close()


async def test_another_runtime_never_gets_the_conversation_of_the_first_one() -> None:
    pool, one, other = SessionPool(), BenchRuntime(), BenchRuntime(owns_process=False)
    await use(pool, one)
    lease = await use(pool, other, resume="id-1")
    assert lease.warmth == "cold"
    assert other.resumes == [None]
    assert not one.open_now
    assert rooms_taken(pool) == 0
    await use(pool, one)
    assert rooms_taken(pool) == 1
    await pool.close()


async def test_a_dead_session_is_replaced_on_its_conversation_and_counts_as_a_miss() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    await use(pool, runtime)
    runtime.sessions[0].is_usable = False
    assert (await use(pool, runtime)).warmth == "resumed"
    assert numbers(pool) == (0, 2, 0, 1)
    await pool.close()


@pytest.mark.promise("S4")
def test_a_session_ends_after_its_idle_time_since_the_last_invocation_ended() -> None:
    async def main() -> None:
        pool, runtime = SessionPool(ttl=480, clock=asyncio.get_running_loop().time), BenchRuntime()
        lease = await pool.acquire(request(runtime))
        await asyncio.sleep(10_000)
        await pool.release(lease, keep=True)
        await asyncio.sleep(479)
        assert runtime.open_now
        await asyncio.sleep(1)
        await settle()
        assert not runtime.open_now
        assert numbers(pool) == (0, 1, 0, 1)
        await pool.close()

    run_virtually(main())


async def test_a_session_past_its_time_is_not_used_though_nobody_has_noticed_yet() -> None:
    clock = Clock()
    pool, runtime = SessionPool(ttl=480, clock=clock), BenchRuntime()
    await use(pool, runtime)
    clock.now += 480
    assert (await use(pool, runtime)).warmth == "resumed"
    assert numbers(pool) == (0, 2, 0, 1)
    await pool.close()


async def test_prewarming_an_open_session_makes_it_last_longer() -> None:
    clock = Clock()
    pool, runtime = SessionPool(ttl=480, clock=clock), BenchRuntime()
    await use(pool, runtime)
    clock.now += 479
    assert await pool.prewarm(request(runtime))
    clock.now += 479
    assert (await use(pool, runtime)).warmth == "warm"
    await pool.close()


def test_the_timer_ends_what_is_due_by_itself_and_is_gone_in_the_end() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pool, runtime = SessionPool(ttl=480, clock=loop.time), BenchRuntime()
        await use(pool, runtime, "one")
        await asyncio.sleep(100)
        await use(pool, runtime, "two")
        await asyncio.sleep(381)
        assert [session.thread_id for session in runtime.open_now] == ["two"]
        await asyncio.sleep(100)
        assert not runtime.open_now
        await use(pool, runtime, "three")
        (timer,) = pool._idle.values()
        await pool.close()
        assert timer.cancelled()
        assert not pool._idle

    run_virtually(main())


@pytest.mark.promise("S4")
async def test_the_longest_idle_session_goes_when_there_are_too_many() -> None:
    pool, runtime = SessionPool(most_idle=2), BenchRuntime()
    for thread in ("a", "b", "a", "c"):
        await use(pool, runtime, thread)
    await settle()
    assert [session.thread_id for session in runtime.open_now] == ["a", "c"]
    assert pool.stats().evicted == 1
    await pool.close()


async def test_idle_sessions_whose_process_has_died_are_ended_when_the_next_one_becomes_idle() -> None:
    pool, runtime = SessionPool(), BenchRuntime(owns_process=False)
    died = [(await use(pool, runtime, thread)).session for thread in "abc"]
    lives = (await use(pool, runtime, "d")).session
    for session in died:
        assert isinstance(session, BenchSession)
        session.is_usable = False
    await use(pool, runtime, "e")
    await settle()
    assert pool.stats().idle == len(pool._slots) == 2
    assert (await use(pool, runtime, "d")).session is lives
    await pool.close()


async def test_idle_sessions_without_a_process_are_bounded_too_and_the_longest_idle_goes_first() -> None:
    pool, runtime = SessionPool(most_kept=3), BenchRuntime(owns_process=False)
    for thread in "abcabd":
        await use(pool, runtime, thread)
    await settle()
    assert pool.stats().idle == len(pool._slots) == 3
    assert [(await use(pool, runtime, thread)).warmth for thread in "abd"] == ["warm"] * 3
    assert (await use(pool, runtime, "c", has_history=True)).warmth != "warm"
    held = [await pool.acquire(request(runtime, thread)) for thread in "efgh"]
    assert pool.stats().live == 7  # whoever is at work is not counted
    for lease in held:
        await pool.release(lease, keep=True)
    await settle()
    assert pool.stats().live == 3
    await pool.close()


async def test_sessions_without_a_process_are_not_counted() -> None:
    pool, runtime = SessionPool(most_idle=0, most_live=1), BenchRuntime(owns_process=False)
    leases = [await pool.acquire(request(runtime, str(number))) for number in range(5)]
    for lease in leases:
        await pool.release(lease, keep=True)
    assert pool.stats().idle == 5
    await pool.close()
    assert not runtime.open_now


async def test_with_no_idle_sessions_allowed_each_one_has_ended_when_its_invocation_has() -> None:
    pool, runtime = SessionPool(most_idle=0), BenchRuntime()
    await use(pool, runtime)
    assert not runtime.open_now
    assert not await pool.prewarm(request(runtime))
    assert len(runtime.sessions) == 1
    await pool.close()


@pytest.mark.promise("S4")
async def test_an_error_ends_the_session_before_anybody_is_told() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    lease = await pool.acquire(request(runtime))
    await pool.release(lease, keep=False)
    assert not runtime.open_now
    assert pool.stats().evicted == 1
    await pool.close()


@pytest.mark.promise("S4")
async def test_a_session_serves_one_at_a_time_and_whoever_comes_meanwhile_is_refused() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    first = await pool.acquire(request(runtime))
    with pytest.raises(NoRoomError, match="'t' is busy with another invocation"):
        await pool.acquire(request(runtime))
    await pool.release(first, keep=True)
    await use(pool, runtime)
    assert len(runtime.sessions) == 1
    await pool.close()


async def test_of_those_who_wait_for_a_prewarming_the_first_that_stays_has_the_session() -> None:
    opening = asyncio.Event()

    async def slow(spec: SessionSpec) -> None:
        await opening.wait()

    pool, runtime = SessionPool(), BenchRuntime(on_open=slow)
    warm = asyncio.create_task(pool.prewarm(request(runtime)))
    await settle()
    leaving, staying, late = (asyncio.create_task(pool.acquire(request(runtime))) for _ in range(3))
    await settle()
    leaving.cancel()
    opening.set()
    assert await warm
    await settle()
    assert isinstance(late.exception(), NoRoomError)
    await pool.release(staying.result(), keep=True)
    assert pool.stats().idle == 1
    await pool.close()


@pytest.mark.promise("S4")
async def test_beyond_the_limit_roots_wait_in_order_of_arrival() -> None:
    pool, runtime, order = SessionPool(most_live=1), BenchRuntime(), list[str]()
    first = await pool.acquire(request(runtime, "x"))

    async def one(thread: str, name: str) -> None:
        lease = await pool.acquire(request(runtime, thread))
        order.append(name)
        await settle()
        await pool.release(lease, keep=True)

    tasks: list[asyncio.Task[None]] = []
    for thread, name in [("a", "a1"), ("b", "b1"), ("c", "c1"), ("d", "d1")]:
        tasks.append(asyncio.create_task(one(thread, name)))
        await settle()
    tasks[1].cancel()
    await pool.release(first, keep=True)
    tasks.append(asyncio.create_task(one("x", "x2")))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a1", "c1", "d1", "x2"]
    await pool.close()


async def test_who_leaves_the_line_for_a_room_leaves_nothing_behind() -> None:
    pool, runtime = SessionPool(most_live=1), BenchRuntime()
    first = await pool.acquire(request(runtime, "x"))
    leaving = asyncio.create_task(pool.acquire(request(runtime, "a")))
    late = asyncio.create_task(pool.acquire(request(runtime, "b")))
    await settle()
    leaving.cancel()
    await settle()
    ending = asyncio.create_task(pool.release(first, keep=False))
    await settle()
    await ending
    assert late.done()
    late_too = asyncio.create_task(pool.acquire(request(runtime, "c")))
    await settle()
    pool._rooms.release()  # a room that comes ...
    late_too.cancel()  # ... at the moment of leaving
    await settle()
    assert rooms_taken(pool) == 0
    await pool._rooms.acquire()
    await pool.release(late.result(), keep=True)
    await pool.close()
    assert rooms_taken(pool) == 0


async def test_a_room_is_never_given_to_somebody_who_has_just_left() -> None:
    pool, runtime = SessionPool(most_live=1), BenchRuntime()
    first = await pool.acquire(request(runtime, "x"))
    leaving = asyncio.create_task(pool.acquire(request(runtime, "a")))
    await settle()
    ending = asyncio.create_task(pool.release(first, keep=False))
    leaving.cancel()
    await settle()
    await ending
    assert rooms_taken(pool) == 0
    await pool.close()


async def test_a_session_is_kept_when_whoever_waited_for_its_room_has_left() -> None:
    pool, runtime = SessionPool(most_live=1), BenchRuntime()
    first = await pool.acquire(request(runtime, "x"))
    leaving = asyncio.create_task(pool.acquire(request(runtime, "a")))
    await settle()
    leaving.cancel()
    await settle()
    await pool.release(first, keep=True)
    assert pool.stats().idle == 1
    await pool.close()


@pytest.mark.promise("S4")
async def test_an_idle_session_makes_room_before_anybody_waits_and_a_child_may_have_it() -> None:
    pool, runtime = SessionPool(most_live=2), BenchRuntime()
    await use(pool, runtime, "old")
    await use(pool, runtime, "new")
    child = await pool.acquire(request(runtime, "child", may_wait=False))
    assert [session.thread_id for session in runtime.open_now] == ["new", "child"]
    assert pool.stats().evicted == 1
    await pool.release(child, keep=True)
    await pool.close()


async def test_a_new_process_starts_only_when_the_one_that_made_room_has_ended() -> None:
    closing = asyncio.Event()

    async def slow(session: BenchSession) -> None:
        await closing.wait()

    pool, runtime = SessionPool(most_live=1), BenchRuntime(on_close=slow)
    await use(pool, runtime, "old")
    task = asyncio.create_task(pool.acquire(request(runtime, "new")))
    await settle()
    assert len(runtime.sessions) == 1
    task.cancel()
    await settle()
    assert rooms_taken(pool) == 1
    closing.set()
    await settle()
    assert rooms_taken(pool) == 0
    await pool.close()


async def test_a_session_is_opened_again_only_when_its_last_process_has_ended() -> None:
    closing = asyncio.Event()

    async def slow(session: BenchSession) -> None:
        await closing.wait()

    pool, runtime = SessionPool(), BenchRuntime(on_close=slow)
    await use(pool, runtime)
    pool.evict("t")
    task = asyncio.create_task(pool.acquire(request(runtime)))
    await settle()
    assert len(runtime.sessions) == 1
    closing.set()
    await pool.release(await task, keep=True)
    assert runtime.resumes == [None, "id-1"]
    await pool.close()


@pytest.mark.promise("S4")
async def test_a_child_that_finds_no_room_is_refused_and_told_why() -> None:
    pool, runtime = SessionPool(most_live=1), BenchRuntime()
    parent = await pool.acquire(request(runtime, "parent"))
    with pytest.raises(NoRoomError, match=r"all 1 sessions are in use .*max_live"):
        await pool.acquire(request(runtime, "child", may_wait=False))
    with pytest.raises(NoRoomError, match="'parent' is busy"):
        await pool.acquire(request(runtime, "parent", may_wait=False))
    assert list(pool._slots) == ["parent"]
    await pool.release(parent, keep=True)
    await pool.close()


async def test_a_child_waits_for_a_prewarming_which_needs_nobodys_help() -> None:
    opening = asyncio.Event()

    async def slow(spec: SessionSpec) -> None:
        await opening.wait()

    pool, runtime = SessionPool(), BenchRuntime(on_open=slow)
    warm = asyncio.create_task(pool.prewarm(request(runtime)))
    await settle()
    child = asyncio.create_task(pool.acquire(request(runtime, may_wait=False)))
    again = asyncio.create_task(pool.prewarm(request(runtime)))
    another = asyncio.create_task(pool.acquire(request(runtime, may_wait=False)))
    await settle()
    opening.set()
    with pytest.raises(NoRoomError):
        await another
    assert await warm
    assert await again
    await pool.release(await child, keep=True)
    assert numbers(pool) == (1, 0, 0, 0)
    await pool.close()


async def test_prewarming_never_waits_for_a_room_or_a_busy_thread() -> None:
    pool, runtime = SessionPool(most_live=1), BenchRuntime()
    lease = await pool.acquire(request(runtime))
    assert await pool.prewarm(request(runtime))
    assert not await pool.prewarm(request(runtime, "other"))
    assert list(pool._slots) == ["t"]
    await pool.release(lease, keep=True)
    await pool.close()


@pytest.mark.promise("S4")
async def test_few_sessions_are_started_at_once() -> None:
    starting, most, release = 0, 0, asyncio.Event()

    async def start(spec: SessionSpec) -> None:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        await release.wait()
        starting -= 1

    pool, runtime = SessionPool(), BenchRuntime(on_open=start)
    tasks = [asyncio.create_task(pool.acquire(request(runtime, str(number)))) for number in range(8)]
    await settle()
    assert most == STARTS
    release.set()
    leases = await asyncio.gather(*tasks)
    assert most == STARTS
    for lease in leases:
        await pool.release(lease, keep=True)
    await pool.close()


async def test_a_runtime_that_cannot_open_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(spec: SessionSpec) -> None:
        raise RuntimeFailureError("no key; set ANTHROPIC_API_KEY")

    async def crash(spec: SessionSpec) -> None:
        raise ZeroDivisionError("secret inside")

    pool, runtime = SessionPool(most_live=1), BenchRuntime(on_open=fail)
    with pytest.raises(RuntimeFailureError, match="no key"):
        await pool.acquire(request(runtime))
    with pytest.raises(RuntimeFailureError, match="no key"):
        await pool.prewarm(request(runtime))
    runtime.on_open = crash
    with pytest.raises(
        RuntimeFailureError, match=r"the bench runtime crashed while opening a session \(id \w+\)"
    ) as told:
        await pool.acquire(request(runtime))
    assert "secret" not in str(told.value)
    assert "secret inside" in caplog.text
    assert (rooms_taken(pool), pool._slots, pool.stats().live) == (0, {}, 0)
    await pool.close()


async def test_a_runtime_that_loses_what_it_was_not_asked_to_resume_fails() -> None:
    pool, runtime = SessionPool(), BenchRuntime(lost={None})  # type: ignore[arg-type] - also without an id
    with pytest.raises(SessionLostError):
        await pool.acquire(request(runtime))
    assert runtime.resumes == [None]
    await pool.close()


def test_opening_takes_only_so_long() -> None:
    async def main() -> None:
        async def forever(spec: SessionSpec) -> None:
            await asyncio.Event().wait()

        pool, runtime = SessionPool(), BenchRuntime(on_open=forever)
        with pytest.raises(RuntimeFailureError, match="did not open a session within 120 seconds"):
            await pool.acquire(request(runtime))
        await pool.close()

    run_virtually(main())


def test_a_session_that_comes_after_its_caller_has_left_is_closed_and_its_room_is_free_after_that() -> None:
    async def main() -> None:
        async def stubborn(spec: SessionSpec) -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(1)

        async def slow(session: BenchSession) -> None:
            await asyncio.sleep(5)

        pool, runtime = SessionPool(most_live=1), BenchRuntime(on_open=stubborn, on_close=slow)
        task = asyncio.create_task(pool.acquire(request(runtime)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        assert rooms_taken(pool) == 1
        await asyncio.sleep(6)
        assert rooms_taken(pool) == 0
        assert runtime.sessions[0].closes == 1
        await pool.close()

    run_virtually(main())


async def test_evicting_ends_an_idle_session_at_once_and_a_busy_one_when_it_is_done() -> None:
    pool, runtime = SessionPool(), BenchRuntime()
    assert not pool.evict("t")
    await use(pool, runtime)
    assert pool.evict("t")
    await settle()
    assert not runtime.open_now
    assert not pool._slots
    lease = await pool.acquire(request(runtime))
    assert pool.evict("t")
    await settle()
    assert runtime.open_now
    await pool.release(lease, keep=True)
    assert lease.session not in runtime.open_now
    await use(pool, runtime)
    assert pool.stats().idle == 1
    await pool.close()


async def test_closing_ends_everything_and_sends_home_who_waits() -> None:
    pool, runtime = SessionPool(most_live=2), BenchRuntime()
    await use(pool, runtime, "idle")
    busy = await pool.acquire(request(runtime, "busy"))
    other = await pool.acquire(request(runtime, "other"))
    for_room = asyncio.create_task(pool.acquire(request(runtime, "more")))
    await settle()
    closing = asyncio.create_task(pool.close())
    await settle()
    assert not closing.done()
    for lease in (busy, other):
        await pool.release(lease, keep=True)
    await closing
    assert not runtime.open_now
    with pytest.raises(InvocationError, match="shutting down"):
        await for_room
    with pytest.raises(InvocationError, match="shutting down"):
        await pool.acquire(request(runtime))
    with pytest.raises(InvocationError, match="shutting down"):
        await pool.prewarm(request(runtime))
    await pool.close()
    assert [session.closes for session in runtime.sessions] == [1, 1, 1]
    assert rooms_taken(pool) <= 0  # who waited got one that leads to nothing, and gave it back
    assert not pool._slots


async def test_who_waits_is_sent_home_at_once_though_closing_takes_its_time() -> None:
    closed = asyncio.Event()

    async def slow(session: BenchSession) -> None:
        await closed.wait()

    pool, runtime = SessionPool(most_live=1), BenchRuntime(on_close=slow)
    lease = await pool.acquire(request(runtime, "x"))
    waiting = [asyncio.create_task(pool.acquire(request(runtime, thread))) for thread in "ba"]
    await settle()
    closing = asyncio.create_task(pool.close())
    await settle()
    waiting.append(asyncio.create_task(pool.acquire(request(runtime, "x"))))
    await settle()
    assert all(task.done() for task in waiting)
    assert not closing.done()
    closed.set()
    await pool.release(lease, keep=True)
    await closing
    for task in waiting:
        assert isinstance(task.exception(), InvocationError)


async def test_closing_ends_what_is_being_opened() -> None:
    async def forever(spec: SessionSpec) -> None:
        await asyncio.Event().wait()

    pool, runtime = SessionPool(), BenchRuntime(on_open=forever)
    task = asyncio.create_task(pool.acquire(request(runtime)))
    await settle()
    await pool.close()
    with pytest.raises(InvocationError, match="shutting down"):
        await task


async def test_nothing_is_opened_after_closing_has_begun() -> None:
    closed = asyncio.Event()

    async def slow(session: BenchSession) -> None:
        await closed.wait()

    pool, runtime = SessionPool(), BenchRuntime(on_close=slow)
    await use(pool, runtime)
    pool.evict("t")
    task = asyncio.create_task(pool.acquire(request(runtime)))
    await settle()
    closing = asyncio.create_task(pool.close())
    await settle()
    closed.set()
    await closing
    with pytest.raises(InvocationError, match="shutting down"):
        await task
    assert len(runtime.sessions) == 1


async def test_a_session_that_is_opened_in_spite_of_closing_is_closed() -> None:
    async def stubborn(spec: SessionSpec) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    pool, runtime = SessionPool(), BenchRuntime(on_open=stubborn)
    task = asyncio.create_task(pool.acquire(request(runtime)))
    await settle()
    await pool.close()
    with pytest.raises(InvocationError, match="shutting down"):
        await task
    assert [session.closes for session in runtime.sessions] == [1]


def test_closing_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def forever(session: BenchSession) -> None:
            await asyncio.Event().wait()

        pool, runtime = SessionPool(), BenchRuntime(on_close=forever)
        await pool.acquire(request(runtime, "held"))
        await pool.close()

    with caplog.at_level(logging.ERROR):
        run_virtually(main())
    assert "invocations do not end: held" in caplog.text
    assert "the session of 'held' could not be closed" in caplog.text


def test_a_session_that_cannot_be_closed_gives_its_room_back_all_the_same() -> None:
    async def main() -> None:
        async def crash(session: BenchSession) -> None:
            raise ZeroDivisionError

        pool, runtime = SessionPool(most_live=1), BenchRuntime(on_close=crash)
        lease = await pool.acquire(request(runtime))
        await pool.release(lease, keep=False)
        assert rooms_taken(pool) == 0
        await pool.close()

    run_virtually(main())
