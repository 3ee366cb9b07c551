"""`update_plan` at every door: a plan that fits is told once, with its thread and run; one that does not is nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import TOOLSTEAD, wire_to
from tests.surfaces.rest_stead import SteadClient, Told, ended, follow, serving
from tests.surfaces.test_tools_command import toolstead

pytestmark = pytest.mark.promise("T2")

STEP = {"step": "Write it down", "status": "pending"}
GOOD = {
    "plan": [
        {"step": "Read", "status": "completed"},
        {"step": "Write", "status": "in_progress"},
        {"step": "Rest", "status": "pending"},
    ],
    "explanation": "reading is done",
}
MALFORMED: list[Any] = [
    {},
    [],
    "a plan",
    [STEP],
    {"plan": None},
    {"plan": "Read"},
    {"plan": {}},
    {"plan": STEP},
    {"plan": ["Read"]},
    {"plan": [None]},
    {"plan": [[STEP]]},
    {"plan": [{}]},
    {"plan": [{"step": "Read"}]},
    {"plan": [{"status": "pending"}]},
    {"plan": [{"step": "Read", "status": "done"}]},
    {"plan": [{"step": "Read", "status": "Pending"}]},
    {"plan": [{"step": "Read", "status": None}]},
    {"plan": [{"step": 1, "status": "pending"}]},
    {"plan": [{"step": "Read", "status": "pending", "id": 1}]},
    {"plan": [STEP, {"step": "Read", "status": ""}]},
    {"plan": [STEP], "explanation": 1},
    {"plan": [STEP], "explanation": None},
    {"plan": [STEP], "why": "x"},
    {"steps": [STEP]},
    {"Plan": [STEP]},
]
OBJECTS = [plan for plan in MALFORMED if isinstance(plan, dict)]


def script() -> str:
    """A model that sends bad plans, or a good one, or both."""
    bad = [{"tool": "update_plan", "input": plan} for plan in OBJECTS]
    good = [{"tool": "update_plan", "input": GOOD}]
    turns = [
        {"when": "^bad", "call": bad, "say": "tried"},
        {"when": "^good", "call": good, "say": "{{result}}"},
        {"when": "^both", "call": [*bad, *good], "say": "{{result}}"},
        {"when": ".", "say": "yes"},
    ]
    return json.dumps(turns)  # which is YAML


def plans(told: list[Told]) -> list[Told]:
    return [event for event in told if event.type == "plan.updated"]


async def until_run_ends(client: SteadClient, prompt: str) -> tuple[Any, list[Told]]:
    """A run, and everything that was told in it."""
    started = (await client.ask("POST", "/api/runs", {"prompt": prompt})).json
    stream = await follow(client, f"/api/runs/{started['runId']}/events")
    told = await stream.rest()
    await stream.close()
    return await ended(client, started["runId"]), told


async def test_twenty_malformed_plans_over_rest_are_told_to_nobody_and_a_good_one_once(tmp_path: Path) -> None:
    assert len(MALFORMED) >= 20
    async with serving(tmp_path) as client:
        stream = await follow(client, "/api/events")
        for plan in MALFORMED:
            reply = await client.call("update_plan", plan, threadId="t1")
            if reply.status == 200:
                assert reply.json["isError"] is True
                assert reply.json["content"][0]["text"].startswith("Invalid arguments for update_plan:")
            else:
                assert reply.status in {400, 422}, reply.body
        reply = await client.call("update_plan", GOOD, threadId="t1")
        assert (reply.status, reply.json["isError"]) == (200, False)
        assert reply.json["content"] == [{"type": "text", "text": "Plan updated"}]
        told = await stream.until("plan.updated")  # the first one that was told at all
        assert (told.data["data"], told.data["threadId"]) == (GOOD, "t1")
        assert "runId" not in told.data
        await client.call("update_plan", {"plan": []}, threadId="t2")
        after = await stream.until("plan.updated")  # and there was no second one of it
        assert (after.data["data"], after.data["threadId"]) == ({"plan": []}, "t2")
        assert len(plans(stream.seen)) == 2
        await stream.close()


async def test_in_a_run_malformed_plans_are_told_to_nobody(tmp_path: Path) -> None:
    assert len(OBJECTS) >= 20
    async with serving(tmp_path, script()) as client:
        run, told = await until_run_ends(client, "bad plans")
        assert (run["status"], run["result"]) == ("completed", "tried")
        results = [event.data["data"] for event in told if event.type == "tool_result"]
        assert [result["isError"] for result in results] == [True] * len(OBJECTS)
        assert plans(told) == []


@pytest.mark.parametrize("prompt", ["good plan", "both of them"])
async def test_in_a_run_a_good_plan_is_told_once_with_its_thread_and_run(prompt: str, tmp_path: Path) -> None:
    async with serving(tmp_path, script()) as client:
        everything = await follow(client, "/api/events")
        run, told = await until_run_ends(client, prompt)
        assert (run["status"], run["result"]) == ("completed", "Plan updated")
        (plan,) = plans(told)
        assert (plan.data["data"], plan.data["threadId"], plan.data["runId"]) == (GOOD, run["threadId"], run["id"])
        await everything.until("completed")
        assert [event.data["runId"] for event in plans(everything.seen)] == [run["id"]]
        await everything.close()
        again = await follow(client, f"/api/runs/{run['id']}/events")  # it is kept with the run
        assert plans(await again.rest()) == [plan]
        await again.close()


OFF = {
    "setting": ("[tools]\ninclude_plan_tool = false\n", {"tools": {"include_plan_tool": False}}),
    "plugin": ("[plugins.plan]\nenabled = false\n", {"plugins": {"plan": {"enabled": False}}}),
}


@pytest.mark.parametrize("how", OFF)
async def test_switched_off_it_is_neither_listed_nor_called_over_rest_nor_in_a_run(how: str, tmp_path: Path) -> None:
    async with serving(tmp_path, script(), **OFF[how][1]) as client:
        names = [tool["name"] for tool in (await client.get("/api/tools")).json["tools"]]
        assert "update_plan" not in names
        assert "file-reader" in names
        assert (await client.call("update_plan", GOOD)).status == 404
        run, told = await until_run_ends(client, "good plan")
        assert "update_plan" in run["result"]
        assert run["result"] != "Plan updated"
        assert plans(told) == []
        shown = {one["name"]: one for one in (await client.get("/api/plugins")).json["plugins"]}
        assert (shown["plan"]["enabled"], shown["plan"]["state"]) == (False, "disabled")


@pytest.mark.parametrize("how", OFF)
async def test_switched_off_it_is_neither_listed_nor_called_over_mcp(how: str, home: Path, tmp_path: Path) -> None:
    _write_config(home, OFF[how][0])
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        await wire.shake_hands()
        listed = [tool["name"] for tool in (await wire.request(1, "tools/list"))["result"]["tools"]]
        assert "update_plan" not in listed
        assert "file-reader" in listed
        answer = await wire.call(2, "update_plan", GOOD)
        assert "error" in answer or answer["result"]["isError"]
        assert "Plan updated" not in json.dumps(answer)


@pytest.mark.parametrize("how", OFF)
def test_switched_off_it_is_neither_listed_nor_called_on_the_command_line(how: str, home: Path, tmp_path: Path) -> None:
    _write_config(home, OFF[how][0])
    listed = toolstead("tools", "list", "--json", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "file-reader" in listed.stdout
    assert "update_plan" not in listed.stdout
    called = toolstead("tools", "call", "update_plan", "--input", json.dumps(GOOD), cwd=tmp_path)
    assert called.returncode != 0
    assert "Plan updated" not in called.stdout
    assert "update_plan" in called.stderr


async def test_switched_on_it_is_listed_and_called_over_mcp_and_on_the_command_line(tmp_path: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        await wire.shake_hands()
        listed = [tool["name"] for tool in (await wire.request(1, "tools/list"))["result"]["tools"]]
        assert "update_plan" in listed
        answer = await wire.call(2, "update_plan", GOOD)
        assert answer["result"]["content"] == [{"type": "text", "text": "Plan updated"}]
        bad = await wire.call(3, "update_plan", {"plan": [{"step": "x"}]})
        assert bad["result"]["isError"] is True
    called = toolstead("tools", "call", "update_plan", "--input", json.dumps(GOOD), cwd=tmp_path)
    assert (called.returncode, called.stdout) == (0, "Plan updated\n"), called.stderr


def _write_config(home: Path, text: str) -> None:
    file = home / ".config" / "toolstead" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
