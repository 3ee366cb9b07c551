"""Agents over HTTP: which there are, what is wrong in their files, and a message to one that is not there."""

from __future__ import annotations

from pathlib import Path

from tests.agent_folder import write_agent
from tests.surfaces.rest_stead import ended, serving


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
