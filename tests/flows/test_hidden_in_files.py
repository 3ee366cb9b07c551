"""What a reader cannot see is refused in tool files: in every string, by line, shown escaped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.hidden_strings import HIDDEN, HiddenString
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
        "property": tool(inputSchema={"type": "object", "properties": {text: {"type": "string"}}}),
        "property description": having(type="string", description=text),
        "enum": having(enum=["a", text]),
        "default": having(type="string", default=text),
        "const": having(const=text),
        "title": having(type="string", title=text),
        "output schema": tool(outputSchema={"type": "object", "description": text}),
        "command": tool(handler={"type": "shell", "command": f"echo '{text}'"}),
        "url": tool(handler={"type": "http", "url": f"https://example.org/{text}"}),
        "annotation": tool(annotations={"title": text}),
        "example": tool(examples=[{"input": {"p": text}}]),
    }


@pytest.mark.promise("R4")
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "escaped"])
@pytest.mark.parametrize("hidden", SENDABLE, ids=[hidden.label for hidden in SENDABLE])
async def test_a_hidden_character_in_any_field_sets_its_tool_aside_by_line_and_escaped(
    hidden: HiddenString, raw: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    expected = places(hidden.text)
    for number, (field, tool) in enumerate(expected.items()):
        named = {**tool, "name": tool["name"] if field == "name" else f"bad-{number}"}
        good = {**GOOD, "name": f"good-{number}"}
        content = {"name": f"file-{number}", "tools": [good, named]}
        (folder / f"{number:02}.json").write_text(json.dumps(content, indent=1, ensure_ascii=not raw), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        found = [info for info in stead.registry.list_tools() if info.provenance.source == "plugin"]
        names = {info.name for info in found if info.provenance.plugin_name != "time"}
        assert names == {f"good-{number}" for number in range(len(expected))}
        problems = {Path(problem.source).stem: problem for problem in stead.registry.quarantined}
        assert len(problems) == len(expected)
        for problem in problems.values():
            assert problem.line is not None
            assert hidden.character not in problem.message.replace("\n", "") or hidden.character in "\n\r\t"
            assert hidden.shown in problem.message or "only letters, digits" in problem.message


async def test_a_hidden_character_outside_the_tools_sets_the_file_aside(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"name": "a\u202eb", "tools": [GOOD]}), "utf-8")

    async with opened(tmp_path, watch=False) as stead:
        assert not stead.registry.has_tool("good")
        (problem,) = stead.registry.quarantined
        assert "\\u{202e}" in problem.message
