"""Agents over HTTP: which there are, what is wrong in their files, and a message to one that is not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.agent_folder import write_agent
from tests.surfaces.rest_stead import ended, serving
from tests.surfaces.test_rest_tasks import check_shape


async def test_the_agents_are_listed_with_what_was_found_in_their_files(tmp_path: Path) -> None:
    custom = "{name: sum, description: Sums up., prompt: 'Secret {{text}}', parameters: {text: {type: string}}}"
    write_agent("reviewer", f"tools: [note-*, {custom}]\nmodel: sonnet\nlimits: {{max_depth: 2}}")
    bad = write_agent("bad", "modell: x")
    async with serving(tmp_path) as client:
        got = await client.get("/api/agents")
        assert got.status == 200
        assert [one["name"] for one in got.json["agents"]] == ["main", "reviewer"]
        reviewer = got.json["agents"][1]
        assert (reviewer["model"], reviewer["tools"], reviewer["limits"]["maxDepth"]) == ("sonnet", ["note-*"], 2)
        assert [one["name"] for one in reviewer["customTools"]] == ["sum"]
        assert "Secret" not in str(got.json)
        assert "Do as you are asked." not in str(got.json)
        found = {(one["severity"], one["source"], one["line"]) for one in got.json["findings"]}
        assert ("error", str(bad), 4) in found
        assert any(one["message"].startswith("tools: `note-*` matches no tool") for one in got.json["findings"])
        # What is the agent's alone is no tool of the server.
        assert "sum" not in [one["name"] for one in (await client.get("/api/tools")).json["tools"]]
        assert (await client.call("sum", {"text": "x"})).status == 404


async def test_a_message_to_an_agent_that_is_not_there_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    write_agent("reviewer", "tools: [{name: sum, description: Sums up., prompt: p}]")
    async with serving(tmp_path) as client:
        for name in ("reviewr", "reviewer/sum"):
            got = await client.ask("POST", "/api/runs", {"prompt": "go", "agent": name})
            assert (got.status, got.problem["type"].rpartition("#")[2]) == (422, "unknown-agent")
            assert "The agents are main, reviewer" in got.problem["detail"]
        assert (await client.get("/api/threads")).json["threads"] == []
        accepted = await client.ask("POST", "/api/runs", {"prompt": "go", "agent": "reviewer"})
        assert (await ended(client, accepted.json["runId"]))["agent"] == "reviewer"


async def test_an_agent_is_shown_whole(tmp_path: Path) -> None:
    custom = "{name: sum, description: Sums up., prompt: 'Sum {{text}}', parameters: {text: {type: string}}}"
    path = write_agent("reviewer", f"tools: [note-*, {custom}]\nmodel: sonnet\nagents: [helper]")
    write_agent("helper")
    async with serving(tmp_path) as client:
        listed = (await client.get("/api/agents")).json["agents"]
        shown = (await client.get("/api/agents/reviewer")).json
        await check_shape(client, shown, "AgentDetails")
        assert {key: shown[key] for key in listed[2]} == listed[2]
        assert shown["instructions"] == "Do as you are asked.\n"
        assert shown["prompts"] == {"sum": "Sum {{text}}"}
        assert shown["delegates"] == ["helper"]
        effective = {one["key"]: (one["value"], one["origin"]) for one in shown["effective"]}
        assert effective["model"] == ("sonnet", f"{path}:5")
        assert [one["message"][:30] for one in shown["findings"]] == ["tools: `note-*` matches no tool"[:30]]
        unknown = (await client.get("/api/agents/reviewr")).problem
        assert (unknown["status"], unknown["type"]) == (404, "/docs#no-agent")
        assert "did you mean 'reviewer'" in unknown["detail"]


async def test_of_each_tool_an_agent_says_whether_it_sees_it_or_in_a_sentence_why_not(tmp_path: Path) -> None:
    custom = "{name: sum, description: Sums up., prompt: p}"
    write_agent("writer", f"tools: ['*', {custom}]\nlimits: {{max_depth: 0}}")
    write_agent("reviewer", "tools: [git-*, time__*, workspace-info]\ndisallowed_tools: [git-diff-summary]\nagents: []")
    bad = Path(os.environ["TOOLSTEAD_HOME"], "tools", "broken.json")
    bad.parent.mkdir(parents=True, exist_ok=True)
    handler = '{"type": "shell", "command": "date {{missing}}"}'
    schema = '{"type": "object", "properties": {}}'
    tool = f'{{"name": "broken", "description": "Breaks.", "inputSchema": {schema}, "handler": {handler}}}'
    bad.write_text(f'{{"name": "bad", "version": "1.0.0", "tools": [{tool}]}}')
    settings = {
        "tools": {"blocked": ["git-status"]},
        "profiles": {"narrow": {"allowed": ["time__*"]}},
        "multi_agent": {"agents": ["reviewer"]},
    }
    async with serving(tmp_path, **settings) as client:
        client.stead._parts.registry.apply_switches(frozenset({"workspace-info"}))

        async def explain(path: str) -> dict[str, Any]:
            answer = (await client.get(f"/api/agents/{path}")).json
            await check_shape(client, answer, "AgentToolList")
            return {one["name"]: one.get("reason", one["visible"]) for one in answer["tools"]}

        found = await explain("reviewer/tools")
        assert found["time__current_time"] is True
        assert found["git-status"] == "Blocked by 'git-status' in tools.blocked."
        assert found["git-diff-summary"] == "Blocked by 'git-diff-summary' in `disallowed_tools` of the agent reviewer."
        assert found["file-reader"] == "Not named by `tools` of the agent reviewer."
        assert found["workspace-info"] == "Switched off with `toolstead tools disable`."
        assert found["sum"] == "It is a custom tool of the agent writer, which alone sees it."
        assert found["broken"].startswith("Not offered: broken.json:1:")
        found = await explain("main/tools")
        assert found["delegate_agent"] is True
        assert found["delegation__checkin"] == "Only an agent that works on a delegated task sees it."
        found = await explain("writer/tools")
        assert found["delegate_agent"].startswith("It starts agents, and this run may start none: limits.max_depth")
        assert found["sum"] == found["delegate_agent"]
        found = await explain("reviewer/tools?profile=narrow")
        assert found["time__current_time"] is True
        found = await explain("main/tools?profile=narrow")
        assert found["file-reader"] == "Not named by profiles.narrow.allowed."
        # What is said is what the model is offered.
        view = client.stead.registry.for_agent("writer")
        found = await explain("writer/tools")
        assert {name for name, seen in found.items() if seen is True} <= {one.name for one in view.list_tools()}
        refused = (await client.get("/api/agents/main/tools?profile=narow")).problem
        assert (refused["status"], "'narrow'" in refused["detail"]) == (422, True)
