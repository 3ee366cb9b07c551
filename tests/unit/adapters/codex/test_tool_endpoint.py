from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import mcp_types
import pytest

from toolstead.adapters.codex.own_tools import GATE
from toolstead.adapters.codex.tool_endpoint import CodexToolEndpoint
from toolstead.types.content import Text
from toolstead.types.result import ToolResult


class Host:
    """The tools of one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.called: list[tuple[str, Any, str | None]] = []
        self.hooks: list[Mapping[str, Any]] = []

    def list_tools(self) -> list[mcp_types.Tool]:
        return [mcp_types.Tool(name=f"{self.name}_tool", input_schema={"type": "object"})]

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None) -> ToolResult:
        self.called.append((name, input, call_id))
        return ToolResult(content=(Text(f"for {self.name}"),), structured={"x": 1})

    async def answer_hook(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hooks.append(payload)
        return {"seen": True}


@pytest.fixture
async def endpoint() -> AsyncIterator[CodexToolEndpoint]:
    opened = CodexToolEndpoint(version="1")
    await opened.open()
    yield opened
    await opened.close()


async def post(endpoint: CodexToolEndpoint, headers: Mapping[str, str], method: str, **params: Any) -> httpx2.Response:
    url = endpoint.server_settings("")["url"]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.post(url, json=message, headers={**accepted, **headers})


async def ask(endpoint: CodexToolEndpoint, token: str, method: str, **params: Any) -> Any:
    answer = await post(endpoint, endpoint.server_settings(token)["http_headers"], method, **params)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_each_token_leads_to_its_own_thread(endpoint: CodexToolEndpoint) -> None:
    ann, bob = Host("ann"), Host("bob")
    for host in (ann, bob):
        token = endpoint.issue_token(host)
        listed = await ask(endpoint, token, "tools/list")
        assert [tool["name"] for tool in listed["tools"]] == [f"{host.name}_tool"]
        result = await ask(endpoint, token, "tools/call", name="x", arguments={"a": 1}, _meta={"callId": "c7"})
        assert result["content"] == [{"type": "text", "text": f"for {host.name}"}]
        assert "structuredContent" not in result  # Codex would show it in the place of the text
        assert host.called == [("x", {"a": 1}, "c7")]


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}])
async def test_nobody_comes_in_without_a_token(endpoint: CodexToolEndpoint, header: dict[str, str]) -> None:
    endpoint.issue_token(Host("ann"))
    assert (await post(endpoint, header, "tools/list")).status_code == 401


async def test_a_token_that_was_dismissed_opens_nothing(endpoint: CodexToolEndpoint) -> None:
    token = endpoint.issue_token(Host("ann"))
    endpoint.revoke_token(token)
    headers = endpoint.server_settings(token)["http_headers"]
    assert (await post(endpoint, headers, "tools/list")).status_code == 401


async def test_a_page_of_another_name_cannot_reach_it(endpoint: CodexToolEndpoint) -> None:
    token = endpoint.issue_token(Host("ann"))
    headers = {**endpoint.server_settings(token)["http_headers"], "host": "evil.example"}
    assert (await post(endpoint, headers, "tools/list")).status_code == 421


async def test_hooks_reach_the_gate_and_models_do_not(endpoint: CodexToolEndpoint) -> None:
    host = Host("ann")
    token = endpoint.issue_token(host)
    answer = await ask(endpoint, token, "tools/call", name=GATE, arguments={"name": "Bash"})
    assert answer["content"] == [{"type": "text", "text": '{"seen": true}'}]
    assert host.hooks == [{"name": "Bash"}]
    await ask(endpoint, token, "tools/call", name=GATE, arguments={"name": "Bash"}, _meta={"callId": "c1"})
    assert len(host.hooks) == 1
    assert host.called == [(GATE, {"name": "Bash"}, "c1")]  # which is no tool of ours, and the dispatcher says so
