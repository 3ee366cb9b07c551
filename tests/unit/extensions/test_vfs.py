"""The `vfs_*` tools: what a model is told. What is kept, and by whom it is seen, the store's contract shows."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.extensions.vfs import MOST_LISTED, MOST_SHOWN, plugin
from toolstead.testing import FakeContext, call_tool, fake_context
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult


@pytest.fixture
def ctx() -> FakeContext:
    return fake_context(plugin)


async def call(ctx: FakeContext, tool: str, **input: Any) -> ToolResult:
    return await call_tool(plugin, tool, input, context=ctx)


async def text_of(ctx: FakeContext, tool: str, **input: Any) -> str:
    result = await call(ctx, tool, **input)
    assert not result.is_error, result.text
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


async def refusal_of(ctx: FakeContext, tool: str, **input: Any) -> str:
    result = await call(ctx, tool, **input)
    assert result.is_error
    assert result.failure in {Failure.REFUSED, Failure.TOOL}, result.text
    return result.text


async def test_a_file_is_written_listed_read_edited_and_deleted(ctx: FakeContext) -> None:
    assert await text_of(ctx, "vfs_list") == "There are no files yet."
    assert (
        await text_of(ctx, "vfs_write", path="a.md", content="1\n2\n3") == "Wrote a.md (version 1, 5 bytes, by client)"
    )
    assert await text_of(ctx, "vfs_read", path="a.md") == "1\n2\n3\n[a.md, version 1 by client: lines 1 to 3 of 3]"
    edited = await text_of(ctx, "vfs_edit", path="a.md", old="2\n3", new="two")
    assert edited == "Wrote a.md (version 2, 5 bytes, by client)"
    assert await text_of(ctx, "vfs_list", prefix="a") == "a.md (version 2, 5 bytes, by client)"
    assert await text_of(ctx, "vfs_list", prefix="b") == "There is no file whose path begins with 'b'."
    deleted = await text_of(ctx, "vfs_delete", path="a.md")
    assert deleted == "Deleted a.md (version 3); a person can restore version 2"
    assert await text_of(ctx, "vfs_list") == "There are no files yet."


async def test_lines_are_counted_as_file_reader_counts_them(ctx: FakeContext) -> None:
    await call(ctx, "vfs_write", path="a", content="1\n2\r\n3\n4\n")
    for bounds, lines, note in (
        ({}, "1\n2\r\n3\n4", "1 to 4"),
        ({"startLine": 2, "endLine": 3}, "2\r\n3", "2 to 3"),
        ({"startLine": 4}, "4", "4 to 4"),
        ({"endLine": 99}, "1\n2\r\n3\n4", "1 to 4"),
    ):
        assert (
            await text_of(ctx, "vfs_read", path="a", **bounds)
            == f"{lines}\n[a, version 1 by client: lines {note} of 4]"
        )
    assert await refusal_of(ctx, "vfs_read", path="a", startLine=5) == "'a' has 4 lines, so there is no line 5"
    assert "endLine 1 is before startLine 2" in await refusal_of(ctx, "vfs_read", path="a", startLine=2, endLine=1)
    await call(ctx, "vfs_write", path="empty", content="")
    assert await text_of(ctx, "vfs_read", path="empty") == "[empty, version 1 by client: the file is empty]"


async def test_one_call_shows_a_bounded_part_and_says_how_to_go_on(ctx: FakeContext) -> None:
    await call(ctx, "vfs_write", path="long", content="é" * 49 + "\n" + ("x" * 99 + "\n") * 5_000)
    shown = await call(ctx, "vfs_read", path="long")
    text, note = (part.text for part in shown.content if isinstance(part, Text))
    assert len(text.encode()) <= MOST_SHOWN
    assert note.endswith("lines 1 to 2,000 of 5,001; that is all that one call shows, so go on with the next line]")
    await call(ctx, "vfs_write", path="wide", content="é" * 200_000)
    shown = await call(ctx, "vfs_read", path="wide")
    text, note = (part.text for part in shown.content if isinstance(part, Text))
    assert (text, "longer than 200,000 bytes and cut" in note) == ("é" * 100_000, True)


async def test_a_long_list_is_cut_and_says_so(ctx: FakeContext) -> None:
    for number in range(MOST_LISTED + 2):
        await ctx.files.write(f"{number:04}", "")
    lines = (await text_of(ctx, "vfs_list")).splitlines()
    assert (len(lines), lines[-1]) == (MOST_LISTED + 1, "[2 more; give a prefix]")


async def test_a_lost_update_is_refused_with_what_changed_and_how_to_go_on(ctx: FakeContext) -> None:
    await call(ctx, "vfs_write", path="a", content="one\ntwo\n", expectedVersion=0)
    await call(ctx, "vfs_edit", path="a", old="two", new="2")
    assert await refusal_of(ctx, "vfs_write", path="a", content="mine", expectedVersion=1) == (
        "'a' was not written: version 1 was expected, but its newest version is 2, written by client. What changed "
        "since:\n\n--- a (version 1)\n+++ a (version 2)\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\n"
        "Merge this into your text, and write it with expectedVersion 2."
    )
    for expected in (0, 7):
        refused = await refusal_of(ctx, "vfs_write", path="a", content="mine", expectedVersion=expected)
        assert "Its text:" in refused
        assert "\n+one\n+2\n" in refused
    await call(ctx, "vfs_delete", path="a")
    refused = await refusal_of(ctx, "vfs_write", path="a", content="mine", expectedVersion=2)
    assert refused.endswith("deleted by client. To create it again, write it with expectedVersion 3.")
    assert "expectedVersion 0 creates it" in await refusal_of(ctx, "vfs_write", path="b", content="", expectedVersion=1)


async def test_an_edit_that_does_not_match_once_says_how_often_and_where(ctx: FakeContext) -> None:
    await call(ctx, "vfs_write", path="a", content="x\ny\nx\n")
    assert "it is 2 times in 'a' (version 1), beginning on lines 1, 3" in await refusal_of(
        ctx, "vfs_edit", path="a", old="x", new="z"
    )
    assert "it is not in 'a'" in await refusal_of(ctx, "vfs_edit", path="a", old="q", new="z")
    assert "differs from the new one" in await refusal_of(ctx, "vfs_edit", path="a", old="y", new="y")


async def test_a_file_that_is_not_there_is_answered_with_those_like_it(ctx: FakeContext) -> None:
    for tool, more in {"vfs_read": {}, "vfs_delete": {}, "vfs_edit": {"old": "x", "new": "y"}}.items():
        assert "there are none yet" in await refusal_of(ctx, tool, path="notes/paln.md", **more)
    await call(ctx, "vfs_write", path="notes/plan.md", content="")
    assert "did you mean 'notes/plan.md'?" in await refusal_of(ctx, "vfs_read", path="notes/paln.md")
    assert "vfs_list shows" in await refusal_of(ctx, "vfs_read", path="z")


async def test_the_settings_bound_what_is_kept() -> None:
    ctx = fake_context(plugin, settings={"max_file": 4, "max_files": 1})
    await call(ctx, "vfs_write", path="a", content="1234")
    assert "more than 4 bytes" in await refusal_of(ctx, "vfs_write", path="a", content="12345")
    assert "max_file: 'a' would have 5 bytes" in await refusal_of(ctx, "vfs_edit", path="a", old="1", new="11")
    assert "raise max_files under [plugins.vfs]" in await refusal_of(ctx, "vfs_write", path="b", content="")
