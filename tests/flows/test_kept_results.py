"""An answer that is shown in part is kept whole, behind a handle."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolstead import Tool, ToolResult, Toolstead
from toolstead.app.database import LARGEST
from toolstead.errors import NotFoundError
from toolstead.types.content import Image, Text
from toolstead.types.event import Event


def stead_in(folder: Path) -> Toolstead:
    return Toolstead(
        folder, environ={"TOOLSTEAD_HOME": str(folder / "home")}, settings={"tools": {"max_output": 2_000}}, watch=False
    )


def says(answer: ToolResult | str) -> Tool:
    async def handler(ctx: object, input: object, meta: object) -> ToolResult | str:
        return answer

    return Tool(name="says", description="Says it.", handler=handler)


async def test_what_was_cut_is_kept_whole_and_outlives_the_stead(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))
    async with stead_in(tmp_path) as stead:
        stead.registry.register(says(text))
        shown = await stead.call("says")
        assert shown.handle is not None
        assert shown.handle in shown.text
        assert len(shown.text) < 2_400
        assert shown.to_json()["handle"] == shown.handle
        assert (await stead.kept_result(shown.handle))["content"] == [{"type": "text", "text": text}]

    async with stead_in(tmp_path) as another:
        assert (await another.kept_result(shown.handle))["content"][0]["text"] == text


async def test_a_call_just_before_the_end_is_kept_too(tmp_path: Path) -> None:
    async with stead_in(tmp_path) as stead:
        stead.registry.register(says("x" * 5_000))
        shown = await stead.call("says")
    assert shown.handle is not None
    async with stead_in(tmp_path) as another:
        assert len((await another.kept_result(shown.handle))["content"][0]["text"]) == 5_000


async def test_pictures_are_kept_whole_and_what_fits_needs_no_handle(tmp_path: Path) -> None:
    async with stead_in(tmp_path) as stead:
        stead.registry.register(
            says(ToolResult(content=(Text("look"), Image(data=b"\0" * 9_000, mime_type="image/png"))))
        )
        shown = await stead.call("says")
        assert shown.handle is not None
        kept = await stead.kept_result(shown.handle)
        assert [part["type"] for part in kept["content"]] == ["text", "image"]
        assert len(kept["content"][1]["data"]) == 12_000
        assert (await stead.call("workspace-info")).handle is None
    assert (tmp_path / "home" / "data" / "toolstead.db").exists()


async def test_what_is_too_large_to_be_kept_is_said_and_nothing_is_promised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stead_in(tmp_path) as stead:
        stead.registry.register(says("x" * (LARGEST + 1)))
        shown = await stead.call("says")
    assert shown.handle is None
    assert "is not kept" in caplog.text


async def test_a_handle_that_nobody_gave_is_not_found(tmp_path: Path) -> None:
    async with stead_in(tmp_path) as stead:
        with pytest.raises(NotFoundError, match="no result 'res_nothing'"):
            await stead.kept_result("res_nothing")


async def test_without_a_cut_no_database_is_made(tmp_path: Path) -> None:
    async with stead_in(tmp_path) as stead:
        await stead.call("workspace-info")
    assert not (tmp_path / "home" / "data" / "toolstead.db").exists()


async def test_a_picture_that_a_run_got_is_kept_for_those_who_watch_it(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- call: [{tool: says, input: {}}]\n- say: seen\n")
    runtime = {"default": "scripted", "scripted": {"script": str(script)}}
    environ = {"TOOLSTEAD_HOME": str(tmp_path / "home")}
    async with Toolstead(tmp_path, environ=environ, settings={"runtime": runtime}, watch=False) as stead:
        stead.registry.register(says(ToolResult(content=(Text("look"), Image(data=b"\0" * 90, mime_type="image/png")))))
        seen: list[Event] = []
        assert (await stead.invoke("Show it.", on_message=seen.append)).result == "seen"
        [result] = [event for event in seen if event.type == "tool_result"]
        kept = await stead.kept_result(result.data["handle"])
        assert [part["type"] for part in kept["content"]] == ["text", "image"]
        assert result.data["handle"] not in result.data["content"]
