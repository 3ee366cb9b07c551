"""Gates and observers: a gate may only say yes, no or otherwise, and an observer may only look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolstead.errors import RefusedError, ToolError, UnknownToolError
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Handler, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.gates import MAX_COPIED_LEVELS, Approve, Gate, Observer, copy_json
from toolstead.tools.registry import Registry
from toolstead.types.call import Allow, Ask, Caller, Decision, Deny, Rewrite, ToolCall
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

pytestmark = pytest.mark.promise("P6")

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "more": {"type": "object"},
        "unit": {"type": "string", "default": "m"},
    },
    "required": ["n"],
}
FULL = {"n": 1, "list": [1, 2], "more": {"a": [1]}, "unit": "m"}


def full() -> dict[str, Any]:
    return {"n": 1, "list": [1, 2], "more": {"a": [1]}}


def nested_lists(levels: int) -> Any:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    return deep


async def echo(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> Any:
    return dict(input)


class Bench:
    """One tool called `t`, and who is asked and told."""

    def __init__(
        self, handler: Handler = echo, *, gates: Sequence[Gate] = (), approve: Approve | None = None, **fields: Any
    ) -> None:
        registry = Registry()
        registry.register(Tool(name="t", description="A tool.", handler=handler, **{"schema": SCHEMA, **fields}))
        self.dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path("/"), gates=gates, approve=approve)

    async def call(self, input: Any = None, **caller: Any) -> ToolResult:
        return await self.dispatcher.call("t", full() if input is None else input, Caller(thread_id="th", **caller))


def gate(decide: Callable[[ToolCall], Any], name: str = "") -> Gate:
    async def asked(call: ToolCall) -> Decision:
        return decide(call)

    if name:
        asked.name = name  # type: ignore[attr-defined] - a gate may have one
    return asked


def watcher() -> tuple[list[tuple[ToolCall, ToolResult]], Observer]:
    told: list[tuple[ToolCall, ToolResult]] = []

    async def observe(call: ToolCall, result: ToolResult) -> None:
        told.append((call, result))

    return told, observe


def spoil(call: ToolCall) -> None:
    """Change everything about a call that can be changed."""
    given: Any = call.input
    given["n"] = 99
    given["list"].append(99)
    given["more"]["a"].append(99)
    given["more"]["b"] = 99


async def test_what_a_gate_does_to_its_copy_changes_nothing() -> None:
    seen: list[Any] = []

    def look(call: ToolCall) -> Allow:
        seen.append(dict(call.input))
        spoil(call)
        return Allow()

    given = full()
    result = await Bench(gates=[gate(look), gate(look)]).call(given)
    assert result.structured == FULL
    assert given == full()
    assert [one["n"] for one in seen] == [1, 1]
    assert seen[1]["list"][:2] == [1, 2]


async def test_what_is_changed_after_a_rewrite_was_validated_changes_nothing() -> None:
    mine = full()

    def spoil_mine(_: ToolCall) -> None:
        mine["list"].append("no number")
        mine["more"]["a"] = "changed"

    result = await Bench(gates=[gate(lambda _: Rewrite(mine)), gate(spoil_mine)]).call({"n": 5})
    assert result.structured == FULL


@pytest.mark.parametrize(
    "bad",
    [{"n": "x"}, {}, {"n": 1, "list": ["x"]}, {"n": object()}, {1: 2}, {"n": {1, 2}}],
    ids=["type", "missing", "nested", "no JSON", "key", "set"],
)
async def test_a_rewrite_is_validated_again(bad: Any) -> None:
    ran: list[Any] = []

    async def handler(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> str:
        ran.append(input)
        return "ran"

    result = await Bench(handler, gates=[gate(lambda _: Rewrite(bad))]).call()
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert result.text.startswith("Invalid arguments for t:\n")
    assert ran == []


async def test_a_rewrite_without_end_is_refused() -> None:
    endless: dict[str, Any] = {"n": 1}
    endless["more"] = endless
    result = await Bench(gates=[gate(lambda _: Rewrite(endless))]).call()
    assert (result.failure, result.text) == (Failure.REFUSED, "Invalid arguments for t: nested too deeply")


async def test_a_rewrite_gets_the_defaults_and_is_what_the_next_gate_sees() -> None:
    seen: list[Mapping[str, Any]] = []
    gates = [gate(lambda _: Rewrite({"n": 2})), gate(lambda call: seen.append(call.input))]
    assert (await Bench(gates=gates).call()).structured == {"n": 2, "unit": "m"}
    assert seen == [{"n": 2, "unit": "m"}]


@pytest.mark.parametrize(
    "nonsense",
    [True, False, "yes", 1, {}, [], object(), Allow, Deny, Rewrite({}).input, Rewrite(None), Rewrite([("n", 1)])],  # type: ignore[arg-type] - on purpose
)
async def test_nonsense_is_a_no(nonsense: Any, caplog: pytest.LogCaptureFixture) -> None:
    result = await Bench(gates=[gate(lambda _: nonsense, "strict")]).call()
    assert (result.failure, result.text) == (Failure.REFUSED, "t was refused: a check before it failed")
    assert "strict returned no valid decision on 't', so the call is refused" in caplog.messages


async def test_a_gate_that_raises_is_a_no_with_its_name_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: ToolCall) -> Any:
        raise ValueError("secret details")

    result = await Bench(gates=[gate(broken, "strict")]).call()
    assert (result.failure, result.text) == (Failure.REFUSED, "t was refused: a check before it failed")
    assert "strict failed on 't', so the call is refused" in caplog.messages


async def test_arguments_that_are_nested_too_deeply_to_be_copied_are_refused() -> None:
    bench = Bench(gates=[gate(lambda _: None)], schema={"type": "object"})
    assert (await bench.call({"deep": nested_lists(600)})).failure is Failure.REFUSED


def test_how_deeply_is_counted() -> None:
    assert copy_json(nested_lists(MAX_COPIED_LEVELS)) == nested_lists(MAX_COPIED_LEVELS)
    assert copy_json({"deep": nested_lists(MAX_COPIED_LEVELS - 1)}) == {"deep": nested_lists(MAX_COPIED_LEVELS - 1)}
    with pytest.raises(RecursionError, match=f"nested more than {MAX_COPIED_LEVELS} levels deep"):
        copy_json(nested_lists(MAX_COPIED_LEVELS + 1))


async def test_arguments_that_are_nested_too_deeply_for_observers_are_called_all_the_same() -> None:
    async def handler(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> str:
        return "done"

    bench = Bench(handler, schema={"type": "object"})
    told, observe = watcher()
    bench.dispatcher.set_hooks(observers=[observe])
    assert (await bench.call({"deep": nested_lists(600)})).text == "done"
    assert told == []


async def test_where_nobody_can_be_asked_asking_is_a_no() -> None:
    result = await Bench(gates=[gate(lambda _: Ask("it costs money"), "careful")]).call()
    assert result.failure is Failure.REFUSED
    assert result.text == (
        "t was refused: careful requires an approval (it costs money), and no person can be asked here"
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Allow(), FULL),
        (Rewrite({"n": 3}), {"n": 3, "unit": "m"}),
        (Deny("no money"), "t was refused: no money"),
        (Rewrite({"n": "x"}), "Invalid arguments for t:"),
    ],
)
async def test_a_person_who_is_asked_decides(said: Any, expected: Any) -> None:
    asked: list[tuple[Any, Ask, str]] = []

    async def approve(call: ToolCall, ask: Ask, asked_by: str, client: object) -> Any:
        asked.append((dict(call.input), ask, asked_by))
        return said

    question = Ask("it costs money")
    result = await Bench(gates=[gate(lambda _: question, "careful")], approve=approve).call()
    assert asked == [(FULL, question, "careful")]
    if isinstance(expected, dict):
        assert result.structured == expected
    else:
        assert result.is_error
        assert result.text.startswith(expected)


async def test_what_a_person_edits_passes_every_gate_again_and_its_asker_asks_once_about_it() -> None:
    """`small` forbids more than 5 and comes first; `careful` asks about everything, and forbids more than 3 itself."""
    asked: list[tuple[str, int]] = []
    edits: dict[tuple[str, int], Any] = {}

    async def approve(call: ToolCall, _: Ask, asked_by: str, __: object) -> Any:
        asked.append((asked_by, call.input["n"]))
        return edits.get((asked_by, call.input["n"]), Allow())

    def small(call: ToolCall) -> Decision:
        n = call.input["n"]
        return Deny("more than 5") if n > 5 else Rewrite({**call.input, "n": 0}) if n < 0 else Allow()

    def careful(call: ToolCall) -> Decision:
        return Deny("more than 3") if call.input["n"] > 3 else Ask("sure?")

    gates = [gate(small, "small"), gate(careful, "careful"), gate(lambda call: Ask("really?"), "other")]
    bench = Bench(gates=gates, approve=approve)

    async def call_edited(**given: Any) -> ToolResult:
        asked.clear()
        edits.clear()
        edits.update({("careful", 1): Rewrite({"n": given["to"]}), **given.get("more", {})})
        return await bench.call({"n": 1})

    assert (await call_edited(to=9)).text == "t was refused: more than 5"
    assert (await call_edited(to=4)).text == "t was refused: more than 3"
    assert (await call_edited(to=2)).structured == {"n": 2, "unit": "m"}
    assert asked == [("careful", 1), ("other", 2)]
    assert (await call_edited(to=-7)).structured == {"n": 0, "unit": "m"}
    assert asked == [("careful", 1), ("careful", 0), ("other", 0)], "made anew by a gate, so it is asked about anew"
    assert (await call_edited(to=2, more={("other", 2): Rewrite({"n": 8})})).text == "t was refused: more than 5"
    assert (await call_edited(to=2, more={("other", 2): Rewrite({"n": 3})})).structured == {"n": 3, "unit": "m"}
    assert asked == [("careful", 1), ("other", 2), ("careful", 3)]
    loop = {(who, n): Rewrite({"n": -n - 100}) for who, n in (("careful", 0), ("other", 0))}
    endless = await call_edited(to=-7, more=loop)
    assert "edited more than 10 times" in endless.text
    assert len(asked) == 11


async def test_the_dispatchers_own_gates_come_before_those_of_plugins() -> None:
    order: list[str] = []
    own = [gate(lambda _: order.append("own 1")), gate(lambda _: order.append("own 2"))]
    bench = Bench(gates=own)
    bench.dispatcher.set_hooks([gate(lambda _: order.append("plugin 1")), gate(lambda _: order.append("plugin 2"))])
    await bench.call()
    assert order == ["own 1", "own 2", "plugin 1", "plugin 2"]
    order.clear()
    bench.dispatcher.set_hooks()  # no plugin is left: its own stay
    await bench.call()
    assert order == ["own 1", "own 2"]


async def test_after_a_no_nobody_else_is_asked() -> None:
    asked: list[str] = []
    bench = Bench(gates=[gate(lambda _: Deny("no"))])
    bench.dispatcher.set_hooks([gate(lambda _: asked.append("plugin"))])
    assert (await bench.call()).failure is Failure.REFUSED
    assert asked == []


def _raising(error: BaseException) -> Handler:
    async def handler(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> Any:
        raise error

    return handler


async def _slow(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> Any:
    await asyncio.get_running_loop().create_future()


async def _nonsense(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> Any:
    return object()


@pytest.mark.parametrize(
    ("bench", "given", "failure", "shown"),
    [
        (Bench, None, None, FULL),
        (lambda: Bench(_raising(ToolError("no such file"))), None, Failure.TOOL, FULL),
        (lambda: Bench(_raising(RefusedError("outside"))), None, Failure.REFUSED, FULL),
        (lambda: Bench(_raising(ValueError("oops"))), None, Failure.CRASH, FULL),
        (lambda: Bench(_nonsense), None, Failure.INVALID_OUTPUT, FULL),
        (lambda: Bench(_slow, timeout=0.01), None, Failure.TIMEOUT, FULL),
        (lambda: Bench(gates=[gate(lambda _: Deny("no"))]), None, Failure.REFUSED, full()),
        (lambda: Bench(gates=[gate(lambda _: Rewrite({"n": 7}))]), None, None, {"n": 7, "unit": "m"}),
        (Bench, {"n": "x"}, Failure.INVALID_ARGUMENTS, {"n": "x"}),
        (Bench, [1, 2], Failure.INVALID_ARGUMENTS, {}),
        (Bench, "text", Failure.INVALID_ARGUMENTS, {}),
    ],
    ids=[
        "success",
        "tool error",
        "refusal",
        "crash",
        "bad output",
        "timeout",
        "gate",
        "rewritten",
        "bad",
        "list",
        "text",
    ],
)
async def test_observers_are_told_once_of_every_end(
    bench: Callable[[], Bench], given: Any, failure: Failure | None, shown: Any
) -> None:
    made = bench()
    (first, one), (second, other) = watcher(), watcher()
    made.dispatcher.set_hooks(observers=[one, other])
    result = await made.call(given, call_id="call_of_the_model")
    assert result.failure is failure
    assert first == second
    ((call, told),) = first
    assert told == result
    assert (call.name, call.input, call.call_id) == ("t", shown, "call_of_the_model")
    assert call.caller.thread_id == "th"


async def test_observers_are_told_what_was_asked_whatever_the_handler_does_to_it() -> None:
    async def hides(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> str:
        input["list"].clear()
        input.clear()
        return "done"

    bench = Bench(hides, gates=[gate(lambda _: Rewrite({"n": 2, "list": [3]}))])
    told, observe = watcher()
    bench.dispatcher.set_hooks(observers=[observe])
    assert (await bench.call()).text == "done"
    assert [call.input for call, _ in told] == [{"n": 2, "list": [3], "unit": "m"}]


async def test_a_tool_that_is_not_there_is_no_call_to_be_told_of() -> None:
    bench = Bench()
    told, observe = watcher()
    bench.dispatcher.set_hooks(observers=[observe])
    with pytest.raises(UnknownToolError):
        await bench.dispatcher.call("nobody")
    assert told == []


async def test_observers_cannot_change_the_result_nor_what_the_next_one_sees() -> None:
    async def meddle(call: ToolCall, result: ToolResult) -> None:
        spoil(call)
        part: Any = result.content[0]
        part.text = "forged"
        result.structured["n"] = "forged"
        result.structured["list"].append("forged")
        result.content, result.is_error, result.failure = (Text("forged"),), True, Failure.CRASH

    async def answer(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> Any:
        return ToolResult(content=[Text("said")], structured={"n": 1, "list": [1, 2]})

    bench = Bench(answer)
    told, observe = watcher()
    bench.dispatcher.set_hooks(observers=[meddle, observe])
    result = await bench.call()
    assert (result.text, result.structured, result.is_error) == ("said", {"n": 1, "list": [1, 2]}, False)
    ((call, seen),) = told
    assert call.input == FULL
    assert (seen.text, seen.structured) == ("said", {"n": 1, "list": [1, 2]})


async def test_an_answer_that_is_nested_too_deeply_for_observers_is_answered_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> Any:
        return ToolResult(content=(Text("deep"),), structured=nested_lists(600))

    bench = Bench(answer)
    told, observe = watcher()
    bench.dispatcher.set_hooks(observers=[observe])
    assert (await bench.call()).text == "deep"
    assert told == []
    assert any("nested too deeply for its observers" in text for text in caplog.messages)


async def test_a_call_in_flight_keeps_the_gates_and_observers_it_began_with() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def waits(_: ToolCall) -> None:
        began.set()
        await go_on.wait()

    async def last(_: ToolCall) -> None:
        order.append("old gate")

    async def old(_: ToolCall, __: ToolResult) -> None:
        order.append("old observer")

    async def new(_: ToolCall, __: ToolResult) -> None:
        order.append("new observer")

    bench = Bench()
    bench.dispatcher.set_hooks([waits, last], [old])
    call = asyncio.create_task(bench.call())
    await asyncio.wait_for(began.wait(), 10)
    bench.dispatcher.set_hooks([gate(lambda _: Deny("a new one"))], [new])
    go_on.set()
    assert (await asyncio.wait_for(call, 10)).structured == FULL
    assert order == ["old gate", "old observer"]
    assert (await bench.call()).text == "t was refused: a new one"
    assert order[2:] == ["new observer"]


async def test_without_gates_and_observers_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    async def quiet(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> str:
        return "quiet"

    quiet.ignores_meta = True  # type: ignore[attr-defined] - what `@tool` says of functions that take none
    bench = Bench(quiet)
    bench.dispatcher.set_hooks((), ())
    for name in ("ToolMeta", "Gates"):
        monkeypatch.setattr(f"toolstead.tools.dispatch.{name}", never)
    monkeypatch.setattr("toolstead.tools.gates.ToolCall", never)
    assert (await bench.call()).text == "quiet"
    assert bench.dispatcher._gates is None


async def test_cancelling_the_caller_while_a_gate_thinks_cancels_the_gate_and_runs_nothing() -> None:
    began, ran = asyncio.Event(), list[str]()
    ended: list[str] = []

    async def thinks(_: ToolCall) -> None:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("gate")

    async def handler(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> str:
        ran.append("ran")
        return "ran"

    call = asyncio.create_task(Bench(handler, gates=[thinks]).call())
    await asyncio.wait_for(began.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (ran, ended) == ([], ["gate"])
