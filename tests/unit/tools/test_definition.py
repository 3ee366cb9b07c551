"""Definitions: every bad field is refused by name, and what is the same is told from what changed."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from toolstead.errors import DefinitionError, SchemaError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.definition import LONGEST_DESCRIPTION, LONGEST_NAME, RegisteredTool, define_tool
from toolstead.types.tool import Annotations, Provenance

HERE = Provenance(source="plugin", origin="here.py", plugin_name="p")


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


def defined(**fields: Any) -> RegisteredTool:
    given = {"name": "t", "description": "A tool.", "handler": handler} | fields
    return define_tool(Tool(**given), HERE, PluginContext(name="p"))


def refusal(**fields: Any) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        defined(**fields)
    return caught.value


class Called:
    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return ""

    async def method(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return ""

    @classmethod
    async def of_the_class(cls, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return ""


def blocking(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


async def yielding(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
    yield ""


async def two(ctx: PluginContext, input: dict[str, Any]) -> str:
    return ""


async def four(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta, more: str) -> str:
    return ""


async def by_name(*, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


async def fixed(secret: str, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return secret


async def generous(*args: Any, **kwargs: Any) -> str:
    return ""


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function that passes the coroutine on."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def in_a_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """An async function around a blocking one that takes other arguments."""

    @functools.wraps(function)
    async def wrapper(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
        return function(**input)

    return wrapper


@pytest.mark.promise("R4")
@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"name": ""}, "name", "a name is needed"),
        ({"name": None}, "name", "a name is needed"),
        ({"name": 7}, "name", "a name is needed"),
        ({"name": "git status"}, "name", "only letters, digits, `_` and `-` are allowed"),
        ({"name": "a.b"}, "name", "only letters, digits, `_` and `-` are allowed"),
        ({"name": "ü"}, "name", "only letters"),
        ({"name": "x" * 65}, "name", "65 characters; at most 64"),
        ({"description": ""}, "description", "a sentence is needed that tells the model"),
        ({"description": " \n"}, "description", "a sentence is needed that tells the model"),
        ({"description": None}, "description", "a sentence is needed that tells the model"),
        ({"description": "x" * 16_385}, "description", "16,385 characters; at most 16,384"),
        ({"handler": None}, "handler", "an `async def` with (ctx, input, meta) is needed"),
        ({"handler": blocking}, "handler", "an `async def` with (ctx, input, meta) is needed"),
        ({"handler": functools.partial(blocking, None)}, "handler", "an `async def`"),
        ({"handler": yielding}, "handler", "an `async def`"),
        ({"handler": Called}, "handler", "an `async def`"),
        ({"handler": wrapping(blocking)}, "handler", "an `async def`"),
        ({"handler": two}, "handler", "it is called with (ctx, input, meta), but takes (ctx: "),
        ({"handler": four}, "handler", "more: 'str') -> 'str'"),
        ({"handler": by_name}, "handler", "but takes (*, ctx:"),
        ({"handler": functools.partial(handler, None)}, "handler", "it is called with (ctx, input, meta), but takes"),
        ({"timeout": 0}, "timeout", "seconds above 0, not 0"),
        ({"timeout": -1.5}, "timeout", "seconds above 0, not -1.5"),
        ({"timeout": float("nan")}, "timeout", "seconds above 0, not nan"),
        ({"timeout": "5"}, "timeout", "seconds above 0, not '5'"),
        ({"timeout": True}, "timeout", "seconds above 0, not True"),
        ({"max_output": 0}, "max_output", "bytes above 0, not 0"),
        ({"max_output": "1k"}, "max_output", "bytes above 0, not '1k'"),
        ({"max_output": 1.5}, "max_output", "bytes above 0, not 1.5"),
        ({"annotations": {"read_only": True}}, "annotations", "an Annotations(…) is needed"),
        ({"title": 5}, "title", "text is needed, not 5"),
        ({"schema": {}, "parameters": {}}, "parameters", "give `schema` or `parameters`, not both"),
        ({"schema": []}, "schema", "a JSON object is needed, not list"),
        ({"schema": {"type": "array"}}, "schema.type", 'must be "object"'),
        ({"schema": {"properties": {"a": {"type": "strng"}}}}, "schema.properties.a.type", "strng"),
        (
            {"schema": {"properties": {"a": {"default": float("inf")}}}},
            "schema.properties.a.default",
            "inf is not a JSON",
        ),
        ({"parameters": []}, "parameters", "a mapping of names is needed, not list"),
        ({"parameters": {"a": "string"}}, "parameters.a", "a mapping such as"),
        ({"parameters": {"a": {}}}, "parameters.a.type", "one of string, number"),
        ({"output_schema": {"type": "strng"}}, "output_schema.type", "strng"),
        ({"output_schema": "object"}, "output_schema", ""),
    ],
)
def test_a_bad_field_is_refused_by_name_with_what_would_be_right(fields: dict[str, Any], field: str, said: str) -> None:
    error = refusal(**fields)
    assert (error.field, error.tool[:65]) == (field, str(fields.get("name", "t"))[:65])
    assert said in error.reason
    assert str(error) == f"tool {error.tool!r}: {error.field}: {error.reason}"


@pytest.mark.parametrize("bad", [handler, "t", None, {"name": "t"}, Called()])
def test_what_is_no_tool_at_all_is_refused(bad: Any) -> None:
    with pytest.raises(DefinitionError, match="a Tool is needed; put @tool above the function") as caught:
        define_tool(bad, HERE, PluginContext(name="p"))
    assert caught.value.field == "tool"
    assert caught.value.tool


def test_a_list_of_tools_in_the_place_of_tools_is_refused_with_the_call_that_is_right() -> None:
    with pytest.raises(DefinitionError, match=r"give the tools themselves, not a list: register\(\*tools\)"):
        define_tool([], HERE, PluginContext(name="p"))  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_a_refusal_never_repeats_a_huge_name() -> None:
    for name in ("x" * 1_000_000, " " * 1_000_000):
        assert len(str(refusal(name=name))) < 300


@pytest.mark.parametrize(
    "good",
    [
        handler,
        generous,
        Called(),
        Called().method,
        Called.of_the_class,
        functools.partial(fixed, "secret"),
        functools.partial(functools.partial(fixed, "secret")),
        functools.partial(Called()),
        wrapping(handler),
        in_a_worker(lambda text: text),
    ],
)
def test_whatever_gives_a_coroutine_for_the_three_arguments_may_be_a_handler(good: Any) -> None:
    assert defined(handler=good).tool.handler is good


def test_the_limits_of_a_name_and_a_description_can_be_reached() -> None:
    name, description = "aZ0_-" + "x" * (LONGEST_NAME - 5), "x" * LONGEST_DESCRIPTION
    info = defined(name=name, description=description, timeout=0.001, max_output=1).info
    assert (info.name, info.description) == (name, description)


def test_a_definition_shows_what_its_author_said() -> None:
    hints = Annotations(destructive=True)
    made = defined(
        parameters={"a": {"type": "string", "required": True}},
        output_schema={"type": "object"},
        annotations=hints,
        title="T",
    )
    assert made.info.to_json() == {
        "name": "t",
        "description": "A tool.",
        "source": "plugin",
        "pluginName": "p",
        "origin": "here.py",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        "outputSchema": {"type": "object"},
    }
    assert (made.info.annotations, made.info.title, made.info.stale) == (hints, "T", False)
    assert made.input.is_valid({"a": "x"})
    assert not made.input.is_valid({})
    assert defined().output is None


def test_references_may_lead_into_the_documents_at_hand_and_nowhere_else() -> None:
    made = Tool(name="t", description="d", handler=handler, schema={"properties": {"a": {"$ref": "urn:words#/A"}}})
    documents = {"urn:words": {"A": {"type": "string"}}}
    registered = define_tool(made, HERE, PluginContext(name="p"), documents=documents)
    assert not registered.input.is_valid({"a": 1})
    with pytest.raises(SchemaError, match="references are never fetched"):
        define_tool(made, HERE, PluginContext(name="p"))


@pytest.mark.promise("S1")
def test_a_default_that_does_not_fit_is_warned_about_with_tool_and_origin(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        defined(schema={"properties": {"n": {"type": "integer", "default": "x"}}})
    (record,) = caplog.records
    assert record.getMessage().startswith("tool 't' (here.py): /properties/n: the default \"x\" does not fit")


def test_the_same_definition_twice_is_the_same() -> None:
    called = Called()
    for fields in ({}, {"handler": called.method}, {"schema": {"properties": {"a": {"const": 1}}}}):
        assert defined(**fields).same_as(defined(**fields))
    # A bound method is a new object whenever it is asked for, and still the same method.
    assert defined(handler=called.method).same_as(defined(handler=called.method))


@pytest.mark.parametrize(
    "fields",
    [
        {"handler": generous},
        {"description": "Other."},
        {"schema": {"properties": {"a": {"const": True}}}},
        {"schema": {"properties": {"a": {"const": 1.0}}}},
        {"schema": {"properties": {"a": {"const": 1}}, "type": "object", "required": []}},
        {"output_schema": {"type": "object"}},
        {"annotations": Annotations(read_only=True)},
        {"title": "T"},
        {"timeout": 5},
        {"max_output": 5},
        {"progress": True},
        {"interactive": True},
    ],
)
def test_a_changed_field_is_a_change(fields: dict[str, Any]) -> None:
    before = {"schema": {"properties": {"a": {"const": 1}}}}
    assert not defined(**(before | fields)).same_as(defined(**before))


def test_another_origin_is_a_change() -> None:
    tool, context = Tool(name="t", description="d", handler=handler), PluginContext(name="p")
    moved = structs.replace(HERE, origin="there.py")
    assert not define_tool(tool, HERE, context).same_as(define_tool(tool, moved, context))


@pytest.mark.promise("R6")
def test_a_stale_tool_is_the_same_tool_marked_and_that_is_a_change() -> None:
    good = defined(output_schema={"type": "object"})
    stale = good.as_stale()
    assert (stale.tool, stale.context, stale.input, stale.output) == (good.tool, good.context, good.input, good.output)
    assert stale.info == msgspec.structs.replace(good.info, stale=True)
    assert not stale.same_as(good)
    assert stale.same_as(good.as_stale())
