"""A process whose agent delegates to a helper, or one that takes up what such a process left behind.

Given on the command line: `ask` or `adopt`, the folder, the address of the model APIs. The helper has two tools: `look`
answers at once; `wait` writes `waiting` to stdout once the id of the conversation is stored, and answers never.
`adopt` waits until nothing is open, and writes what is stored as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.waiting import until
from toolstead import Tool, ToolMeta, Toolstead, tool
from toolstead.delegation.task_store import TaskFilter

THREAD = "t"
LOOKED = "an empty shelf"


@tool
async def look() -> str:
    """Look."""
    return LOOKED


def make_wait(stead: Toolstead) -> Tool:
    """A tool that says when its conversation can be resumed, and then never answers."""

    async def wait(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        store = (await stead.conversations()).store

        async def is_stored() -> bool:
            return (await store.read_thread(str(meta.thread_id))).session_id is not None

        await until(is_stored)
        print("waiting", flush=True)
        await asyncio.Event().wait()
        return "never"

    return Tool(name="wait", description="Wait.", handler=wait)


def open_stead(folder: Path, url: str) -> Toolstead:
    """A stead in this folder, whose models are at this address."""
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TOOLSTEAD_HOME": str(folder / "home")}
    environ |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "scripted"}
    environ |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "scripted"}
    settings = {"multi_agent": {"agents": ["helper"]}}
    return Toolstead(folder / "project", environ=environ, settings=settings, watch=False)


async def ask(stead: Toolstead) -> None:
    run = await stead.invoke("begin", thread_id=THREAD, runtime="kernel", model="anthropic:claude-sonnet-5-5")
    assert run.status == "completed", run.error
    await asyncio.Event().wait()


async def adopt(stead: Toolstead) -> dict[str, Any]:
    await stead.delegation()
    store = (await stead.conversations()).store

    async def is_settled() -> bool:
        found = await store.list_tasks(TaskFilter())
        is_over = not any(task.is_open or task.delivered_at is None for task in found)
        return is_over and not await store.list_runs(unfinished=True)

    await until(is_settled)
    [task] = await store.list_tasks(TaskFilter())
    return {
        "outcome": task.outcome,
        "summary": task.summary,
        "epoch": task.epoch,
        "session": (await store.read_thread(task.thread_id)).session_id,
        "child": [one.status for one in reversed(await store.list_runs(thread_id=task.thread_id))],
        "parent": [one.result for one in reversed(await store.list_runs(thread_id=THREAD))],
        "asked": [one.content for one in await store.list_messages(task.thread_id) if one.role == "user"],
    }


async def main(what: str, folder: Path, url: str) -> None:
    async with open_stead(folder, url) as stead:
        stead.registry.register(look, make_wait(stead))
        if what == "ask":
            await ask(stead)
        else:
            print(json.dumps(await adopt(stead)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
