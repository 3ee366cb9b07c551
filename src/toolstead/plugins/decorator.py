"""`@tool`: a tool from a function, its signature and its docstring.

Pydantic makes the schema and turns JSON into the annotated types; it is imported when the first
tool is decorated, not before. The decorator builds a value and registers nothing.

An `async def` runs on the event loop, a plain `def` in a worker thread.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, overload

from toolstead.concurrency.worker_threads import WORKERS
from toolstead.errors import DefinitionError, ToolError
from toolstead.plugins.annotations import (
    NUMBER_CONVERTERS,
    Converter,
    error_place,
    injected_type,
    readable_form,
    value_converter,
)
from toolstead.plugins.contract import Handler, PluginContext, Tool
from toolstead.plugins.field_check import describe_kind
from toolstead.plugins.return_value import ReturnValue, promises_bytes
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.plugins.tool_schema import input_schema, plain_schema
from toolstead.schema.explanation import MOST_LINES, render_pointer
from toolstead.types.content import NO_BYTES
from toolstead.types.tool import Annotations

Function = Callable[..., Any]
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\((?:[^)]|\)(?!\s*:))*\)\s*)?:\s*(.*)")

_INJECTED_NAMES = {"ctx": "PluginContext", "meta": "ToolMeta"}
"""What a parameter of this name is without a doubt, for a text when its annotation was forgotten."""

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Tool, Generic[P, R], frozen=True, kw_only=True):
    """What `@tool` makes: a tool wherever one is wanted, and called by the program itself still the function.

    Attributes:
        function: The function as it was written; `shout("x")` calls it, without validation, gates or log.
    """

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[P, R]:
        """The function, for `inspect.signature` and its like."""
        return self.function


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    annotations: Annotations | None = None,
    timeout: float | None = None,
    max_output: int | None = None,
    progress: bool = False,
    interactive: bool = False,
    spawns: bool = False,
    title: str | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    annotations: Annotations | None = None,
    timeout: float | None = None,
    max_output: int | None = None,
    progress: bool = False,
    interactive: bool = False,
    spawns: bool = False,
    title: str | None = None,
) -> Any:
    """Make a `Tool` of a function, which stays callable as itself.

    An `async def` runs on the event loop. A plain `def` runs in a worker thread, with a copy of the caller's context
    variables; at its deadline the caller goes on at once, and the thread until the function returns.

    Parameters annotated `PluginContext` or `ToolMeta` are injected, may stand anywhere or be
    absent, and are not in the schema. The rest become the input schema, with the descriptions
    under `Args:`. A returned dataclass, TypedDict or pydantic model becomes the output schema; what
    else pydantic can turn into JSON is answered as JSON, None as no text, and a list or tuple with text, images and
    the like in it as these, in order.

    Raises:
        DefinitionError: It is no function, a parameter cannot be a JSON argument, or what it returns cannot
            become JSON.
    """

    def build_tool(function: Function) -> FunctionTool[..., Any]:
        if isinstance(function, str):
            raise DefinitionError(
                tool=function, field="tool", reason=f"@tool takes the name as a keyword: @tool(name={function!r})"
            )
        called = name or getattr(function, "__name__", "tool")
        text, argument_texts = read_docstring(function)
        signature = _Signature(function, called, argument_texts)
        if interactive and not signature.is_async:
            raise DefinitionError(
                tool=called, field="interactive", reason="asking the client takes an `await`; write an `async def`"
            )
        return FunctionTool(
            function=function,
            name=called,
            description=description if description is not None else text,
            handler=signature.build_handler(),
            schema=signature.schema,
            output_schema=signature.returned.schema,
            annotations=annotations or Annotations(),
            timeout=timeout,
            max_output=max_output,
            progress=progress,
            interactive=interactive,
            spawns=spawns,
            title=title,
        )

    return build_tool if function is None else build_tool(function)


def read_docstring(function: object) -> tuple[str, dict[str, str]]:
    """Read a Google-style docstring: the description before the first section, and the descriptions under `Args:`."""
    lines = (inspect.getdoc(function) or "").splitlines()
    description: list[str] = []
    arguments: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in lines:
        if found := _SECTION.match(line):
            section, current = found.group(1), ""
            continue
        if not section:
            description.append(line)
            continue
        if not section.startswith(("Arg", "Param")) or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        entry = _ARGUMENT.match(line.strip())
        if not depth and (indent or not entry):  # back at the margin: a section of a name we do not know
            section = "other"
        elif entry and (not current or depth <= indent):
            current, indent = entry.group(1), depth
            arguments[current] = entry.group(2)
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return "\n".join(description).strip(), arguments


class _Signature:
    """A function's parameters, read once: what is injected, what is converted, the schemas."""

    def __init__(self, function: Function, name: str, texts: Mapping[str, str]) -> None:
        self.function = function
        self.name = name
        self.injected: dict[str, type[PluginContext | ToolMeta]] = {}
        self.converters: dict[str, Converter] = {}
        self.fallbacks: dict[str, Callable[[], Any]] = {}
        self.is_async = inspect.iscoroutinefunction(function)
        self._check_function()
        hints = self._read_hints()
        try:
            self.schema = self._read_parameters(hints, texts)
        except DefinitionError:
            raise
        except Exception as error:  # isolation: types and their schemas are the author's own code
            raise self._bad_field("signature", f"no schema for it: {_first_line(error)}") from error
        returned = hints.get("return", inspect.Parameter.empty)
        if promises_bytes(returned):
            raise self._bad_field("return", f"bytes do not say what they are; {NO_BYTES}")
        try:
            self.returned = ReturnValue(returned)
        except Exception as error:  # isolation: as above
            raise self._bad_field(
                "return",
                "it cannot become JSON; return text, images and other content, lists of these, a ToolResult, JSON, a "
                f"dataclass, a TypedDict or a pydantic model ({_first_line(error)})",
            ) from error

    def build_handler(self) -> Handler:
        """What the dispatcher calls: as little as this signature needs."""
        function, converters, fallbacks = self.function, self.converters, self.fallbacks
        name, injected, is_async = self.name, self.injected, self.is_async
        convert_answer = self.returned.convert
        if is_async and not (injected or fallbacks or convert_answer):
            numbers = [(key, *NUMBER_CONVERTERS[one]) for key, one in converters.items() if one in NUMBER_CONVERTERS]
            if len(numbers) == len(converters):
                return _plain_handler(function, name, numbers)

        @functools.wraps(function, updated=())  # origins and logs show the function's name and module
        async def call_function(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
            arguments = dict(input)
            for key, convert in converters.items():
                if key in arguments:
                    try:
                        arguments[key] = convert(arguments[key])
                    except (ValueError, OverflowError) as error:
                        raise _refuse_value(name, key, arguments[key], error) from None
            for key, default in fallbacks.items():
                if key not in arguments:
                    arguments[key] = default()
            for key, wanted in injected.items():
                arguments[key] = ctx if wanted is PluginContext else meta
            if is_async:
                value = await function(**arguments)
            else:
                value = await WORKERS.run(functools.partial(function, **arguments), name)
                if inspect.isawaitable(value):  # of a plain function around an async one
                    value = await value
            return value if convert_answer is None else convert_answer(value)

        return call_function

    def _check_function(self) -> None:
        if isinstance(self.function, functools.partial):
            raise self._bad_field(
                "handler", "a partial would show the model what is fixed in it; write an `async def` around it"
            )
        inner = inspect.unwrap(self.function)
        if not inspect.isroutine(inner):
            raise self._bad_field("handler", f"a function is needed, not {describe_kind(inner)}")
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise self._bad_field("handler", "it yields; return one answer, such as a list, in place of many")
        first = next(iter(inspect.signature(self.function).parameters.values()), None)
        if first is not None and first.name in ("self", "cls") and first.annotation is first.empty:
            raise self._bad_field(
                f"parameter {first.name!r}",
                "no caller can fill it; make the tool from a bound method: tool(thing.method)",
            )

    def _read_hints(self) -> dict[str, Any]:
        try:
            hints = typing.get_type_hints(self.function, include_extras=True)
            made: dict[Any, Any] = {}
            return {name: readable_form(hint, made) for name, hint in hints.items()}
        except NameError as error:
            raise self._bad_field(
                "signature",
                f"unreadable annotation: {error}; it is read at run time, so import or define it in the module itself",
            ) from error
        except Exception as error:  # isolation: annotations are the author's own code
            raise self._bad_field("signature", f"unreadable annotation: {error}") from error

    def _read_parameters(self, hints: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters
        plain = plain_schema(parameters.values(), hints, texts)
        if plain is not None:
            self.converters = {key: convert for key in parameters if (convert := value_converter(hints[key]))}
            return plain

        from pydantic import ConfigDict, create_model
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        own_defaults: set[str] = set()
        for parameter in parameters.values():
            key, annotation, default = parameter.name, hints.get(parameter.name, Any), parameter.default
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise self._bad_field(
                    f"parameter {key!r}",
                    "arguments come by name, so *args, **kwargs and positional-only ones cannot be filled",
                )
            if (needed := _INJECTED_NAMES.get(key)) and key not in hints and default is parameter.empty:
                raise self._bad_field(
                    f"parameter {key!r}",
                    f"without an annotation the model would have to fill it; write `{key}: {needed}` (from toolstead "
                    f"import {needed})",
                )
            if (wanted := injected_type(annotation)) is not None:
                self.injected[key] = wanted
                continue
            if isinstance(default, FieldInfo):
                annotation, default = Annotated[annotation, default], parameter.empty
            elif default is not parameter.empty and type(default) not in (list, dict, set):
                own_defaults.add(key)
            fields[f"p{len(fields)}"] = (annotation, _pydantic_field(key, annotation, default, texts.get(key)))
            if convert := value_converter(annotation):
                self.converters[key] = convert
        # Fields have names of our own and the parameters' as aliases: a model reserves `json`, `copy`, `_x` and others.
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        for field in model.model_fields.values():
            if not field.is_required() and field.alias is not None and field.alias not in own_defaults:
                self.fallbacks[field.alias] = functools.partial(field.get_default, call_default_factory=True)
        return input_schema(model)

    def _bad_field(self, field: str, reason: str) -> DefinitionError:
        return DefinitionError(tool=self.name, field=field, reason=reason)


def _plain_handler(function: Function, name: str, numbers: Sequence[tuple[str, type, type]]) -> Handler:
    """A handler whose arguments are JSON as they are, but for numbers of the other kind.

    Not a coroutine function itself: it hands over the function's own coroutine, one layer less on
    every call. `__wrapped__` is the function.
    """

    @functools.wraps(function, updated=())
    def call_plain(_: PluginContext, input: dict[str, Any], __: ToolMeta | None) -> Any:
        for key, other, wanted in numbers:
            if type(input.get(key)) is other:
                try:
                    input[key] = wanted(input[key])
                except (ValueError, OverflowError) as error:
                    raise _refuse_value(name, key, input[key], error) from None
        return function(**input)

    call_plain.ignores_meta = True  # pyright: ignore[reportAttributeAccessIssue] - read when the tool is defined
    return call_plain


def _pydantic_field(name: str, annotation: Any, default: Any, text: str | None) -> Any:
    """A parameter as pydantic's field; a description in the annotation wins over the docstring's."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    options: dict[str, Any] = {"alias": name}
    metadata = getattr(annotation, "__metadata__", ())
    if text and not any(isinstance(item, FieldInfo) and item.description for item in metadata):
        options["description"] = text
    if default is not inspect.Parameter.empty:
        options["default"] = default
    return Field(**options)


def _refuse_value(tool: str, key: str, value: Any, error: Exception) -> ToolError:
    """What the schema let through but the annotated type refuses, for the model to correct."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [
            f"{render_pointer([key, *error_place(value, problem['loc'])])}: {problem['msg']}" for problem in problems
        ]
    else:
        lines = [f"{render_pointer([key])}: {error}"]
    return ToolError(f"Invalid arguments for {tool}:\n" + "\n".join(dict.fromkeys(lines[:MOST_LINES])))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__
