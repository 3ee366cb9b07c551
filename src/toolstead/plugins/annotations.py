"""What an annotation of a tool's function means: injected, plain JSON, or converted by pydantic.

Pydantic is imported where an annotation needs it, not before.
"""

from __future__ import annotations

import json
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, cast

from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta

Converter = Callable[[Any], Any]
_ATOMS: frozenset[Any] = frozenset({str, bool, Any, type(None), dict, list, object})
_UNIONS = (typing.Union, types.UnionType)


def injected_type(annotation: Any) -> type[PluginContext | ToolMeta] | None:
    """`PluginContext` or `ToolMeta` when a parameter asks for one, be it `Annotated` or optional."""
    for part in union_members(annotation):
        if part is PluginContext or part is ToolMeta:
            return part
    return None


def union_members(annotation: Any) -> list[Any]:
    """The alternatives of a union, else the annotation alone; `Annotated` is looked through."""
    if typing.get_origin(annotation) is Annotated:
        return union_members(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in _UNIONS:
        return [part for argument in typing.get_args(annotation) for part in union_members(argument)]
    return [annotation]


def is_json(annotation: Any) -> bool:
    """Whether a JSON value that fits the schema already is what the annotation says.

    Numbers are not: JSON has one kind of them, so 1.0 may stand for an `int` and 1 for a `float`.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return isinstance(annotation, typing.Hashable) and annotation in _ATOMS
    if origin is Literal:
        return all(isinstance(argument, str | bool) and type(argument) in (str, bool) for argument in arguments)
    if origin is dict:
        return arguments[0] is str and is_json(arguments[1])
    return (origin in _UNIONS or origin is list) and all(is_json(argument) for argument in arguments)


def value_converter(annotation: Any) -> Converter | None:
    """What turns a JSON value into the annotated type, or None where JSON already is it.

    Raises:
        PydanticUserError: Pydantic has no way to do it.
    """
    if annotation is int:
        return _to_whole
    if annotation is float:
        return _to_real
    if is_json(annotation):
        return None
    from pydantic import TypeAdapter, ValidationError
    from pydantic.warnings import UnsupportedFieldAttributeWarning

    with warnings.catch_warnings():
        # An alias means nothing here, and that is right: the argument has the parameter's own name.
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    def convert_value(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError:
            # A strict model takes a date from JSON text, not from a Python string; what came is JSON.
            return adapter.validate_json(json.dumps(value))

    return convert_value


def _to_whole(value: Any) -> Any:
    return int(value) if type(value) is float else value


def _to_real(value: Any) -> Any:
    return float(value) if type(value) is int else value


class Readable:
    """Annotations as pydantic can read them.

    On Python 3.11 it reads `typing_extensions.TypedDict` but not `typing.TypedDict`; such a class is
    given to it as the other kind, the same one wherever it is used.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    def readable_form(self, annotation: Any) -> Any:
        """The annotation itself, or one like it.

        Raises:
            TypeError: A `typing.TypedDict` contains itself.
        """
        if sys.version_info >= (3, 12):
            return annotation
        if typing.is_typeddict(annotation):
            return self._typed_dict(annotation)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return Annotated[(self.readable_form(arguments[0]), *arguments[1:])]  # pyright: ignore[reportInvalidTypeForm] - built at run time
        if origin is None or origin is Literal:
            return annotation
        changed = tuple(self.readable_form(argument) for argument in arguments)
        if all(new is old for new, old in zip(changed, arguments, strict=True)):
            return annotation
        return typing.Union[changed] if origin in _UNIONS else origin[changed]  # noqa: UP007 - built at run time

    def _typed_dict(self, given: Any) -> Any:
        import typing_extensions

        if given not in self._made:
            self._made[given] = None
            fields: dict[str, Any] = {}
            for key, hint in typing.get_type_hints(given, include_extras=True).items():
                said = typing.get_origin(hint)
                kind = self.readable_form(typing.get_args(hint)[0] if said in (Required, NotRequired) else hint)
                needed = said is Required or (said is not NotRequired and key in given.__required_keys__)
                fields[key] = kind if needed else typing_extensions.NotRequired[kind]
            made = cast("Any", typing_extensions.TypedDict)(given.__name__, fields)
            made.__doc__ = given.__doc__
            if hasattr(given, "__pydantic_config__"):
                made.__pydantic_config__ = given.__pydantic_config__
            self._made[given] = made
        if self._made[given] is None:
            raise TypeError(
                f"{given.__name__} contains itself; take TypedDict from typing_extensions on Python older than 3.12"
            )
        return self._made[given]


def error_place(value: Any, steps: tuple[int | str, ...]) -> list[int | str]:
    """The steps of an error's location that lead through the value; pydantic also names union members there."""
    path: list[int | str] = []
    for step in steps:
        match value:
            case Mapping() if step in value:
                value = cast("Mapping[Any, Any]", value)[step]
            case list() if isinstance(step, int) and step < len(cast("list[Any]", value)):
                value = cast("list[Any]", value)[step]
            case _:
                continue
        path.append(step)
    return path


def other_numbers(converters: Mapping[str, Converter]) -> list[tuple[str, type, type]] | None:
    """For parameters that are all plain numbers: the kind that may come instead, and the kind it becomes."""
    found: list[tuple[str, type, type]] = []
    for key, convert in converters.items():
        if convert is _to_whole:
            found.append((key, float, int))
        elif convert is _to_real:
            found.append((key, int, float))
        else:
            return None
    return found
