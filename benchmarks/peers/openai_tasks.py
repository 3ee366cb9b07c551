"""The OpenAI Agents SDK: a tool runs a child agent, with a `SQLiteSession` of its own; tracing off.

`max_function_tool_concurrency` is its own bound of the tools that run at once. A session keeps what was said, and
nothing of a run that has not ended.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    ToolExecutionConfig,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks import task_work as work


def reply(*items: Any) -> ModelResponse:
    used = work.INPUT_TOKENS, work.OUTPUT_TOKENS
    usage = Usage(requests=1, input_tokens=used[0], output_tokens=used[1], total_tokens=sum(used))
    return ModelResponse(output=list(items), usage=usage, response_id=None)


def say(text: str) -> ModelResponse:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return reply(
        ResponseOutputMessage(id="message", type="message", role="assistant", status="completed", content=[content])
    )


class Parent(Model):
    """All tasks in one reply, then the last sentence."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        outputs = [item["output"] for item in input if item.get("type") == "function_call_output"]
        if outputs:
            return say(work.last_sentence(outputs))
        return reply(
            *(
                ResponseFunctionToolCall(
                    type="function_call",
                    call_id=f"call_{number}",
                    name=work.TASK,
                    arguments=json.dumps({"number": number}),
                )
                for number in work.wanted(input[-1]["content"])
            )
        )

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Child(Parent):
    """One sentence."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        return say(await work.answer(input[-1]["content"]))


class OpenAITasks:
    def __init__(self, file: Path, at_once: int) -> None:
        self._file = file
        bound = ToolExecutionConfig(max_function_tool_concurrency=at_once)
        self._config = RunConfig(tracing_disabled=True, tool_execution=bound)
        child = Agent(name="child", instructions=work.CHILD_INSTRUCTIONS, model=Child())

        @function_tool
        async def task(number: int) -> str:
            """Have a task done."""
            with closing(SQLiteSession(f"task-{number}", file)) as session:
                prompt = work.child_prompt(number)
                done = await Runner.run(child, prompt, session=session, run_config=self._config)
            return done.final_output

        self._parent = Agent(name="parent", instructions=work.INSTRUCTIONS, model=Parent(), tools=[task])

    async def delegate(self, name: str, prompt: str) -> str:
        with closing(SQLiteSession(name, self._file)) as session:
            done = await Runner.run(self._parent, prompt, session=session, run_config=self._config)
        return done.final_output

    async def stored(self, numbers: Iterable[int]) -> Mapping[int, list[str]]:
        return {number: await self._answers(f"task-{number}") for number in numbers}

    async def said(self, name: str) -> str | None:
        return next(iter(await self._answers(name)), None)

    async def resume(self, name: str) -> bool:
        return False  # a session does not have the state of a run; a program would have to store that itself

    async def _answers(self, name: str) -> list[str]:
        with closing(SQLiteSession(name, self._file)) as session:
            items: list[Any] = await session.get_items()
        return [item["content"][0]["text"] for item in items if item.get("role") == "assistant"]


@asynccontextmanager
async def opened(folder: Path, at_once: int) -> AsyncGenerator[OpenAITasks]:
    set_tracing_disabled(True)
    yield OpenAITasks(folder / "sessions.sqlite", at_once)


if __name__ == "__main__":
    work.main(opened)
