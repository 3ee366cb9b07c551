"""A tool that is a prompt: what its child is asked, what comes back, and which answers are reused."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.agents import prompt_tool
from toolstead.agents.prompt_template import LONGEST_PROMPT
from toolstead.agents.prompt_tool import LARGEST_CACHED, PromptCalls, create_prompt_tool, describe_schema
from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.schema.compiled import compile_schema
from toolstead.types.agent import PromptTool
from toolstead.types.result import ToolResult

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Children:
    """Answers prompts in order, and notes what was asked; an exception is raised."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, definition: PromptTool, prompt: str, meta: ToolMeta) -> str:
        self.asked.append(prompt)
        answer = self.answers.pop(0) if self.answers else f"answer {len(self.asked)}"
        if isinstance(answer, Exception):
            raise answer
        return answer


def make_calls(children: Children, *, result_schema: dict[str, Any] | None = None, **more: Any) -> PromptCalls:
    given = {"name": "ask", "description": "Asks.", "prompt": "Say {{x}}", "input_schema": {"type": "object"}, **more}
    compiled = None if result_schema is None else compile_schema(result_schema, tool="ask", field="result_schema")
    return PromptCalls(
        definition=PromptTool(**given, result_schema=result_schema),
        run_child=children,
        result_schema=compiled,
    )


async def call(calls: PromptCalls, **input: Any) -> ToolResult:
    meta: Any = None
    return await calls.answer_call(PluginContext(name="tester"), input, meta)


async def test_without_a_schema_the_answer_is_the_result_as_it_is() -> None:
    children = Children('{"n": 1}')
    result = await call(make_calls(children), x="{{x}}")
    assert (result.text, result.structured, children.asked) == ('{"n": 1}', None, ["Say {{x}}"])


async def test_an_answer_that_fits_the_schema_is_structured_also_between_sentences() -> None:
    children = Children('Sorry: {"n": 1}')
    result = await call(make_calls(children, result_schema=SCHEMA), x=5)
    assert (result.structured, result.text) == ({"n": 1}, '{"n":1}')
    assert children.asked == [f"Say 5\n\n{describe_schema(SCHEMA)}"]


async def test_a_failed_task_is_not_kept() -> None:
    children = Children(ToolError("it failed"), '{"n": 2}')
    calls = make_calls(children, result_schema=SCHEMA, cache=True)
    with pytest.raises(ToolError, match="it failed"):
        await call(calls, x=1)
    assert len(children.asked) == 1
    assert (await call(calls, x=1)).structured == {"n": 2}


async def test_equal_arguments_are_answered_from_the_cache_and_others_are_not() -> None:
    children = Children()
    calls = make_calls(children, cache=True)
    first = await call(calls, x={"a": 1, "b": [1, 2]}, y="z")
    again = await call(calls, y="z", x={"b": [1, 2], "a": 1})
    assert (first.text, again.text, len(children.asked)) == ("answer 1", "answer 1", 1)
    for other in ({"a": 1, "b": [2, 1]}, {"a": 1.5, "b": [1, 2]}, {"a": True, "b": [1, 2]}, {"a": "1", "b": [1, 2]}):
        asked = len(children.asked)
        await call(calls, x=other, y="z")
        assert len(children.asked) == asked + 1, other
    without = make_calls(children)
    assert (await call(without, x=1)).text != (await call(without, x=1)).text


async def test_the_cache_is_bounded_in_number_and_size_and_keeps_what_was_used_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt_tool, "MOST_CACHED", 3)
    children = Children()
    calls = make_calls(children, cache=True)
    for x in (1, 2, 3, 1, 4):  # 1 is used again, so 2 is the oldest when 4 comes
        await call(calls, x=x)
    assert len(children.asked) == 4
    for x in (1, 3, 4):
        await call(calls, x=x)
    assert len(children.asked) == 4
    await call(calls, x=2)
    assert len(children.asked) == 5
    for _ in range(2):
        children.answers = ["x" * (LARGEST_CACHED + 1)]
        await call(calls, x="long")
    assert len(children.asked) == 7


async def test_a_prompt_that_would_be_too_long_starts_no_child() -> None:
    children = Children()
    with pytest.raises(ToolError, match=r"ask was not started: .* more than 2,097,152 characters; pass shorter values"):
        await call(make_calls(children), x="x" * LONGEST_PROMPT)
    assert children.asked == []


def test_a_tool_without_a_description_is_described_by_its_prompt() -> None:
    for description in ("", "  \n"):
        calls = make_calls(Children(), description=description, prompt="\n  Sum up this:\n\n{{x}}")
        made = create_prompt_tool(calls, timeout=7)
        assert (made.description, made.timeout, made.spawns) == ("Asks an agent: Sum up this:", 7, True)
