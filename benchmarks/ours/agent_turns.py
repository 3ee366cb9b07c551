"""Turns of an agent without a file and of one with a file, in one process and in turn: `stead.invoke` on the kernel.

The agent without a file is measured twice: how far its two times are apart is the noise.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from typing import Any

from benchmarks import agent_files, workload
from benchmarks import agent_work as work
from toolstead import Toolstead, tool
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.kernel.conversation import ModelReply, ToolAnswer, ToolUse
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.testing import memory_stead
from toolstead.types.run import Run, Usage

AGENTS = {"without": "", "with": agent_files.NAME, "again": ""}
TURNS = 5
"""Of one conversation: the first one opens a session, the others find it warm."""
USED = Usage(input_tokens=work.INPUT_TOKENS, output_tokens=work.OUTPUT_TOKENS)
CALL = ToolUse(id="call_1", name=work.ADD, input={"a": 2, "b": 3})
SENTENCE = work.last_sentence(5)


class TurnModel:
    """Calls the tool once in each turn, then says the sentence; keeps what it was given last."""

    name = "scripted:adder"
    received: ModelRequest

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply]:
        self.received = request
        if isinstance(request.messages[-1], ToolAnswer):
            yield ModelReply(text=SENTENCE, usage=USED)
        else:
            yield ModelReply(text="", calls=(CALL,), usage=USED)


async def main() -> None:
    _, options = workload.options()
    count, seconds = int(options["tools"]), float(options["seconds"])
    tools = [tool(work.add), *(tool(function) for function in workload.many(count - 1))]
    async with memory_stead(*tools) as stead:
        agent_files.write_file(stead._parts.places.user / "agents")
        model = TurnModel()
        await use_model(stead, model)
        for agent in AGENTS.values():
            await converse(stead, agent)
            check(model.received, agent, count)
        await measure(stead, seconds)


async def use_model(stead: Toolstead, model: TurnModel) -> None:
    """Give the kernel this model; else it is as the settings make it."""

    async def connect(_: str) -> TurnModel:
        return model

    orchestrator: Any = await stead.conversations()
    registry, runtimes = stead._parts.registry, orchestrator.agents.runtimes
    runtimes._made["kernel"] = KernelRuntime(
        connect=connect,
        resolve=lambda _: model.name,
        offered=lambda spec: registry.find_view(spec.agent, may_spawn=spec.may_spawn).infos,
    )


async def converse(stead: Toolstead, agent: str) -> Run:
    """One conversation; its last run."""
    thread = None
    for _ in range(TURNS):
        run = await stead.invoke(work.PROMPT, runtime="kernel", agent=agent, thread_id=thread)
        workload.expect(run.result == SENTENCE, f"the last sentence was {run.result!r}, {run.error}")
        thread = run.thread_id
    workload.expect(run.agent == (agent or "main"), f"the agent was {run.agent}")
    return run


def check(request: ModelRequest, agent: str, count: int) -> None:
    """That the agent with a file was given what its file says, and the other one everything."""
    names = [info.name for info in request.tools]
    expected = agent_files.count_numbered(count - 1) if agent else count - 1
    numbered = sum(name.startswith("tool_") for name in names)
    workload.expect(numbered == expected, f"{numbered} tools were offered, not {expected}")
    workload.expect((agent_files.OWN[0] in names) == bool(agent), "its own tools")
    workload.expect((agent_files.INSTRUCTIONS in request.instructions) == bool(agent), "its instructions")


async def measure(stead: Toolstead, seconds: float) -> None:
    """Conversations of each in turn, in shuffled order; the median of them counts."""
    spent: dict[str, list[workload.Stopwatch]] = {name: [] for name in AGENTS}
    order, wall, shuffled = list(AGENTS), 0.0, random.Random(0)
    while wall < seconds * len(AGENTS):
        shuffled.shuffle(order)  # what recurs every so many turns would else hit the same one each time
        for name in order:
            with workload.Stopwatch() as watch:
                await converse(stead, AGENTS[name])
            spent[name].append(watch)
            wall += watch.wall
    workload.report(**{name: workload.middle(watches, of=TURNS) for name, watches in spent.items()})


if __name__ == "__main__":
    asyncio.run(main())
