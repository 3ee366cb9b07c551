"""`@tool`: a tool from an async function, its signature and its docstring.

Pydantic makes the schema and turns JSON into the annotated types; it is imported when the first
tool is decorated, not before. The decorator builds a value and registers nothing.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar, cast, overload

from toolyard.errors import DefinitionError, ToolError
from toolyard.plugins.contract import Handler, PluginContext, Tool, ToolMeta
from toolyard.plugins.docstring import read_docstring
from toolyard.types.content import Audio, EmbeddedResource, Image, ResourceLink, Text
from toolyard.types.result import ToolResult
from toolyard.types.tool import Annotations

Function = Callable[..., Awaitable[Any]]
_ATOMS: frozenset[Any] = frozenset({str, float, bool, Any, type(None), dict, list, object})
_OURS = (ToolResult, Text, Image, Audio, ResourceLink, EmbeddedResource)
_T = TypeVar("_T")


@overload
def tool(function: Function, /) -> Tool: ...
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
    title: str | None = None,
) -> Callable[[Function], Tool]: ...
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
    title: str | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Make a `Tool` of an async function.

    Parameters annotated `PluginContext` or `ToolMeta` are injected, may stand anywhere or be
    absent, and are not in the schema. The rest become the input schema, with the descriptions
    under `Args:`. A returned dataclass, TypedDict or pydantic model becomes the output schema.

    Raises:
        DefinitionError: The function is not async, or a parameter cannot be a JSON argument.
    """

    def build(function: Function) -> Tool:
        called = name or getattr(function, "__name__", "tool")
        text, argument_texts = read_docstring(function)
        signature = _Signature(function, called, argument_texts)
        return Tool(
            name=called,
            description=description if description is not None else text,
            handler=signature.handler(),
            schema=signature.schema,
            output_schema=signature.output_schema,
            annotations=annotations or Annotations(),
            timeout=timeout,
            max_output=max_output,
            progress=progress,
            interactive=interactive,
            title=title,
        )

    return build if function is None else build(function)


class _Signature:
    """A function's parameters, read once: what is injected, what is converted, the schemas."""

    def __init__(self, function: Function, name: str, texts: dict[str, str]) -> None:
        if not inspect.iscoroutinefunction(function):
            raise DefinitionError(
                tool=name,
                field="handler",
                reason="an `async def` function is needed; put blocking work into `await asyncio.to_thread(…)`",
            )
        self.function = function
        self.name = name
        self.context_name: str | None = None
        self.meta_name: str | None = None
        self.converters: dict[str, Callable[[Any], Any]] = {}
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except Exception as error:  # isolation: annotations are the author's own code
            raise DefinitionError(tool=name, field="signature", reason=f"unreadable annotation: {error}") from error
        self.schema = self._read_parameters(hints, texts)
        self.output_schema, self.dump = self._read_return(hints.get("return", inspect.Parameter.empty))
        self.returns_none = hints.get("return") is type(None)

    def _read_parameters(self, hints: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        fields: dict[str, Any] = {}
        for parameter in inspect.signature(self.function).parameters.values():
            annotation = hints.get(parameter.name, Any)
            if annotation is PluginContext:
                self.context_name = parameter.name
                continue
            if annotation is ToolMeta:
                self.meta_name = parameter.name
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise DefinitionError(
                    tool=self.name,
                    field=f"parameter {parameter.name!r}",
                    reason="arguments come by name, so *args, **kwargs and positional-only ones cannot be filled",
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (annotation, Field(default, description=texts.get(parameter.name)))
            if converter := _converter(annotation):
                self.converters[parameter.name] = converter
        try:
            model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
            schema = cast("dict[str, Any]", _without_titles(model.model_json_schema()))
        except (PydanticUserError, NameError, TypeError) as error:
            reason = str(error).split("\n", 1)[0]
            raise DefinitionError(tool=self.name, field="signature", reason=f"no schema for it: {reason}") from error
        return schema

    def _read_return(self, annotation: Any) -> tuple[dict[str, Any] | None, Callable[[Any], Any] | None]:
        """The output schema of a model-like return type, and what turns such a value into JSON."""
        from pydantic import BaseModel, TypeAdapter

        model_like = isinstance(annotation, type) and (
            issubclass(annotation, BaseModel) or hasattr(annotation, "__dataclass_fields__")
        )
        if annotation in _OURS or not (model_like or typing.is_typeddict(annotation)):
            return None, None
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = cast("dict[str, Any]", _without_titles(adapter.json_schema(mode="serialization")))
        return schema, lambda value: adapter.dump_python(value, mode="json")

    def handler(self) -> Handler:
        function, context_name, meta_name = self.function, self.context_name, self.meta_name
        converters, dump = self.converters, self.dump
        if not (context_name or meta_name or converters or dump or self.returns_none):

            async def plain(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> Any:
                return await function(**input)

            return plain

        name, returns_none = self.name, self.returns_none

        async def full(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
            for key, convert in converters.items():
                if key in input:
                    try:
                        input[key] = convert(input[key])
                    except ValueError as error:
                        raise _refusal(name, key, error) from None
            if context_name is not None:
                input[context_name] = ctx
            if meta_name is not None:
                input[meta_name] = meta
            value = await function(**input)
            if returns_none and value is None:
                return ""
            return dump(value) if dump is not None and not isinstance(value, _OURS) else value

        return full


def _refusal(tool: str, key: str, error: ValueError) -> ToolError:
    """What the schema let through but the annotated type refuses, for the model to mend."""
    from pydantic import ValidationError

    where, reason = f"/{key}", str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        where, reason = "/" + "/".join(str(step) for step in (key, *first["loc"])), first["msg"]
    return ToolError(f"Invalid arguments for {tool}:\n{where}: {reason}")


def _converter(annotation: Any) -> Callable[[Any], Any] | None:
    """What turns a JSON value into the annotation, or None where JSON already is it."""
    if annotation is int:
        return _whole
    if _is_json(annotation):
        return None
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return adapter.validate_python


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 1.0 is an integer there."""
    return int(value) if type(value) is float else value


def _is_json(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is None:
        return annotation in _ATOMS if _hashable(annotation) else False
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        return _is_json(arguments[0])
    if origin is Literal:
        return True
    if origin in (typing.Union, types.UnionType, list, dict):
        return all(_is_json(argument) for argument in arguments)
    return False


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _without_titles(node: Any) -> Any:
    """Pydantic titles every property; a model learns nothing from them and pays for each."""
    match node:
        case dict():
            mapping = cast("dict[str, Any]", node)
            return {
                key: ({name: _without_titles(item) for name, item in value.items()} if _names(key, value) else _without_titles(value))
                for key, value in mapping.items()
                if not (key == "title" and isinstance(value, str))
            }
        case list():
            return [_without_titles(item) for item in cast("list[Any]", node)]
        case _:
            return node


def _names(key: str, value: Any) -> bool:
    """Whether a member maps names to schemas, where `title` is a property's own name."""
    return key in ("properties", "$defs", "patternProperties") and isinstance(value, dict)
