"""Profiles: what `/mcp/NAME`, a token of one and `toolstead mcp --profile` show, and that nothing leads around them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.agent_folder import write_agent
from tests.flows.hostile_project import hostile_project
from tests.flows.tool_files import served
from tests.programs.clients import Ear, Era, names_of, names_with, text_of
from tests.programs.running import TOOLSTEAD
from tests.waiting import PATIENCE
from toolstead import Plugin, PluginContext, Prompt, Tool, ToolMeta, Toolstead
from toolstead.orchestrator.log_store import EventFilter
from toolstead.plugins.contract import Resource
from toolstead.testing import scripted_models

WHOLE, READERS, WRITERS = "whole-token", "readers-token", "writers-token"
PROFILES = {
    "readers": {"allowed": ["read", "asks"], "token": READERS},
    "writers": {"blocked": ["read"], "token": WRITERS},
    "quiet": {"allowed": ["read"]},
}
LANES = pytest.mark.parametrize("fast_path", [True, False], ids=["the fast path", "the SDK"])
ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])


async def _answer(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "done"


async def _ask_other(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return (await ctx.call_tool(input["name"], {}, meta=meta)).text


def tools() -> list[Tool]:
    asked = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return [
        Tool(name="read", description="Reads.", handler=_answer),
        Tool(name="write", description="Writes.", handler=_answer),
        Tool(name="asks", description="Calls another tool.", handler=_ask_other, schema=asked),
    ]


@asynccontextmanager
async def team(folder: Path, *, fast_path: bool = True, **settings: Any) -> AsyncIterator[tuple[Toolstead, str]]:
    """A served stead with profiles, and its address."""
    wanted = {"server": {"token": WHOLE}, "profiles": PROFILES, **settings}
    async with Toolstead(folder, settings=wanted) as stead:
        stead.registry.register(*tools())
        async with served(stead, fast_path=fast_path) as url:
            yield stead, url


@asynccontextmanager
async def client_of(url: str, token: str, era: Era, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client, with a token."""
    mode = "legacy" if era == "handshake" else "auto"
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False) as http:
        target = streamable_http_client(url, http_client=http)
        async with Client(target, mode=mode, read_timeout_seconds=PATIENCE, **options) as client:
            yield client


async def ask(url: str, method: str, path: str, token: str = "", body: Any = None, **headers: str) -> httpx2.Response:
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        return await http.request(method, url + path, json=body, headers={**shown, **headers})


async def check_readers(client: Client) -> None:
    """What a client of the profile `readers` sees and can do."""
    assert [tool.name for tool in (await client.list_tools()).tools] == ["read", "asks"]
    assert text_of(await client.call_tool("read", {})) == "done"
    with pytest.raises(MCPError, match="unknown tool 'write'"):
        await client.call_tool("write", {})
    through = await client.call_tool("asks", {"name": "write"})
    assert through.is_error
    assert text_of(await client.call_tool("asks", {"name": "read"})) == "done"


@LANES
@ERAS
@pytest.mark.promise("Q1")
async def test_over_http_a_profile_is_all_that_its_token_and_its_url_give(
    tmp_path: Path, era: Era, fast_path: bool
) -> None:
    async with team(tmp_path, fast_path=fast_path) as (_, url):
        for path, token in [("/mcp", READERS), ("/mcp/readers", READERS), ("/mcp/readers", WHOLE)]:
            async with client_of(url + path, token, era) as client:
                await check_readers(client)
        async with client_of(f"{url}/mcp", WHOLE, era) as client:
            assert {"read", "write", "asks"} <= {tool.name for tool in (await client.list_tools()).tools}
            assert text_of(await client.call_tool("asks", {"name": "write"})) == "done"


