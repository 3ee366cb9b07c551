"""LangGraph: a tool of the parent runs a child agent; checkpoints are kept in SQLite.

The makers of `langgraph-supervisor` say to use this instead of it: `create_agent` with sub-agents as tools. A child's
checkpointer says what is kept of it. `keeps=graph`, the default: it is a sub-graph in the parent's thread, with
checkpoints of its own. `keeps=answer`: only what the tool answers is kept, in the parent's thread. `keeps=thread`: it
has a thread of its own, with the one checkpoint of `durability="exit"`.

Every tool call is a task of the parent's graph, whose answer is stored as soon as it is there, but not so under
`max_concurrency`: then the storing stands in one line with the calls that have not begun. Sub-graphs do not mind, and
are quicker so; without them a killed parent would make every call again, so a semaphore bounds how many run at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks import task_work as work
from benchmarks import workload

USED = {
    "input_tokens": work.INPUT_TOKENS,
    "output_tokens": work.OUTPUT_TOKENS,
    "total_tokens": work.INPUT_TOKENS + work.OUTPUT_TOKENS,
}


class Scripted(BaseChatModel):
    """The parent's model, and a child's where it has no tools."""

    hands_out: bool

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Self:
        return self

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text, calls, last = "", [], messages[-1]
        if not self.hands_out:
            text = await work.answer(str(last.content))
        elif isinstance(last, ToolMessage):
            text = work.last_sentence(str(one.content) for one in messages if isinstance(one, ToolMessage))
        else:
            numbers = work.wanted(str(last.content))
            calls = [{"name": work.TASK, "args": {"number": n}, "id": f"call_{n}"} for n in numbers]
        message = AIMessage(content=text, tool_calls=calls, usage_metadata=USED)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError


class LangGraphTasks:
    def __init__(self, saver: AsyncSqliteSaver, at_once: int, keeps: str) -> None:
        self._saver, self._keeps = saver, keeps
        self._bound: dict[str, Any] = {"max_concurrency": at_once} if keeps == "graph" else {}
        bound = nullcontext() if keeps == "graph" else asyncio.Semaphore(at_once)
        child: Any = create_agent(
            Scripted(hands_out=False),
            [],
            system_prompt=work.CHILD_INSTRUCTIONS,
            checkpointer={"graph": None, "answer": False, "thread": saver}[keeps],
        )

        @tool
        async def task(number: int) -> str:
            """Have a task done."""
            own: dict[str, Any] = {"config": _thread(f"{number}"), "durability": "exit"} if keeps == "thread" else {}
            async with bound:
                done = await child.ainvoke(_said(work.child_prompt(number)), **own)
            return done["messages"][-1].content

        self._parent: Any = create_agent(
            Scripted(hands_out=True), [task], system_prompt=work.INSTRUCTIONS, checkpointer=saver
        )

    async def delegate(self, name: str, prompt: str) -> str:
        done = await self._parent.ainvoke(_said(prompt), {**_thread(name), **self._bound})
        return done["messages"][-1].content

    async def stored(self, numbers: Iterable[int]) -> Mapping[int, list[str]]:
        if self._keeps == "answer":
            texts = _texts(await self._messages(work.NAME), ToolMessage)
        else:
            texts = [text for messages in await self._children() for text in _texts(messages, AIMessage)]
        return {number: [text for text in texts if text == work.done(number)] for number in numbers}

    async def said(self, name: str) -> str | None:
        texts = _texts(await self._messages(name), AIMessage)
        return texts[-1] if len(texts) > 1 else None

    async def resume(self, name: str) -> bool:
        await self._parent.ainvoke(None, {**_thread(name), **self._bound})
        return True

    async def _messages(self, name: str) -> list[BaseMessage]:
        """The parent's, with what tools have answered since its last checkpoint."""
        return (await self._parent.aget_state(_thread(name))).values.get("messages", [])

    async def _children(self) -> Iterable[list[BaseMessage]]:
        """The messages of every sub-graph or thread that is not a parent's."""
        last: dict[tuple[str, str], list[BaseMessage]] = {}
        async for one in self._saver.alist(None):  # the newest first
            place = one.config["configurable"]
            key = place["thread_id"], place["checkpoint_ns"]
            last.setdefault(key, one.checkpoint["channel_values"].get("messages", []))
        return [messages for (thread, graph), messages in last.items() if graph or thread.isdigit()]


def _thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def _texts(messages: Iterable[BaseMessage], kind: type[BaseMessage]) -> list[str]:
    return [str(one.content) for one in messages if isinstance(one, kind)]


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@asynccontextmanager
async def opened(folder: Path, at_once: int) -> AsyncGenerator[LangGraphTasks]:
    keeps = workload.options()[1].get("keeps", "graph")
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield LangGraphTasks(saver, at_once, keeps)


if __name__ == "__main__":
    work.main(opened)
