"""A conversation that went on elsewhere: what the pool remembers of it does not count any more."""

from __future__ import annotations

import asyncio

from tests.unit.invoker.bench import BenchRuntime, request, settle
from toolstead.invoker.pool import SessionPool


async def test_an_idle_session_that_is_outdated_is_not_resumed_also_while_it_is_closing() -> None:
    runtime, pool, closed = BenchRuntime(), SessionPool(), asyncio.Event()

    async def close(_: object) -> None:
        await closed.wait()

    runtime.on_close = close
    lease = await pool.acquire(request(runtime))
    lease.slot.has_conversation = True
    await pool.release(lease, keep=True)
    assert pool.evict("t", outdated=True)
    waiting = asyncio.create_task(pool.acquire(request(runtime, resume="newer")))
    await asyncio.sleep(0)
    closed.set()
    await pool.release(await asyncio.wait_for(waiting, 30), keep=True)
    await pool.close()
    assert runtime.resumes == [None, "newer"]


async def test_a_session_in_use_that_is_outdated_is_not_resumed_by_the_next_one() -> None:
    runtime, pool, closed = BenchRuntime(), SessionPool(), asyncio.Event()

    async def close(_: object) -> None:
        await closed.wait()

    runtime.on_close = close
    lease = await pool.acquire(request(runtime))
    lease.slot.has_conversation = True
    assert pool.evict("t", outdated=True)
    releasing = asyncio.create_task(pool.release(lease, keep=True))
    waiting = asyncio.create_task(pool.acquire(request(runtime, resume="newer")))
    await settle()
    closed.set()
    await asyncio.wait_for(releasing, 30)
    first = await asyncio.wait_for(waiting, 30)
    assert runtime.resumes == [None, "newer"]
    closed.clear()
    assert pool.evict("t")  # ended for another reason, it is remembered as ever
    releasing = asyncio.create_task(pool.release(first, keep=True))
    waiting = asyncio.create_task(pool.acquire(request(runtime, resume="older")))
    await settle()
    closed.set()
    await asyncio.wait_for(releasing, 30)
    await pool.release(await asyncio.wait_for(waiting, 30), keep=True)
    await pool.close()
    assert runtime.resumes == [None, "newer", "newer"]
