"""Definitions that hide something: what no door can give, and what is said of a tool that is bad in other ways too."""

from __future__ import annotations

from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest

from tests.flows.hidden_strings import HIDDEN, JOINED, SPACED
from toolstead.errors import DefinitionError, SchemaError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.definition import define_tool
from toolstead.types.tool import Provenance

CONTEXT = PluginContext(name="p")


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


def refusal(given: Any, **names: str) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        define_tool(given, Provenance(source="plugin", origin="here.py", **names), CONTEXT)
    return caught.value


def made(**fields: Any) -> Tool:
    return Tool(**({"name": "t", "description": "A tool.", "handler": handler} | fields))


def test_the_names_of_plugins_and_agents_are_seen_whole() -> None:
    for hidden in (*HIDDEN, *JOINED, *SPACED):
        for whose in ("plugin", "agent"):
            error = refusal(made(), **{f"{whose}_name": hidden.text})
            assert (error.tool, error.field) == ("t", f"{whose} name")
            assert f"{hidden.shown} is {hidden.code} {hidden.called}, " in error.reason
            assert str(error).isprintable()


@pytest.mark.parametrize("wrapped", [MappingProxyType, UserDict])
def test_a_mapping_that_is_no_dict_is_looked_through_too(wrapped: Any) -> None:
    error = refusal(made(schema=wrapped({"properties": wrapped({"a": wrapped({"enumDescriptions": ("x\u200b",)})})})))
    assert error.field == "schema"
    assert error.reason.startswith("/properties/a/enumDescriptions/0: ")
    assert isinstance(error, SchemaError)
    assert error.path == ("properties", "a", "enumDescriptions", 0)


def test_the_first_in_the_order_of_the_document_is_told() -> None:
    error = refusal(made(schema={"title": "a", "properties": {"x": {"title": "\u200b"}}, "$comment": "\u202e"}))
    assert error.reason.startswith("/properties/x/title: ")


def test_what_is_told_of_other_faults_shows_hidden_characters_too() -> None:
    made_here: dict[str, Any] = {}
    exec("async def two(a\u3164, b): ...", made_here)  # Python takes the filler for a letter
    assert "(a\\u{1160}, b)" in refusal(made(handler=made_here["two"])).reason

    def unmade() -> None: ...

    unmade.__name__ = "x\u202ey"
    assert refusal(unmade).tool == "x\\u{202e}y"
    assert refusal(made(name=["\u3164"])).tool == "['\\u{3164}']"
    assert refusal(made(name="a" * 70 + "\u202e" * 30)).tool == "a" * 70 + "\\u{202e}" * 10


def test_a_line_break_at_the_end_of_a_name_is_shown() -> None:
    error = refusal(made(name="t\n"))
    assert (error.tool, error.field) == ("t\\n", "name")
    assert "\\n is U+000A LINE FEED" in error.reason


def test_a_place_far_down_is_told_by_its_end() -> None:
    schema: dict[str, Any] = {"description": "\u200b"}
    for _ in range(60):
        schema = {"properties": {"inner": schema}}
    reason = refusal(made(schema=schema)).reason
    assert reason.startswith("…")
    assert "/properties/inner/description: in " in reason
    assert len(reason) < 400


def test_a_name_that_only_has_a_bad_letter_is_told_what_letters_are_good() -> None:
    assert refusal(made(name="größe")).reason.startswith("only letters, digits")
