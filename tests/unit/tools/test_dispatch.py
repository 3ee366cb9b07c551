"""The dispatcher: validation, gates, deadlines, cancellation, output, and the four places of a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolstead.errors import RefusedError, ToolError, UnknownToolError
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Handler, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools import dispatch
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.gates import Gate
from toolstead.tools.registry import Registry
from toolstead.types.call import Allow, Caller, Decision, Deny, Rewrite, ToolCall
from toolstead.types.content import Image, Text
from toolstead.types.result import Failure, ToolResult


class Bench:
    """One tool called `t` behind a dispatcher, with its log at hand."""

    def __init__(
        self,
        handler: Handler,
        *,
        gates: Sequence[Gate] = (),
        timeout: float = 60,
        max_output: int = 262_144,
        **fields: Any,
    ) -> None:
        self.registry = Registry()
        self.registry.register(Tool(name="t", description="A tool.", handler=handler, **fields))
        self.log = EventLog()
        self.dispatcher = Dispatcher(
            self.registry, events=self.log, cwd=Path("/"), timeout=timeout, max_output=max_output, gates=gates
        )

    async def call(self, input: Any = None, caller: Caller | None = None) -> ToolResult:
        return await self.dispatcher.call("t", input, caller or Caller(thread_id="th"))


def returning(value: Any) -> Handler:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
        return value

    return handler


def raising(error: BaseException) -> Handler:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
        raise error

    return handler


async def echo(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
    return dict(input)


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.promise("S1")
async def test_a_handler_gets_validated_arguments_with_defaults_filled() -> None:
    bench = Bench(echo, schema={"properties": {"n": {"type": "integer", "default": 5}}})
    assert (await bench.call({})).structured == {"n": 5}
    assert (await bench.call(None)).structured == {"n": 5}
    assert (await bench.call({"n": 1})).structured == {"n": 1}


@pytest.mark.promise("S1")
async def test_a_filled_default_is_validated_with_the_rest() -> None:
    schema = {"properties": {"a": {"default": 1}, "b": {}}, "maxProperties": 1}
    result = await Bench(echo, schema=schema).call({"b": 1})
    assert result.failure is Failure.INVALID_ARGUMENTS


@pytest.mark.promise("S1")
@pytest.mark.parametrize("bad", [{"n": "x"}, {}, {1: 2}, [], "text", 5])
async def test_arguments_that_do_not_fit_never_reach_the_handler(bad: Any) -> None:
    reached: list[Any] = []

    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        reached.append(input)
        return "reached"

    result = await Bench(handler, schema=NUMBER).call(bad)
    assert result.is_error
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert result.text.startswith("Invalid arguments for t:")
    assert not reached


async def test_a_handler_that_changes_its_arguments_changes_nothing_of_the_callers() -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        input.clear()
        return "ok"

    given = {"n": 1}
    await Bench(handler, schema=NUMBER).call(given)
    assert given == {"n": 1}


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("handler", "failure", "said"),
    [
        (raising(ToolError("no such row; try id 7")), Failure.TOOL, "no such row; try id 7"),
        (raising(ToolError("")), Failure.TOOL, "t failed, and does not say why"),
        (raising(RefusedError("outside the project")), Failure.REFUSED, "outside the project"),
        (raising(RuntimeError("secret detail")), Failure.CRASH, "t crashed (id call_"),
        (raising(TimeoutError("mine")), Failure.CRASH, "t crashed (id call_"),
        (returning(None), Failure.INVALID_OUTPUT, "t returned None; return text"),
        (returning(object()), Failure.INVALID_OUTPUT, "t returned an object; return text, content such"),
        (returning({"x": object()}), Failure.INVALID_OUTPUT, "that is no JSON"),
        (returning(ToolResult(content=["text"])), Failure.INVALID_OUTPUT, "with str in its content"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (returning(ToolResult(content="text")), Failure.INVALID_OUTPUT, "whose content is str"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (returning(ToolResult(content=[Text("said so")], is_error=True)), None, "said so"),
    ],
)
async def test_every_failure_is_a_text_an_error_result_a_log_line_and_an_event(
    handler: Handler, failure: Failure | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(handler)
    with caplog.at_level(logging.WARNING):
        result = await bench.call({})
    assert result.is_error
    assert result.failure is failure
    assert said in result.text
    assert any(record.name == "toolstead.tools.dispatch" and "t failed" in record.message for record in caplog.records)
    (event,) = bench.log.recent_events
    assert (event.type, event.thread_id, event.data["isError"], event.data["name"]) == ("tool_result", "th", True, "t")
    assert said in event.data["content"]


@pytest.mark.promise("S2")
async def test_a_crash_is_withheld_from_the_model_and_logged_with_its_traceback_under_the_same_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = await Bench(raising(RuntimeError("secret detail"))).call({})
    assert "secret detail" not in result.text
    crash_id = result.text.split("(id ")[1].split(")")[0]
    (record,) = [record for record in caplog.records if record.exc_info]
    assert crash_id in record.message
    assert "secret detail" in str(record.exc_info and record.exc_info[1])


async def test_an_unknown_tool_is_raised_logged_and_told_with_the_nearest_name() -> None:
    bench = Bench(echo)
    bench.registry.register(Tool(name="git-status", description="Status.", handler=echo))
    with pytest.raises(UnknownToolError, match=r"unknown tool 'git-statu'; did you mean 'git-status'\?"):
        await bench.dispatcher.call("git-statu", {})
    assert bench.log.recent_events[-1].data["name"] == "git-statu"


async def hang(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    await asyncio.Event().wait()
    return "never"


async def test_a_deadline_stops_the_handler_and_says_so() -> None:
    stopped: list[str] = []

    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        try:
            return await hang(ctx, input, meta)
        finally:
            stopped.append("cleaned up")

    result = await Bench(handler, timeout=0.01).call({})
    assert result.failure is Failure.TIMEOUT
    assert result.text == "t did not finish within 0.01 seconds and was stopped"
    assert stopped == ["cleaned up"]


async def test_a_tools_own_timeout_wins_over_the_settings() -> None:
    bench = Bench(echo, timeout=60)
    bench.registry.register(Tool(name="slow", description="Slow.", handler=hang, timeout=0.01))
    assert (await bench.dispatcher.call("slow", {})).failure is Failure.TIMEOUT


async def test_cancelling_the_caller_reaches_the_handler_and_is_told() -> None:
    running, seen = asyncio.Event(), list[str]()

    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        try:
            running.set()
            return await hang(ctx, input, meta)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    bench = Bench(handler)
    calling = asyncio.create_task(bench.call({}))
    await asyncio.wait_for(running.wait(), 5)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert seen == ["cancelled"]
    assert bench.log.recent_events[-1].data["content"] == "t was cancelled"


async def test_a_handler_may_use_everything_of_asyncio_after_its_first_step() -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, n)) for n in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        return str([task.result() for task in tasks])

    assert (await Bench(handler).call({})).text == "[0, 1, 2]"


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("plain", "plain", None),
        ({"a": [1]}, '{"a":[1]}', {"a": [1]}),
        ([1, "ü"], '[1,"ü"]', [1, "ü"]),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (Text("one"), "one", None),
    ],
)
async def test_what_a_handler_may_return(value: Any, text: str, structured: Any) -> None:
    result = await Bench(returning(value)).call({})
    assert (result.is_error, result.text, result.structured) == (False, text, structured)


async def test_an_output_schema_is_enforced() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (await Bench(returning({"n": 1}), output_schema=schema).call({})).structured == {"n": 1}
    wrong = await Bench(returning({"n": "x"}), output_schema=schema).call({})
    assert wrong.failure is Failure.INVALID_OUTPUT
    assert "/n: expected integer" in wrong.text
    assert (await Bench(returning("text"), output_schema=schema).call({})).failure is Failure.INVALID_OUTPUT


@pytest.mark.parametrize("text", ["x" * 50_000, "ü" * 50_000, "😀" * 50_000])
async def test_long_text_keeps_its_head_and_tail_and_says_what_was_cut(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = await Bench(returning("HEAD" + text + "TAIL"), max_output=4096).call({})
    shown = result.text
    assert not result.is_error
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    assert len(shown.encode()) < 4096 + 200
    total, cut = len(("HEAD" + text + "TAIL").encode()), 0
    note = shown.split("[toolstead: ")[1].split("]")[0]
    cut = int(note.split(" of ")[0].replace(",", ""))
    assert f"of {total:,} bytes left out here" in note
    assert len(shown.encode()) - len(f"\n[toolstead: {note}]\n".encode()) + cut == total
    assert any("was cut" in record.message for record in caplog.records)


async def test_a_huge_image_or_structure_is_left_out_and_said_so() -> None:
    image = await Bench(returning(Image(data=b"x" * 9_000, mime_type="image/png")), max_output=4096).call({})
    assert image.text == "[toolstead: image/png of 9,000 bytes left out: more than the limit allows]"
    structure = await Bench(returning({"x": "y" * 9_000}), max_output=4096).call({})
    assert structure.structured is None
    assert "the structured answer was larger than 4,096 bytes" in structure.text
    promised = await Bench(returning({"x": "y" * 9_000}), max_output=4096, output_schema={"type": "object"}).call({})
    assert promised.failure is Failure.INVALID_OUTPUT


async def test_a_gate_may_allow_deny_or_rewrite_and_is_asked_in_order() -> None:
    asked: list[Any] = []

    def gate(decision: Decision) -> Gate:
        async def ask(call: ToolCall) -> Decision:
            asked.append((call.name, dict(call.input), call.caller.thread_id))
            return decision

        return ask

    bench = Bench(echo, schema=NUMBER, gates=[gate(None), gate(Allow()), gate(Rewrite({"n": 2}))])
    assert (await bench.call({"n": 1})).structured == {"n": 2}
    assert asked == [("t", {"n": 1}, "th")] * 3
    denied = await Bench(echo, schema=NUMBER, gates=[gate(Deny("not today"))]).call({"n": 1})
    assert (denied.failure, denied.text) == (Failure.REFUSED, "t was refused: not today")
    bad = await Bench(echo, schema=NUMBER, gates=[gate(Rewrite({"n": "x"}))]).call({"n": 1})
    assert bad.failure is Failure.INVALID_ARGUMENTS


async def test_the_record_of_a_call_has_the_arguments_it_ran_with_and_the_tools_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(dispatch, "perf_counter", lambda: clock[0])

    async def run_a_second(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        clock[0] += 1
        input.clear()
        return "done"

    def gate(decision: Decision) -> Gate:
        async def think_a_minute(call: ToolCall) -> Decision:
            clock[0] += 60
            return decision

        return think_a_minute

    async def record(decision: Decision) -> tuple[Any, ...]:
        bench = Bench(run_a_second, schema=NUMBER, gates=[gate(decision)])
        with bench.log.open_stream() as stream:
            await bench.call({"n": 1})
            asked, ended = await anext(stream), await anext(stream)
        assert asked.data["input"] == {"n": 1}
        return ended.data.get("input"), ended.data["durationMs"]

    assert await record(Rewrite({"n": 2})) == ({"n": 2}, 1000.0)
    assert await record(Allow()) == (None, 1000.0)
    assert await record(Deny("no")) == (None, 0.0)


async def test_a_gate_that_fails_says_no_and_bad_arguments_never_reach_one() -> None:
    async def broken(call: ToolCall) -> Decision:
        raise RuntimeError("oops")

    failed = await Bench(echo, schema=NUMBER, gates=[broken]).call({"n": 1})
    assert (failed.failure, failed.text) == (Failure.REFUSED, "t was refused: a check before it failed")
    assert (await Bench(echo, schema=NUMBER, gates=[broken]).call({})).failure is Failure.INVALID_ARGUMENTS


async def test_a_call_ends_on_the_generation_it_began_with() -> None:
    going_on, answers = asyncio.Event(), list[str]()

    async def old(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        await going_on.wait()
        return "old"

    bench = Bench(old)
    calling = asyncio.create_task(bench.call({}))
    await asyncio.sleep(0)
    bench.registry.unregister("t")
    bench.registry.register(Tool(name="t", description="New.", handler=returning("new")))
    answers.append((await bench.call({})).text)
    going_on.set()
    answers.append((await calling).text)
    assert answers == ["new", "old"]


async def test_calls_that_go_well_are_told_only_to_who_listens() -> None:
    bench = Bench(echo)
    await bench.call({})
    assert bench.log.recent_events == []
    with bench.log.open_stream() as stream:
        await bench.call({"a": 1}, Caller(thread_id="x", call_id="toolu_1", run_id="r"))
        use, result = await anext(stream), await anext(stream)
    assert (use.type, use.data["input"], use.run_id) == ("tool_use", {"a": 1}, "r")
    assert (result.type, result.data["callId"], result.data["isError"]) == ("tool_result", "toolu_1", False)


async def test_each_of_many_calls_at_once_sees_its_own_thread_and_id() -> None:
    async def who(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        before = (meta.thread_id, meta.call_id)
        await asyncio.sleep(0)
        assert before == (meta.thread_id, meta.call_id)
        return f"{meta.thread_id} {meta.call_id}"

    bench = Bench(who)
    answers = await asyncio.gather(*(bench.call({}, Caller(thread_id=f"t{n}")) for n in range(200)))
    assert [answer.text.split()[0] for answer in answers] == [f"t{n}" for n in range(200)]
    assert len({answer.text.split()[1] for answer in answers}) == 200


async def test_a_long_error_text_is_cut_like_any_other() -> None:
    result = await Bench(raising(ToolError("x" * 100_000)), max_output=4096).call({})
    assert result.failure is Failure.TOOL
    assert len(result.text) < 4096 + 200
    assert "bytes left out here" in result.text
