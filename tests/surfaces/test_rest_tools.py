"""The tool routes: what they answer, for good and for bad."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.surfaces.rest_server import SAY, Live, running, tool
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.generation import Visibility
from toolstead.tools.sources import Offer, Offers
from toolstead.types.content import Audio, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Problem, Provenance, Source

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"


async def fits(live: Live, shape: str, value: Any) -> bool:
    """Whether a value has the shape that the documentation shows."""
    schema = {"$ref": f"#/components/schemas/{shape}", "components": (await live.document())["components"]}
    validator = jsonschema_rs.validator_for(schema)
    assert not [error.message for error in validator.iter_errors(value)]
    return True


class Shelf:
    """A source whose tools a test puts in and takes out."""

    name = "shelf"

    def __init__(self) -> None:
        self.offers: list[Offer] = []
        self.problems: list[Problem] = []

    def put(self, tool: Tool, source: Source = "plugin", origin: str = "shelf.py", **more: Any) -> None:
        provenance = Provenance(source=source, origin=origin, **more)
        self.offers.append(Offer(tool=tool, provenance=provenance, context=PluginContext(name="shelf")))

    async def load(self) -> Offers:
        return Offers(tools=tuple(self.offers), problems=tuple(self.problems))


def named(name: str) -> Tool:
    async def answer(_: dict[str, Any]) -> str:
        return name

    return tool(name, answer)


@pytest.mark.promise("R5")
async def test_the_list_shows_every_tool_with_its_source_and_the_counts_by_source() -> None:
    shelf = Shelf()
    shelf.put(named("built"), "builtin", "toolstead.tools.builtin")
    shelf.put(named("filed"), "plugin", "tools/filed.json", plugin_name="filed")
    shelf.put(named("asked"), "agent", "agents/a.md", agent_name="a")
    shelf.put(named("far"), "mcp", "https://example.org/mcp")
    shelf.problems.append(Problem(source="tools/bad.json", message="no name", tool_name="x", line=3, column=7))
    async with running(SAY, sources=[shelf]) as live:
        reply = await live.get("/api/tools")
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        listed = reply.json
        assert await fits(live, "ToolList", listed)
        assert [entry["name"] for entry in listed["tools"]] == ["built", "filed", "asked", "far", "say"]
        assert listed["counts"] == {"total": 5, "builtin": 1, "plugin": 2, "agent": 1, "mcp": 1}
        assert listed["generation"] == live.registry.current.number
        filed = listed["tools"][1]
        assert (filed["source"], filed["pluginName"], filed["origin"]) == ("plugin", "filed", "tools/filed.json")
        assert listed["tools"][2]["agentName"] == "a"
        assert listed["tools"][4]["inputSchema"]["properties"] == {"text": {"type": "string"}}
        aside = {"source": "tools/bad.json", "message": "no name", "toolName": "x", "line": 3, "column": 7}
        assert listed["quarantined"] == [aside]


@pytest.mark.promise("R5")
async def test_the_list_follows_the_registry() -> None:
    async with running(SAY) as live:
        before = (await live.get("/api/tools")).json
        live.registry.register(named("fresh"))
        after = (await live.get("/api/tools")).json
        assert [entry["name"] for entry in after["tools"]] == ["say", "fresh"]
        assert after["generation"] == before["generation"] + 1


@pytest.mark.promise("R5")
async def test_one_tool_is_shown_as_in_the_list_and_an_unknown_one_is_not_found() -> None:
    async with running(SAY) as live:
        shown = await live.get("/api/tools/say")
        assert shown.status == 200
        assert await fits(live, "Tool", shown.json)
        assert shown.json == (await live.get("/api/tools")).json["tools"][0]
        missing = await live.get("/api/tools/sya")
        assert missing.status == 404
        assert missing.problem["type"] == "/docs#unknown-tool"
        assert "did you mean 'say'?" in missing.problem["detail"]
        assert missing.problem["nearest"] == ["say"]
        assert missing.problem["instance"] == "/api/tools/sya"


@pytest.mark.promise("R5")
async def test_a_reload_says_what_was_added_changed_and_removed_and_what_was_set_aside() -> None:
    shelf = Shelf()
    shelf.put(named("stays"))
    shelf.put(named("goes"))
    shelf.put(named("changes"))
    async with running(sources=[shelf]) as live:
        shelf.offers = shelf.offers[:1]
        shelf.put(named("changes"))
        shelf.put(named("comes"))
        reply = await live.ask("POST", "/api/tools/reload")
        assert reply.status == 200
        assert await fits(live, "Reload", reply.json)
        assert reply.json == {
            "success": True,
            "toolCount": 3,
            "errors": [],
            "added": ["comes"],
            "removed": ["goes"],
            "changed": ["changes"],
        }
        shelf.problems.append(Problem(source="bad.json", message="no JSON", line=1))
        again = (await live.ask("POST", "/api/tools/reload", {})).json
        assert again["success"] is False
        assert again["errors"] == [{"source": "bad.json", "message": "no JSON", "line": 1}]


async def test_a_call_answers_with_the_text_and_how_long_it_took() -> None:
    async with running(SAY) as live:
        reply = await live.call("say", {"text": "grüß 😀"})
        assert reply.status == 200
        assert await fits(live, "CallResult", reply.json)
        assert reply.json["content"] == [{"type": "text", "text": "grüß 😀"}]
        assert reply.json["isError"] is False
        assert reply.json["durationMs"] >= 0
        assert "structuredContent" not in reply.json


@pytest.mark.parametrize("body", [None, {}, {"input": None}, {"input": {}}, {"threadId": None}])
async def test_absent_and_null_input_is_an_empty_object(body: Any) -> None:
    async with running(SAY) as live:
        reply = await live.ask("POST", "/api/tools/say/call", body)
        assert (reply.status, reply.json["content"][0]["text"]) == (200, "nothing")


@pytest.mark.parametrize("given", [[], "text", 1, True, 1.5])
async def test_input_that_is_no_object_is_422(given: Any) -> None:
    async with running(SAY) as live:
        reply = await live.call("say", given)
        assert reply.status == 422
        assert reply.problem["detail"].startswith("/input: expected `object | null`")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"inputs": {}}, "did you mean 'input'?"),
        ({"zzz": 1}, "the body may have 'input' and 'threadId'"),
        ({"threadId": 5}, "/threadId: expected `str | null`"),
        ({"threadId": ""}, "/threadId: "),
        ({"threadId": "a\nb"}, "/threadId: "),
        ({"threadId": "x" * 201}, "/threadId: "),
        ([1], "The body: expected `object`"),
    ],
)
async def test_a_body_of_another_shape_is_422_and_says_what_would_be_right(body: Any, detail: str) -> None:
    async with running(SAY) as live:
        reply = await live.ask("POST", "/api/tools/say/call", body)
        assert reply.status == 422
        assert detail in reply.problem["detail"]


@pytest.mark.promise("S2")
async def test_arguments_that_do_not_fit_are_an_answer_a_model_can_read_a_log_line_and_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(SAY) as live:
        reply = await live.call("say", {"text": 5}, threadId="t7")
        assert reply.status == 200
        assert await fits(live, "CallResult", reply.json)
        assert reply.json["isError"] is True
        assert "/text: expected string, got number 5" in reply.json["content"][0]["text"]
        assert "say failed (invalid_arguments) in thread t7" in caplog.text
        (event,) = live.events.recent_events
        assert (event.type, event.thread_id, event.data["isError"]) == ("tool_result", "t7", True)


@pytest.mark.parametrize("hidden", [False, True])
async def test_calling_an_unknown_or_a_blocked_tool_is_404_with_the_nearest_name(hidden: bool) -> None:
    visibility = Visibility(blocked=("secret",)) if hidden else None
    async with running(SAY, *([named("secret")] if hidden else []), visibility=visibility) as live:
        reply = await live.call("secret" if hidden else "sai")
        assert reply.status == 404
        assert reply.problem["type"] == "/docs#unknown-tool"
        assert ("'say'" in reply.problem["detail"]) is not hidden
        assert live.events.recent_events[-1].data["isError"] is True


async def test_every_kind_of_content_has_mcps_shape() -> None:
    async def all_kinds(_: dict[str, Any]) -> ToolResult:
        return ToolResult(
            content=[
                Text("hello"),
                Image(data=PNG, mime_type="image/png"),
                Audio(data=PNG, mime_type="audio/wav"),
                ResourceLink(uri="file:///a", name="a", description="an a", mime_type="text/plain"),
                ResourceLink(uri="file:///b", name="b"),
                EmbeddedResource(uri="file:///c", content="text", mime_type="text/plain"),
                EmbeddedResource(uri="file:///d", content=PNG),
            ],
            structured={"list": [1, 2.5, None, True], "text": "ü"},
        )

    async with running(tool("all", all_kinds)) as live:
        answer = (await live.call("all")).json
        assert await fits(live, "CallResult", answer)
        data = base64.b64encode(PNG).decode()
        assert answer["content"] == [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "audio", "data": data, "mimeType": "audio/wav"},
            {
                "type": "resource_link",
                "uri": "file:///a",
                "name": "a",
                "description": "an a",
                "mimeType": "text/plain",
            },
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
            {"type": "resource", "resource": {"uri": "file:///c", "mimeType": "text/plain", "text": "text"}},
            {"type": "resource", "resource": {"uri": "file:///d", "blob": data}},
        ]
        assert answer["structuredContent"] == {"list": [1, 2.5, None, True], "text": "ü"}


async def test_half_characters_and_subclasses_in_an_answer_do_not_break_it() -> None:
    class Count(int):
        pass

    async def odd(_: dict[str, Any]) -> ToolResult:
        return ToolResult(content=[Text("half \ud800 of it")], structured={"a": Count(1), "b": "\udfff"})

    async with running(tool("odd", odd)) as live:
        answer = (await live.call("odd")).json
        assert answer["content"][0]["text"] == "half ? of it"
        assert answer["structuredContent"] == {"a": 1, "b": "?"}


async def test_the_handler_is_told_the_thread_of_its_own_call() -> None:
    async def whose(_: PluginContext, __: dict[str, Any], meta: ToolMeta) -> str:
        return meta.thread_id

    async with running(Tool(name="whose", description="Whose call is it?", handler=whose)) as live:
        assert (await live.call("whose", threadId="t1")).json["content"][0]["text"] == "t1"
        assert (await live.call("whose")).json["content"][0]["text"] == "default"


async def test_of_two_members_with_one_name_the_last_counts() -> None:
    async with running(SAY) as live:
        reply = await live.ask("POST", "/api/tools/say/call", b'{"input":{"text":"a","text":"b"}}')
        assert reply.json["content"][0]["text"] == "b"


async def test_numbers_beyond_64_bits_arrive_as_they_are() -> None:
    async def plus_one(input: dict[str, Any]) -> dict[str, Any]:
        return {"n": input["n"] + 1}

    async with running(tool("plus", plus_one)) as live:
        assert (await live.call("plus", {"n": 2**70})).json["structuredContent"] == {"n": 2**70 + 1}


async def test_health_says_version_and_generation_and_that_nothing_can_be_invoked_here() -> None:
    async with running(SAY) as live:
        reply = await live.get("/api/health")
        assert await fits(live, "Health", reply.json)
        sessions = dict.fromkeys(("idle", "live", "hits", "misses", "rebuilt", "evicted"), 0)
        assert reply.json == {
            "status": "ok",
            "version": "1.2.3",
            "generation": live.registry.current.number,
            "runtime": None,
            "runtimeReason": "this server runs no agents",
            "agent": "",
            "model": "",
            "sessions": sessions,
        }


async def test_head_has_the_length_of_get_and_no_body() -> None:
    async with running(SAY) as live:
        whole, head = await live.get("/api/tools"), await live.ask("HEAD", "/api/tools")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/api/tools", "GET, HEAD, OPTIONS"),
        ("/api/tools/say", "GET, HEAD, OPTIONS"),
        ("/api/tools/say/call", "POST, OPTIONS"),
        ("/api/tools/reload", "GET, HEAD, POST, OPTIONS"),
    ],
)
async def test_options_and_405_list_the_methods_of_a_route(path: str, allow: str) -> None:
    async with running(SAY) as live:
        options = await live.ask("OPTIONS", path)
        assert (options.status, options.headers["allow"], options.body) == (204, allow, b"")
        assert "content-length" not in options.headers
        wrong = await live.ask("DELETE", path)
        assert (wrong.status, wrong.headers["allow"]) == (405, allow)
        assert wrong.problem["detail"].startswith("DELETE is not allowed here")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/tool", "did you mean /api/tools?"),
        ("/api/tools/", "did you mean /api/tools?"),
        ("/nowhere/at/all", "/docs lists every route"),
        ("/api/tools/a%2Fb/call", "did you mean"),
        ("/mcp", "/docs lists every route"),
    ],
)
async def test_an_unknown_path_is_404_and_says_where_to_look(path: str, hint: str) -> None:
    async with running(SAY) as live:
        reply = await live.get(path)
        assert reply.status == 404
        assert reply.problem["type"] == "/docs#not-found"
        assert hint in reply.problem["detail"]


async def test_a_tool_may_be_called_reload() -> None:
    async with running(named("reload")) as live:
        assert (await live.get("/api/tools/reload")).json["name"] == "reload"
        assert (await live.call("reload")).json["content"][0]["text"] == "reload"


async def test_a_very_long_name_and_path_are_answered_shortly() -> None:
    async with running(SAY) as live:
        reply = await live.call("x" * 20_000)
        assert reply.status == 404
        assert len(reply.body) < 2_000


async def test_bodies_are_json_that_any_parser_reads(tmp_path: Path) -> None:
    async with running(SAY) as live:
        reply = await live.call("say", {"text": '"\\\u2028</script>\x00'})
        assert json.loads(reply.body.decode("utf-8"))["content"][0]["text"] == '"\\\u2028</script>\x00'
