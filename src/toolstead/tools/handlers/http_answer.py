"""Converts an HTTP response into a tool's result: text, JSON, an image, or a sentence about what it is; always bounded.

Bytes are counted after they were inflated, so a small answer that grows is cut like a large one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolstead.errors import ToolError
from toolstead.tools.handlers.secrets import Mask
from toolstead.types.content import Content, Image, Text
from toolstead.types.result import ToolResult

if TYPE_CHECKING:
    import httpx2

ERROR_SHOWN = 4_096
"""Bytes that are shown of an error response."""

COUNTED = 1_048_576
"""Bytes that are still counted when no more are kept."""

_DEEPEST = 100
_TEXT = re.compile(
    r"text/.+|application/(.+\+)?(xml|yaml|x-yaml|toml|javascript|ecmascript|x-ndjson|jsonl|sql|graphql"
    r"|x-www-form-urlencoded|x-sh|http)|image/svg\+xml"
)
_JSON = re.compile(r"(application|text)/(json|.+\+json)")
_KIND = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_CHARSETS = re.compile(
    r"utf-(8|16|32).*|ascii|iso8859-\d+|cp(125\d|437|850|866|932|949)|koi8-\w|euc_\w+|shift_\w+|gb\w+|big5.*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What was read of a body.

    Attributes:
        data: Its beginning.
        total: Its size as far as it is known.
        counted: Whether `total` is all of it.
    """

    data: bytes
    total: int
    counted: bool

    @property
    def is_whole(self) -> bool:
        return self.counted and self.total == len(self.data)


async def read_answer(response: httpx2.Response, *, method: str, limit: int, mask: Mask) -> ToolResult:
    """Turn an answer into a result of at most about `limit` bytes, with secrets masked.

    Raises:
        ToolError: The body broke off, or is not encoded as its header names.
    """
    is_error = response.status_code >= 400
    limit = min(limit, ERROR_SHOWN) if is_error else limit
    status = _status_line(response)
    if method == "HEAD":  # it is made for the headers
        lines = [f"{name}: {value}" for name, value in response.headers.multi_items() if name != "set-cookie"]
        text = _clip_text(mask("\n".join([status, *lines])), limit)
        return ToolResult(content=(Text(text),), is_error=is_error)
    held = await _read(response, limit + mask.longest)
    content, structured = _show_body(held, response, limit, mask) if held.total else ([], None)
    if is_error:
        texts = [part.text for part in content if isinstance(part, Text)]
        return ToolResult(content=(Text("\n".join([status, *texts])),), is_error=True)
    if not content:
        return ToolResult(content=(Text(f"{status} (no body)"),))
    return ToolResult(content=tuple(content), structured=structured)


def _show_body(held: _Held, response: httpx2.Response, limit: int, mask: Mask) -> tuple[list[Content], Any]:
    """The parts to show, and the JSON value where there is one."""
    charset, given = response.charset_encoding, response.headers.get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    kind = kind if _KIND.fullmatch(kind) else ""
    is_json = bool(_JSON.fullmatch(kind))
    is_unclear = not kind or (charset is not None and kind.startswith("application/"))
    if is_json or _TEXT.fullmatch(kind) or (is_unclear and _looks_like_text(held)):
        text, is_whole = _show_text(held, "utf-8" if is_json else charset, limit, mask)
        return [Text(text)], _json_value(text) if is_json and is_whole else None
    if kind.startswith("image/"):
        if held.is_whole and held.total <= limit:
            return [Image(data=held.data, mime_type=kind)], None
        return [Text(f"[toolstead: {kind}, {_show_size(held)}: more than the {limit:,} that are shown]")], None
    return [Text(f"[toolstead: {kind or 'data without a type'}, {_show_size(held)}: neither text nor an image]")], None


async def _read(response: httpx2.Response, room: int) -> _Held:
    """Read at most `room` bytes, and count some more."""
    import httpx2

    data, total = bytearray(), 0
    try:
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                data += part[: room - len(data)]
                total += len(part)
                if total > room + COUNTED:
                    length = _content_length(response)
                    return _Held(data=bytes(data), total=max(length, total), counted=length >= total)
    except httpx2.DecodingError as error:
        raise ToolError(f"{response.url.host} sent a body that is not encoded as it says: {error}") from None
    return _Held(data=bytes(data), total=total, counted=True)


def _show_text(held: _Held, charset: str | None, limit: int, mask: Mask) -> tuple[str, bool]:
    """The text that is shown, and whether it is all of it."""
    decoder = codecs.getincrementaldecoder(_find_codec(charset))("replace")
    text = mask(decoder.decode(held.data, final=held.is_whole).removeprefix("\ufeff"))
    if held.is_whole and len(text.encode("utf-8", "replace")) <= limit:
        return text, True
    if not held.is_whole and mask.longest:
        text = text[: -mask.longest]  # the end may hold the beginning of a secret
    head = _clip_text(text, max(limit - 100, 0))
    more = max(held.total - len(head.encode("utf-8", "replace")), 1)
    return f"{head}\n[toolstead: {'' if held.counted else 'at least '}{more:,} bytes more, left out]", False


def _json_value(text: str) -> Any:
    """The text as a JSON value; None when it is none that every transport can pass on."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(_DEEPEST):  # what is left then is nested deeper
        level = [inner for outer in level for inner in _inner_values(outer)]
    return None if level else value


def _inner_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        yield from cast("list[Any]", value)


def _find_codec(charset: str | None) -> str:
    """The codec for a charset; UTF-8 for one that is unknown, or no charset of text at all."""
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARSETS.fullmatch(name) else "utf-8"


def _looks_like_text(held: _Held) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(held.data, final=held.is_whole)
    except UnicodeDecodeError:
        return False
    return b"\0" not in held.data


def _status_line(response: httpx2.Response) -> str:
    """`HTTP 404 Not Found`; the words are ours, not the server's."""
    try:
        return f"HTTP {response.status_code} {HTTPStatus(response.status_code).phrase}"
    except ValueError:
        return f"HTTP {response.status_code}"


def _content_length(response: httpx2.Response) -> int:
    """The `Content-Length`, where it is the size of what we read; else 0."""
    text = response.headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 19 and "content-encoding" not in response.headers else 0


def _show_size(held: _Held) -> str:
    return f"{'' if held.counted else 'at least '}{held.total:,} bytes"


def _clip_text(text: str, limit: int) -> str:
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
