"""`validate_tool_file`: the verdict on a value, without a file and without a stead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flows.tool_files import DOCUMENT, shell, tool
from toolstead import Validation, validate_tool_file

pytestmark = pytest.mark.promise("R4")


def test_a_good_value_is_valid_and_given_back() -> None:
    data = json.loads(DOCUMENT)
    assert validate_tool_file(data) == Validation(valid=True, errors=(), config=data)
    assert validate_tool_file(data).config is data


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        (
            {"name": "x", "tools": [{**shell("a", "ls"), "x": 1}]},
            ["tool 'a': \"x\" is not allowed here; allowed: name"],
        ),
        ({"name": "x", "tools": [shell("a", "{{b}}")]}, ["tool 'a': handler.command: {{b}} is no property of the"]),
        ({"name": "x", "tools": [5]}, ["tools.0: expected object, got number 5"]),
        ({"name": "x", "tools": [shell("a", "ls"), shell("a", "ls")]}, ["tool 'a': name: this file has a tool of"]),
        ({}, ['"name" is missing', '"tools" is missing']),
        ([], ["a tool file is a JSON object such as"]),
        (None, ["a tool file is a JSON object such as"]),
        ("{}", ["a tool file is a JSON object such as"]),
        ({"name": float("nan"), "tools": []}, ["not valid JSON: NaN is no JSON value"]),
        ({"name": "\ud800", "tools": []}, ["not valid JSON: \\ud800 is half of a character"]),
        ({"name": object()}, ["not a JSON value: Object of type object is not JSON serializable"]),
    ],
)
def test_a_bad_value_says_which_tool_and_which_field(data: Any, errors: list[str]) -> None:
    found = validate_tool_file(data)
    assert (found.valid, found.config) == (False, None)
    assert len(found.errors) == len(errors)
    for error, expected in zip(found.errors, errors, strict=True):
        assert error.startswith(expected)


def test_a_value_that_holds_itself_is_no_json_value() -> None:
    data: dict[str, Any] = {"name": "x"}
    data["tools"] = [data]
    assert validate_tool_file(data).errors == ("not a JSON value: Circular reference detected",)


def test_validating_runs_nothing_and_needs_nothing_that_the_tools_name(tmp_path: Any) -> None:
    marker = tmp_path / "ran"
    data = {
        "name": "x",
        "tools": [
            shell("a", f"touch '{marker}'", examples=[{"input": {}}], cwd="no/such/folder", env={"A": "${NOT_SET}"}),
            tool(
                "b",
                {"type": "file-read", "basePath": "nothing/here"},
                {"path": {"type": "string"}},
                examples=[{"input": {"path": "missing.txt"}}],
            ),
        ],
    }
    found = validate_tool_file(data)
    assert not marker.exists()
    assert found.valid, found.errors
