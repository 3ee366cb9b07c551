"""What a tool's function says that it returns: the output schema, and what turns a returned value into an answer.

| annotation | answer |
|---|---|
| text, content, `ToolResult`, JSON | as it is |
| a dataclass, TypedDict or pydantic model | JSON, by the schema that it becomes |
| what else pydantic can turn into JSON | JSON |
| a list or tuple with content in it | its items in order: text, content, and any other as JSON text |
| None, nothing | no text |
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, cast

from toolstead.errors import ToolError
from toolstead.plugins.annotations import is_json, union_members
from toolstead.plugins.tool_schema import output_schema
from toolstead.types.content import NO_BYTES, Audio, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import ToolResult

_CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource)
_OURS = (ToolResult, *_CONTENT)
_LISTS = (list, tuple, collections.abc.Sequence)
_BYTES = (bytes, bytearray, memoryview)
_NUMBERS = (int, float)
_NOTHING = (Any, None, type(None), inspect.Parameter.empty, typing.NoReturn, typing.Never)

Dump = Callable[[Any], Any]


class ReturnValue:
    """What a function returns.

    Attributes:
        schema: The output schema, where it is of one model-like type.
        convert: Turns a returned value into an answer; None where every value is one already.
    """

    def __init__(self, annotation: Any) -> None:
        """Read an annotation. Raises whatever pydantic does where it cannot become JSON."""
        parts = union_members(annotation)
        lists = [part for part in parts if _holds_content(part)]
        items = [item for part in lists for item in _item_types(part)]
        values = [part for part in parts if part not in _OURS and part not in lists]
        self.schema: dict[str, Any] | None = None
        self._may_be_none = any(part in _NOTHING for part in parts)
        self._lists_content = bool(lists)
        self._dump_item = _find_dump([item for item in items if item not in _CONTENT])
        # The annotation itself where nothing of it is ours: it may be `Annotated`.
        self._dump = _find_dump(values, annotation if len(values) == len(parts) else None)
        if len(parts) == 1 and _is_model(parts[0]):
            from pydantic import TypeAdapter

            self.schema = output_schema(TypeAdapter(annotation))
        is_plain = not (self._dump or self._may_be_none or self._lists_content)
        self.convert: Dump | None = None if is_plain else self._convert

    def _convert(self, value: Any) -> Any:
        if value is None and self._may_be_none:
            return ""
        if self._lists_content and isinstance(value, list | tuple):
            return ToolResult.of_parts(map(self._dump_part, cast("Sequence[Any]", value)))
        return value if self._dump is None or isinstance(value, _OURS) else self._dump(value)

    def _dump_part(self, part: Any) -> Any:
        return part if self._dump_item is None or isinstance(part, _CONTENT) else self._dump_item(part)


def promises_bytes(annotation: Any) -> bool:
    """Whether a function says that it returns bytes, alone or in a list or tuple."""
    parts = union_members(annotation)
    items = [item for part in parts if typing.get_origin(part) in _LISTS for item in _item_types(part)]
    return any(part in _BYTES for part in (*parts, *items) if inspect.isclass(part))


def _holds_content(annotation: Any) -> bool:
    """Whether it is a list or tuple that may have content in it."""
    return typing.get_origin(annotation) in _LISTS and any(item in _CONTENT for item in _item_types(annotation))


def _item_types(annotation: Any) -> list[Any]:
    arguments = [one for one in typing.get_args(annotation) if one is not Ellipsis]
    return [item for argument in arguments for item in union_members(argument)]


def _find_dump(types: Sequence[Any], whole: Any = None) -> Dump | None:
    """What turns values of these types into JSON; None where they are JSON."""
    if all(part in _NOTHING or part in _NUMBERS or is_json(part) for part in types):
        return None
    from pydantic import TypeAdapter

    union: Any = cast("Any", typing.Union)[tuple(types)]
    adapter: TypeAdapter[Any] = TypeAdapter(union if whole is None else whole)

    def dump(value: Any) -> Any:
        try:
            return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except UnicodeDecodeError as error:
            raise ToolError(f"the tool returned bytes in its JSON; in place of them, {NO_BYTES}") from error

    return dump


def _is_model(kind: Any) -> bool:
    if is_json(kind) or kind in _NOTHING or kind in _NUMBERS or kind in _OURS or typing.get_origin(kind) is not None:
        return False
    from pydantic import BaseModel
    from typing_extensions import is_typeddict

    is_class = inspect.isclass(kind) and (issubclass(kind, BaseModel) or hasattr(kind, "__dataclass_fields__"))
    return is_class or is_typeddict(kind)
