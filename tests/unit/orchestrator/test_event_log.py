"""The event log: numbered, bounded, told to whoever reads along and kept when it must not be lost."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator import event_log
from toolstead.orchestrator.event_log import MOST_KEPT, EventLog
from toolstead.orchestrator.feed import MOST_UNSTORED, EventReader
from toolstead.types.call import Caller
from toolstead.types.event import Event


async def read(stream: EventReader, count: int) -> list[Event]:
    async with asyncio.timeout(5):
        return [await anext(stream) for _ in range(count)]


async def rest(stream: EventReader) -> list[Event]:
    """Everything up to the end of a stream that is closed."""
    async with asyncio.timeout(5):
        return [event async for event in stream]


def numbers(events: Collection[Event]) -> list[int]:
    return [event.data["n"] for event in events]


async def test_an_event_says_what_when_and_on_whose_behalf(monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog()
    monkeypatch.setattr(event_log, "time", SimpleNamespace(time=lambda: 1234.5))
    with log.open_stream() as stream:
        log.emit("tool_use", {"name": "t"}, Caller(thread_id="th", run_id="r", task_id="ta"))
        log.emit("tools.changed", {"added": []})
    mine, nobodys = await rest(stream)
    assert (mine.type, mine.data, mine.thread_id, mine.run_id, mine.task_id) == (
        "tool_use",
        {"name": "t"},
        "th",
        "r",
        "ta",
    )
    assert mine.time == 1234.5
    assert (nobodys.thread_id, nobodys.run_id, nobodys.task_id) == (None, None, None)
    assert "threadId" not in nobodys.to_json()


async def test_ids_are_unique_over_logs_and_sort_as_they_were_given() -> None:
    logs = [EventLog() for _ in range(20)]
    ids: list[list[str]] = []
    for log in logs:
        with log.open_stream() as stream:
            for n in range(101):
                log.emit("message", {"n": n})
        ids.append([event.id for event in await rest(stream)])
    for given in ids:
        assert sorted(given) == given
    assert len({one for given in ids for one in given}) == 20 * 101


async def test_the_log_listens_while_anyone_reads_along() -> None:
    log = EventLog()
    seen = [log.listening]
    first = log.open_stream()
    second = log.open_stream(["message"])
    seen.append(log.listening)
    first.close()
    first.close()
    seen.append(log.listening)
    second.close()
    seen.append(log.listening)
    assert seen == [False, True, True, False]


async def test_a_stream_begins_when_it_is_made_not_when_it_is_first_read() -> None:
    log = EventLog()
    log.emit("message", {"n": 0})
    stream = log.open_stream()
    log.emit("message", {"n": 1})
    log.emit("message", {"n": 2})
    assert numbers(await read(stream, 2)) == [1, 2]
    stream.close()


async def test_a_reader_that_waits_is_woken_by_each_next_event() -> None:
    log = EventLog()
    with log.open_stream() as stream:
        for n in range(3):
            waiting = asyncio.create_task(read(stream, 1))
            await asyncio.sleep(0)
            log.emit("message", {"n": n})
            assert numbers(await waiting) == [n]


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    log = EventLog()
    with log.open_stream() as stream:
        waiting = asyncio.create_task(read(stream, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        log.emit("message", {"n": 1})
        assert numbers(await read(stream, 1)) == [1]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (None, ["message", "tool_use", "tools.changed"]),
        (["message", "tools.changed"], ["message", "tools.changed"]),
        ({"tool_use"}, ["tool_use"]),
        ("tool_use", ["tool_use"]),
        ([], []),
    ],
)
async def test_a_reader_gets_the_types_it_asked_for(types: Collection[str] | None, expected: list[str]) -> None:
    log = EventLog()
    with log.open_stream(types) as stream:
        for kind in ("message", "tool_use", "tools.changed"):
            log.emit(kind, {})
    assert [event.type for event in await rest(stream)] == expected


async def test_every_reader_gets_the_same_events() -> None:
    log = EventLog()
    with log.open_stream() as one, log.open_stream() as two:
        for n in range(5):
            log.emit("message", {"n": n})
    first, second = await rest(one), await rest(two)
    assert numbers(first) == [0, 1, 2, 3, 4]
    assert all(mine is yours for mine, yours in zip(first, second, strict=True))


async def test_a_slow_reader_loses_the_oldest_is_told_how_many_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = EventLog()
    with caplog.at_level(logging.WARNING), log.open_stream() as slow, log.open_stream(["other"]) as picky:
        for n in range(MOST_UNSTORED + 3):
            log.emit("message", {"n": n})
    assert (slow.missed, picky.missed) == (3, 0)
    kept = numbers(await rest(slow))
    assert (len(kept), kept[0], kept[-1]) == (MOST_UNSTORED, 3, MOST_UNSTORED + 2)
    assert [record.getMessage() for record in caplog.records] == [
        f"an event reader fell behind by {MOST_UNSTORED} events; the oldest are dropped"
    ]


async def test_closing_ends_a_reader_that_waits() -> None:
    log = EventLog()
    stream = log.open_stream()
    waiting = [asyncio.create_task(rest(stream)) for _ in range(2)]
    await asyncio.sleep(0)
    stream.close()
    assert await asyncio.gather(*waiting) == [[], []]


async def test_what_waits_when_a_stream_is_closed_is_still_read_and_nothing_after_it() -> None:
    log = EventLog()
    stream = log.open_stream()
    log.emit("message", {"n": 1})
    stream.close()
    log.emit("message", {"n": 2})
    assert numbers(await rest(stream)) == [1]
    assert await rest(stream) == []


async def test_closing_the_log_ends_every_stream() -> None:
    log = EventLog()
    streams = [log.open_stream() for _ in range(3)]
    waiting = [asyncio.create_task(rest(stream)) for stream in streams]
    await asyncio.sleep(0)
    log.close()
    assert await asyncio.gather(*waiting) == [[], [], []]
    assert not log.listening


async def test_a_stream_that_was_closed_is_not_held_by_the_log() -> None:
    log = EventLog()
    stream = log.open_stream()
    held = weakref.ref(stream)
    log.emit("message", {"n": 1})
    stream.close()
    del stream
    gc.collect()
    assert held() is None


async def test_a_stream_left_by_an_exception_is_closed() -> None:
    log = EventLog()
    with pytest.raises(KeyError), log.open_stream():
        raise KeyError
    assert not log.listening


def test_failures_and_changes_are_kept_without_a_reader_and_what_went_well_is_not() -> None:
    log = EventLog()
    log.emit("tool_use", {"n": 0})
    log.emit("tool_result", {"n": 1, "isError": False})
    log.emit("tool_result", {"n": 2, "isError": True})
    log.emit("tools.changed", {"n": 3})
    assert numbers(log.recent_events) == [2, 3]
    log.recent_events.clear()
    assert numbers(log.recent_events) == [2, 3]


def test_what_is_kept_is_bounded_and_the_first_loss_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(kept=3)
    for n in range(5):
        log.emit("tools.changed", {"n": n})
    assert numbers(log.recent_events) == [2, 3, 4]
    assert caplog.text.count("3 failures and changes are kept until there is a store; the oldest go now") == 1
    log = EventLog()
    for n in range(MOST_KEPT + 1):
        log.emit("tools.changed", {"n": n})
    assert (len(log.recent_events), log.recent_events[0].data) == (MOST_KEPT, {"n": 1})


async def test_what_is_stored_is_not_kept_as_well(tmp_path: Path) -> None:
    log, store = EventLog(), await open_store(tmp_path / "toolstead.db")
    log.attach_store(store)
    with log.open_stream() as stream:
        log.emit("tools.changed", {"n": 1})
        assert numbers(await read(stream, 1)) == [1]
    assert log.recent_events == []
    await log.detach_store()
    await store.close()
