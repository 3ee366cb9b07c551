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
    return next((part for part in union_members(annotation) if part is PluginContext or part is ToolMeta), None)


def union_members(annotation: Any) -> list[Any]:
    """The alternatives of a union, else the annotation alone; `Annotated` is looked through."""
    if typing.get_origin(annotation) is Annotated:
        return union_members(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in _UNIONS:
        return [part for argument in typing.get_args(annotation) for part in union_members(argument)]
    return [annotation]


def is_json(annotation: Any) -> bool:
    """Whether a JSON value that fits the schema already is of the annotated type.

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


NUMBER_CONVERTERS: Mapping[Converter, tuple[type, type]] = {_to_whole: (float, int), _to_real: (int, float)}
"""The converters of plain numbers: the kind that may come instead, and the kind it becomes."""


def readable_form(annotation: Any, made: dict[Any, Any]) -> Any:
    """The annotation as pydantic can read it: itself, or one like it.

    On Python 3.11 it reads `typing_extensions.TypedDict` but not `typing.TypedDict`; such a class is given to it as
    the other kind.

    Args:
        annotation: Any.
        made: The classes made so far, so that one becomes the same wherever it is used.

    Raises:
        TypeError: A `typing.TypedDict` contains itself.
    """
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation):
        return _readable_dict(annotation, made)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return Annotated[(readable_form(arguments[0], made), *arguments[1:])]  # pyright: ignore[reportInvalidTypeForm] - built at run time
    if origin is None or origin is Literal:
        return annotation
    changed = tuple(readable_form(argument, made) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return annotation
    return typing.Union[changed] if origin in _UNIONS else origin[changed]  # noqa: UP007 - built at run time


def _readable_dict(given: Any, made: dict[Any, Any]) -> Any:
    import typing_extensions

    if given not in made:
        made[given] = None
        fields: dict[str, Any] = {}
        for key, hint in typing.get_type_hints(given, include_extras=True).items():
            mark = typing.get_origin(hint)
            kind = readable_form(typing.get_args(hint)[0] if mark in (Required, NotRequired) else hint, made)
            needed = mark is Required or (mark is not NotRequired and key in given.__required_keys__)
            fields[key] = kind if needed else typing_extensions.NotRequired[kind]
        copy = made[given] = cast("Any", typing_extensions.TypedDict)(given.__name__, fields)
        copy.__doc__ = given.__doc__
        if hasattr(given, "__pydantic_config__"):
            copy.__pydantic_config__ = given.__pydantic_config__
    if made[given] is None:
        raise TypeError(
            f"{given.__name__} contains itself; take TypedDict from typing_extensions on Python older than 3.12"
        )
    return made[given]


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
