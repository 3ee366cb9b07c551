"""Prompts, resources, completion and the server's identity, with real clients in every way."""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from tests.programs.clients import EVERY_WAY, Door, Ear, Era, connected, target_of, text_of
from tests.programs.running import TOOL_SERVER, ModernWire, Wire, running
from tests.programs.tool_server import ICON, MCP_SETTINGS

pytestmark = pytest.mark.promise("B13")

PROMPT = "---\ndescription: Reviews.\narguments:\n  path: {required: true}\n---\nReview {{path}}.\n"


def user_prompts() -> Path:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "toolstead" / "prompts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_every_client_lists_fetches_and_completes_what_is_offered(door: Door, era: Era, tmp_path: Path) -> None:
    (user_prompts() / "review.md").write_text(PROMPT)
    async with target_of(door, tmp_path) as target, connected(target, era) as client:
        assert client.instructions == f'{MCP_SETTINGS["instructions"]}\n\nSay "please" \U0001f600.'
        assert client.server_info.title == MCP_SETTINGS["title"]
        assert [icon.src for icon in client.server_info.icons or ()] == [ICON]

        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["parts__greet", "parts__crash", "review"]
        filled = await client.get_prompt("review", {"path": "a.py"})
        assert [message.content.text for message in filled.messages] == ["Review a.py."]
        kinds = [message.content.type for message in (await client.get_prompt("parts__greet", {"who": "x"})).messages]
        assert kinds == ["text", "image"]

        resources = (await client.list_resources()).resources
        assert [resource.uri for resource in resources] == ["test://note", "test://dots", "test://crash"]
        (dots,) = (await client.read_resource("test://dots")).contents
        assert b64decode(dots.blob) == bytes(range(256))
        templates = (await client.list_resource_templates()).resource_templates
        assert "test://notes/{year}/{name}" in [template.uri_template for template in templates]
        (note,) = (await client.read_resource("test://notes/2026/a%20b")).contents
        assert "'name': 'a b'" in note.text

        asked = mcp_types.PromptReference(type="ref/prompt", name="parts__greet")
        found = (await client.complete(asked, {"name": "who", "value": "an"})).completion
        assert found.values == ["ann", "anton"]
        found = (await client.complete(asked, {"name": "how", "value": "x"})).completion
        assert (len(found.values), found.total, found.has_more) == (100, 150, True)


@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_what_is_asked_for_wrongly_is_refused_with_what_would_be_right(
    door: Door, era: Era, tmp_path: Path
) -> None:
    async with target_of(door, tmp_path) as target, connected(target, era) as client:

        async def refusal(name: str, arguments: dict[str, str]) -> MCPError:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(name, arguments)
            return refused.value

        missing = await refusal("parts__greet", {"whom": "x"})
        assert missing.error.code == mcp_types.INVALID_PARAMS
        assert "'who' is needed: Whom." in str(missing)
        assert "there is no 'whom'; did you mean 'who'?" in str(missing)
        unknown = await refusal("parts__gret", {})
        assert unknown.error.code == mcp_types.INVALID_PARAMS
        assert "did you mean 'parts__greet'?" in str(unknown)
        assert "there is nobody to greet" in str(await refusal("parts__greet", {"who": "nobody"}))
        crash = await refusal("parts__crash", {})
        assert crash.error.code == mcp_types.INTERNAL_ERROR
        assert "not for clients" not in str(crash)
        with pytest.raises(MCPError, match="Resource not found: nope:x") as gone:
            await client.read_resource("nope:x")
        assert gone.value.error.code == (mcp_types.INVALID_PARAMS if era == "modern" else -32002)


@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_a_result_that_was_cut_is_read_whole_by_the_address_that_the_model_was_shown(
    door: Door, era: Era, tmp_path: Path
) -> None:
    async with target_of(door, tmp_path) as target, connected(target, era) as client:
        shown = text_of(await client.call_tool("repeat", {"text": "0123456789", "times": 30_000}))
        address = shown.rpartition(" kept as ")[2].removesuffix("]")
        assert address.startswith("toolstead://results/res_")
        whole, following = "", address
        while following:
            first, *note = (await client.read_resource(following)).contents
            assert len(first.text) <= 65_536
            whole += first.text
            following = note[0].uri if note else ""
            assert not note or note[0].text.endswith(f"read on at {following}]")
        assert whole == "0123456789" * 30_000


@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_clients_hear_of_a_prompt_that_came(door: Door, era: Era, tmp_path: Path) -> None:
    ear = PromptEar()
    async with target_of(door, tmp_path) as target, connected(target, era, message_handler=ear.message) as client:
        before = [prompt.name for prompt in (await client.list_prompts()).prompts]
        async with ear.open(client, era):
            (user_prompts() / "late.md").write_text("Be late.")
            await ear.next()
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [*before, "late"]


class PromptEar(Ear):
    """Hears of changed prompts."""

    listens = "prompts_list_changed"
    notification = mcp_types.PromptListChangedNotification


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_on_stdio_the_notices_of_several_lists_are_each_told_once(era: Era, tmp_path: Path) -> None:
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = ModernWire(program) if era == "modern" else Wire(program)
        if era == "handshake":
            await wire.shake_hands()
        await wire.request(1, "prompts/list", wire.params({}))
        if era == "modern":
            wanted = {"toolsListChanged": True, "promptsListChanged": True}
            params = wire.params({"notifications": wanted})
            await wire.say({"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": params})
            assert (await wire.hear())["method"] == "notifications/subscriptions/acknowledged"
        await wire.call(2, "grow", {"name": "grown"})
        (user_prompts() / "late.md").write_text("Be late.")
        methods = {message["method"] for message in wire.heard if "method" in message}
        while len(methods) < 2:
            methods.add((await wire.hear())["method"])
        assert methods == {"notifications/tools/list_changed", "notifications/prompts/list_changed"}
