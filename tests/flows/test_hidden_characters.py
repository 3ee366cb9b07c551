"""What a reader cannot see is refused: every hidden character, in every field, shown escaped in the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.flows.hidden_strings import HIDDEN, JOINED, SPACED, HiddenString
from toolstead import Tool, ToolMeta, Toolstead, tool
from toolstead.errors import DefinitionError
from toolstead.testing import connect, memory_stead

pytestmark = pytest.mark.promise("R4")


async def handler(ctx: Any, input: dict[str, Any], meta: ToolMeta) -> str:
    return "done"


def made(**fields: Any) -> Tool:
    return Tool(**({"name": "t", "description": "A tool.", "handler": handler} | fields))


def of_property(schema: Mapping[str, Any]) -> Tool:
    return made(schema={"type": "object", "properties": {"p": schema}})


Field = tuple[str, Callable[[str], Tool]]
"""What the message says of the place, and a tool with a text there."""

NAMES: list[Field] = [
    ("name: ", lambda text: made(name=text)),
    ("title: ", lambda text: made(title=text)),
]
DATA: list[Callable[[str], Tool]] = [
    lambda text: made(schema={"properties": {text: {}}}),
    lambda text: made(schema={"$defs": {text: {"type": "string"}}}),
    lambda text: made(schema={"x-unknown": [{text: True}]}),
    lambda text: made(output_schema={"properties": {text: {}}}),
    lambda text: made(parameters={text: {"type": "string"}}),
    lambda text: of_property({"enum": ["a", text]}),
    lambda text: of_property({"const": text}),
    lambda text: of_property({"type": "string", "default": text}),
    lambda text: of_property({"default": {"title": text, text: 1}}),
    lambda text: of_property({"examples": [text]}),
    lambda text: of_property({"format": text}),
    lambda text: made(schema={"required": [text]}),
    lambda text: made(schema={"x-unknown": text}),
    lambda text: made(output_schema={"enum": [text]}),
    lambda text: made(parameters={"p": {"type": "string", "default": text}}),
]
FAULTY: list[Callable[[str], Tool]] = [
    lambda text: made(schema={"type": text}),
    lambda text: of_property({"$ref": "#/$defs/" + text}),
    lambda text: of_property({"type": text}),
    lambda text: made(schema={"properties": {text: {"type": 1}}}),
    lambda text: made(schema={"properties": {text: {"default": object()}}}),
]
PROSE: list[Field] = [
    ("description: ", lambda text: made(description=text)),
    ("schema: /description: ", lambda text: made(schema={"description": text})),
    ("schema: /title: ", lambda text: made(schema={"title": text})),
    ("schema: /$comment: ", lambda text: made(schema={"$comment": text})),
    ("schema: /properties/p/description: ", lambda text: of_property({"description": text})),
    ("schema: /properties/p/items/anyOf/0/description: ", lambda text: in_depth({"description": text})),
    ("schema: /properties/description/description: ", lambda text: named_like_a_keyword({"description": text})),
    ("output_schema: /description: ", lambda text: made(output_schema={"description": text})),
    (
        "parameters: /default/description: ",
        lambda text: made(parameters={"default": {"type": "string", "description": text}}),
    ),
    ("parameters: /p/description: ", lambda text: made(parameters={"p": {"type": "string", "description": text}})),
]


def in_depth(schema: Mapping[str, Any]) -> Tool:
    return of_property({"type": "array", "items": {"anyOf": [schema]}})


def named_like_a_keyword(schema: Mapping[str, Any]) -> Tool:
    return made(schema={"properties": {"description": schema}})


def refused(stead: Toolstead, given: Tool) -> str:
    with pytest.raises(DefinitionError) as caught:
        stead.registry.register(given)
    assert stead.registry.get_tool_info(given.name) is None
    return str(caught.value)


def assert_shown(message: str, place: str, hidden: HiddenString) -> None:
    """It says where, what and what is right, and nothing in it is hidden."""
    assert place in message
    assert f"{hidden.shown} is {hidden.code} {hidden.called}, which " in message
    assert hidden.character not in message
    assert message.isprintable()
    assert any(word in message.rpartition("; ")[2] for word in ("remove", "write"))


def test_there_are_more_than_fifty_hidden_strings_and_each_is_another() -> None:
    assert len({hidden.text for hidden in HIDDEN}) == len({hidden.label for hidden in HIDDEN}) == len(HIDDEN) > 50


async def test_a_hidden_character_is_refused_in_every_name_and_text_and_shown_escaped() -> None:
    async with memory_stead() as stead:
        for hidden in HIDDEN:
            for place, build in (*NAMES, *PROSE):
                assert_shown(refused(stead, build(hidden.text)), place, hidden)


async def test_what_emoji_and_scripts_are_joined_with_stands_in_prose_and_in_no_name() -> None:
    async with memory_stead() as stead:
        for joined in JOINED:
            for place, build in NAMES:
                assert_shown(refused(stead, build(joined.text)), place, joined)
            for _, build in PROSE:
                stead.registry.register(build(joined.text))
                stead.registry.unregister("t")


async def test_lines_and_wide_spaces_stand_in_prose_but_in_no_name() -> None:
    async with memory_stead() as stead:
        for spaced in SPACED:
            for place, build in NAMES:
                assert_shown(refused(stead, build(spaced.text)), place, spaced)
            for _, build in PROSE:
                stead.registry.register(build(spaced.text))
                stead.registry.unregister("t")


@pytest.mark.promise("S1")
async def test_what_is_data_in_a_schema_may_have_any_character_and_is_listed_as_it_is() -> None:
    async with memory_stead() as stead:
        for given in (*HIDDEN, *JOINED, *SPACED):
            for build in DATA:
                built = build(given.text)
                if not given.is_sendable:
                    assert "half of a surrogate pair" in refused(stead, built)
                    continue
                stead.registry.register(built)
                info = stead.registry.get_tool_info("t")
                assert info is not None
                if built.schema is not None:
                    assert info.input_schema == {"type": "object", **built.schema}
                stead.registry.unregister("t")


async def test_a_fault_of_a_schema_is_told_with_everything_visible() -> None:
    async with memory_stead() as stead:
        for hidden in HIDDEN:
            for build in FAULTY:
                assert refused(stead, build(hidden.text)).isprintable(), hidden.label


async def test_a_decorated_function_is_looked_at_like_every_tool() -> None:
    async def helpful(text: str) -> str:
        return text

    helpful.__doc__ = "Say it.\n\nArgs:\n    text: What to say.\U000e0041\U000e0042"
    async with memory_stead() as stead:
        message = refused(stead, tool(helpful))
        assert "schema: /properties/text/description: " in message
        assert "\\u{e0041} is U+E0041 TAG LATIN CAPITAL LETTER A" in message


async def test_one_bad_tool_keeps_out_those_registered_with_it_and_nothing_else() -> None:
    async with memory_stead(made(name="before")) as stead:
        with pytest.raises(DefinitionError, match="'bad': description"):
            stead.registry.register(made(name="good"), made(name="bad", description="x\u202ey"))
        assert [stead.registry.has_tool(name) for name in ("before", "good", "bad")] == [True, False, False]


async def test_prose_in_many_scripts_reaches_a_client_as_it_was_written() -> None:
    prose = "Zeigt \u2764\ufe0f, \U0001f469\u200d\U0001f680 und \u0645\u06cc\u200c\u0634\u0648\u062f.\n\nZweite Zeile."
    given = made(description=prose, schema={"type": "object", "description": prose})
    async with memory_stead(given) as stead, connect(stead) as client:
        listed = next(shown for shown in (await client.list_tools()).tools if shown.name == "t")
        assert (listed.description, listed.input_schema["description"]) == (prose, prose)


async def test_several_are_told_as_several_and_only_the_place_around_is_quoted() -> None:
    async with memory_stead() as stead:
        message = refused(stead, made(description="a" * 9_000 + "\u200b\u202e" + "b" * 7_000))
        assert "and it is not the only one" in message
        assert f'in "…{"a" * 24}\\u{{200b}}\\u{{202e}}bb' in message
        assert len(message) < 400
        alone = refused(stead, made(description="a\u200b"))
        assert "only one" not in alone


async def test_a_schema_that_is_no_json_or_has_no_end_is_still_refused_for_that() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"a": endless, "b": [endless, endless]}
    async with memory_stead() as stead:
        assert "nested deeper" in refused(stead, made(schema=endless))
        assert "is not a JSON value" in refused(stead, made(schema={"default": object()}))
        assert "keys are strings" in refused(stead, made(schema={"properties": {1: {}}}))
