"""Pydantic AI: `Agent.run` on a `FunctionModel`, which is told what a request used, so that it need not count words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks import agent_work as work


async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The scripted model."""
    await work.pause()
    done, last = (len(messages) - 1) // 2, messages[-1].parts[-1]
    said = last.content if isinstance(last, ToolReturnPart) else ""
    arguments = work.next_call(done, said)
    if arguments is None:
        part = TextPart(work.last_sentence(said))
    else:
        part = ToolCallPart(work.ADD, arguments, f"call_{done}")
    usage = RequestUsage(input_tokens=work.INPUT_TOKENS, output_tokens=work.OUTPUT_TOKENS)
    return ModelResponse(parts=[part], usage=usage)


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    made = Agent(FunctionModel(answer), instructions=work.INSTRUCTIONS, tools=[work.add])
    limits = UsageLimits(request_limit=work.LIMIT)

    async def run() -> str:
        return (await made.run(work.PROMPT, usage_limits=limits)).output

    yield run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
