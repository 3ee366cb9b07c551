"""The first step of a coroutine: its answer at once, whatever the coroutines before and around it did."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Generator
from typing import Any

import pytest

from toolstead.concurrency.suspended_coroutine import SuspendedCoroutine, start_coroutine


async def answer(value: Any) -> Any:
    return value


async def test_one_that_does_not_wait_is_done_at_once() -> None:
    for value in (None, "text", ("a", "tuple")):
        assert start_coroutine(answer(value)) == value


async def test_one_may_start_another_in_its_first_step() -> None:
    async def nested(depth: int) -> int:
        return 1 + start_coroutine(nested(depth - 1)) if depth else 0

    assert start_coroutine(nested(20)) == 20
    assert start_coroutine(nested(20)) == 20


async def test_one_that_raises_or_waits_disturbs_none_after_it() -> None:
    async def fail() -> None:
        raise KeyError("mine")

    async def wait() -> str:
        await asyncio.sleep(0)
        return "waited"

    waiting = [start_coroutine(wait()) for _ in range(3)]
    with pytest.raises(KeyError, match="mine"):
        start_coroutine(fail())
    assert start_coroutine(answer("fine")) == "fine"
    assert all(type(one) is SuspendedCoroutine for one in waiting)
    assert [await one.resume() for one in waiting] == ["waited"] * 3
    assert await start_coroutine(wait()).finish(5, grace=1) == "waited"


async def test_what_can_be_awaited_but_is_no_coroutine_of_python_is_taken_too() -> None:
    class Foreign:
        def __await__(self) -> Generator[Any, Any, str]:
            yield from asyncio.sleep(0).__await__()
            return "foreign"

    foreign: Any = Foreign()
    assert await start_coroutine(foreign).resume() == "foreign"


async def test_no_answer_is_kept_alive() -> None:
    class Large:
        pass

    seen = weakref.ref(start_coroutine(answer(Large())))
    gc.collect()
    assert seen() is None


def test_loops_in_many_threads_do_not_get_in_each_others_way() -> None:
    wrong: list[Any] = []

    async def start_many(number: int) -> None:
        pairs = [(number, count) for count in range(2000)]
        wrong.extend(pair for pair in pairs if start_coroutine(answer(pair)) != pair)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(start_many(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
