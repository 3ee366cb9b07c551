"""What model APIs do wrong, on real SDKs: each ends in an answer or in a clear failure, and nothing hangs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import results_of, tools_of
from tests.e2e.model_stage import KERNELS, MODELS, Play, playing
from toolstead import Annotations, tool
from toolstead.kernel.activation import Limits

IMPATIENT = Limits(first_wait=0.05, stall=2.0)
"""A tenth of the usual time before it is tried again, and much less of silence."""


@pytest.fixture(params=sorted(KERNELS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Opens a stage on one API."""

    def open_stage(script: str, *, limits: Limits | None = IMPATIENT, **more: Any) -> Any:
        return playing(KERNELS[request.param], script, tmp_path, limits=limits, **more)

    return open_stage


@tool(annotations=Annotations(read_only=True))
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


@pytest.mark.parametrize("kind", ["overloaded", "server_error", "broken"])
async def test_what_passes_is_tried_again_until_it_is_answered(
    play: Play, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    script = f"""
- {{fault: {{kind: {kind}, times: 2}}, say: here I am after all and glad of it}}
"""
    async with play(script) as stage:
        run = await stage.ask("hello")
        assert (run.status, run.result) == ("completed", "here I am after all and glad of it"), run.error
        assert len(stage.requests) == 3
        assert stage.requests[0].body == stage.requests[2].body
        waited = [record.getMessage() for record in caplog.records if " in 0." in record.getMessage()]
        assert [("try 2 of 6" in line, "try 3 of 6" in line) for line in waited] == [(True, False), (False, True)]
        deltas = stage.told("message.delta")
        last = [data["text"] for data in deltas if data.get("attempt", 1) == 3]
        assert "".join(last) == run.result  # who reads along can tell the answer from what broke off


async def test_the_wait_that_the_api_asks_for_is_kept(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    script = """
- {fault: {kind: rate_limit, retry_after: 1}, say: your turn}
"""
    async with play(script) as stage:
        run = await stage.ask("hello")
        assert (run.status, run.result) == ("completed", "your turn"), run.error
        assert any("in 1.0 seconds" in record.getMessage() for record in caplog.records)
        assert len(stage.requests) == 2


async def test_a_wait_that_is_too_long_is_a_clear_failure(play: Play) -> None:
    async with play("- {fault: {kind: rate_limit, retry_after: 3600}, say: never}") as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "3600 seconds" in run.error.message
        assert len(stage.requests) == 1


async def test_an_api_that_stays_busy_is_given_up(play: Play) -> None:
    async with play("- {fault: {kind: overloaded, times: 99}, say: never}") as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "6 tries" in run.error.message
        assert len(stage.requests) == 6


async def test_a_stream_that_goes_silent_is_given_up_and_asked_again(play: Play) -> None:
    async with play("- {fault: {kind: stall}, say: now I go on to the end}") as stage:
        run = await stage.ask("hello")
        assert (run.status, run.result) == ("completed", "now I go on to the end"), run.error
        assert len(stage.requests) == 2
        await stage.until(lambda: stage.api.active == 0)


@pytest.mark.promise("S2")
async def test_half_a_json_comes_back_as_an_error_that_says_what_would_be_right(play: Play) -> None:
    script = """
- {fault: {kind: half_json}, call: [{tool: add, input: {a: 2, b: 3}}]}
- say: "{{result}}"
"""
    async with play(script, tools=[add]) as stage:
        run = await stage.ask("add")
        assert run.status == "completed", run.error
        assert run.result == "the sum is 5"
        if stage.name == "gemini":  # it finds that out itself, and says so instead of a call: asked again
            assert stage.requests[1].body == stage.requests[0].body
            return
        assert "JSON" in results_of(stage.requests[1])[0]
        assert stage.told("tool_result")[0]["isError"] is True


async def test_an_empty_answer_is_asked_for_again_and_then_a_clear_failure(play: Play) -> None:
    async with play("- {fault: {kind: empty, times: 1}, say: something}") as stage:
        run = await stage.ask("hello")
        assert (run.status, run.result) == ("completed", "something"), run.error
        assert len(stage.requests) == 2


async def test_nothing_but_empty_answers_is_a_clear_failure(play: Play) -> None:
    async with play("- {fault: {kind: empty, times: 99}, say: never}") as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "answered with nothing (finish_reason " in run.error.message
        assert "3 times; try another model" in run.error.message


async def test_the_one_tool_whose_schema_is_refused_is_left_out_and_named(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    script = """
- {fault: {kind: schema, tool: add}, call: [{tool: workspace-info, input: {}}]}
- say: done without it
"""
    async with play(script, tools=[add]) as stage:
        run = await stage.ask("go")
        assert (run.status, run.result) == ("completed", "done without it"), run.error
        first, second, third = stage.requests
        assert tools_of(first).keys() - tools_of(second).keys() == {"add"}
        assert tools_of(second) == tools_of(third)
        assert any("schema of 'add', so the tool is left out" in record.getMessage() for record in caplog.records)
        again = await stage.ask("go", thread_id=run.thread_id)
        assert again.status == "completed", again.error
        assert "add" not in tools_of(stage.requests[3])  # it is not tried again in this conversation


async def test_a_conversation_that_is_too_long_is_shortened_oldest_results_first(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="toolstead.kernel")

    @tool(annotations=Annotations(read_only=True))
    async def read(number: int) -> str:
        """Read a page."""
        return f"page {number}: " + f"{number}" * 20_000

    script = """
- call: [{tool: read, input: {number: 1}}]
- call: [{tool: read, input: {number: 2}}]
- call: [{tool: read, input: {number: 3}}]
- {fault: {kind: overflow, over: 45000}, say: "I read them: {{prompt}}"}
"""
    async with play(script, tools=[read]) as stage:
        run = await stage.ask("read all of it")
        assert (run.status, run.result) == ("completed", "I read them: read all of it"), run.error
        before, after = stage.requests[-2:]
        assert len(json.dumps(before.body)) > 45_000 >= len(json.dumps(after.body))
        one, two, three = results_of(after)
        assert "call it again" in one
        assert "3" * 20_000 in three  # the newest is whole
        assert "2" * 20_000 in two or "call it again" in two
        assert any("too long" in record.getMessage() for record in caplog.records)


async def test_a_conversation_that_nothing_can_shorten_is_a_clear_failure(play: Play) -> None:
    async with play("- {fault: {kind: overflow, over: 10}, say: never}") as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "nothing in it is left to shorten" in run.error.message


async def test_a_bad_key_is_named_by_where_it_comes_from_and_never_shown(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async with play("- {fault: {kind: bad_key, times: 9}, say: never}") as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "_API_KEY" in run.error.message
        assert len(stage.requests) == 1
        assert "scripted-key" not in run.error.message


async def test_a_model_that_does_not_exist_is_answered_with_the_nearest(play: Play) -> None:
    async with play("- {fault: {kind: no_model, times: 9}, say: never}") as stage:
        wrong = {
            "anthropic": "anthropic:claude-sonet-5-5",
            "openai": "openai:gpt-6.1-tera",
            "openai-chat": "openai-chat:gpt-6.1-tera",
            "gemini": "google:gemini-3.8-flsh",
        }[stage.name]
        run = await stage.stead.invoke("hello", model=wrong, runtime="kernel")
        assert run.status == "failed"
        assert run.error is not None
        lists_models = stage.name.startswith("openai")  # then its own list counts, and not what is known of the vendor
        right = "; it has scripted" if lists_models else MODELS[stage.name].partition(":")[2]
        assert right in run.error.message


async def test_a_run_that_fails_says_what_it_used_until_then(play: Play) -> None:
    script = """
- {call: [{tool: add, input: {a: 1, b: 2}}], usage: {inputTokens: 700, outputTokens: 30}}
- fail: this request is not to the API's taste
"""
    async with play(script, tools=[add]) as stage:
        run = await stage.ask("add")
        assert (run.status, run.error and run.error.code) == ("failed", "model_rejected")
        assert run.error is not None
        assert "not to the API's taste" in run.error.message
        assert (run.usage.input_tokens, run.usage.output_tokens) == (700, 30)
        assert run.usage.cost > 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"runtime": {"kernel": {"max_turns": 3}}}, "runtime.kernel.max_turns"),
        ({"limits": {"token_budget": 2_000}}, "limits.token_budget"),
        ({"limits": {"cost_budget": 0.0001}}, "limits.cost_budget"),
    ],
)
async def test_a_model_that_goes_on_for_ever_is_stopped_at_its_limit(
    play: Play, settings: dict[str, Any], told: str
) -> None:
    numbers = "".join(f"- call: [{{tool: add, input: {{a: {n}, b: 1}}}}]\n" for n in range(30))
    async with play(numbers + "- say: never", tools=[add], settings=settings, limits=None) as stage:
        run = await stage.ask("add")
        assert (run.status, run.error and run.error.code) == ("failed", "budget" if "budget" in told else "limit")
        assert run.error is not None
        assert told in run.error.message
        assert len(stage.requests) <= 3
        assert run.usage.input_tokens > 0
