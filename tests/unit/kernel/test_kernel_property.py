"""Whatever a model, its tools and the user do: there is an end, and the conversation is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.kernel.scripted_model import (
    Bench,
    Hang,
    ScriptedModel,
    Step,
    broken,
    check_whole,
    echo,
    failing,
    fault,
    hanging,
    use,
)
from tests.virtual_time import run_virtually
from toolstead.errors import LimitError, ModelError
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ModelReply, ToolUse
from toolstead.kernel.loop import converse
from toolstead.kernel.model import ModelDelta
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.run import Answer, Usage

LIMITS = Limits(turns=8, tokens=5_000, attempts=3, stall=60, failing_turns=4, parallel=2, calls=6)


async def _long(input: Mapping[str, Any]) -> ToolResult:
    await asyncio.sleep(5)
    return ToolResult(content=(Text("long " * 500),))


async def _cancelled(input: Mapping[str, Any]) -> ToolResult:
    raise asyncio.CancelledError


TOOLS = {"echo": echo, "fail": failing, "long": _long, "hang": hanging, "cancel": _cancelled}
NAMES = st.sampled_from([*TOOLS, "echo", "echo", "ehco", "", "no such \ud800"])
CALLS = st.one_of(
    st.builds(lambda name, known, n: use(name, id=known, n=n), NAMES, st.sampled_from("ab"), st.integers(0, 1)),
    st.builds(broken, NAMES, st.sampled_from(["", "{", "[]", '{"n": 1}', "\udc00"])),
)


def _reply(text: str, wanted: list[ToolUse], used: int) -> list[Step]:
    usage = Usage(input_tokens=used, output_tokens=-used // 2)
    return [ModelDelta(text), Hang(1), ModelReply(text=text, calls=tuple(wanted), usage=usage, kept="signed")]


PLAYS = st.one_of(
    st.builds(
        _reply, st.sampled_from(["", "word", "\ud83d", "w" * 900]), st.lists(CALLS, max_size=7), st.integers(0, 2000)
    ),
    st.builds(
        fault,
        st.sampled_from(["busy", "rate", "server", "network", "overflow", "schema", "rejected", "quota"]),
        retry_after=st.sampled_from([None, 1.0, 500.0]),
        tool=st.sampled_from([None, "echo", "fail", "nobody"]),
    ),
    st.just([ModelDelta("half an answer")]),
    st.just([ModelDelta("and then"), Hang()]),
)


@dataclass(frozen=True)
class Meddling:
    """What the user does while it runs."""

    at: float
    what: Literal["cancel", "steer"]


MEDDLING = st.builds(Meddling, st.floats(0, 100), st.sampled_from(["cancel", "steer", "steer"]))


async def _turn(bench: Bench, meddling: list[Meddling]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(converse(bench.hear().conversation, bench.activation))
    for one in meddling:
        act = task.cancel if one.what == "cancel" else lambda: bench.conversation.steered.append("and?")
        loop.call_later(one.at, act)
    loop.call_later(3600, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        error = task.exception()
        assert isinstance(error, ModelError | LimitError | None), repr(error)
        if error is None:
            assert isinstance(task.result(), Answer)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert bench.model.open == 0
    bench.conversation.take_steered()
    check_whole(bench.conversation.messages)


@example(plays=[fault("overflow")], reads=set(), turns=[[]])
@example(plays=[_reply("w" * 900, [use("long")], 1), fault("overflow")], reads=set(), turns=[[], []])
@example(plays=[fault("schema", tool="echo")], reads=set(), turns=[[]])
@example(plays=[fault("busy", retry_after=1)], reads=set(), turns=[[]])
@example(plays=[_reply("", [], 0)], reads=set(), turns=[[]])
@example(plays=[_reply("", [use("echo")], 0)], reads=set(), turns=[[]])
@example(plays=[_reply("", [use("fail")], 0)], reads=set(), turns=[[]])
@settings(max_examples=250, deadline=None)
@given(
    plays=st.lists(PLAYS, min_size=1, max_size=6),
    reads=st.sets(st.sampled_from(sorted(TOOLS))),
    turns=st.lists(st.lists(MEDDLING, max_size=3), min_size=1, max_size=3),
)
def test_there_is_always_an_end_and_the_conversation_is_whole(
    plays: list[list[Step]], reads: set[str], turns: list[list[Meddling]]
) -> None:
    async def main() -> None:
        bench = Bench(ScriptedModel(*plays), tools=dict(TOOLS), reads=frozenset(reads), limits=LIMITS)
        for meddling in turns:
            before = len(bench.model.requests)
            await _turn(bench, meddling)
            # A turn has its tries and its empty answers; shortening and leaving out tools come on top, both bounded.
            most = LIMITS.turns * (LIMITS.attempts + 3) + len(bench.conversation.messages) + len(TOOLS)
            assert len(bench.model.requests) - before <= most

    run_virtually(main())
