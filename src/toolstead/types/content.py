"""What a result is made of: text, images, audio, links and embedded resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from toolstead.types.sent import SentStruct


class Text(SentStruct, frozen=False, kw_only=False, tag_field="type", tag="text", gc=False):  # pyright: ignore[reportGeneralTypeIssues] - tools may change it
    """Text.

    A struct, as `ToolResult`: one is built on every call.

    Attributes:
        text: The text.
    """

    text: str


class Image(SentStruct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image.

    Attributes:
        data: The bytes, in base64.
        mime_type: Its media type, such as `image/png`.
    """

    data: bytes
    mime_type: str


class Audio(SentStruct, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound.

    Attributes:
        data: The bytes, in base64.
        mime_type: Its media type, such as `audio/wav`.
    """

    data: bytes
    mime_type: str


class ResourceLink(SentStruct, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """Something to fetch.

    Attributes:
        uri: Where it is.
        name: What it is called.
        description: What it is.
        mime_type: Its media type, such as `image/png`.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"description", "mime_type"})

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class ResourceContents(SentStruct, frozen=True, kw_only=True):
    """The resource: `text`, or `blob` in base64.

    Attributes:
        uri: Where it came from.
        mime_type: Its media type, such as `image/png`.
        text: Its text.
        blob: Its bytes, in base64.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"mime_type", "text", "blob"})

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = None


class SentResource(SentStruct, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """Something handed over whole.

    Attributes:
        resource: The resource: `text`, or `blob` in base64.
    """

    resource: ResourceContents


class EmbeddedResource(SentStruct, frozen=True, kw_only=True):
    """A resource handed over whole: text, or bytes. It is sent as a `SentResource`."""

    uri: str
    content: str | bytes
    mime_type: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object that clients see."""
        text, blob = (self.content, None) if isinstance(self.content, str) else (None, self.content)
        held = ResourceContents(uri=self.uri, mime_type=self.mime_type, text=text, blob=blob)
        return SentResource(resource=held).to_json()


NO_BYTES = 'return Image(data=…, mime_type="image/png"), Audio(…), or text, such as data.decode()'
"""What is right in place of bytes, which do not say what they are."""

Content = Text | Image | Audio | ResourceLink | EmbeddedResource
SentContent = Text | Image | Audio | ResourceLink | SentResource
"""The same as clients see it."""


def whole_text(text: str) -> str:
    """The text with whole characters only: halves of surrogate pairs joined, and U+FFFD for one that stands alone.

    Halves come from file names that are no UTF-8, and from models. One of them would break the whole message,
    request or row that contains it.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_json(value: Any, make_whole: Callable[[str], str] = whole_text) -> Any:
    """A JSON value in which every text is whole."""
    match value:
        case str():
            return make_whole(value)
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            return {make_whole(str(key)): whole_json(item, make_whole) for key, item in items}
        case list() | tuple():
            return [whole_json(item, make_whole) for item in cast("list[Any] | tuple[Any, ...]", value)]
        case _:
            return value
