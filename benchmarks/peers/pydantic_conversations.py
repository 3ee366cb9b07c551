"""Pydantic AI: conversations with a tool call in every turn; the history is carried over, and nothing is stored."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks import workload


def play(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The same script: call the tool, then say what it said."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(workload.turn_answer(str(last.content)))])
    return ModelResponse(parts=[ToolCallPart(workload.REPEAT, workload.REPEAT_ARGUMENTS)])


async def main() -> None:
    _, options = workload.options()
    threads, turns = int(options["threads"]), int(options["turns"])
    agent = Agent(FunctionModel(play), tools=[workload.repeat])

    async def converse() -> None:
        history: list[ModelMessage] = []
        for _ in range(turns):
            run = await agent.run(workload.TURN, message_history=history)
            workload.expect(run.output == workload.TURN_ANSWER, "the answer")
            history = run.all_messages()

    await converse()  # the first one pays for what all share
    with workload.Stopwatch() as watch:
        await asyncio.gather(*(converse() for _ in range(threads)))
    workload.report_turns(watch, threads * turns)


if __name__ == "__main__":
    asyncio.run(main())
