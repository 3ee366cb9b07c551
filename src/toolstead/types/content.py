"""What a result is made of: text, images, audio, links and embedded resources."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

import msgspec


class Text(msgspec.Struct, gc=False):
    """Text for the model. A struct, as `ToolResult`: one is built on every call."""

    text: str


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image, as bytes; doors encode it as they need."""

    data: bytes
    mime_type: str


class Audio(msgspec.Struct, frozen=True, kw_only=True):
    """A sound, as bytes; doors encode it as they need."""

    data: bytes
    mime_type: str


class ResourceLink(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer to something the client may fetch itself."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class EmbeddedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource handed over whole: text, or bytes."""

    uri: str
    content: str | bytes
    mime_type: str | None = None


Content = Text | Image | Audio | ResourceLink | EmbeddedResource


def content_json(part: Content) -> dict[str, Any]:
    """A part as JSON, in the shape that MCP and REST share."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(data=data, mime_type=kind):
            return {"type": "image", "data": base64_text(data), "mimeType": kind}
        case Audio(data=data, mime_type=kind):
            return {"type": "audio", "data": base64_text(data), "mimeType": kind}
        case ResourceLink():
            shown = {"type": "resource_link", "uri": part.uri, "name": part.name}
            shown |= {"description": part.description} if part.description is not None else {}
            return shown | ({"mimeType": part.mime_type} if part.mime_type is not None else {})
        case EmbeddedResource(uri=uri, content=content, mime_type=kind):
            resource = {"uri": uri} | ({"mimeType": kind} if kind is not None else {})
            held = {"text": content} if isinstance(content, str) else {"blob": base64_text(content)}
            return {"type": "resource", "resource": resource | held}


def whole_text(text: str) -> str:
    """The text with whole characters only: halves of surrogate pairs joined, and U+FFFD for one that stands alone.

    Halves come from file names that are no UTF-8, and from models. One of them would break a wire, a request or
    a row for everybody on it.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_json(value: Any) -> Any:
    """A JSON value in which every text is whole."""
    match value:
        case str():
            return whole_text(value)
        case Mapping():
            return {whole_text(str(key)): whole_json(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple():
            return [whole_json(item) for item in cast("list[Any] | tuple[Any, ...]", value)]
        case _:
            return value


def base64_text(data: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(data).decode("ascii")
