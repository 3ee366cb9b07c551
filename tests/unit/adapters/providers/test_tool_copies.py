from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.unit.adapters.providers.asking import ANTHROPIC, APIS, CHAT, GOOGLE, OPENAI, TOOLS, answer, connected, tool
from toolstead.adapters.providers.model import api_copies
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.testing import scripted_models
from toolstead.types.tool import ToolInfo

pytestmark = pytest.mark.requires("models")

RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Everything",
    "type": "object",
    "properties": {
        "text": {"type": "string", "title": "Text", "pattern": "^a", "minLength": 1, "default": "abc"},
        "number": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]},
        "fixed": {"const": "x"},
        "tree": {"$ref": "#/$defs/Tree"},
        "open": {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}},
    },
    "$defs": {"Tree": {"type": "object", "properties": {"self": {"$ref": "#/$defs/Tree"}}}},
    "required": ["text"],
    "additionalProperties": False,
}
CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}
RULES_OF = {ANTHROPIC: "anthropic", OPENAI: "openai", CHAT: "openai", GOOGLE: "gemini"}


def schemas_in(name: str, body: Any) -> list[Any]:
    """The schemas of a request's tools, as they stood on the wire."""
    if name == GOOGLE:
        declared = [one for group in body["tools"] for one in group["functionDeclarations"]]
        return [one.get("parametersJsonSchema", one.get("parameters_json_schema")) for one in declared]
    if name == ANTHROPIC:
        return [one["input_schema"] for one in body["tools"]]
    if name == CHAT:
        return [one["function"]["parameters"] for one in body["tools"]]
    return [one["parameters"] for one in body["tools"]]


@pytest.mark.promise("K1")
@pytest.mark.parametrize("name", APIS)
async def test_exactly_the_adapted_copy_arrives(name: str) -> None:
    tools = (tool("rich", RICH), tool("choice", CHOICE), tool("none", {"type": "object"}))
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        await answer(model, "hi", tools=tools)
    rules = RULES[RULES_OF[name]]
    adapted = [dict(adapted_schema(one.input_schema, rules).schema) for one in tools]
    assert schemas_in(name, api.requests[0].body) == adapted


@pytest.mark.parametrize("name", [ANTHROPIC, OPENAI, CHAT])
async def test_a_rich_schema_that_the_api_takes_arrives_as_it_is_written(name: str) -> None:
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        await answer(model, "hi", tools=(tool("rich", RICH),))
    (schema,) = schemas_in(name, api.requests[0].body)
    assert schema == RICH
    assert list(schema) == list(RICH)


@pytest.mark.parametrize("name", APIS)
async def test_the_canonical_schema_stays_as_it_was(name: str) -> None:
    before = str(RICH)
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        await answer(model, "hi", tools=(tool("rich", RICH),))
    assert str(RICH) == before


@pytest.mark.parametrize("name", [OPENAI, CHAT])
async def test_no_tool_is_strict(name: str) -> None:
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        await answer(model, "hi", tools=(tool("rich", RICH),))
    (sent,) = api.requests[0].body["tools"]
    assert not sent.get("function", sent).get("strict", False)


async def test_gemini_does_not_hold_the_model_to_schemas_either() -> None:
    async with scripted_models("- say: Hello!") as api, connected(GOOGLE, api.environ()) as model:
        await answer(model, "hi", tools=(tool("rich", RICH),))
    assert api.requests[0].body["toolConfig"]["functionCallingConfig"]["mode"] == "AUTO"


def test_a_change_is_logged_once_and_not_with_every_request(caplog: pytest.LogCaptureFixture) -> None:
    copies = api_copies("anthropic", "anthropic:x")
    choice = tool("choice", CHOICE)
    with caplog.at_level(logging.INFO, logger="toolstead.adapters"):
        for _ in range(3):
            copies.copies_of((choice, *TOOLS))
        copies.copies_of((tool("choice", CHOICE),))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the schema of 'choice' goes to anthropic:x adapted: /anyOf")


def test_a_tool_is_adapted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def watched(schema: Any, rules: Any) -> Any:
        asked.append(schema)
        return adapted_schema(schema, rules)

    monkeypatch.setattr("toolstead.adapters.providers.model.adapted_schema", watched)
    copies = api_copies("openai", "openai:x")
    tools = tuple(TOOLS)
    first = copies.copies_of(tools)
    assert copies.copies_of(tools) is first
    assert copies.copies_of([*tools, tool("another")])[: len(first)] == first
    assert len(asked) == len(tools) + 1


def test_what_is_kept_is_bounded() -> None:
    copies = api_copies("openai", "openai:x")
    for number in range(200):
        copies.copies_of([tool(f"tool{number}_{index}") for index in range(50)])
        assert len(copies._sets) <= 64
    assert len(copies._tools) == 64 * 50
    for number in range(200):
        copies.copies_of([tool(f"tool{number}_{index}") for index in range(500)])
        assert len(copies._tools) <= 4096
    many = copies.copies_of([tool(f"tool{index}") for index in range(5000)])
    assert len(many) == len(copies._tools) == 5000
    copies.copies_of(TOOLS)
    assert len(copies._tools) == len(TOOLS)


def test_a_tool_that_comes_and_goes_leaves_no_copy_of_each_time() -> None:
    copies = api_copies("openai", "openai:x")
    for _ in range(500):
        copies.copies_of((*TOOLS, tool("passing")))
        copies.copies_of(tuple(TOOLS))
    assert len(copies._tools) < len(TOOLS) + 64


def test_a_tool_that_cannot_be_copied_leaves_nothing_of_its_neighbours() -> None:
    bad = tool("bad")

    def make(one: ToolInfo) -> tuple[str, tuple[str, ...]]:
        if one is bad:
            raise ValueError("cannot be copied")
        return one.name, ()

    copies = ToolCopies(make, "x")
    with pytest.raises(ValueError, match="cannot be copied"):
        copies.copies_of((*TOOLS, bad))
    assert not copies._tools
    assert copies.copies_of(TOOLS) == [one.name for one in TOOLS]


async def test_tools_that_change_are_told_as_they_are_now() -> None:
    async with scripted_models("- say: Hello!") as api, connected(OPENAI, api.environ()) as model:
        for number in range(5):
            await answer(model, "hi", tools=[tool(f"tool{number}")])
    assert [request.body["tools"][0]["name"] for request in api.requests] == [f"tool{number}" for number in range(5)]
