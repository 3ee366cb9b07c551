"""Drafts of tool files: what is guessed from a template, and that the loader takes it as it is."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstead.tools.sources.json_draft import draft_file_read, draft_http, draft_shell, file_text, find_placeholders
from toolstead.tools.sources.json_file import validate_tool_file
from toolstead.tools.sources.json_format import format_schema


def tool_of(document: dict[str, Any]) -> dict[str, Any]:
    (tool,) = document["tools"]
    return tool


def properties(template: str) -> dict[str, Any]:
    return tool_of(draft_shell("x", template))["inputSchema"]["properties"]


def faultless(document: dict[str, Any]) -> bool:
    """Whether the loader takes a document, and the format's schema too, which editors go by."""
    verdict = validate_tool_file(document)
    assert not verdict.errors
    return jsonschema_rs.validator_for(format_schema()).is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        draft_shell("search", "rg -n {{pattern}} {{dir}}"),
        draft_shell("first-lines", "head -n {{count}} {{file}}"),
        draft_shell("quoted", "grep -rn '{{pattern}}' \"{{directory}}\" || true"),
        draft_shell("piped", "git log --oneline -n {{limit}} | head --lines={{max_lines}}"),
        draft_shell("no-parameter", "date --iso-8601"),
        draft_shell("twice", "diff {{a}} {{a}}"),
        draft_shell("spaced", "echo {{ a }} {{b }}"),
        draft_shell("odd", r"""echo 'a "b" \ {{x}} <ü> {y} 日本' --z={{my param}}"""),
        draft_http("user", "GET", "https://api.example.com/users/{{id}}"),
        draft_http("page", "GET", "https://api.example.com/?q={{q}}&page={{page}}"),
        draft_http("health", "HEAD", "{{url}}/health"),
        draft_http("any-host", "POST", "{{host}}/path/{{path}}?x={{dir}}"),
        draft_http("local", "DELETE", "http://localhost:8000/{{port}}"),
        draft_file_read("notes", "docs"),
        draft_file_read("home", "~/notes and more"),
    ],
    ids=lambda document: document["name"],
)
def test_a_draft_is_a_good_file_whose_example_can_be_built(document: dict[str, Any]) -> None:
    assert faultless(document)
    tool = tool_of(document)
    (example,) = tool["examples"]
    assert example["run"] is False
    assert list(example["input"]) == tool["inputSchema"].get("required", [])
    assert all(item["description"] for item in tool["inputSchema"]["properties"].values())


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("count", "integer", 20),
        ("limit", "integer", 20),
        ("max", "integer", 20),
        ("maxResults", "integer", 20),
        ("max-depth", "integer", 3),
        ("depth", "integer", 3),
        ("lines", "integer", 20),
        ("line", "integer", None),
        ("startLine", "integer", None),
        ("port", "integer", None),
        ("n", "integer", None),
        ("number", "integer", None),
        ("dir", "string", "."),
        ("source_directory", "string", "."),
        ("folder", "string", "."),
        ("path", "string", None),
        ("file", "string", None),
        ("url", "string", None),
        ("id", "string", None),
        ("pattern", "string", None),
        ("phoneNumber", "string", None),
        ("deadline", "string", None),
        ("report", "string", None),
        ("ключ", "string", None),
    ],
)
def test_a_name_suggests_a_type_and_a_default(name: str, kind: str, default: object) -> None:
    tool = tool_of(draft_shell("x", f"echo {{{{{name}}}}}"))
    schema = tool["inputSchema"]["properties"][name]
    assert (schema["type"], schema.get("default")) == (kind, default)
    assert tool["inputSchema"].get("required", []) == ([] if default is not None else [name])


def test_a_path_in_an_address_is_no_path_of_this_machine() -> None:
    schema = tool_of(draft_http("x", "GET", "https://example.com/{{dir}}/{{file}}"))["inputSchema"]
    assert schema["required"] == ["dir", "file"]
    assert [item["description"] for item in schema["properties"].values()] == ["The dir.", "The file."]


