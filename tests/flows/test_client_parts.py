"""What MCP clients are offered besides tools: who brings it, who may read it, and what bounds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from tests.waiting import until
from toolstead import Plugin, PluginContext, Prompt, Tool, ToolMeta, Toolstead
from toolstead.app.client_parts import ClientParts
from toolstead.app.places import find_places
from toolstead.app.resource_files import LARGEST_FILE
from toolstead.app.trust.approved import ProjectTrust, approve_changes
from toolstead.errors import PluginError
from toolstead.plugins import client_calls
from toolstead.plugins.contract import Resource
from toolstead.testing import connect

pytestmark = pytest.mark.promise("B13")


async def say(ctx: PluginContext, arguments: dict[str, str]) -> str:
    return "said"


async def read(ctx: PluginContext, variables: Any) -> str:
    return "read"


def stead_in(folder: Path, **more: Any) -> Toolstead:
    settings = {"tools": {"max_output": 2_000}, "mcp": more.pop("mcp", {})}
    environ = {"TOOLSTEAD_HOME": str(folder / "home")}
    (folder / "project").mkdir(exist_ok=True)
    return Toolstead(folder / "project", environ=environ, settings=settings, **{"watch": False, **more})


async def prompt_names(client: Client) -> list[str]:
    return [prompt.name for prompt in (await client.list_prompts()).prompts]


async def addresses(client: Client) -> list[str]:
    return [resource.uri for resource in (await client.list_resources()).resources]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


async def refused(client: Client, address: str) -> str:
    with pytest.raises(MCPError) as error:
        await client.read_resource(address)
    return str(error.value)


class TestFiles:
    async def test_a_bad_prompt_file_is_reported_alone_with_its_line(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = tmp_path / "home" / "prompts"
        write(folder / "good.md", "Say {{what}}.")
        bad = write(folder / "bad.md", "---\ntitle: Bad\narguments:\n  path: {requird: true}\n---\nText {{path}}\n")
        write(folder / "empty.md", "---\ntitle: Empty\n---\n")
        write(folder / "no text.md", "Text.")
        write(folder / "binary.md", b"\xff\xfe")
        async with stead_in(tmp_path) as stead, connect(stead) as client:
            assert await prompt_names(client) == ["good"]
        assert f"{bad}:4:10: error: `requird` is no key of an argument; did you mean `required`?" in caplog.text
        assert "the prompt has no text" in caplog.text
        assert "no UTF-8" in caplog.text
        assert "the file's name is the prompt's" in caplog.text
        assert "`{{what}}` is no argument and stays as it is" in caplog.text

    async def test_an_argument_that_is_not_given_is_empty_and_braces_in_values_stay(self, tmp_path: Path) -> None:
        header = "---\narguments:\n  a: {required: true}\n  b:\n---\n"
        write(tmp_path / "home" / "prompts" / "p.md", header + "a={{a}} b={{ b }}!")
        async with stead_in(tmp_path) as stead, connect(stead) as client:
            filled = await client.get_prompt("p", {"a": "{{b}}"})
            assert filled.messages[0].content.text == "a={{b}} b=!"

    async def test_a_projects_prompts_and_settings_count_once_they_are_approved(self, tmp_path: Path) -> None:
        project = tmp_path / "project"
        write(tmp_path / "home" / "prompts" / "same.md", "The user's.")
        write(project / ".toolstead" / "prompts" / "same.md", "The project's.")
        write(
            project / ".toolstead" / "config.toml", '[mcp]\ninstructions = "Of the project."\nresources = ["a.txt"]\n'
        )
        write(project / "a.txt", "text")
        async with stead_in(tmp_path) as stead, connect(stead) as client:
            assert (await client.get_prompt("same")).messages[0].content.text == "The user's."
            assert client.instructions is None
            assert await addresses(client) == []
        places = find_places(explicit=project, environ={"TOOLSTEAD_HOME": str(tmp_path / "home")})
        assert approve_changes(ProjectTrust(places))
        write(project / ".toolstead" / "prompts" / "same.md", "Changed since.")
        stead = Toolstead(project, environ={"TOOLSTEAD_HOME": str(tmp_path / "home")}, watch=False)
        async with stead, connect(stead) as client:
            assert (await client.get_prompt("same")).messages[0].content.text == "The project's."
            assert client.instructions == "Of the project."
            assert await addresses(client) == ["toolstead://files/a.txt"]

    async def test_only_files_of_the_project_that_the_settings_name_are_read(self, tmp_path: Path) -> None:
        project = tmp_path / "project"
        write(project / "README.md", "# Read me")
        write(project / "docs" / "a b.md", "A")
        write(project / "docs" / "deep" / "c.md", "C")
        write(project / "docs" / ".hidden.md", "no")
        write(project / "docs" / "dot.png", b"\x89PNG\0")
        write(project / "secret.txt", "no")
        (project / "docs" / "out.md").symlink_to(write(tmp_path / "outside.md", "no"))
        named = ["README.md", "docs/**/*.md", "docs/*.png", "large.txt"]
        write(project / "large.txt", b"x" * (LARGEST_FILE + 1))
        async with stead_in(tmp_path, mcp={"resources": named}) as stead, connect(stead) as client:
            files = "toolstead://files/"
            names = ["README.md", "docs/a%20b.md", "docs/deep/c.md", "docs/dot.png", "large.txt"]
            assert await addresses(client) == [files + name for name in names]
            (text,) = (await client.read_resource(f"{files}docs/a%20b.md")).contents
            assert (text.text, text.mime_type) == ("A", "text/markdown")
            (image,) = (await client.read_resource(f"{files}docs/dot.png")).contents
            assert (image.blob, image.mime_type) == ("iVBORwA=", "image/png")
            for path in ("secret.txt", "../outside.md", "docs/../secret.txt", "docs/.hidden.md", "docs//deep/c.md"):
                assert "Resource not found" in await refused(client, files + path)
            assert "outside the project" in await refused(client, f"{files}docs/out.md")
            assert "more than" in await refused(client, f"{files}large.txt")

    async def test_the_search_for_files_ends_after_so_many_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("toolstead.app.resource_files.MOST_ENTRIES", 5)
        for number in range(10):
            write(tmp_path / "project" / f"{number}.txt", "text")
        async with stead_in(tmp_path, mcp={"resources": ["*.txt"]}) as stead, connect(stead) as client:
            assert len(await addresses(client)) == 5
        assert "more than 5 names were looked at" in caplog.text

    async def test_folders_within_each_other_without_end_keep_nothing_else_out(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(tmp_path / "project" / "z.txt", "text")
        inmost = tmp_path.joinpath("project", *["a"] * 900)  # as deep as a path may be, and a stack may not
        write(inmost / "deep.txt", "text")
        async with stead_in(tmp_path, mcp={"resources": ["**/*.txt"]}) as stead, connect(stead) as client:
            assert await addresses(client) == ["toolstead://files/z.txt"]
        assert "64 folders within each other; some lie deeper" in caplog.text

    async def test_what_becomes_of_the_files_is_followed_while_the_stead_is_open(self, tmp_path: Path) -> None:
        stead = stead_in(tmp_path, mcp={"resources": ["*.txt"]}, watch=True)
        async with stead, connect(stead) as client:
            assert await addresses(client) == []
            parts: ClientParts = stead._parts.client_parts
            told: list[str] = []
            end = parts.subscribe(told.append)
            write(tmp_path / "project" / "late.txt", "late")
            await until(lambda: told == ["resources"])
            assert await addresses(client) == ["toolstead://files/late.txt"]
            end()


class TestKeptResults:
    async def test_a_result_is_only_read_by_whom_its_tool_is_offered(self, tmp_path: Path) -> None:
        async def much(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
            return "x" * 10_000

        async with stead_in(tmp_path) as stead, connect(stead) as client:
            stead.registry.register(Tool(name="much", description="Says much.", handler=much))
            result = await stead.call("much")
            address = f"toolstead://results/{result.handle}"
            assert address in result.text
            (whole,) = (await client.read_resource(address)).contents
            assert whole.text == "x" * 10_000
            stead._parts.registry.apply_switches(frozenset({"much"}))
            assert "Resource not found" in await refused(client, address)
            stead._parts.registry.apply_switches(frozenset())
            assert "there is none at offset 10,000" in await refused(client, f"{address}?offset=10000")
            assert "only ?offset=" in await refused(client, f"{address}?ofset=1")
            assert "Resource not found" in await refused(client, "toolstead://results/res_guessed")
            assert (await stead.kept_result(address))["content"][0]["text"] == "x" * 10_000
            assert address not in await addresses(client)


class TestPlugins:
    async def test_a_variable_of_an_address_never_leads_into_another_folder(self, tmp_path: Path) -> None:
        async def read_name(ctx: PluginContext, variables: Mapping[str, str]) -> str:
            return variables["name"]

        resource = Resource(uri="notes://of/{name}", name="notes", read=read_name)
        plugin = Plugin(name="notes", resources=[resource])
        async with stead_in(tmp_path, plugins=[plugin]) as stead, connect(stead) as client:
            (content,) = (await client.read_resource("notes://of/a%20b")).contents
            assert content.text == "a b"
            for address in ("notes://of/a/b", "notes://of/..%2fb", "notes://of/%2Fetc%2Fpasswd"):
                assert "Resource not found" in await refused(client, address)

    async def test_a_plugin_that_is_switched_off_loses_what_it_offers(self, tmp_path: Path) -> None:
        plugin = Plugin(
            name="talks",
            prompts=[Prompt(name="hello", handler=say)],
            resources=[Resource(uri="talks:now", name="now", read=read)],
            instructions="Talk.",
        )
        async with stead_in(tmp_path, plugins=[plugin]) as stead:
            async with connect(stead) as client:
                assert await prompt_names(client) == ["talks__hello"]
                assert await addresses(client) == ["talks:now"]
                assert client.instructions == "Talk."
                told: list[str] = []
                end = stead._parts.client_parts.subscribe(told.append)
                await stead._parts.plugins.change_plugin("talks", enabled=False)
                assert sorted(told) == ["prompts", "resources"]
                assert await prompt_names(client) == await addresses(client) == []
                end()
            async with connect(stead) as client:
                assert client.instructions is None

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"prompts": [Prompt(name="a b", handler=say)]}, "letters, digits, `_` and `-` are needed"),
            ({"prompts": [Prompt(name="a", handler=say)] * 2}, "two are called 'a'"),
            ({"prompts": ["a"]}, r"build Prompt\(…\)"),
            ({"prompts": [Prompt(name="a", handler=read, timeout=0)]}, "seconds above 0"),
            ({"resources": [Resource(uri="no address", name="x", read=read)]}, "an address such as"),
            ({"resources": [Resource(uri="toolstead://results/x", name="x", read=read)]}, "is Toolstead's own"),
            ({"resources": [Resource(uri="x:{a}{b}", name="x", read=read)]}, "two variables follow each other"),
            ({"instructions": "x" * 4_001}, "at most 4,000"),
        ],
    )
    async def test_a_plugin_with_a_bad_part_is_refused_with_what_would_be_right(
        self, tmp_path: Path, fields: dict[str, Any], reason: str
    ) -> None:
        async with stead_in(tmp_path, plugins=[Plugin(name="bad", **fields)]) as stead:
            (shown,) = [one for one in stead._parts.plugins.show_plugins() if one["name"] == "bad"]
            assert shown["state"] == "failed"
            with pytest.raises(AssertionError, match=reason):
                raise AssertionError(shown["error"])

    async def test_what_plugins_offer_is_bounded_in_time_and_size(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_calls, "LARGEST_RESOURCE", 100)
        monkeypatch.setattr(client_calls, "LARGEST_PROMPT", 100)
        monkeypatch.setattr(client_calls, "MOST_MESSAGES", 2)

        async def hang(ctx: PluginContext, given: Any) -> str:
            await asyncio.Event().wait()
            return ""

        async def much(ctx: PluginContext, given: Any) -> str:
            return "x" * 101

        async def many(ctx: PluginContext, given: Any) -> Sequence[str]:
            return ["x"] * 3

        async def nothing(ctx: PluginContext, given: Any) -> Any:
            return None

        plugin = Plugin(
            name="odd",
            prompts=[
                Prompt(name="hang", handler=hang, timeout=0.01),
                Prompt(name="much", handler=much),
                Prompt(name="many", handler=many),
                Prompt(name="nothing", handler=nothing),
            ],
            resources=[
                Resource(uri="odd:hang", name="hang", read=hang, timeout=0.01),
                Resource(uri="odd:much", name="much", read=much),
                Resource(uri="odd:nothing", name="nothing", read=nothing),
            ],
        )
        async with stead_in(tmp_path, plugins=[plugin]) as stead, connect(stead) as client:
            for name, reason in [
                ("hang", "did not answer within 0.01 seconds"),
                ("much", "at most 100"),
                ("many", "3 messages; at most 2"),
                ("nothing", "returned NoneType"),
            ]:
                with pytest.raises(MCPError, match=reason):
                    await client.get_prompt(f"odd__{name}")
            assert "did not answer within 0.01 seconds" in await refused(client, "odd:hang")
            assert "at most 100 are read" in await refused(client, "odd:much")
            assert "returned NoneType" in await refused(client, "odd:nothing")

    async def test_a_program_adds_and_removes_prompts_under_their_own_names(self, tmp_path: Path) -> None:
        async with stead_in(tmp_path) as stead, connect(stead) as client:
            stead.registry.register_prompts(Prompt(name="hello", handler=say))
            assert await prompt_names(client) == ["hello"]
            with pytest.raises(PluginError, match="'hello' is already held by python"):
                stead.registry.register_prompts(Prompt(name="hello", handler=say))
            stead.registry.unregister_prompts("hello")
            assert await prompt_names(client) == []


class TestIdentity:
    async def test_an_icon_of_the_project_is_sent_with_its_bytes(self, tmp_path: Path) -> None:
        write(tmp_path / "project" / "icon.png", b"\x89PNG")
        async with stead_in(tmp_path, mcp={"icon": "icon.png", "title": "Mine"}) as stead, connect(stead) as client:
            (icon,) = client.server_info.icons or ()
            assert (icon.src, icon.mime_type) == ("data:image/png;base64,iVBORw==", "image/png")
            assert client.server_info.title == "Mine"

    @pytest.mark.parametrize(
        ("icon", "reason"),
        [
            ("none.png", "there is no file 'none.png' in the project"),
            ("../out.png", "is outside the project"),
            ("large.png", "more than 65,536 bytes"),
            ("icon.exe", "a PNG, JPEG, SVG or WebP file is needed"),
            ("http://example.org/icon.png", "give an https address"),
        ],
    )
    async def test_an_icon_that_cannot_be_used_is_left_out_with_the_reason(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, icon: str, reason: str
    ) -> None:
        write(tmp_path / "project" / "large.png", b"x" * 65_537)
        async with stead_in(tmp_path, mcp={"icon": icon}) as stead, connect(stead) as client:
            assert client.server_info.icons is None
        assert reason in caplog.text

    async def test_instructions_are_bounded_over_all_plugins(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING)
        plugins = [Plugin(name=f"p{number}", instructions="x" * 4_000) for number in range(6)]
        async with stead_in(tmp_path, plugins=plugins) as stead, connect(stead) as client:
            assert client.instructions is not None
            assert len(client.instructions) < 16_100
        assert "the instructions of plugin 'p4' are left out" in caplog.text
