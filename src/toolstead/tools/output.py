"""Converts what a handler returned into a result of one shape and bounded size, with notes on what was cut."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import GeneratorType
from typing import Any, cast, get_args

from toolstead.plugins.field_check import describe_kind
from toolstead.types.content import NO_BYTES, Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import ToolResult

_LONGEST_NOTE = 160
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(\s*;.*)?", re.ASCII)
_CONTENT: frozenset[type] = frozenset(get_args(Content))
_NO_JSON = (TypeError, ValueError, RecursionError)

# Kept, because `json.dumps` makes an encoder for each value, and that costs more than a small value.
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class BadResultError(Exception):
    """The handler returned an invalid result; never leaves the dispatcher."""


def convert_answer(value: Any) -> ToolResult:
    """Accept what a handler may return.

    Raises:
        BadResultError: It is neither text, content, a result nor JSON, and cannot become JSON either.
    """
    match value:
        case str():
            return ToolResult(content=(Text(value),))
        case ToolResult():
            return _check_result(value)
        case Text() | Image() | Audio() | ResourceLink() | EmbeddedResource():
            return _check_result(ToolResult(content=(value,)))
        case list() | tuple():
            return _of_list(cast("Sequence[Any]", value))
        case dict() | int() | float():
            return _of_json(cast("Any", value))
        case Mapping():
            return _of_json(dict(cast("Mapping[Any, Any]", value)))
        case None:
            raise BadResultError(
                'None; return text, such as "", or JSON, or let the annotation of the function allow it: `-> None`, '
                "`-> … | None`"
            )
        case bytes() | bytearray():
            raise BadResultError(f"{type(value).__name__}; {NO_BYTES}")
        case _:
            made = None
            with suppress(*_NO_JSON):
                made = _make_json(value)
            if made is None:
                raise BadResultError(
                    f"{describe_kind(value)}; return text, content such as an Image, a ToolResult or JSON"
                )
            return convert_answer(made)


def cap_result(result: ToolResult, limit: int) -> tuple[ToolResult, int]:
    """Bound a result to about `limit` bytes: the head and the tail of text are kept.

    Returns:
        The result, and how many bytes were left out (0 when it is the same result).
    """
    total = sum(_part_size(part) for part in result.content)
    structured = 0 if result.structured is None else _text_size(_json_text(result.structured))
    if total <= limit and structured <= limit:
        return result, 0
    content, left_out = _shorten_parts(result.content, limit)
    kept = result.structured
    if structured > limit:
        kept, left_out = None, left_out + structured
        content.append(Text(f"[toolstead: the structured answer was larger than {limit:,} bytes and is left out]"))
    return ToolResult(content=content, is_error=result.is_error, structured=kept, failure=result.failure), left_out


def _of_json(value: Any) -> ToolResult:
    text, made = _check_json(value)
    return ToolResult(content=(Text(text),), structured=made)


def _of_list(value: Sequence[Any]) -> ToolResult:
    """A JSON array; with content in it, its items in order."""
    if _CONTENT.isdisjoint(map(type, value)):
        return _of_json(list(value))
    try:
        parts = [part if isinstance(part, str) or type(part) in _CONTENT else _encode_value(part)[0] for part in value]
        return _check_result(ToolResult.of_parts(parts))
    except _NO_JSON as error:
        raise BadResultError(f"a list with content, and with what is no JSON ({str(error)[:120]})") from None


def _json_text(value: Any) -> str:
    return _check_json(value)[0]


def _check_json(value: Any) -> tuple[str, Any]:
    """The same as `_encode_value`. Raises BadResultError."""
    try:
        return _encode_value(value)
    except _NO_JSON as error:
        raise BadResultError(f"{type(value).__name__} that is no JSON ({str(error)[:120]})") from None


def _encode_value(value: Any) -> tuple[str, Any]:
    """A value as JSON text, and as the JSON value that it is or becomes: dates, enums, sets, models, at any depth.

    Raises what `_NO_JSON` lists.
    """
    try:
        return _encode_json(value), value
    except TypeError as error:
        try:
            made = _make_json(value)
        except _NO_JSON:
            raise error from None
        return _encode_json(made), made


def _make_json(value: Any) -> Any:
    """What pydantic makes of a value that is annotated `Any`. Raises what `_NO_JSON` lists."""
    if isinstance(value, GeneratorType):
        raise TypeError("a generator may have no end")
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, by_alias=True)


def _check_result(result: ToolResult) -> ToolResult:
    content: Any = result.content
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise BadResultError(f"a ToolResult whose content is {type(content).__name__}, not a list")
    for part in cast("Sequence[Any]", content):
        _check_part(part)
    if result.structured is not None:
        result.structured = _check_json(result.structured)[1]
    return result


def _check_part(part: Any) -> None:
    """Check the types of each part's fields: transports and `cap` rely on them."""
    match part:
        case Image(data=bytes(), mime_type=str() as kind) | Audio(data=bytes(), mime_type=str() as kind):
            if _MEDIA_TYPE.fullmatch(kind) is None:
                name = type(part).__name__
                usual = "image/png" if name == "Image" else "audio/wav"
                raise BadResultError(f"{name} with mime_type={kind[:80]!r}; a media type is needed, such as {usual!r}")
        case (
            Text(text=str())
            | ResourceLink(uri=str(), name=str(), description=str() | None, mime_type=str() | None)
            | EmbeddedResource(uri=str(), content=str() | bytes(), mime_type=str() | None)
        ):
            pass
        case Text() | ResourceLink() | Image() | Audio() | EmbeddedResource():
            raise BadResultError(f"{type(part).__name__} with a field of a wrong type: {str(part)[:120]}")
        case _:
            raise BadResultError(f"a ToolResult with {type(part).__name__} in its content")


