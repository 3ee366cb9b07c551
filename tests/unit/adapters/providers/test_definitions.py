"""Definitions for every provider's API, with schemas that it takes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from toolstead.adapters.providers.definitions import tool_definitions
from toolstead.errors import ToolsteadError
from toolstead.types.tool import Provenance, ToolInfo

pytestmark = pytest.mark.promise("K1")

_KEYS = {"anthropic": "input_schema", "openai": "parameters", "gemini": "parametersJsonSchema"}
_PLAIN = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_CHOICE = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
    "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
}


def _info(schema: dict[str, Any]) -> ToolInfo:
    return ToolInfo(
        name="find",
        description="Finds.",
        provenance=Provenance(source="builtin", origin="toolstead"),
        input_schema=schema,
    )


@pytest.mark.parametrize("provider", sorted(_KEYS))
def test_a_schema_that_every_api_takes_is_sent_as_it_is_and_nothing_is_logged(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    [definition] = tool_definitions([_info(_PLAIN)], provider)
    assert (definition["name"], definition["description"]) == ("find", "Finds.")
    assert definition[_KEYS[provider]] is _PLAIN
    assert not caplog.records


@pytest.mark.parametrize("provider", sorted(_KEYS))
def test_a_choice_at_the_top_level_is_told_in_words_and_the_log_says_so(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    [definition] = tool_definitions([_info(_CHOICE)], provider)
    assert definition[_KEYS[provider]] == {
        "type": "object",
        "properties": _CHOICE["properties"],
        "description": "Give either id, or name. Not both.",
    }
    [message] = caplog.messages
    assert message.startswith(f"{provider} gets an adapted schema of find: /oneOf: moved to the description")


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ToolsteadError, match="unknown provider 'mistral'; use one of anthropic, openai, gemini"):
        tool_definitions([_info(_PLAIN)], "mistral")
