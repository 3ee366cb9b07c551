"""The stead in Python: the registry's operations, calls, events, and what every door shares."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolstead import Deny, Tool, ToolMeta, Toolstead, ToolsteadError, UnknownToolError, tool
from toolstead.errors import DefinitionError, DuplicateToolError, SettingsError
from toolstead.testing import connect, memory_stead

FOR_AGENTS = ["delegate_status", "spawn_agent", "signal_parent", "delegation__delegate", "delegation__checkin"]
BUILTIN = ["git-status", "git-diff-summary", "workspace-info", "file-reader", *FOR_AGENTS]
BUILTIN += ["update_plan", "time__current_time"]
BUILTIN += ["vfs_read", "vfs_write", "vfs_edit", "vfs_list", "vfs_delete"]
BUILTIN += ["web_fetch"]


@tool
async def shout(text: str, times: int = 1) -> str:
    """Say it louder.

    Args:
        text: What to say.
        times: How often.
    """
    return " ".join([text.upper()] * times)


@pytest.mark.promise("R3")
async def test_the_documents_operations_answer_about_what_is_registered() -> None:
    async with memory_stead(shout) as stead:
        registry = stead.registry
        assert [info.name for info in registry.list_tools()] == [*BUILTIN, "shout"]
        info = registry.get_tool_info("shout")
        assert info is not None
        assert (info.provenance.source, info.provenance.plugin_name) == ("plugin", "python")
        assert info.to_json() == {
            "name": "shout",
            "description": "Say it louder.",
            "source": "plugin",
            "pluginName": "python",
            "origin": __name__,
            "inputSchema": info.input_schema,
        }
        assert registry.get_tool_info("nothing") is None
        assert (registry.has_tool("shout"), registry.has_tool("nothing")) == (True, False)
        assert registry.get_tool_count() == len(BUILTIN) + 1
        assert registry.get_allowed_tool_names()[-1] == "mcp__toolstead__shout"
        reloaded = await registry.reload_plugins()
        assert (reloaded.success, reloaded.tool_count, reloaded.errors) == (True, len(BUILTIN) + 1, ())


@pytest.mark.promise("K1")
async def test_tools_are_registered_got_and_unregistered_while_the_stead_runs() -> None:
    async with memory_stead() as stead:
        stead.registry.register(shout)
        assert stead.registry.get("shout") is shout
        assert stead.registry.get_all()[-1] is shout
        with pytest.raises(DuplicateToolError, match="already held by plugin python"):
            stead.registry.register(shout)
        stead.registry.unregister("shout")
        assert stead.registry.get("shout") is None
        with pytest.raises(UnknownToolError):
            stead.registry.unregister("git-status")


@pytest.mark.promise("R3")
async def test_nothing_shadows_a_built_in() -> None:
    async with memory_stead() as stead:
        taken = Tool(name="git-status", description="Mine.", handler=shout.handler)
        with pytest.raises(DuplicateToolError, match="already held by builtin"):
            stead.registry.register(taken)


@pytest.mark.promise("K1")
@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
async def test_one_registry_gives_definitions_for_every_providers_api(provider: str) -> None:
    async with memory_stead(shout) as stead:
        definition = stead.registry.to_tool_definitions(provider)[-1]
        info = stead.registry.get_tool_info("shout")
        assert info is not None
        key = {"anthropic": "input_schema", "openai": "parameters", "gemini": "parametersJsonSchema"}[provider]
        assert (definition["name"], definition["description"]) == ("shout", "Say it louder.")
        seen = dict(info.input_schema)
        if provider == "gemini":  # knows no `default`: it is told in words
            times = {"type": "integer", "description": "How often. Default: 1."}
            seen["properties"] = {**seen["properties"], "times": times}
        assert definition[key] == seen
        with pytest.raises(ToolsteadError, match="one of anthropic, openai, gemini"):
            stead.registry.to_tool_definitions("mistral")


@pytest.mark.promise("K1")
async def test_simple_parameters_are_a_schema_for_the_caller() -> None:
    async def handler(ctx: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        return input["text"]

    simple = Tool(
        name="simple", description="Simple.", parameters={"text": {"type": "string", "required": True}}, handler=handler
    )
    async with memory_stead(simple) as stead:
        assert (await stead.call("simple", {"text": "hi"})).text == "hi"
        assert '"text" is missing' in (await stead.call("simple", {})).text


@pytest.mark.promise("R3")
async def test_every_mcp_server_configuration_is_a_fresh_server_with_its_own_thread() -> None:
    @tool
    async def where(meta: ToolMeta) -> str:
        """Tell the thread."""
        return meta.thread_id

    async with memory_stead(where) as stead:
        one, two = stead.registry.to_mcp_server_config("t1"), stead.registry.to_mcp_server_config()
        assert (one["type"], one["name"]) == ("sdk", "toolstead")
        assert one["instance"] is not two["instance"]
        from toolstead.adapters.mcp.in_process import in_process_client

        for config, thread in ((one, "t1"), (two, "default")):
            async with in_process_client(config["instance"], "handshake") as client:
                answer = await client.call_tool("where", {})
                assert answer.content[0].text == thread  # pyright: ignore[reportAttributeAccessIssue] - it is text


@pytest.mark.promise("R3")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_real_client_of_either_era_calls_and_is_refused_like_everybody(era: Any) -> None:
    async with memory_stead(shout) as stead, connect(stead, protocol=era) as client:
        listed = (await client.list_tools()).tools
        for_clients = [name for name in BUILTIN if name not in FOR_AGENTS]
        assert [listed_tool.name for listed_tool in listed] == [*for_clients, "shout"]
        good = await client.call_tool("shout", {"text": "hi", "times": 2})
        assert (good.is_error, good.content[0].text) == (False, "HI HI")  # pyright: ignore[reportAttributeAccessIssue] - it is text
        bad = await client.call_tool("shout", {"text": 5})
        assert bad.is_error


@pytest.mark.promise("S2")
async def test_a_failure_through_any_door_is_an_event_and_a_good_call_is_told_to_who_listens() -> None:
    async with memory_stead(shout) as stead, connect(stead) as client:
        with stead.events(["tool_use", "tool_result"]) as events:
            await stead.call("shout", {"text": "a"}, thread_id="mine")
            await client.call_tool("shout", {"text": 5})
            told = [await asyncio.wait_for(anext(events), 5) for _ in range(4)]
    assert [(event.type, event.thread_id, event.data.get("isError")) for event in told] == [
        ("tool_use", "mine", None),
        ("tool_result", "mine", False),
        ("tool_use", "default", None),
        ("tool_result", "default", True),
    ]


async def test_every_change_is_told_with_what_was_added_and_removed() -> None:
    async with memory_stead() as stead:
        with stead.events(["tools.changed"]) as events:
            stead.registry.register(shout)
            stead.registry.unregister("shout")
            added, removed = [await asyncio.wait_for(anext(events), 5) for _ in range(2)]
    assert added.data["added"] == ["shout"]
    assert removed.data["removed"] == ["shout"]
    assert removed.data["generation"] == added.data["generation"] + 1


@pytest.mark.promise("T1")
async def test_what_is_blocked_is_not_listed_and_cannot_be_called_through_any_door() -> None:
    async with memory_stead(
        shout,
        settings={
            "tools": {
                "blocked": ["sh*", "git-*", "update_plan", "time__*", "vfs_*", "web_*", "deleg*", "spawn*", "signal*"]
            }
        },
    ) as stead:
        assert [info.name for info in stead.registry.list_tools()] == ["workspace-info", "file-reader"]
        assert not stead.registry.has_tool("shout")
        assert "mcp__toolstead__shout" not in stead.registry.get_allowed_tool_names()
        defined = stead.registry.to_tool_definitions("openai")
        assert [entry["name"] for entry in defined] == ["workspace-info", "file-reader"]
        with pytest.raises(UnknownToolError):
            await stead.call("shout", {"text": "x"})
        for era in ("handshake", "modern"):
            async with connect(stead, protocol=era) as client:
                assert "shout" not in [entry.name for entry in (await client.list_tools()).tools]
                with pytest.raises(Exception, match="unknown tool 'shout'"):
                    await client.call_tool("shout", {"text": "x"})


@pytest.mark.promise("T1")
async def test_a_switch_thrown_by_another_process_takes_a_tool_away_from_a_running_stead() -> None:
    from toolstead.app.state import Switches

    async with memory_stead() as stead:
        other = Switches(stead.places.data)
        with stead.events(["tools.changed"]) as events:
            other.set_tool_enabled("git-status", enabled=False)
            off = await asyncio.wait_for(anext(events), 10)
            assert off.data["removed"] == ["git-status"]
            assert not stead.registry.has_tool("git-status")
            other.set_tool_enabled("git-status", enabled=True)
            on = await asyncio.wait_for(anext(events), 10)
            assert on.data["added"] == ["git-status"]


async def test_gates_stand_before_every_call_of_the_stead() -> None:
    async def no_readme(call: Any) -> Deny | None:
        return Deny("not that one") if call.input.get("path") == "README.md" else None

    async with memory_stead(gates=[no_readme]) as stead:
        (stead.places.project / "README.md").write_text("x")
        (stead.places.project / "other.md").write_text("y")
        assert (await stead.call("file-reader", {"path": "README.md"})).text == "file-reader was refused: not that one"
        assert (await stead.call("file-reader", {"path": "other.md"})).text == "y"


@pytest.mark.promise("B3")
async def test_settings_given_in_python_are_checked_and_explained() -> None:
    with pytest.raises(SettingsError, match=r"tools\.timeout"):
        Toolstead(settings={"tools": {"tmeout": 1}})
    async with memory_stead(settings={"tools": {"timeout": 3}}) as stead:
        (timeout,) = [entry for entry in stead.loaded.explain_values() if entry.key == "tools.timeout"]
        assert (timeout.value, timeout.origin) == (3, "Toolstead(settings=…)")


async def test_a_stead_that_is_not_open_says_so(tmp_path: Path) -> None:
    stead = Toolstead(tmp_path)
    with pytest.raises(ToolsteadError, match="not open"):
        await stead.call("git-status")
    async with stead:
        assert stead.registry.get_tool_count() == len(BUILTIN)
        with pytest.raises(ToolsteadError, match="open already"):
            await stead.__aenter__()
    with pytest.raises(ToolsteadError, match="not open"):
        await stead.call("git-status")


async def test_a_stead_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with memory_stead(shout) as stead, connect(stead) as client:
        await client.call_tool("shout", {"text": "x"})
    assert asyncio.all_tasks() == before


async def test_a_bad_tool_is_refused_whole_with_its_field() -> None:
    async with memory_stead() as stead:
        bad = Tool(name="bad name", description="x", handler=shout.handler)
        with pytest.raises(DefinitionError, match="only letters, digits"):
            stead.registry.register(shout, bad)
        assert not stead.registry.has_tool("shout")


async def test_a_test_client_of_a_protocol_that_does_not_exist_is_refused_with_the_choices() -> None:
    async with memory_stead() as stead:
        with pytest.raises(ValueError, match="protocol='x' is unknown; choose 'handshake' or 'modern'"):
            connect(stead, protocol="x")  # pyright: ignore[reportArgumentType] - wrong on purpose