@pytest.mark.parametrize("fast", [True, False], ids=["the fast path", "the SDK"])
@ERAS
@pytest.mark.promise("Q1")
async def test_on_stdio_a_profile_is_all_that_is_offered(tmp_path: Path, era: Era, fast: bool) -> None:
    (tmp_path / "a").mkdir()
    allowed = '--set=profiles.few.allowed=["workspace-info"]'
    arguments = ["mcp", "--project", str(tmp_path), allowed, "--profile", "few", *([] if fast else ["--no-fast-path"])]
    command, *before = TOOLSTEAD
    with (tmp_path / "stderr.txt").open("w") as errors:
        server = StdioServerParameters(command=command, args=[*before, *arguments], env=dict(os.environ))
        mode = "legacy" if era == "handshake" else "auto"
        async with Client(stdio_client(server, errlog=errors), mode=mode, read_timeout_seconds=PATIENCE) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["workspace-info"]
            assert not (await client.call_tool("workspace-info", {})).is_error
            with pytest.raises(MCPError, match="unknown tool 'file-reader'"):
                await client.call_tool("file-reader", {"path": "a"})


@pytest.mark.promise("Q1")
async def test_over_rest_a_profile_lists_shows_and_calls_only_its_tools(tmp_path: Path) -> None:
    async with team(tmp_path) as (_, url):
        listed = (await ask(url, "GET", "/api/tools", READERS)).json()
        assert [tool["name"] for tool in listed["tools"]] == ["read", "asks"]
        assert listed["counts"]["total"] == 2
        assert (await ask(url, "GET", "/api/tools/read", READERS)).status_code == 200
        assert (await ask(url, "POST", "/api/tools/read/call", READERS, {})).json()["content"][0]["text"] == "done"
        for method, path in [("GET", "/api/tools/write"), ("POST", "/api/tools/write/call")]:
            refused = await ask(url, method, path, READERS, {} if method == "POST" else None)
            assert (refused.status_code, refused.json()["type"]) == (404, "/docs#unknown-tool")
        named = await ask(url, "POST", "/api/tools/write/call", READERS, {"threadId": "t1"})
        assert named.status_code == 404
        through = await ask(url, "POST", "/api/tools/asks/call", READERS, {"input": {"name": "write"}})
        assert through.json()["isError"]
        assert len((await ask(url, "GET", "/api/tools", WHOLE)).json()["tools"]) > 2


@pytest.mark.promise("Q2")
async def test_a_profiles_token_opens_nothing_else(tmp_path: Path) -> None:
    async with team(tmp_path) as (_, url):
        for method, path in [
            ("GET", "/api/threads"),
            ("POST", "/api/threads"),
            ("GET", "/api/events"),
            ("GET", "/api/events/log"),
            ("GET", "/api/runs"),
            ("GET", "/api/agents"),
            ("GET", "/api/agents/main"),
            ("GET", "/api/agents/main/tools"),
            ("GET", "/api/vfs?thread=a"),
            ("GET", "/api/tasks"),
            ("GET", "/api/results/result_1"),
            ("POST", "/api/prewarm"),
            ("POST", "/api/tools/reload"),
            ("GET", "/api/runs/run_1/steps"),
        ]:
            refused = await ask(url, method, path, READERS, {} if method == "POST" else None)
            assert (refused.status_code, refused.json()["type"]) == (403, "/docs#not-in-profile"), path
            assert "'readers'" in refused.json()["detail"]
        for method, path in [("GET", "/api/approvals"), ("PATCH", "/api/plugins/web")]:
            refused = await ask(url, method, path, READERS, {"enabled": False} if method == "PATCH" else None)
            assert refused.status_code == 403, path


@pytest.mark.promise("Q2")
async def test_a_token_of_one_profile_is_refused_at_the_urls_of_others_and_learns_nothing_of_them(
    tmp_path: Path,
) -> None:
    async with team(tmp_path) as (_, url):
        answers = [await ask(url, "POST", f"/mcp/{name}", READERS, {}) for name in ("writers", "nobody")]
        assert [answer.status_code for answer in answers] == [403, 403]
        details = [answer.json()["detail"] for answer in answers]
        assert details[0] == details[1] == "This token is for the profile 'readers': use /mcp or /mcp/readers."
        nobody = await ask(url, "POST", "/mcp/reader", WHOLE, {})
        assert (nobody.status_code, nobody.json()["detail"]) == (
            404,
            "There is no profile 'reader'; did you mean 'readers'?",
        )
        for path in ("/mcp/readers", "/mcp/nobody", "/mcp/", "/api/tools"):
            for token in ("", "wrong", READERS + "x"):
                refused = await ask(url, "POST", path, token, {})
                assert (refused.status_code, "readers" in refused.json()["detail"]) == (401, False), path


