"""The budget of a tree, where the kernel asks the model: refused before the request, and never exceeded."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from toolstead import Toolstead
from toolstead.delegation.task_store import TaskFilter
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.kernel.conversation import ModelReply, ToolUse, UserMessage
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.orchestrator.log_store import EventFilter
from toolstead.types.run import Usage
from toolstead.types.task import TreeBudget

BATCH = [{"agent_id": "helper", "prompt": f"work on part {n}"} for n in range(4)]
READ = 40
"""Tokens that the model says it has read: never more than were estimated."""


class Spender:
    """Never comes to an end, and writes as much as it may; it looks at the tree's budget before each answer."""

    name = "spending:one"

    def __init__(self) -> None:
        self.used: list[int] = []
        self.trees: list[TreeBudget] = []
        self.store: Any = None

    def estimate_cost(self, input_tokens: int) -> tuple[float, float]:
        return 0.0, 0.0

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        [task] = (await self.store.list_tasks(TaskFilter(), limit=1)) or [None]
        if task is not None:
            tree = await self.store.read_tree(task.root_run_id)
            assert tree is not None
            self.trees.append(tree)
        first = request.messages[0]
        assert isinstance(first, UserMessage)
        number = len(self.used)
        if first.text == "root":
            call = ToolUse(id=f"c{number}", name="delegate_agent", input={"batch": BATCH})
            written = 10
        else:
            about = {"path": f"file-{number}", "content": "x"}
            call = ToolUse(id=f"c{number}", name="vfs_write", input=about)
            written = 1_500 if request.max_tokens is None else min(1_500, request.max_tokens)
        self.used.append(READ + written)
        yield ModelDelta(f"step {number}")
        usage = Usage(input_tokens=READ, output_tokens=written)
        yield ModelReply(text=f"step {number}", calls=(call,), usage=usage)


@pytest.mark.promise("B2")
@pytest.mark.parametrize("budget", [6_000, 40_000])
async def test_children_that_share_a_budget_never_exceed_it(tmp_path: Path, budget: int) -> None:
    write_agent("helper", "tools: [vfs_write]")
    write_agent("chief", "tools: [delegate_agent]\nagents: [helper]")
    model = Spender()
    settings = {"limits": {"token_budget": budget}, "multi_agent": {"agents": ["helper"]}}
    async with Toolstead(tmp_path, settings=settings, watch=False) as stead:
        talk: Any = await stead.conversations()
        model.store = talk.store
        runtimes = talk.agents.runtimes

        async def connect(_: str) -> Spender:
            return model

        kernel = KernelRuntime(connect=connect, resolve=lambda _: model.name, offered=runtimes._offered)
        runtimes._made["kernel"], runtimes._given = kernel, (*runtimes._given, kernel)
        root = await bounded(stead.invoke("root", agent="chief", runtime="kernel", thread_id="t"))
        tasks = await talk.store.list_tasks(TaskFilter())
        assert len(tasks) == 4
        assert root.error is not None
        assert root.error.code == "budget"
        for task in tasks:
            assert task.outcome == "budget"
            assert task.error is not None
            assert "limits.token_budget" in task.error.message
        worked = [(task.summary or "").startswith("step ") for task in tasks]
        assert all(worked) if budget > 10_000 else any(worked)
        # Whoever was refused was refused before its request: what the model counted is what the tree counted.
        tree = await talk.store.read_tree(root.id)
        assert tree is not None
        assert tree.spent_tokens == sum(model.used) <= budget
        assert (tree.reserved_tokens, tree.in_flight) == (0, 0)
        assert all(one.spent_tokens + one.reserved_tokens <= budget for one in model.trees)
        said = await talk.store.list_events(EventFilter(types=frozenset({"message.delta"})), limit=10_000)
        told = sorted(int(word) for event in said for word in event.data["text"].split("step ") if word.strip())
        assert told == list(range(len(model.used)))
