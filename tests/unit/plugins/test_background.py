"""Work that a plugin does in the background."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolstead.concurrency import owned_tasks
from toolstead.plugins import background
from toolstead.plugins.background import BackgroundTasks
from toolstead.plugins.health import Health


async def wait() -> None:
    await asyncio.Event().wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_work_runs_and_is_forgotten_when_it_is_done() -> None:
    health, done = Health("a"), asyncio.Event()
    tasks = BackgroundTasks("a", health)

    async def work() -> None:
        done.set()

    tasks(work())
    await asyncio.wait_for(done.wait(), 5)
    await settle()
    assert not tasks._tasks
    assert health.state == "loaded"


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit("boom")], ids=["ValueError", "SystemExit"])
async def test_work_that_raises_is_logged_and_degrades_the_plugin(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    health = Health("a")

    async def work() -> None:
        raise error

    tasks = BackgroundTasks("a", health)
    tasks(work(), name="poll")
    await settle()
    assert health.state == "degraded"
    assert f"background work 'poll': {type(error).__name__}: boom" in (health.error or "")
    assert "'poll' in the background failed" in caplog.text


async def test_too_much_of_it_is_refused_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MOST", 2)
    tasks = BackgroundTasks("a", Health("a"))
    tasks(wait())
    tasks(wait())
    work = wait()
    with pytest.raises(RuntimeError, match="plugin 'a' cannot begin 'wait' in the background: 2 are running already"):
        tasks(work)
    assert work.cr_frame is None
    await tasks.end_all()
    assert not tasks._tasks


async def test_nothing_begins_after_the_end() -> None:
    tasks = BackgroundTasks("a", Health("a"))
    await tasks.end_all()
    with pytest.raises(RuntimeError, match="it is being stopped, or was"):
        tasks(wait())


async def test_what_is_no_coroutine_is_refused() -> None:
    nonsense: Any = wait
    with pytest.raises(TypeError, match="run_background takes a coroutine"):
        BackgroundTasks("a", Health("a"))(nonsense)


async def test_a_worker_thread_is_told_where_to_call_it() -> None:
    tasks = BackgroundTasks("a", Health("a"))
    with pytest.raises(RuntimeError, match="from a worker thread"):
        await asyncio.to_thread(lambda: tasks(wait()))


async def test_the_end_cancels_what_has_not_even_begun() -> None:
    tasks = BackgroundTasks("a", Health("a"))
    work = wait()
    tasks(work)
    await tasks.end_all()
    assert work.cr_frame is None


async def test_work_that_ignores_its_end_is_named_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owned_tasks, "GRACE", 0.02)
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    tasks = BackgroundTasks("a", Health("a"))
    tasks(stubborn(), name="forever")
    await settle()
    (left,) = [task for task in asyncio.all_tasks() if task.get_name() == "a: forever (background)"]
    await tasks.end_all()
    assert "a: forever (background) ignored its cancellation and was abandoned" in caplog.text
    let_go.set()
    await asyncio.wait_for(left, 5)