def _shorten_parts(parts: Sequence[Content], limit: int) -> tuple[list[Content], int]:
    """What fits of the parts, with a note for what does not; the notes are bounded too."""
    content: list[Content] = []
    room, left_out, dropped, dropped_bytes = limit, 0, 0, 0
    for part in parts:
        size = _part_size(part)
        if size <= room:
            content.append(part)
            room -= size
        elif isinstance(part, Text) and room > 0:
            kept, cut = _head_and_tail(part.text, room, size)
            content.append(kept)
            room, left_out = 0, left_out + cut
        elif room > _LONGEST_NOTE or not left_out:
            kind = getattr(part, "mime_type", None) or type(part).__name__
            content.append(Text(f"[toolstead: {kind[:60]} of {size:,} bytes left out: more than the limit allows]"))
            room, left_out = max(0, room - _LONGEST_NOTE), left_out + size
        else:
            dropped, dropped_bytes = dropped + 1, dropped_bytes + size
    if dropped:
        content.append(Text(f"[toolstead: {dropped:,} more parts of {dropped_bytes:,} bytes left out]"))
    return content, left_out + dropped_bytes


def _part_size(part: Content) -> int:
    match part:
        case Text(text=text):
            return _text_size(text)
        case Image(data=data) | Audio(data=data):
            return len(data)
        case EmbeddedResource(uri=uri, content=content):
            return len(uri) + (len(content) if isinstance(content, bytes) else _text_size(content))
        case ResourceLink():
            return sum(_text_size(text) for text in (part.uri, part.name, part.description or ""))


def _text_size(text: str) -> int:
    """Bytes of a text, without holding a second copy of a huge one."""
    if text.isascii():
        return len(text)
    step = 1 << 20
    return sum(len(text[at : at + step].encode("utf-8", "surrogatepass")) for at in range(0, len(text), step))


def _head_and_tail(text: str, room: int, size: int) -> tuple[Text, int]:
    head = _clip_text(text[:room], room * 3 // 4)
    tail = _clip_text(text[-room:], room - room * 3 // 4, from_end=True)
    cut = size - _text_size(head) - _text_size(tail)
    note = f"\n[toolstead: {cut:,} of {size:,} bytes left out here; ask for less, or for a part]\n"
    return Text(head + note + tail), cut


def _clip_text(text: str, limit: int, *, from_end: bool = False) -> str:
    data = text.encode("utf-8", "replace")
    data = (data[-limit:] if limit else b"") if from_end else data[:limit]
    return data.decode("utf-8", "ignore")
