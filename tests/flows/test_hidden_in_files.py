"""What a reader cannot see is refused in tool files: in every string, by line, shown escaped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.hidden_strings import HIDDEN
from tests.flows.tool_files import opened

SENDABLE = [hidden for hidden in HIDDEN if hidden.is_sendable]
GOOD = {
    "name": "good",
    "description": "Good.",
    "inputSchema": {"type": "object"},
    "handler": {"type": "shell", "command": "true"},
}


def places(text: str) -> dict[str, Any]:
    """The same text in every field of a tool, one at a time."""
    schema = {"type": "object", "properties": {"p": {"type": "string"}}}

    def tool(**changes: Any) -> dict[str, Any]:
        handler = {"type": "shell", "command": "true"}
        return {"name": "bad", "description": "Bad.", "inputSchema": schema, "handler": handler, **changes}

    def having(**keywords: Any) -> dict[str, Any]:
        return tool(inputSchema={"type": "object", "properties": {"p": keywords}})

    return {
        "name": tool(name=text),
        "description": tool(description=text),
        "property description": having(type="string", description=text),
        "title": having(type="string", title=text),
        "output schema": tool(outputSchema={"type": "object", "description": text}),
        "command": tool(handler={"type": "shell", "command": f"echo '{text}'"}),
        "url": tool(handler={"type": "http", "url": f"https://example.org/{text}"}),
        "header": tool(handler={"type": "http", "url": "https://example.org/", "headers": {"a": text}}),
        "annotation": tool(annotations={"title": text}),
    }


def data(text: str) -> list[dict[str, Any]]:
    """The same text in every place of a tool that is data."""
    schemas = [
        {"type": "object", "properties": {text: {"type": "string"}}},
        {"type": "object", "properties": {"p": {"enum": ["a", text]}}},
        {"type": "object", "properties": {"p": {"type": "string", "default": text}}},
        {"type": "object", "properties": {"p": {"const": text}}},
    ]
    tools = [{**GOOD, "inputSchema": schema} for schema in schemas]
    return [*tools, {**GOOD, "inputSchema": schemas[0], "examples": [{"input": {text: text}}]}]


@pytest.mark.promise("R4")
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "escaped"])
async def test_a_hidden_character_in_any_field_sets_its_tool_aside_by_line_and_escaped(
    raw: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    expected = {
        f"{row:02}-{column:02}": (hidden, field, tool)
        for row, hidden in enumerate(SENDABLE)
        for column, (field, tool) in enumerate(places(hidden.text).items())
    }
    for number, (_, field, tool) in expected.items():
        named = {**tool, "name": tool["name"] if field == "name" else f"bad-{number}"}
        content = {"name": f"file-{number}", "tools": [{**GOOD, "name": f"good-{number}"}, named]}
        (folder / f"{number}.json").write_text(json.dumps(content, indent=1, ensure_ascii=not raw), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        found = [info for info in stead.registry.list_tools() if info.provenance.source == "plugin"]
        names = {info.name for info in found if info.provenance.plugin_name not in ("time", "delegation")}
        assert names == {f"good-{number}" for number in expected}
        problems = {Path(problem.source).stem: problem for problem in stead.registry.quarantined}
        assert problems.keys() == expected.keys()
        for number, (hidden, _, _) in expected.items():
            problem = problems[number]
            assert problem.line is not None
            assert hidden.character not in problem.message.replace("\n", "") or hidden.character in "\n\r\t"
            assert hidden.shown in problem.message or "only letters, digits" in problem.message


@pytest.mark.promise("S1")
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "escaped"])
async def test_what_is_data_in_a_file_may_have_any_character(raw: bool, tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    tools = [
        {**tool, "name": f"t-{row}-{column}"}
        for row, hidden in enumerate(SENDABLE)
        for column, tool in enumerate(data(hidden.text))
    ]
    content = {"name": "data", "tools": tools}
    (folder / "data.json").write_text(json.dumps(content, indent=1, ensure_ascii=not raw), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        assert stead.registry.quarantined == ()
        assert all(stead.registry.has_tool(tool["name"]) for tool in tools)


async def test_a_problem_that_quotes_data_shows_what_is_hidden_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    schema = {"type": "object", "properties": {"p": {"enum": ["a\u202eb"]}}}
    tool = {**GOOD, "inputSchema": schema, "examples": [{"input": {"p": "x"}}]}
    (folder / "a.json").write_text(json.dumps({"name": "a", "tools": [tool]}), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        (problem,) = stead.registry.quarantined
        assert "a\\u{202e}b" in problem.message
        assert problem.message.isprintable()


async def test_a_hidden_character_outside_the_tools_sets_the_file_aside(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"name": "a\u202eb", "tools": [GOOD]}), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        assert not stead.registry.has_tool("good")
        (problem,) = stead.registry.quarantined
        assert "\\u{202e}" in problem.message
