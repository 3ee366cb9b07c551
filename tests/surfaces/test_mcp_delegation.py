"""MCP clients delegate, each in a thread of its own, and read what was done; people's ways in are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from tests.agent_folder import write_agent
from tests.programs.clients import Era, connected, text_of
from tests.surfaces.rest_stead import SteadClient, serving
from tests.waiting import until

SCRIPT = """
- when: ^hang
  hang: 600
- when: .
  say: "Did: {{prompt}}"
"""
ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SteadClient]:
    write_agent("helper", "agents: []")
    async with serving(tmp_path, SCRIPT, multi_agent={"agents": ["helper"]}) as server:
        yield server


async def ask(client: Client, tool: str, **input: Any) -> Any:
    result = await client.call_tool(tool, input)
    return json.loads(text_of(result))


async def list_own(client: Client) -> list[str]:
    return [run["run_id"] for run in (await ask(client, "delegate_status"))["runs"]]


@ERAS
@pytest.mark.promise("T10")
async def test_a_client_delegates_and_its_detached_result_is_delivered_when_it_read_it(
    server: SteadClient, era: Era
) -> None:
    async with connected(f"{server.url}/mcp", era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names & {"delegate_agent", "delegate_status", "spawn_agent", "signal_parent"} == {
            "delegate_agent",
            "delegate_status",
        }
        answer = await ask(client, "delegate_agent", agent_id="helper", prompt="look")
        assert answer["status"] == "ok"
        assert answer["runs"][0]["summary"] == "Did: look"
        [started] = (await ask(client, "delegate_agent", agent_id="helper", prompt="later", mode="detached"))["runs"]
        store = (await server.conversations()).store
        await until(lambda: _has_ended(store, started["run_id"]))
        assert (await store.read_task(started["run_id"])).delivered_at is None
        read = await ask(client, "delegate_status", action="read", run_id=started["run_id"])
        assert read["runs"][0]["summary"] == "Did: later"
        assert (await store.read_task(started["run_id"])).delivered_at is not None
    refused = await server.ask(
        "POST", "/api/tools/delegate_agent/call", {"input": {"agent_id": "helper", "prompt": "x"}}
    )
    assert refused.json["isError"]
    assert "talk to an agent" in refused.json["content"][0]["text"]


async def _has_ended(store: Any, task_id: str) -> bool:
    return not (await store.read_task(task_id)).is_open


async def test_two_clients_of_one_server_do_not_see_each_others_tasks(server: SteadClient) -> None:
    async with (
        connected(f"{server.url}/mcp", "handshake") as one,
        connected(f"{server.url}/mcp", "handshake") as other,
    ):
        for client in (one, other):
            await ask(client, "delegate_agent", agent_id="helper", prompt="hang", mode="detached")
        [first], [second] = await list_own(one), await list_own(other)
        assert first != second
        foreign = await other.call_tool("delegate_status", {"action": "cancel", "run_id": first})
        assert foreign.is_error
        assert "delegated by somebody else" in text_of(foreign)
        cancelled = await ask(one, "delegate_status", action="cancel", run_id=first)
        assert cancelled["runs"][0]["status"] == "cancelled"
