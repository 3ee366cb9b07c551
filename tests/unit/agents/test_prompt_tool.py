"""A tool that is a prompt: what its child is asked, what comes back, and which answers are reused."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.agents import prompt_tool
from toolstead.agents.prompt_template import LONGEST_PROMPT
from toolstead.agents.prompt_tool import LARGEST_CACHED, ChildAnswer, PromptCalls, create_prompt_tool, describe_schema
from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.schema.compiled import compile_schema
from toolstead.tools.validation import BoundedValidator
from toolstead.types.agent import PromptTool
from toolstead.types.result import ToolResult

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Children:
    """Answers prompts in order, and notes what was asked in which thread; an exception is raised."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(
        self, definition: PromptTool, prompt: str, meta: ToolMeta, *, thread_id: str | None = None
    ) -> ChildAnswer:
        self.asked.append((prompt, thread_id))
        answer = self.answers.pop(0) if self.answers else f"answer {len(self.asked)}"
        if isinstance(answer, Exception):
            raise answer
        return ChildAnswer(text=answer, thread_id=f"thread {len(self.asked)}")


def make_calls(children: Children, *, result_schema: dict[str, Any] | None = None, **more: Any) -> PromptCalls:
    given = {"name": "ask", "description": "Asks.", "prompt": "Say {{x}}", "input_schema": {"type": "object"}, **more}
    compiled = None if result_schema is None else compile_schema(result_schema, tool="ask", field="result_schema")
    return PromptCalls(
        definition=PromptTool(**given, result_schema=result_schema),
        run_child=children,
        result_schema=compiled,
        find_problems=BoundedValidator().find_problems,
    )


async def call(calls: PromptCalls, **input: Any) -> ToolResult:
    meta: Any = None
    return await calls.answer_call(PluginContext(name="tester"), input, meta)


async def test_without_a_schema_the_answer_is_the_result_as_it_is() -> None:
    children = Children('{"n": 1}')
    result = await call(make_calls(children), x="{{x}}")
    assert (result.text, result.structured, children.asked) == ('{"n": 1}', None, [("Say {{x}}", None)])


async def test_a_wrong_answer_is_repaired_once_in_its_own_thread_with_pointers() -> None:
    children = Children('{"n": "one"}', 'Sorry: {"n": 1}')
    result = await call(make_calls(children, result_schema=SCHEMA), x=5)
    assert (result.structured, result.text) == ({"n": 1}, '{"n":1}')
    first, second = children.asked
    assert first == (f"Say 5\n\n{describe_schema(SCHEMA)}", None)
    assert second[0].startswith("Your answer does not fit:\n/n: expected integer, got string")
    assert second[0].endswith(describe_schema(SCHEMA))
    assert second[1] == "thread 1"


async def test_a_second_wrong_answer_is_an_error_that_says_what_is_wrong_with_it() -> None:
    children = Children("no", "[]")
    with pytest.raises(ToolError) as refused:
        await call(make_calls(children, result_schema=SCHEMA), x=5)
    assert "(answer): it is no JSON (Expecting value" in children.asked[1][0]
    assert "ask has no valid result: its agent answered twice" in str(refused.value)
    assert "(answer): expected object, got array" in str(refused.value)
    assert len(children.asked) == 2

    many = {"type": "array", "items": {"type": "integer"}}
    children = Children(str(["x"] * 40).replace("'", '"'), "[1]")
    result = await call(make_calls(children, result_schema=many), x=5)
    assert (result.text, result.structured) == ("[1]", None)
    problems = children.asked[1][0].partition("\n\n")[0].splitlines()
    assert (problems[1], problems[-1]) == ('/0: expected integer, got string "x"', "… and at least 20 more")


async def test_a_failed_run_is_not_repaired_and_not_kept() -> None:
    children = Children(ToolError("it failed"), '{"n": 2}')
    calls = make_calls(children, result_schema=SCHEMA, cache=True)
    with pytest.raises(ToolError, match="it failed"):
        await call(calls, x=1)
    assert len(children.asked) == 1
    assert (await call(calls, x=1)).structured == {"n": 2}
    children.answers = ["wrong", "wrong"]
    with pytest.raises(ToolError, match="no valid result"):
        await call(calls, x=3)
    children.answers = ['{"n": 3}']
    assert (await call(calls, x=3)).structured == {"n": 3}


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
