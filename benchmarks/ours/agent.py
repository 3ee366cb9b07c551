"""The kernel: its loop over a scripted model and a real stead's tools; or all of `stead.invoke`, stored in SQLite."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import agent_work as work
from benchmarks import workload
from toolstead import Toolstead, tool
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.kernel.activation import Activation, Limits, Spending
from toolstead.kernel.conversation import Conversation, ModelReply, ToolAnswer, ToolUse
from toolstead.kernel.loop import converse
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.orchestrator.store import EventFilter
from toolstead.testing import memory_stead
from toolstead.types.call import Caller
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.run import Usage

USED = Usage(input_tokens=work.INPUT_TOKENS, output_tokens=work.OUTPUT_TOKENS)
LIMITS = Limits(turns=work.LIMIT)


class Scripted:
    """The scripted model."""

    name = "scripted:adder"

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply]:
        await work.pause()
        messages = request.messages
        done, last, said = (len(messages) - 1) // 2, messages[-1], ""
        if isinstance(last, ToolAnswer) and isinstance(last.content[0], Text):
            said = last.content[0].text
        arguments = work.next_call(done, said)
        if arguments is None:
            yield ModelReply(text=work.last_sentence(said), usage=USED)
        else:
            yield ModelReply(text="", calls=(ToolUse(id=f"call_{done}", name=work.ADD, input=arguments),), usage=USED)


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    async with memory_stead(tool(work.add)) as stead:
        yield await _invoked(stead) if workload.options()[1].get("invoke") == "1" else _looped(stead)


def _looped(stead: Toolstead) -> work.Run:
    """The loop alone; calls go through the stead's dispatcher, and nobody listens to events."""
    model, numbers, registry = Scripted(), itertools.count(), stead._parts.registry

    def call(name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> Awaitable[ToolResult]:
        return stead._parts.dispatcher.call(name, input, Caller(call_id=call_id))

    def offer() -> Any:
        return registry.find_view(None).infos

    def tell(_type: str, _data: Mapping[str, Any]) -> None:
        return

    async def run() -> str:
        activation = Activation(
            model=model,
            offer=offer,
            call_tool=call,
            tell=tell,
            budget=Spending(LIMITS),
            instructions=work.INSTRUCTIONS,
            limits=LIMITS,
        )
        conversation = Conversation(f"conversation-{next(numbers)}")
        conversation.add_user_text(work.PROMPT)
        return (await converse(conversation, activation)).text

    return run


async def _invoked(stead: Toolstead) -> work.Run:
    """`stead.invoke`: a thread, a session, the hooks, and every message, run and event stored."""
    model = Scripted()

    async def connect(_: str) -> Scripted:
        return model

    orchestrator: Any = await stead.conversations()
    runtimes = orchestrator.agents.runtimes
    registry = stead._parts.registry
    kernel = KernelRuntime(
        connect=connect,
        resolve=lambda _: model.name,
        offered=lambda spec: registry.find_view(spec.agent, may_spawn=spec.may_spawn).infos,
        limits=LIMITS,
    )
    runtimes._made[kernel.name] = kernel  # as the settings would make it, but for the model

    async def run() -> str:
        done = await stead.invoke(work.PROMPT, runtime="kernel")
        workload.expect(work.WORK.wrong or done.result is not None, f"the run ended with {done.error}")
        return done.result or ""

    done = await stead.invoke(work.PROMPT, runtime="kernel")
    told = [event.type for event in await orchestrator.store.list_events(EventFilter(run_id=done.id), limit=1_000)]
    workload.expect(told.count("tool_result") == work.WORK.turns, f"every event is stored, not {told}, {done.error}")
    return run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
