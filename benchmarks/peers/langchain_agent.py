"""LangChain: `create_agent`, or the older prebuilt agent of LangGraph, on a chat model of one's own; nothing is kept.

Its `bind_tools` costs nothing, where that of a real model converts every schema again, on every turn.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent

from benchmarks import agent_work as work
from benchmarks import workload

TOTAL = work.INPUT_TOKENS + work.OUTPUT_TOKENS


class Scripted(BaseChatModel):
    """The scripted model."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Self:
        return self

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await work.pause()
        done, last = (len(messages) - 2) // 2, messages[-1].content
        arguments = work.next_call(done, last)
        calls = [] if arguments is None else [{"name": work.ADD, "args": arguments, "id": f"call_{done}"}]
        used = {"input_tokens": work.INPUT_TOKENS, "output_tokens": work.OUTPUT_TOKENS, "total_tokens": TOTAL}
        text = work.last_sentence(last) if arguments is None else ""
        message = AIMessage(content=text, tool_calls=calls, usage_metadata=used)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    adding = tool(work.add)
    if workload.options()[1].get("prebuilt") == "1":
        warnings.simplefilter("ignore")  # it is said to have moved
        made: Any = create_react_agent(Scripted(), [adding], prompt=work.INSTRUCTIONS)
    else:
        made = create_agent(Scripted(), [adding], system_prompt=work.INSTRUCTIONS)
    config = {"recursion_limit": 3 * work.LIMIT}

    async def run() -> str:
        done = await made.ainvoke({"messages": [{"role": "user", "content": work.PROMPT}]}, config)
        return done["messages"][-1].content

    yield run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
