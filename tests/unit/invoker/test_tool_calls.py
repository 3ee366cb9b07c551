"""The calls of a turn say which session they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.invoker.bench import BenchRuntime, invoke, request
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.pool import SessionPool
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult


async def test_a_call_names_its_session_as_soon_as_that_has_an_id() -> None:
    runtime = BenchRuntime()
    seen: list[tuple[str | None, str, str | None]] = []

    async def call(name: str, input: Mapping[str, Any] | None, caller: Caller) -> ToolResult:
        seen.append((caller.session_id, caller.thread_id, caller.call_id))
        return ToolResult.error("done")

    async def act(turn: Turn) -> Answer:
        session = runtime.sessions[-1]
        session.id, known = None, session.id
        await turn.call_tool("x", {}, call_id="c1")
        session.id = known
        await turn.call_tool("x", {})
        return Answer(text=str(turn.caller.session_id))

    runtime.act = act
    invoker = Invoker(SessionPool())
    await invoke(invoker, request(runtime), call_tool=call)
    second = await invoke(invoker, request(runtime), call_tool=call)
    await invoker.close()
    assert seen[:2] == [(None, "t", "c1"), ("id-1", "t", None)]
    assert second.text == "id-1"
