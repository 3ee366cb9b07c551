"""The OpenAI Agents SDK: `Runner.run` on a `Model` of one's own, without tracing and without streaming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks import agent_work as work


class Scripted(Model):
    """The scripted model."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        await work.pause()
        done, last = (len(input) - 1) // 2, input[-1].get("output", "")
        arguments = work.next_call(done, last)
        item: Any
        if arguments is None:
            text = ResponseOutputText(type="output_text", text=work.last_sentence(last), annotations=[])
            item = ResponseOutputMessage(
                id="message", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            item = ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{done}", name=work.ADD, arguments=json.dumps(arguments)
            )
        used = work.INPUT_TOKENS, work.OUTPUT_TOKENS
        usage = Usage(requests=1, input_tokens=used[0], output_tokens=used[1], total_tokens=sum(used))
        return ModelResponse(output=[item], usage=usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    set_tracing_disabled(True)
    made = Agent(name="adder", instructions=work.INSTRUCTIONS, model=Scripted(), tools=[function_tool(work.add)])
    config = RunConfig(tracing_disabled=True)

    async def run() -> str:
        done = await Runner.run(made, work.PROMPT, max_turns=work.LIMIT, run_config=config)
        return done.final_output

    yield run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
