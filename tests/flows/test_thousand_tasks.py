"""A thousand detached tasks on the scripted runtime: none is lost, and each result is in exactly one stored turn."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.waiting import until
from toolstead import Toolstead
from toolstead.delegation.task_store import TaskFilter

COUNT = 1_000
BATCH = 250


def write_script(file: Path) -> Path:
    """The root hands everything out in four calls of one turn; each child says which part it did."""
    parts = [{"agent_id": "helper", "prompt": f"part {number}."} for number in range(COUNT)]
    calls = [
        {"tool": "delegate_agent", "input": {"batch": parts[first : first + BATCH], "mode": "detached", "queue": True}}
        for first in range(0, COUNT, BATCH)
    ]
    turns: list[Any] = [
        {"when": "^begin$", "call": calls, "say": "handed out"},
        {"when": r"^part \d+\.$", "say": "did {{prompt}}"},
        {"when": ".", "say": "noted"},
    ]
    file.write_text(json.dumps(turns), encoding="utf-8")
    return file


@pytest.mark.promise("B1")
async def test_none_of_a_thousand_detached_tasks_is_lost(tmp_path: Path) -> None:
    write_agent("helper", "agents: []")
    settings = {
        "runtime": {"default": "scripted", "scripted": {"script": str(write_script(tmp_path / "script.yaml"))}},
        "multi_agent": {"agents": ["helper"]},
        "limits": {"max_fanout": COUNT, "max_descendants": COUNT, "token_budget": 10**9},
    }
    async with Toolstead(tmp_path, settings=settings, watch=False) as stead:
        store = (await stead.conversations()).store
        root = await stead.invoke("begin", thread_id="t")
        assert root.result == "handed out"

        async def find_all() -> list[Any]:
            tasks = await store.list_tasks(TaskFilter(), limit=2 * COUNT)
            is_told = all(task.delivered_at is not None for task in tasks)
            return tasks if is_told and not await store.list_runs(unfinished=True) else []

        tasks = await until(find_all)
        assert Counter(task.outcome for task in tasks) == {"completed": COUNT}
        assert {task.summary for task in tasks} == {f"did part {number}." for number in range(COUNT)}
        holding = [one for one in await store.list_messages("t", limit=10 * COUNT) if one.kind == "result"]
        told = Counter(number for one in holding for number in re.findall(r"did part (\d+)\.", one.content))
        assert told == Counter({str(number): 1 for number in range(COUNT)})
        completed = {
            run.id for run in await store.list_runs(thread_id="t", limit=10 * COUNT) if run.status == "completed"
        }
        assert {task.taken_by for task in tasks} <= completed