async def test_a_profiles_token_makes_a_token_needed_also_on_loopback(tmp_path: Path) -> None:
    async with team(tmp_path, server={}) as (_, url):
        assert (await ask(url, "GET", "/api/tools")).status_code == 401
        assert (await ask(url, "GET", "/api/tools", READERS)).status_code == 200


@LANES
@pytest.mark.promise("Q3")
async def test_a_session_serves_only_the_token_that_opened_it(tmp_path: Path, fast_path: bool) -> None:
    async with team(tmp_path, fast_path=fast_path) as (_, url):
        accept = {"Accept": "application/json, text/event-stream"}
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        opened = await ask(url, "POST", "/mcp", READERS, opening, **accept)
        session = {**accept, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        assert (await ask(url, "POST", "/mcp", READERS, done, **session)).status_code == 202
        for token, path in [(READERS, "/mcp"), (READERS, "/mcp/readers")]:
            assert (await ask(url, "POST", path, token, listing, **session)).status_code == 200
        for token, path in [(WRITERS, "/mcp"), (WHOLE, "/mcp"), (WHOLE, "/mcp/readers"), (WHOLE, "/mcp/quiet")]:
            for method in ("POST", "GET", "DELETE"):
                body = listing if method == "POST" else None
                refused = await ask(url, method, path, token, body, **session)
                assert refused.status_code == 404, (path, token, method)
        assert (await ask(url, "POST", "/mcp", READERS, listing, **session)).status_code == 200


@LANES
@ERAS
async def test_a_profile_shows_no_prompt_resource_or_result_that_it_does_not_name(
    tmp_path: Path, era: Era, fast_path: bool
) -> None:
    async def tell(ctx: PluginContext, given: Any) -> str:
        return "told"

    async def write_much(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return "much " * 2_000

    mail = Plugin(
        name="mail",
        version="1",
        tools=[Tool(name="all", description="Much.", handler=write_much)],
        prompts=[Prompt(name="brief", description="Briefly.", handler=tell)],
        resources=[Resource(uri="mail://inbox", name="inbox", read=tell)],
    )
    profiles = {
        "readers": {"allowed": ["read", "file-reader"], "token": READERS},
        "writers": {"allowed": ["mail__*"], "token": WRITERS},
    }
    settings = {
        "server": {"token": WHOLE},
        "profiles": profiles,
        "mcp": {"resources": ["*.md"]},
        "tools": {"max_output": 2_000},
    }
    (tmp_path / "notes.md").write_text("noted")
    async with (
        Toolstead(tmp_path, settings=settings, plugins=[mail]) as stead,
        served(stead, fast_path=fast_path) as url,
        client_of(f"{url}/mcp", READERS, era) as reader,
        client_of(f"{url}/mcp", WRITERS, era) as writer,
    ):
        kept = re.findall(r"toolstead://results/res_[\w-]+", text_of(await writer.call_tool("mail__all", {})))[0]
        assert [one.name for one in (await reader.list_prompts()).prompts] == []
        assert [one.uri for one in (await reader.list_resources()).resources] == ["toolstead://files/notes.md"]
        assert [one.name for one in (await writer.list_prompts()).prompts] == ["mail__brief"]
        assert [one.uri for one in (await writer.list_resources()).resources] == ["mail://inbox"]
        assert (await reader.read_resource("toolstead://files/notes.md")).contents
        assert (await writer.get_prompt("mail__brief")).messages
        for address in (kept, "mail://inbox"):
            assert (await writer.read_resource(address)).contents
            with pytest.raises(MCPError, match="not found"):
                await reader.read_resource(address)
        with pytest.raises(MCPError, match="there is no prompt"):
            await reader.get_prompt("mail__brief")
        with pytest.raises(MCPError, match="not found"):
            await writer.read_resource("toolstead://files/notes.md")


@ERAS
async def test_a_client_of_a_profile_hears_that_its_tools_changed(tmp_path: Path, era: Era) -> None:
    ear = Ear()
    async with team(tmp_path) as (stead, url), client_of(f"{url}/mcp", READERS, era, message_handler=ear.message) as it:
        assert len((await it.list_tools()).tools) == 2
        async with ear.open(it, era):
            stead.registry.unregister("read")
            assert await names_with(it, ear, lambda names: "read" not in names) == ["asks"]


SCRIPT = """
- when: ^pass it on
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: try both}}]
- when: .
  call: [{tool: read, input: {}}, {tool: write, input: {}}]
- say: done
"""


@asynccontextmanager
async def working_team(folder: Path, *more: str) -> AsyncIterator[tuple[Toolstead, str]]:
    """A team whose agents try `read` and `write`; the profile `few` has more tools on demand."""
    write_agent("helper", "agents: []")
    write_agent("lead", "agents: [helper]")
    (folder / "script.yaml").write_text(SCRIPT)
    tools = ["read", "delegate_agent", "delegate_status", *more]
    profiles = {**PROFILES, "few": {"allowed": tools, "token": READERS + "2"}}
    scripted = {"default": "scripted", "scripted": {"script": str(folder / "script.yaml")}}
    several = {"runtime": scripted, "multi_agent": {"agents": ["helper", "lead"]}}
    async with team(folder, profiles=profiles, **several) as found:
        yield found


async def calls_of(stead: Toolstead) -> dict[str, set[tuple[str, bool]]]:
    """What the runs of each agent called, and whether it failed; every run must be of the profile."""
    store = (await stead.conversations()).store
    found: dict[str, set[tuple[str, bool]]] = {}
    for run in await store.list_runs(limit=100):
        assert run.profile == "few"
        events = await store.list_events(EventFilter(run_id=run.id, types=frozenset({"tool_result"})))
        found.setdefault(run.agent, set()).update((event.data["name"], event.data["isError"]) for event in events)
    return found


TRIED = {("read", False), ("write", True)}


@ERAS
@pytest.mark.promise("Q4")
async def test_what_a_client_of_a_profile_delegates_sees_no_more_nor_does_what_that_delegates(
    tmp_path: Path, era: Era
) -> None:
    async with working_team(tmp_path) as (stead, url):
        async with client_of(f"{url}/mcp", READERS + "2", era) as client:
            await client.call_tool("delegate_agent", {"agent_id": "lead", "prompt": "pass it on"})
            listed = json.loads(text_of(await client.call_tool("delegate_status", {})))
            assert [run["agent_id"] for run in listed["runs"]] == ["lead"]
        found = await calls_of(stead)
        assert found["helper"] == TRIED
        assert ("delegate_agent", False) in found["lead"]
        async with client_of(f"{url}/mcp/few", WHOLE, era) as other:
            assert json.loads(text_of(await other.call_tool("delegate_status", {})))["runs"] == []


@pytest.mark.promise("Q4")
async def test_a_run_over_rest_is_of_the_profile_and_no_other_run_is_there_for_it(tmp_path: Path) -> None:
    async with working_team(tmp_path) as (stead, url):
        started = await ask(url, "POST", "/api/runs", READERS + "2", {"prompt": "try both", "agent": "helper"})
        assert started.status_code == 202, started.text
        run, thread = started.json()["runId"], started.json()["threadId"]
        ended = await ask(url, "GET", f"/api/runs/{run}/events", READERS + "2")
        assert "event: completed" in ended.text
        assert (await ask(url, "GET", f"/api/runs/{run}", READERS + "2")).json()["profile"] == "few"
        assert (await calls_of(stead))["helper"] == TRIED
        again = {"prompt": "try both", "agent": "helper", "threadId": thread}
        assert (await ask(url, "POST", "/api/runs", READERS + "2", again)).status_code == 202
        for method, path in [("GET", ""), ("GET", "/events"), ("POST", "/cancel")]:
            refused = await ask(url, method, f"/api/runs/{run}{path}", WRITERS, {} if method == "POST" else None)
            assert (refused.status_code, refused.json()["type"]) == (404, "/docs#unknown-run")
        foreign = await ask(url, "POST", "/api/runs", WRITERS, again)
        assert (foreign.status_code, foreign.json()["type"]) == (404, "/docs#unknown-thread")
        resumed = await ask(url, "POST", "/api/runs", READERS + "2", {"prompt": "x", "sessionId": "s1"})
        assert (resumed.status_code, resumed.json()["type"]) == (403, "/docs#not-in-profile")


@pytest.mark.promise("Q4")
async def test_a_call_over_rest_reaches_no_thread_of_others(tmp_path: Path) -> None:
    few = READERS + "2"
    async with working_team(tmp_path, "vfs_*") as (_, url):

        async def call(token: str, name: str, thread: str | None, **input: Any) -> httpx2.Response:
            body = {"input": input, **({} if thread is None else {"threadId": thread})}
            return await ask(url, "POST", f"/api/tools/{name}/call", token, body)

        run = {"prompt": "try both", "agent": "helper"}
        foreign = (await ask(url, "POST", "/api/runs", WHOLE, run)).json()["threadId"]
        for thread in (foreign, "new"):
            assert not (await call(WHOLE, "vfs_write", thread, path="a.md", content="kept")).json()["isError"]
            for name, given in [("vfs_read", {"path": "a.md"}), ("vfs_list", {}), ("vfs_delete", {"path": "a.md"})]:
                refused = await call(few, name, thread, **given)
                assert (refused.status_code, refused.json()["type"]) == (404, "/docs#unknown-thread")
            assert (await ask(url, "POST", "/api/runs", few, {**run, "threadId": thread})).status_code == 404
            assert "kept" in (await call(WHOLE, "vfs_read", thread, path="a.md")).text
        own = (await ask(url, "POST", "/api/runs", few, run)).json()["threadId"]
        for thread in (own, "default", None):
            assert (await call(few, "vfs_list", thread)).status_code == 200


async def test_a_task_that_is_started_again_stays_in_its_profile(tmp_path: Path) -> None:
    async with working_team(tmp_path) as (stead, url):
        async with client_of(f"{url}/mcp", READERS + "2", "modern") as client:
            given = await client.call_tool("delegate_agent", {"agent_id": "helper", "prompt": "try both"})
        [first] = json.loads(text_of(given))["runs"]
        again = (await ask(url, "POST", f"/api/tasks/{first['run_id']}/retry", WHOLE, {})).json()
        delegation = (await stead.delegation()).delegation
        await delegation.wait_for_task(again["id"])
        assert again["profile"] == "few"
        assert (await calls_of(stead))["helper"] == TRIED


async def test_the_runtimes_own_tools_follow_the_lists_of_the_profile(tmp_path: Path) -> None:
    async with working_team(tmp_path) as (stead, _):
        agents = (await stead.conversations()).agents
        config = agents.resolve_agent("helper")
        own = {
            name: agents.build_spec(config, cwd=tmp_path, may_spawn=True, profile=name).permitted_tools(
                ["Bash", "read"]
            )
            for name in (None, "few", "writers", "gone")
        }
        assert own == {None: ("Bash", "read"), "few": ("read",), "writers": ("Bash",), "gone": ()}
        assert agents.build_spec(config, cwd=tmp_path, may_spawn=True, profile="few").tools == (
            "delegate_status",
            "read",
        )


@pytest.mark.promise("B3")
async def test_a_projects_profile_counts_while_it_is_approved_and_shows_nothing_when_it_no_longer_is(
    tmp_path: Path,
) -> None:
    project = hostile_project(tmp_path)
    project.tools.unlink()  # so that nothing changes but the profile
    project.config.write_text('[profiles.brought]\nallowed = ["read"]\n[profiles.own]\nallowed = ["write"]\n')
    own = {"profiles": {"own": {"blocked": ["write"], "token": READERS}}}
    async with team(project.folder, **own) as (_, url):
        assert (await ask(url, "POST", "/mcp/brought", WHOLE, {})).status_code == 404
        listed = (await ask(url, "GET", "/api/tools", READERS)).json()["tools"]
        assert {"read", "asks"} <= {tool["name"] for tool in listed}
    project.approve()
    ear = Ear()
    async with (
        team(project.folder, **own) as (stead, url),
        client_of(f"{url}/mcp/brought", WHOLE, "modern") as client,
        ear.open(client, "modern"),
    ):
        assert await names_of(client) == ["read"]
        assert (await ask(url, "GET", "/api/tools", READERS)).json()["tools"] == [], (
            "what is blocked anywhere is blocked"
        )
        project.revoke()
        assert await names_with(client, ear, lambda names: not list(names)) == []
        assert "brought" not in stead.loaded.settings.profiles
        with pytest.raises(MCPError, match="unknown tool 'read'"):
            await client.call_tool("read", {})


def test_a_profile_that_is_not_there_is_wrong_usage_and_names_the_nearest(tmp_path: Path) -> None:
    for words in (["mcp", "--profile", "reader"], ["mcp", "--profile=reader", "--no-fast-path"]):
        done = subprocess.run(
            [*TOOLSTEAD, *words, "--set", "profiles.readers={}", "--project", str(tmp_path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr == "toolstead: the settings have no profile 'reader'; did you mean 'readers'?\n"


def test_the_token_of_a_profile_is_not_among_the_settings_that_are_shown(tmp_path: Path) -> None:
    shown = subprocess.run(
        [*TOOLSTEAD, "config", "explain", "profiles", "--set", f"profiles.readers.token={READERS}"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (shown.returncode, READERS in shown.stdout + shown.stderr) == (0, False)
    assert "profiles.readers.token" in shown.stdout


async def test_the_token_of_a_profile_is_masked_in_what_is_stored_of_requests(tmp_path: Path) -> None:
    async with working_team(tmp_path) as (_, url):
        prompt = {"prompt": f"say {READERS}2", "agent": "helper"}
        run = (await ask(url, "POST", "/api/runs", READERS + "2", prompt)).json()["runId"]
        await ask(url, "GET", f"/api/runs/{run}/events", READERS + "2")
        steps = await ask(url, "GET", f"/api/runs/{run}/steps", WHOLE)
        assert steps.json()["steps"]
        assert READERS not in steps.text


@pytest.mark.requires("models")
async def test_a_model_is_offered_only_what_the_profile_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_models("- say: hello\n") as api:
        for name, value in api.environ().items():
            monkeypatch.setenv(name, value)
        async with working_team(tmp_path) as (_, url):
            asked = {"prompt": "x", "agent": "helper", "runtime": "kernel", "model": "anthropic:claude-sonnet-5-5"}
            run = (await ask(url, "POST", "/api/runs", READERS + "2", asked)).json()["runId"]
            assert "event: completed" in (await ask(url, "GET", f"/api/runs/{run}/events", READERS + "2")).text
            [step] = (await ask(url, "GET", f"/api/runs/{run}/steps", WHOLE)).json()["steps"]
            assert step["request"]["tools"] == ["delegate_status", "read"]


async def _wake(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return await ctx.threads.send(input["thread"], "try both", wake=True)


async def test_a_run_that_a_plugin_wakes_in_a_thread_has_the_profile_of_the_one_before(tmp_path: Path) -> None:
    async with working_team(tmp_path) as (stead, url):
        stead.registry.register(Tool(name="wake", description="Wakes.", handler=_wake))
        asked = {"prompt": "try both", "agent": "helper"}
        first = (await ask(url, "POST", "/api/runs", READERS + "2", asked)).json()
        await ask(url, "GET", f"/api/runs/{first['runId']}/events", READERS + "2")
        woken = await ask(url, "POST", "/api/tools/wake/call", WHOLE, {"input": {"thread": first["threadId"]}})
        assert not woken.json()["isError"], woken.text
        store = (await stead.conversations()).store
        runs = await store.list_runs(thread_id=first["threadId"])
        assert [run.profile for run in runs] == ["few", "few"]
