from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.codex.running_turn import RunningTurn
from toolstead.errors import LimitError, RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.result import Failure, ToolResult


class Stage:
    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.inside = asyncio.Event()
        self.turn = RunningTurn(
            Turn(
                prompt="p",
                caller=Caller(thread_id="t"),
                tell=lambda kind, data: self.told.append((kind, data)),
                call_tool=self.call,
            ),
            SessionSpec(agent="main", model="", cwd=Path("/")),
            max_turns=3,
        )
        self.turn.begin_turn("x")

    def reply(self, number: int, *items: str) -> bool:
        """A reply with some items in it; whether the turn has ended after it."""
        for item in items:
            self.turn.on_notification("item/started", {"item": {"type": item, "id": f"{number}-{item}"}})
        told = {"total": {"totalTokens": number}, "last": {"inputTokens": 1, "outputTokens": 1}}
        self.turn.on_notification("thread/tokenUsage/updated", {"tokenUsage": told})
        return self.turn.ending.done()

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        self.inside.set()
        await asyncio.Event().wait()
        raise AssertionError

    def end(self, status: str = "completed", error: Any = None) -> None:
        self.turn.on_notification("turn/completed", {"turn": {"id": "x", "status": status, "error": error}})


async def test_thoughts_and_words_become_events() -> None:
    stage = Stage()
    stage.turn.on_notification("item/reasoning/summaryTextDelta", {"delta": "Hm."})
    stage.turn.on_notification("item/reasoning/textDelta", {"delta": "Well."})
    stage.turn.on_notification("item/agentMessage/delta", {"delta": "Hello"})
    stage.turn.on_notification("item/agentMessage/delta", {"delta": ""})
    assert stage.told == [
        ("thinking", {"text": "Hm."}),
        ("thinking", {"text": "Well."}),
        ("message.delta", {"text": "Hello"}),
    ]


async def test_a_turn_that_used_up_its_replies_and_would_go_on_is_ended() -> None:
    stage = Stage()
    calls = [stage.reply(number, "reasoning", "mcpToolCall") for number in (1, 2, 3)]
    assert calls == [False, False, True]
    with pytest.raises(LimitError, match=r"after 3 turns .*runtime\.codex\.max_turns"):
        await stage.turn.ending


async def test_the_last_reply_that_is_allowed_may_be_the_answer() -> None:
    stage = Stage()
    replies = [stage.reply(1, "mcpToolCall"), stage.reply(2, "commandExecution"), stage.reply(3, "agentMessage")]
    assert replies == [False, False, False]
    stage.end()
    await stage.turn.ending


async def test_a_turn_that_goes_on_without_an_item_to_see_is_ended_one_reply_later() -> None:
    stage = Stage()
    assert [stage.reply(number) for number in (1, 2, 3, 4)] == [False, False, False, True]


async def test_the_last_message_is_the_answer_and_what_was_used_is_counted_once() -> None:
    stage = Stage()
    for text in ("I look.", "It is blue."):
        stage.turn.on_notification("item/completed", {"item": {"type": "agentMessage", "id": text, "text": text}})
    for total in (8, 8, 16):  # the second tells the same again
        last = {"inputTokens": 3, "outputTokens": 5}
        stage.turn.on_notification(
            "thread/tokenUsage/updated", {"tokenUsage": {"total": {"totalTokens": total}, "last": last}}
        )
    stage.end()
    answer = await stage.turn.ending
    assert answer.text == "It is blue."
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (6, 10)
    assert [data["inputTokens"] for kind, data in stage.told if kind == "usage"] == [3, 3]


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        ("failed", {"message": "no more credit"}, "Codex: no more credit"),
        ("failed", {"message": json.dumps({"error": {"message": "too long"}})}, "Codex: too long"),
        ("failed", {"message": '{"detail": "odd"}'}, 'Codex: {"detail": "odd"}'),
        ("failed", None, "Codex: it went wrong before"),
        ("interrupted", None, "Codex ended the turn: interrupted"),
    ],
)
async def test_a_failure_is_told_in_its_own_words(status: str, error: Any, said: str) -> None:
    stage = Stage()
    stage.turn.on_notification("error", {"error": {"message": "it went wrong before"}, "willRetry": False})
    stage.end(status, error)
    with pytest.raises(RuntimeFailureError) as failure:
        await stage.turn.ending
    assert str(failure.value) == said


async def test_a_request_that_codex_makes_again_is_an_event() -> None:
    stage = Stage()
    stage.turn.on_notification("error", {"error": {"message": "Reconnecting... 2/5"}, "willRetry": True})
    retry = {"reason": "Codex: Reconnecting... 2/5", "attempt": None, "attempts": None, "seconds": None}
    assert stage.told == [("thinking", {"text": "", "retry": retry})]


async def test_a_call_that_runs_at_the_end_is_cancelled_and_one_after_it_is_refused() -> None:
    stage = Stage()
    calling = asyncio.create_task(stage.turn.call("dig", {}, call_id="c"))
    await asyncio.wait_for(stage.inside.wait(), 5)
    stage.end()
    await stage.turn.wait_for_calls()
    assert (await calling).failure is Failure.CANCELLED
    stage.inside.clear()
    assert (await stage.turn.call("dig", {}, call_id="d")).failure is Failure.CANCELLED
    assert not stage.inside.is_set()


async def test_a_call_whose_connection_is_gone_is_cancelled() -> None:
    stage = Stage()
    calling = asyncio.create_task(stage.turn.call("dig", {}, call_id="c"))
    await asyncio.wait_for(stage.inside.wait(), 5)
    (running,) = stage.turn._calls
    calling.cancel()
    await asyncio.wait([calling, running], timeout=5)
    assert running.cancelled()


async def test_what_is_said_before_it_has_begun_counts_only_where_it_is_about_this_turn() -> None:
    stage = Stage()
    turn = stage.turn
    turn.go_on()  # as if it had not begun

    def used(turn_id: str, total: int) -> None:
        told = {"total": {"totalTokens": total}, "last": {"inputTokens": total, "outputTokens": 0}}
        turn.on_notification("thread/tokenUsage/updated", {"turnId": turn_id, "tokenUsage": told})

    used("the one before", 500)  # Codex repeats it when a thread is taken up again
    used("this", 7)
    turn.on_notification("turn/completed", {"turn": {"id": "the one before", "status": "completed"}})
    assert not stage.told
    turn.begin_turn("this")
    turn.on_notification("turn/completed", {"turn": {"id": "this", "status": "completed"}})
    answer = await turn.ending
    assert answer is not None
    assert answer.usage.input_tokens == 7


@pytest.mark.parametrize(("steered", "reply"), [(True, False), (True, True), (False, False)])
async def test_a_message_that_came_after_the_last_reply_is_left_to_be_answered(steered: bool, reply: bool) -> None:
    stage = Stage()
    stage.reply(1, "agentMessage")
    stage.turn.steered = steered
    stage.turn.on_notification("item/completed", {"item": {"type": "userMessage", "id": "u"}})
    if reply:
        stage.reply(2, "agentMessage")
    stage.end()
    assert (await stage.turn.ending is None) == (steered and not reply)


async def test_nothing_is_called_for_a_turn_that_nobody_wants_any_more() -> None:
    stage = Stage()
    stage.turn.unwanted = True
    result = await stage.turn.call("dig", {}, call_id="c1")
    assert (result.failure, stage.inside.is_set()) == (Failure.CANCELLED, False)
