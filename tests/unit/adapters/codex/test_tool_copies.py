from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.e2e.delegate_schema import DELEGATE_AGENT
from toolstead.adapters.codex.tool_copies import codex_copies, copy_for_codex
from toolstead.types.tool import Annotations, Provenance, ToolInfo


def shown(schema: Any) -> Any:
    """What becomes of a property's schema."""
    return copy_for_codex("", {"type": "object", "properties": {"p": schema}})[1]["properties"]["p"]


def info(schema: dict[str, Any], **more: Any) -> ToolInfo:
    made: dict[str, Any] = {"name": "t", "description": "Does it.", "input_schema": schema} | more
    return ToolInfo(provenance=Provenance(source="plugin", origin="tests"), **made)


@pytest.mark.parametrize(
    ("schema", "copy"),
    [
        ({"type": "string", "description": "Who."}, {"type": "string", "description": "Who."}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "At least 1."}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": "Format: date."}),
        ({"const": 5}, {"enum": [5], "type": "integer"}),
        ({"const": True}, {"enum": [True], "type": "boolean"}),
        ({"enum": ["a", None]}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"enum": ["a"], "type": "string"}, {"enum": ["a"], "type": "string"}),
        (True, {}),
        (False, {"description": "Never given."}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": False},
            {"type": "array", "items": {"type": "string"}},
        ),
        ({"anyOf": [True, {"type": "null"}]}, {"anyOf": [{}, {"type": "null"}]}),
        ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ({"minimum": 3}, {"description": "At least 3."}),
        ({"if": {"type": "string"}}, {}),
        ({"$ref": "#name", "description": "It"}, {"description": "It. As #name says."}),
        ({"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}),
    ],
)
def test_what_codex_drops_or_narrows_is_written_so_that_it_does_not(schema: Any, copy: Any) -> None:
    assert shown(schema) == copy


def test_a_condition_and_a_tuple_are_told_in_words() -> None:
    conditional = shown({"if": {"type": "string"}, "then": {"minLength": 2}})
    assert set(conditional) == {"description"}
    assert "then" in conditional["description"]
    pair = shown({"type": "array", "prefixItems": [{"type": "string"}], "items": False})
    assert pair["items"] == {}
    assert "prefixItems" in pair["description"]


def test_a_plain_schema_is_taken_as_it_is_and_nothing_is_said() -> None:
    plain = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert copy_for_codex("Does it.", plain) == ("Does it.", plain, ())


def test_a_choice_at_the_top_level_is_told_in_words() -> None:
    _, copy, changes = copy_for_codex("Hands on.", DELEGATE_AGENT)
    assert "anyOf" not in copy
    assert "agent_id" in copy["description"]
    assert any("anyOf" in change for change in changes)


def test_of_a_large_schema_the_descriptions_are_told_with_the_tool() -> None:
    large = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": f"Number {n}. " + "word " * 20} for n in range(60)},
    }
    description, _, changes = copy_for_codex("Does it.", large)
    assert description.startswith("Does it. p0: Number 0.")
    assert len(description) < 8100
    assert any("large schema" in change for change in changes)


def test_a_copy_is_made_once_has_its_hints_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    copies = codex_copies()
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    one = info(schema, annotations=Annotations(read_only=True), output_schema={"type": "object"})
    (first,), (second,) = copies.copies_of([one]), copies.copies_of([one])
    assert first is second
    assert first.annotations is not None
    assert first.annotations.read_only_hint is True
    assert first.output_schema is None
    copies.copies_of([info(schema)])  # the same again, after a reload
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "the schema of 't' goes to Codex adapted: minimum: moved into descriptions, because codex drops them"
    ]
    json.dumps(first.model_dump(by_alias=True, mode="json"))
