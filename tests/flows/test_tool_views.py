"""Two agents with different views of the tools in one process: each sees and calls its own, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.agent_folder import write_agent
from tests.flows.tool_files import shell, write
from tests.unit.kernel.scripted_model import ScriptedModel, calls, says, use
from toolstead import Toolstead, UnknownToolError
from toolstead.adapters.mcp.in_process import in_process_client
from toolstead.errors import ToolsteadError, UnknownAgentError
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.decorator import tool
from toolstead.testing import memory_stead
from toolstead.tools.definition import define_tool
from toolstead.tools.generation import ViewRule, Visibility
from toolstead.types.call import Caller
from toolstead.types.tool import Provenance

READER, WRITER = Caller(agent_id="reader"), Caller(agent_id="writer")


@tool(name="note-read")
async def note_read() -> str:
    """Read the note."""
    return "the note"


@tool(name="note-write")
async def note_write() -> str:
    """Write the note."""
    return "written"


@tool(name="summarize")
async def summarize() -> str:
    """Say the note in one word."""
    return "short"


RULES = {
    "reader": ViewRule(
        visibility=(Visibility(allowed=["note-read"]),),
        own={
            "summarize": define_tool(
                summarize, Provenance(source="agent", origin="reader.md"), PluginContext(name="reader")
            )
        },
    ),
    "writer": ViewRule(visibility=(Visibility(allowed=["note-*"], blocked=["note-read"]),)),
}


@asynccontextmanager
async def two_agents() -> AsyncIterator[Toolstead]:
    async with memory_stead(note_read, note_write) as stead:
        stead._parts.registry.set_view_rules(RULES)
        yield stead


def names(listed: Any) -> list[str]:
    return [one["name"] if isinstance(one, dict) else one.name for one in listed]


async def called(stead: Toolstead, name: str, caller: Caller) -> str:
    return (await stead._parts.dispatcher.call(name, {}, caller)).text


async def test_each_agent_calls_what_it_sees_and_is_told_the_nearest_name_of_its_own_view() -> None:
    async with two_agents() as stead:
        assert await called(stead, "note-read", READER) == "the note"
        assert await called(stead, "summarize", READER) == "short"
        assert await called(stead, "note-write", WRITER) == "written"
        with pytest.raises(UnknownToolError) as refused:
            await called(stead, "note-write", READER)
        assert refused.value.nearest == ("note-read",)
        for name, caller in [("note-read", WRITER), ("summarize", WRITER), ("git-status", READER)]:
            with pytest.raises(UnknownToolError):
                await called(stead, name, caller)


async def test_who_has_no_rule_sees_and_calls_what_everybody_does() -> None:
    async with two_agents() as stead:
        assert stead._parts.registry.find_view("somebody") is stead._parts.registry.current
        assert await called(stead, "note-write", Caller(agent_id="somebody")) == "written"
        assert (await stead.call("note-read")).text == "the note"
        with pytest.raises(UnknownToolError):
            await stead.call("summarize")


async def test_every_way_to_list_the_tools_shows_an_agent_its_view() -> None:
    async with two_agents() as stead:
        reader, writer = (stead.registry.for_agent(name) for name in ("reader", "writer"))
        assert names(reader.list_tools()) == ["note-read", "summarize"]
        assert names(writer.list_tools()) == ["note-write"]
        assert (reader.has_tool("note-write"), reader.get_tool_count()) == (False, 2)
        assert names(reader.to_tool_definitions("anthropic")) == ["note-read", "summarize"]
        assert writer.get_allowed_tool_names() == ["mcp__toolstead__note-write"]
        assert {"note-read", "note-write", "git-status"} <= set(names(stead.registry.list_tools()))


async def test_the_view_of_an_agent_is_refused_before_its_file_is_read_and_when_there_is_none(tmp_path: Path) -> None:
    write_agent("careful", "tools: [git-status]", home=tmp_path / "home")
    async with Toolstead(tmp_path, environ={"TOOLSTEAD_HOME": str(tmp_path / "home")}, watch=False) as stead:
        with pytest.raises(ToolsteadError, match=r"await stead.agents\(\)"):
            stead.registry.for_agent("careful")
        await stead.agents()
        assert names(stead.registry.for_agent("careful").list_tools()) == ["git-status"]
        assert "file-reader" in names(stead.registry.for_agent("main").list_tools())
        with pytest.raises(UnknownAgentError, match="did you mean 'careful'"):
            stead.registry.for_agent("carefull")


async def test_the_mcp_server_of_an_agent_lists_and_calls_its_view_alone() -> None:
    async with two_agents() as stead:
        server = stead.registry.for_agent("writer").to_mcp_server_config()["instance"]
        async with in_process_client(server, "handshake") as client:
            assert names((await client.list_tools()).tools) == ["note-write"]
            assert (await client.call_tool("note-write", {})).content[0].text == "written"  # type: ignore[union-attr] - it is text
            with pytest.raises(MCPError, match="unknown tool 'note-read'"):
                await client.call_tool("note-read", {})


async def test_a_client_learns_why_a_bad_tool_is_not_in_use_and_an_agent_that_may_not_see_it_does_not(
    tmp_path: Path,
) -> None:
    write(tmp_path / "mine.json", shell("list-todos", "ls {{patern}}", "pattern"), shell("hidden", "ls {{x}}"))
    settings = {"tools": {"blocked": ["hidden"]}}
    async with Toolstead(tmp_path, tools_dir=tmp_path, settings=settings, environ={}, watch=False) as stead:
        stead._parts.registry.set_view_rules(RULES)
        bad = r"^list-todos is not offered: mine\.json:\d+:\d+: .*did you mean 'pattern'\?$"
        with pytest.raises(UnknownToolError, match=bad):
            await stead.call("list-todos", {"pattern": "x"})
        async with in_process_client(stead.registry.to_mcp_server_config()["instance"], "handshake") as client:
            with pytest.raises(MCPError, match=bad):
                await client.call_tool("list-todos", {"pattern": "x"})
        with pytest.raises(UnknownToolError, match=r"^unknown tool 'list-todos'"):
            await called(stead, "list-todos", READER)
        with pytest.raises(UnknownToolError, match=r"^unknown tool 'hidden'"):
            await stead.call("hidden", {})


async def test_a_view_follows_the_tools_and_what_is_switched_off_for_everybody_is_off_for_agents() -> None:
    async with two_agents() as stead:
        view = stead._parts.registry.find_view("writer")
        assert stead._parts.registry.find_view("writer") is view
        stead.registry.unregister("note-write")
        assert stead._parts.registry.find_view("writer").names == ()
        stead.registry.register(note_write)
        stead._parts.registry.apply_switches(frozenset({"note-read"}))
        assert stead._parts.registry.find_view("reader").names == ("summarize",)


async def test_a_changed_rule_leaves_other_views_alone_and_a_child_whose_rule_is_gone_sees_nothing() -> None:
    async with two_agents() as stead:
        registry = stead._parts.registry
        registry.change_view_rules({"reader/child": RULES["reader"]})
        reader, child = registry.find_view("reader"), registry.find_view("reader/child")
        assert child.names == ("note-read", "summarize")
        registry.change_view_rules({"writer": RULES["reader"]}, gone=["reader/child"])
        assert registry.find_view("reader") is reader
        assert registry.find_view("writer").names == child.names
        assert registry.find_view("reader/child").names == ()
        assert registry.find_view("reader/child", may_spawn=False).names == ()
        with pytest.raises(UnknownToolError):
            await called(stead, "note-read", Caller(agent_id="reader/child"))
        assert {"note-read", "note-write"} <= set(registry.find_view("somebody").names)


async def test_a_tool_of_an_agents_own_takes_no_name_that_the_registry_holds() -> None:
    @tool(name="summarize")
    async def everybodys() -> str:
        """Say the note for everybody."""
        return "long"

    async with two_agents() as stead:
        stead.registry.register(everybodys)
        assert stead._parts.registry.find_view("reader").names == ("note-read",)
        assert await called(stead, "summarize", Caller(agent_id="somebody")) == "long"


@pytest.mark.parametrize(("runtime", "word"), [("kernel", "there is no"), ("scripted", "unknown")])
async def test_a_model_that_calls_a_tool_it_was_not_offered_is_told_that_there_is_none(
    runtime: str, word: str, tmp_path: Path
) -> None:
    (tmp_path / "script.yaml").write_text(
        "- when: write\n  call: [{tool: note-write, input: {}}]\n- say: '{{result}}'\n"
    )
    write_agent("reader", "tools: [note-read, {name: summarize, description: D., prompt: P.}]", home=tmp_path / "home")
    write_agent("writer", "tools: ['note-*']\ndisallowed_tools: [note-read]", home=tmp_path / "home")
    settings = {"runtime": {"scripted": {"script": "script.yaml"}}}
    async with Toolstead(
        tmp_path, settings=settings, environ={"TOOLSTEAD_HOME": str(tmp_path / "home")}, watch=False
    ) as stead:
        stead.registry.register(note_read, note_write)
        model = ScriptedModel(
            calls(use("note-write")), says("done"), calls(use("note-write")), says("done"), name="scripted:one"
        )
        conversations: Any = await stead.conversations()
        runtimes = conversations.agents.runtimes

        async def connected(_: str) -> ScriptedModel:
            return model

        kernel = KernelRuntime(connect=connected, resolve=lambda _: model.name, offered=runtimes._offered)
        runtimes._made["kernel"], runtimes._given = kernel, (*runtimes._given, kernel)
        told: dict[str, str] = {}
        for agent in ("reader", "writer"):
            with stead.events(["tool_result"]) as stream:
                run = await stead.invoke("write", agent=agent, runtime=runtime)
                assert run.status == "completed", run.error
                told[agent] = (await anext(aiter(stream))).data["content"]
        assert told == {"reader": f"{word} tool 'note-write'; did you mean 'note-read'?", "writer": "written"}
        if runtime == "kernel":
            offered = [[info.name for info in request.tools] for request in model.requests]
            assert offered == [["note-read", "summarize"]] * 2 + [["note-write"]] * 2