def test_a_parameter_that_gives_the_origin_has_an_origin_as_its_example() -> None:
    tool = tool_of(draft_http("x", "GET", "{{host}}/{{id}}"))
    assert tool["examples"][0]["input"] == {"host": "https://example.com", "id": "1"}
    assert "scheme and host" in tool["inputSchema"]["properties"]["host"]["description"]


def test_the_description_says_what_is_done_unless_one_is_given() -> None:
    assert tool_of(draft_shell("x", "rg {{ a }} .  "))["description"] == "Run `rg <a> .`. Answers its output."
    said = tool_of(draft_http("x", "PUT", "https://example.com/{{id}}"))["description"]
    assert said == "Send PUT https://example.com/<id>. Answers the body of the response."
    assert "docs" in tool_of(draft_file_read("x", "docs"))["description"]
    for document in (
        draft_shell("x", "true", description="Mine."),
        draft_http("x", "GET", "https://example.com", description="Mine."),
        draft_file_read("x", ".", description="Mine."),
    ):
        assert tool_of(document)["description"] == "Mine."


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("http://localhost:8000/{{id}}", ["localhost:8000"]),
        ("http://api.localhost/", ["api.localhost:80"]),
        ("https://127.0.0.1/", ["127.0.0.1:443"]),
        ("http://[::1]:9/", ["[::1]:9"]),
        ("http://192.168.1.7/x", ["192.168.1.7:80"]),
        ("https://api.example.com/", None),
        ("http://169.254.169.254/latest/meta-data", None),
        ("http://[fd00:ec2::254]/", None),
        ("{{url}}/health", None),
        ("not an address", None),
    ],
)
def test_a_private_host_is_allowed_where_the_author_wrote_it_out(url: str, hosts: list[str] | None) -> None:
    assert tool_of(draft_http("x", "GET", url))["handler"].get("allowedHosts") == hosts


def test_placeholders_are_named_once_in_order_and_bad_ones_are_left_to_the_loader() -> None:
    assert find_placeholders("a {{b}} {{ a }} '{{b}}' {{}} {{ }} {{c") == ["b", "a"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{program}} x", "it would choose the program"),
        ("sh -c {{code}}", "sh -c would run it"),
        ("echo x > {{file}}", "redirection (`>`) is not supported"),
        ("ls *.py", "globs (`*`) are not expanded"),
        ("echo {{x", "never closed"),
        ("echo {{}}", "an empty placeholder"),
        ("", "it is empty"),
    ],
)
def test_a_template_that_cannot_work_is_drafted_and_refused_by_the_loader(template: str, message: str) -> None:
    (error,) = validate_tool_file(draft_shell("x", template)).errors
    assert error.startswith("tool 'x': handler.command: ")
    assert message in error


def test_the_text_is_laid_out_for_people() -> None:
    assert file_text(draft_shell("search", "rg {{pattern}} {{dir}}")) == (
        """{
  "$schema": "./.toolstead-schema.json",
  "name": "search",
  "tools": [
    {
      "name": "search",
      "description": "Run `rg <pattern> <dir>`. Answers its output.",
      "inputSchema": {
        "type": "object",
        "properties": {
          "pattern": {"type": "string", "description": "What to look for."},
          "dir": {
            "type": "string",
            "description": "The folder, absolute or relative to the project's root.",
            "default": "."
          }
        },
        "required": ["pattern"],
        "additionalProperties": false
      },
      "handler": {
        "type": "shell",
        "command": "rg {{pattern}} {{dir}}",
        "okStatus": [0, 1]
      },
      "examples": [
        {"input": {"pattern": "TODO"}, "run": false}
      ]
    }
  ]
}
"""
    )


@given(st.lists(st.one_of(st.text(), st.text().map("{{{{{}}}}}".format))).map("".join))
def test_any_template_has_a_draft_that_says_it_back(template: str) -> None:
    for document, key in (
        (draft_shell("x", template), "command"),
        (draft_http("x", "GET", template), "url"),
        (draft_file_read("x", template), "basePath"),
    ):
        assert json.loads(file_text(document)) == document
        assert tool_of(document)["handler"][key] == template
    assert list(properties(template)) == find_placeholders(template)
