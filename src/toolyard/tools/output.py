"""What a handler returned becomes a result: one shape, bounded in size, and it says what was cut."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolyard.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from toolyard.types.result import ToolResult

_CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource)


class NonsenseError(Exception):
    """The handler returned something that is no result; never leaves the dispatcher."""


def as_result(value: Any) -> ToolResult:
    """Accept what a handler may return.

    Raises:
        NonsenseError: It is neither text, content, a result nor a JSON value.
    """
    if isinstance(value, str):
        return ToolResult(content=(Text(value),))
    if isinstance(value, ToolResult):
        return _checked(value)
    if isinstance(value, _CONTENT):
        return ToolResult(content=(value,))
    if isinstance(value, Mapping | list | int | float):
        try:
            return ToolResult.of_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise NonsenseError(f"a {type(value).__name__} that is no JSON ({str(error)[:120]})") from None
    raise NonsenseError(f"{type(value).__name__}; text, a ToolResult or a JSON value is needed")


def cap(result: ToolResult, limit: int) -> tuple[ToolResult, int]:
    """Bound a result to about `limit` bytes: the head and the tail of text are kept.

    Returns:
        The result, and how many bytes were left out (0 when it is the same result).
    """
    total = sum(_size(part) for part in result.content)
    structured = 0 if result.structured is None else _json_size(result.structured, limit)
    if total <= limit and structured <= limit:
        return result, 0
    left_out = 0
    room = limit
    content: list[Content] = []
    for part in result.content:
        size = _size(part)
        if size <= room:
            content.append(part)
            room -= size
            continue
        kept, cut = _shorten(part, room, size)
        content.append(kept)
        left_out += cut
        room = 0
    if structured > limit:
        left_out += structured
        content.append(Text(f"[toolyard: the structured answer was larger than {limit:,} bytes and is left out]"))
        return ToolResult(content=content, is_error=result.is_error, failure=result.failure), left_out
    return (
        ToolResult(
            content=content, is_error=result.is_error, structured=result.structured, failure=result.failure
        ),
        left_out,
    )


def _checked(result: ToolResult) -> ToolResult:
    content: Any = result.content
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise NonsenseError(f"a ToolResult whose content is {type(content).__name__}, not a list")
    for part in cast("Sequence[Any]", content):
        if not isinstance(part, _CONTENT):
            raise NonsenseError(f"a ToolResult with {type(part).__name__} in its content")
    return result


def _size(part: Content) -> int:
    match part:
        case Text(text=text):
            return len(text) if text.isascii() else _utf8_size(text)
        case Image(data=data) | Audio(data=data):
            return len(data)
        case EmbeddedResource(content=content):
            return len(content) if isinstance(content, bytes) or content.isascii() else _utf8_size(content)
        case ResourceLink():
            return len(part.uri)


def _utf8_size(text: str) -> int:
    """Bytes of a text, without holding a second copy of a huge one."""
    step = 1 << 20
    return sum(len(text[at : at + step].encode("utf-8", "surrogatepass")) for at in range(0, len(text), step))


def _json_size(value: Any, limit: int) -> int:
    """Bytes of a JSON value, counted only as far as matters."""
    size = 0
    for chunk in json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(value):
        size += len(chunk)
        if size > limit:
            return size
    return size


def _shorten(part: Content, room: int, size: int) -> tuple[Content, int]:
    if not isinstance(part, Text):
        kind = getattr(part, "mime_type", None) or type(part).__name__
        return Text(f"[toolyard: {kind} of {size:,} bytes left out: more than the limit allows]"), size
    head = _clip(part.text[:room], room * 3 // 4)
    tail = _clip(part.text[-room:] if room else "", room - room * 3 // 4, from_end=True)
    cut = size - _utf8_size(head) - _utf8_size(tail)
    note = f"\n[toolyard: {cut:,} of {size:,} bytes left out here; ask for less, or for a part]\n"
    return Text(head + note + tail), cut


def _clip(text: str, limit: int, *, from_end: bool = False) -> str:
    data = text.encode("utf-8", "replace")
    data = (data[-limit:] if limit else b"") if from_end else data[:limit]
    return data.decode("utf-8", "ignore")
