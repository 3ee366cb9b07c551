"""`@tool`: what a signature becomes, what is injected and converted, what is refused, what is answered."""

from __future__ import annotations

import functools
import json
import sys
import threading
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, NotRequired
from uuid import UUID

import pytest
import typing_extensions
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, StringConstraints

from toolstead.errors import DefinitionError
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.annotations import error_place
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.decorator import tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult
from toolstead.types.tool import Annotations

if typing.TYPE_CHECKING:
    from decimal import Context as OnlyForCheckers


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Address(BaseModel):
    """Where somebody lives."""

    title: str = "home"
    street: str
    since: datetime | None = None


class Order(BaseModel):
    to: Address
    points: list[Point] = Field(default_factory=list[Point])
    title: str = Field(default="x", title="A title of the author's")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    on: date


class Aliased(BaseModel):
    model_config = ConfigDict(serialize_by_alias=False)

    inner: int = Field(alias="outerName")


class Branch(BaseModel):
    leaves: list[Branch] = []


class Row(typing.TypedDict):
    id: int
    tags: NotRequired[list[str]]


class Table(typing.TypedDict, total=False):
    rows: typing.Required[list[Row]]
    first: Row | None


class Modern(typing_extensions.TypedDict):
    id: int


class Closed(typing.TypedDict):
    """Nothing else."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportGeneralTypeIssues] - pydantic's own way

    id: int


class Cyclic(typing.TypedDict):
    inner: Cyclic | None


Numbers = RootModel[list[int]]


def even(value: int) -> int:
    if value % 2:
        raise ValueError("an even number is needed")
    return value


async def call(made: Tool, input: Mapping[str, Any] | None = None) -> ToolResult:
    """Call a tool as everybody does: registered, through the dispatcher."""
    registry = Registry()
    registry.register(made)
    dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path("/p"))
    return await dispatcher.call(made.name, input, Caller(thread_id="th"))


async def received(made: Tool, input: Mapping[str, Any] | None = None) -> Any:
    """What a function that keeps its argument `x` got."""
    result = await call(made, input)
    assert not result.is_error, result.text
    return KEPT.pop()


KEPT: list[Any] = []


def keeping(annotation: Any, *default: Any) -> Tool:
    """A tool with one parameter `x` of this type, which keeps what it gets."""

    async def keep(x: Any) -> str:
        KEPT.append(x)
        return "kept"

    keep.__doc__ = "Keep."
    keep.__annotations__ = {"x": annotation, "return": str}
    keep.__defaults__ = default or None
    return tool(keep)


def property_of(made: Tool, name: str = "x") -> dict[str, Any]:
    assert made.schema is not None
    return made.schema["properties"][name]


def refusal(function: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        tool(function)
    return str(caught.value)


# --- what a signature becomes


@tool
async def shout(ctx: PluginContext, text: str, times: int = 1) -> str:
    """Say it louder.

    Args:
        text: What to say.
        times: How often.
    """
    return (text.upper() + " ") * times


async def test_the_example_of_the_guide_is_a_tool_value() -> None:
    assert isinstance(shout, Tool)
    assert (shout.name, shout.description, shout.output_schema) == ("shout", "Say it louder.", None)
    assert shout.schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "times": {"type": "integer", "description": "How often.", "default": 1},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert (await call(shout, {"text": "hi", "times": 2})).text == "HI HI "
    assert (await call(shout, {"text": "hi"})).text == "HI "


async def test_everything_of_a_tool_can_be_said_in_the_decorator() -> None:
    hints = Annotations(read_only=True)

    @tool(
        name="other-name",
        description="Said here.",
        annotations=hints,
        timeout=3,
        max_output=10,
        progress=True,
        interactive=True,
        title="For people",
    )
    async def function() -> str:
        """Not this."""
        return ""

    assert (function.name, function.description, function.annotations) == ("other-name", "Said here.", hints)
    assert (function.timeout, function.max_output, function.title) == (3, 10, "For people")
    assert function.progress
    assert function.interactive


async def test_a_tool_tells_the_module_of_its_function_as_its_origin() -> None:
    registry = Registry()
    registry.register(shout)
    assert registry.current.tools["shout"].info.provenance.origin == __name__
    assert getattr(shout.handler, "__qualname__", "") == "shout"


async def test_context_and_call_are_injected_wherever_they_stand_and_are_in_no_schema() -> None:
    @tool
    async def middle(a: str, ctx: PluginContext, b: str, *, meta: ToolMeta) -> str:
        """Do."""
        return f"{a} {b} {ctx.name} {meta.thread_id}"

    @tool
    async def odd(
        meta: Annotated[ToolMeta, "the call"], one: PluginContext, two: PluginContext | None = None, a: int = 1
    ) -> str:
        """Do."""
        return f"{meta.thread_id} {one is two} {a}"

    @tool
    async def none() -> str:
        """Do."""
        return "alone"

    assert middle.schema is not None
    assert list(middle.schema["properties"]) == ["a", "b"]
    assert odd.schema is not None
    assert list(odd.schema["properties"]) == ["a"]
    assert none.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert (await call(middle, {"a": "A", "b": "B"})).text == "A B python th"
    assert (await call(odd)).text == "th True 1"
    assert (await call(none)).text == "alone"


async def test_a_caller_cannot_give_what_is_injected() -> None:
    assert (await call(shout, {"text": "a", "ctx": "mine"})).failure is Failure.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    "name", ["input", "json", "copy", "schema", "dict", "model_config", "_hidden", "ctx", "cls", "default"]
)
async def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"async def named({name}: int, other: str = 'o') -> str:\n  'Do.'\n  return f'{{{name}}}{{other}}'", namespace)
    made = tool(namespace["named"])
    assert made.schema is not None
    assert list(made.schema["properties"]) == [name, "other"]
    assert property_of(made, name) == {"type": "integer"}
    assert (await call(made, {name: 1})).text == "1o"


async def test_an_alias_in_the_annotation_does_not_rename_the_argument() -> None:
    made = keeping(Annotated[int, Field(alias="a", validation_alias="b", ge=1)])
    assert property_of(made) == {"type": "integer", "minimum": 1}
    assert await received(made, {"x": 1}) == 1


class Counter:
    def __init__(self) -> None:
        self.total = 0

    async def add(self, amount: int = 1) -> str:
        """Add."""
        self.total += amount
        return str(self.total)

    @staticmethod
    async def loose(amount: int) -> str:
        """Loose."""
        return str(amount)


async def test_a_bound_method_is_a_tool_of_its_object() -> None:
    counter = Counter()
    made = tool(counter.add)
    assert made.name == "add"
    await call(made, {"amount": 2})
    assert (await call(made)).text == "3"
    assert (await call(tool(Counter.loose), {"amount": 4})).text == "4"


async def test_a_function_that_is_wrapped_is_read_through_its_wrapper() -> None:
    def loud(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return (await function(*args, **kwargs)).upper()

        return wrapper

    @tool
    @loud
    async def said(text: str) -> str:
        """Say."""
        return text

    assert property_of(said, "text") == {"type": "string"}
    assert (await call(said, {"text": "a"})).text == "A"


# --- types


@pytest.mark.parametrize(
    ("annotation", "given", "got"),
    [
        (int, 1.0, 1),
        (int | None, 1.0, 1),
        (list[int], [1.0, 2], [1, 2]),
        (Annotated[int, Field(ge=1)], 1.0, 1),
        (int | str, 1.0, 1),
        (Literal[1, 2], 1.0, 1),
        (float, 1, 1.0),
        (list[float], [1], [1.0]),
        (str | None, None, None),
        (typing.Union[str, None], "a", "a"),  # noqa: UP007 - the older spelling works too
        (Literal["a", "b"], "a", "a"),
        (Colour, "red", Colour.RED),
        (list[list[Colour]], [["red"], []], [[Colour.RED], []]),
        (datetime, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (Decimal, "1.50", Decimal("1.50")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Path, "a/b", Path("a/b")),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[str, Any], {"a": [1]}, {"a": [1]}),
        (Point, {"x": 1}, Point(1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (Address, {"street": "s"}, Address(street="s")),
        (Strict, {"on": "2026-01-02"}, Strict(on=date(2026, 1, 2))),
        (Row, {"id": 1.0}, {"id": 1}),
        (list[Row] | None, [{"id": 1, "tags": ["a"]}], [{"id": 1, "tags": ["a"]}]),
        (Table, {"rows": [{"id": 1}], "first": None}, {"rows": [{"id": 1}], "first": None}),
        (Modern, {"id": 1}, {"id": 1}),
        (Annotated[Row, Field(description="a row")], {"id": 1.0}, {"id": 1}),
        (Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True)], " a ", "A"),
        (Annotated[str | None, AfterValidator(lambda value: value or "none")], None, "none"),
        (Any, {"a": 1}, {"a": 1}),
        (object, [1], [1]),
    ],
)
async def test_json_becomes_what_the_annotation_says(annotation: Any, given: Any, got: Any) -> None:
    value = await received(keeping(annotation), {"x": given})
    assert (value, type(value)) == (got, type(got))
    if isinstance(got, list):
        assert [type(item) for item in value] == [type(item) for item in got]


@pytest.mark.parametrize(
    ("annotation", "bad", "pointer"),
    [
        (int, True, "/x"),
        (int, "1", "/x"),
        (Literal["a"], "b", "/x"),
        (Annotated[int, Field(ge=1, le=3)], 4, "/x"),
        (Annotated[str, Field(min_length=2, pattern="^a")], "b", "/x"),
        (Order, {"to": {"street": 1}}, "/x/to/street"),
        (Row, {"id": "1"}, "/x/id"),
        (Colour, "green", "/x"),
    ],
)
async def test_the_schema_refuses_what_the_annotation_does_not_allow(annotation: Any, bad: Any, pointer: str) -> None:
    result = await call(keeping(annotation), {"x": bad})
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert f"\n{pointer}: " in result.text


@pytest.mark.parametrize(
    ("annotation", "bad", "said"),
    [
        (datetime, "tomorrow", "/x: Input should be a valid datetime"),
        (Annotated[int, AfterValidator(even)], 3, "/x: Value error, an even number is needed"),
        (list[UUID], ["12345678-1234-5678-1234-567812345678", "no"], "/x/1: Input should be a valid UUID"),
        (Address, {"street": "s", "since": "once"}, "/x/since: Input should be a valid datetime"),
        (dict[str, date], {"a/b": "no"}, "/x/a~1b: Input should be a valid date"),
        (list[datetime] | dict[str, date], {"k": "no"}, "/x/k: Input should be a valid date"),
        (float, 10**400, "/x: int too large to convert to float"),
    ],
)
async def test_what_only_the_type_refuses_is_an_error_with_its_pointer(annotation: Any, bad: Any, said: str) -> None:
    result = await call(keeping(annotation), {"x": bad})
    assert (result.is_error, result.failure) == (True, Failure.TOOL)
    assert result.text.startswith("Invalid arguments for keep:\n/x")
    assert said in result.text


async def test_many_refusals_of_the_type_are_a_few_lines() -> None:
    result = await call(keeping(list[datetime]), {"x": ["no"] * 1000})
    assert len(result.text.splitlines()) == 6


async def test_titles_are_left_out_but_not_what_is_called_title() -> None:
    @tool
    async def send(title: str, order: Order, note: dict[str, Any] = {"title": "kept", "n": {"title": "too"}}) -> str:  # noqa: B006 - the point
        """Send.

        Args:
            title: Its title.
        """
        return json.dumps([title, order.title, order.to.title, note])

    assert send.schema is not None
    assert send.schema["properties"]["title"] == {"type": "string", "description": "Its title."}
    assert send.schema["properties"]["note"]["default"] == {"title": "kept", "n": {"title": "too"}}
    definitions = send.schema["$defs"]
    assert definitions["Address"]["properties"]["title"] == {"type": "string", "default": "home"}
    assert definitions["Order"]["properties"]["title"] == {"type": "string", "default": "x"}
    assert definitions["Address"]["description"] == "Where somebody lives."
    assert '"title": "' not in json.dumps({**send.schema, "properties": {"order": send.schema["properties"]["order"]}})
    assert (await call(send, {"title": "a", "order": {"to": {"street": "s", "title": "b"}}})).text == (
        '["a", "x", "b", {"title": "kept", "n": {"title": "too"}}]'
    )


async def test_descriptions_come_from_the_docstring_unless_the_annotation_has_one() -> None:
    @tool
    async def both(
        a: int, b: Annotated[int, Field(description="annotated")], c: Annotated[int, Field(ge=1)] = 1, d: str = ""
    ) -> str:
        """Do.

        Args:
            a: first
            b: docstring
            c: third
        """
        return ""

    texts = {name: property_of(both, name).get("description") for name in "abcd"}
    assert texts == {"a": "first", "b": "annotated", "c": "third", "d": None}


# --- defaults


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (str, "a", "a"),
        (str | None, None, None),
        (Colour, Colour.BLUE, "blue"),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (Decimal, Decimal("1.5"), "1.5"),
        (Path, Path("a"), "a"),
        (set[int], {1}, [1]),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (Address, Address(street="s"), {"title": "home", "street": "s", "since": None}),
    ],
)
async def test_a_default_is_json_in_the_schema_and_itself_in_the_call(
    annotation: Any, default: Any, shown: Any
) -> None:
    made = keeping(annotation, default)
    assert property_of(made)["default"] == shown
    json.dumps(made.schema, allow_nan=False)
    assert await received(made) == default


UNIQUE = object()


@pytest.mark.parametrize("default", [UNIQUE, b"\xff", float("inf"), [float("-inf")]])
async def test_a_default_that_is_no_json_is_in_the_call_alone(default: Any) -> None:
    made = keeping(Any, default)
    assert "default" not in property_of(made)
    json.dumps(made.schema, allow_nan=False)
    assert await received(made) == default


async def test_a_default_of_another_type_is_warned_of_and_still_reaches_the_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await received(keeping(str, None)) is None
    assert "the default null does not fit its own schema" in caplog.text


@pytest.mark.parametrize("annotation", [list[str], list, list[Point] | None, Any])
async def test_a_mutable_default_is_not_shared_between_calls(annotation: Any) -> None:
    made = keeping(annotation, [])
    (await received(made)).append("left behind")
    assert await received(made) == []
    for _ in range(2):
        await made.handler(PluginContext(name="p"), {}, None)  # pyright: ignore[reportArgumentType] - not used
        kept = KEPT.pop()
        assert kept == []
        kept.append("left behind")


async def test_a_default_may_be_a_field_or_stand_in_the_annotation() -> None:
    @tool
    async def fields(
        a: int = Field(5, ge=1, description="in the field"),
        b: list[int] = Field(default_factory=list[int]),  # noqa: B008 - the point
        c: Annotated[Colour, Field(default=Colour.RED)] = Field(),  # noqa: B008 - the point
    ) -> str:
        """Do.

        Args:
            a: in the docstring
        """
        b.append(a)
        return f"{a} {b} {c.name}"

    assert property_of(fields, "a") == {"type": "integer", "minimum": 1, "default": 5, "description": "in the field"}
    assert fields.schema is not None
    assert "required" not in fields.schema
    assert (await call(fields)).text == "5 [5] RED"
    assert (await call(fields)).text == "5 [5] RED"
    assert (await call(fields, {"a": 0})).failure is Failure.INVALID_ARGUMENTS


async def test_a_handler_leaves_the_callers_arguments_as_they_are() -> None:
    given = {"x": "2026-01-02"}
    await keeping(date).handler(PluginContext(name="p"), given, None)  # pyright: ignore[reportArgumentType] - not used
    assert (given, KEPT.pop()) == ({"x": "2026-01-02"}, date(2026, 1, 2))


# --- refusals


async def rest(*args: str) -> Any: ...
async def named(**kwargs: str) -> Any: ...
async def positional(a: str, /) -> Any: ...
async def positional_context(ctx: PluginContext, /, a: str) -> Any: ...
async def rest_of_contexts(*args: PluginContext) -> Any: ...
async def unknown_name(a: Missing) -> Any: ...  # noqa: F821 - unreadable on purpose
async def for_checkers(a: OnlyForCheckers) -> Any: ...
async def no_type(a: threading.Event) -> Any: ...
async def a_list(a: [int]) -> Any: ...  # pyright: ignore[reportInvalidTypeForm] - unreadable on purpose
async def a_callback(a: Callable[[int], int]) -> Any: ...
async def unreadable(a: 1 / 0) -> Any: ...  # pyright: ignore[reportInvalidTypeForm] - unreadable on purpose
async def cyclic(a: Cyclic) -> Any: ...
async def returns_bytes() -> str | bytes:
    """Do."""
    return b""


def returns_many_bytes() -> list[bytes]:
    """Do."""
    return []


def returns_a_thing(a: str) -> threading.Event:
    return threading.Event()


async def yields(a: str) -> AsyncIterator[str]:
    yield a


def yields_too(a: str) -> Iterator[str]:
    yield a


@pytest.mark.parametrize(
    ("function", "name"),
    [(rest, "args"), (named, "kwargs"), (positional, "a"), (positional_context, "ctx"), (rest_of_contexts, "args")],
)
def test_what_cannot_be_given_by_name_is_refused(function: Any, name: str) -> None:
    said = refusal(function)
    assert said.startswith(f"tool {function.__name__!r}: parameter {name!r}: arguments come by name")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (yields, "tool 'yields': handler: it yields; return one answer, such as a list, in place of many"),
        (yields_too, "handler: it yields; return one answer, such as a list, in place of many"),
        (Counter, "handler: a function is needed, not the class Counter"),
        (functools.partial(positional, "a"), "handler: a partial would show the model what is fixed in it"),
        (Counter.add, "parameter 'self': no caller can fill it; make the tool from a bound method"),
        (unknown_name, "signature: unreadable annotation: name 'Missing' is not defined; it is read at run time"),
        (for_checkers, "signature: unreadable annotation: name 'OnlyForCheckers' is not defined"),
        (unreadable, "signature: unreadable annotation: division by zero"),
        (no_type, "signature: no schema for it: Unable to generate pydantic-core schema for <class 'threading.Event'>"),
        (a_list, "signature: no schema for it: Unable to generate pydantic-core schema for [<class 'int'>]"),
        (a_callback, "signature: no schema for it: Cannot generate a JsonSchema for core_schema.CallableSchema"),
        (
            lambda ctx, text: text,
            "parameter 'ctx': without an annotation the model would have to fill it; write `ctx: PluginContext`",
        ),
        (lambda meta: 1, "write `meta: ToolMeta` (from toolstead import ToolMeta)"),
        (returns_bytes, "return: bytes do not say what they are; return Image(data=…, mime_type="),
        (returns_many_bytes, "return: bytes do not say what they are; return Image(data=…, mime_type="),
        (
            returns_a_thing,
            "return: it cannot become JSON; return text, images and other content, lists of these, a ToolResult",
        ),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_what_would_be_right(function: Any, said: str) -> None:
    assert said in refusal(function)


def test_a_dictionary_type_that_contains_itself_works_or_says_what_would_be_right() -> None:
    if sys.version_info >= (3, 12):
        assert tool(cyclic).schema is not None
    else:
        assert "Cyclic contains itself; take TypedDict from typing_extensions" in refusal(cyclic)


def test_an_errors_place_is_only_what_leads_through_the_value() -> None:
    value = {"a": [{"b": 1}]}
    assert error_place(value, ("a", "list[dict]", 0, "b", "int")) == ["a", 0, "b"]
    assert error_place(value, ("a", 5, "b")) == ["a"]
    assert error_place("text", ("a", 0)) == []


# --- answers


def answering(annotation: Any, value: Any) -> Tool:
    async def answer() -> Any:
        return value

    answer.__doc__ = "Answer."
    answer.__annotations__ = {} if annotation is None else {"return": annotation}
    return tool(answer)


@dataclass
class Report:
    """A report."""

    at: datetime
    title: str = "t"
    points: list[Point] = field(default_factory=list[Point])


@pytest.mark.parametrize(
    ("annotation", "value", "structured"),
    [
        (
            Report,
            Report(at=datetime(2026, 1, 2, tzinfo=UTC)),
            {"at": "2026-01-02T00:00:00Z", "title": "t", "points": []},
        ),
        (Address, Address(street="s"), {"title": "home", "street": "s", "since": None}),
        (Row, {"id": 1}, {"id": 1}),
        (Modern, {"id": 1}, {"id": 1}),
        (Aliased, Aliased(outerName=1), {"outerName": 1}),
        (Branch, Branch(leaves=[Branch()]), {"leaves": [{"leaves": []}]}),
        (Annotated[Point, "where"], Point(1), {"x": 1, "y": 0}),
        (Address, {"street": "s"}, {"street": "s"}),
    ],
)
async def test_a_returned_model_becomes_the_output_schema_and_structured_json(
    annotation: Any, value: Any, structured: Any
) -> None:
    made = answering(annotation, value)
    assert made.output_schema is not None
    assert made.output_schema["type"] == "object"
    result = await call(made)
    assert (result.is_error, result.structured) == (False, structured)
    assert json.loads(result.text) == structured


def test_an_output_schema_has_no_titles_but_properties_of_that_name() -> None:
    schema = answering(Report, None).output_schema
    assert schema is not None
    assert schema["properties"]["title"] == {"type": "string", "default": "t"}
    assert "title" not in schema
    closed = answering(Closed, None).output_schema
    assert closed is not None
    assert (closed["description"], closed["additionalProperties"]) == ("Nothing else.", False)


async def test_an_answer_that_is_not_what_the_annotation_says_is_told() -> None:
    result = await call(answering(Address, {"street": 1}))
    assert result.failure is Failure.INVALID_OUTPUT
    assert "/street: expected string" in result.text
    result = await call(answering(Address, {}))
    assert result.text.endswith('its output schema does not allow: (answer): "street" is missing')


async def test_bytes_in_a_returned_value_are_refused_with_what_would_be_right() -> None:
    @dataclass
    class Page:
        body: bytes

    result = await call(answering(Page, Page(b"\x89PNG\xff")))
    assert result.failure is Failure.TOOL
    assert "returned bytes in its JSON; in place of them, return Image(data=…" in result.text
    result = await call(answering(Any, b"hello"))
    assert (result.failure, result.text.partition("; ")[0]) == (Failure.INVALID_OUTPUT, "answer returned bytes")


@pytest.mark.parametrize(
    ("annotation", "value", "text", "structured"),
    [
        (str, "a", "a", None),
        (dict[str, Any], {"a": 1}, '{"a":1}', {"a": 1}),
        (dict, {"a": 1}, '{"a":1}', {"a": 1}),
        (list[Point], [Point(1)], '[{"x":1,"y":0}]', [{"x": 1, "y": 0}]),
        (dict[str, date], {"a": date(2026, 1, 2)}, '{"a":"2026-01-02"}', {"a": "2026-01-02"}),
        (tuple[int, str], (1, "a"), '[1,"a"]', [1, "a"]),
        (set[int], {1}, "[1]", [1]),
        (Numbers, Numbers([1]), "[1]", [1]),
        (date, date(2026, 1, 2), "2026-01-02", None),
        (Colour, Colour.RED, "red", None),
        (int, 5, "5", 5),
        (bool, True, "true", True),
        (Point | None, Point(1), '{"x":1,"y":0}', {"x": 1, "y": 0}),
        (Point | str, "none there", "none there", None),
        (Point | ToolResult, Point(1), '{"x":1,"y":0}', {"x": 1, "y": 0}),
        (Point | ToolResult, ToolResult(content=[Text("whole")]), "whole", None),
        (ToolResult, ToolResult(content=[Text("whole")], structured=[1]), "whole", [1]),
        (Text, Text("part"), "part", None),
        (Mapping[str, Any], {"a": 1}, '{"a":1}', {"a": 1}),
        (Any, [1], "[1]", [1]),
        (None, "unannotated", "unannotated", None),
    ],
)
async def test_other_answers_are_text_or_json(annotation: Any, value: Any, text: str, structured: Any) -> None:
    made = answering(annotation, value)
    result = await call(made)
    assert (result.is_error, result.text, result.structured) == (False, text, structured)
    assert made.output_schema is None or annotation is Numbers


@pytest.mark.parametrize("annotation", [type(None), None, Any, str | None, Point | None, Annotated[int, "n"] | None])
async def test_nothing_is_an_empty_text_where_the_signature_allows_it(annotation: Any) -> None:
    result = await call(answering(annotation, None))
    assert (result.is_error, result.text, result.structured) == (False, "", None)


async def test_nothing_where_text_was_promised_is_told() -> None:
    @tool
    async def silent(ctx: PluginContext) -> str:
        """Do."""
        return None  # pyright: ignore[reportReturnType] - wrong on purpose

    assert (await call(answering(str, None))).failure is Failure.INVALID_OUTPUT
    assert (await call(silent)).failure is Failure.INVALID_OUTPUT


async def test_a_function_that_never_returns_may_say_so() -> None:
    @tool
    async def fail() -> NoReturn:
        """Fail."""
        raise RuntimeError("as promised")

    assert (await call(fail)).failure is Failure.CRASH
