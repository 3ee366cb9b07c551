"""Google ADK: `Runner.run_async` with sessions in memory, on a `BaseLlm` of one's own.

With its defaults: nobody listens to its spans. Turning their content or OpenTelemetry's SDK off, or letting sessions be
copied lightly, changes the number of Python calls in a run by less than a thousandth.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from benchmarks import agent_work as work

USED = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=work.INPUT_TOKENS,
    candidates_token_count=work.OUTPUT_TOKENS,
    total_token_count=work.INPUT_TOKENS + work.OUTPUT_TOKENS,
)
APP, USER = "bench", "user"


class Scripted(BaseLlm):
    """The scripted model."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        await work.pause()
        contents: Any = llm_request.contents
        done, answered = (len(contents) - 1) // 2, contents[-1].parts[-1].function_response
        last = answered.response.get("result") if answered is not None else ""
        arguments = work.next_call(done, last)
        if arguments is None:
            part = types.Part(text=work.last_sentence(last))
        else:
            part = types.Part(function_call=types.FunctionCall(id=f"call_{done}", name=work.ADD, args=arguments))
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USED)


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    made = LlmAgent(name="adder", model=Scripted(model="scripted"), instruction=work.INSTRUCTIONS, tools=[work.add])
    sessions = InMemorySessionService()
    config = RunConfig(max_llm_calls=work.LIMIT)
    async with Runner(app_name=APP, agent=made, session_service=sessions) as runner:

        async def run() -> str:
            session = await sessions.create_session(app_name=APP, user_id=USER)
            prompt = types.Content(role="user", parts=[types.Part(text=work.PROMPT)])
            text = ""
            async for event in runner.run_async(
                user_id=USER, session_id=session.id, new_message=prompt, run_config=config
            ):
                if event.content and event.content.parts and event.content.parts[0].text:
                    text = event.content.parts[0].text
            await sessions.delete_session(app_name=APP, user_id=USER, session_id=session.id)
            return text

        yield run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
