"""Reading long resources in pieces: `?offset=` behind an address says where to go on.

An offset counts characters; a part that is not text, such as an image, counts as one. A piece that is not the last
ends with a text that names the address of the next, so that a model can read on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolstead.errors import InvalidRequestError
from toolstead.types.content import EmbeddedResource

LONGEST_PIECE = 65_536
"""Characters of one read: some 16,000 tokens, which clients still show their models whole."""
LARGEST_BLOB = 4 * 1024 * 1024
"""Bytes of one read that are not text."""

_OFFSET = re.compile(r"offset=(\d{1,12})")


def split_offset(uri: str) -> tuple[str, int]:
    """An address without its `?offset=`, and the offset.

    Raises:
        InvalidRequestError: What follows the question mark is something else.
    """
    whole, mark, query = uri.partition("?")
    if not mark:
        return whole, 0
    if (found := _OFFSET.fullmatch(query)) is None:
        raise InvalidRequestError(f"{uri[:200]!r}: only ?offset= and a whole number may follow the address")
    return whole, int(found[1])


def take_piece(uri: str, parts: Sequence[EmbeddedResource], offset: int) -> list[EmbeddedResource]:
    """The piece of a resource that begins at an offset.

    Args:
        uri: The address without an offset.
        parts: The whole resource.
        offset: Where to begin.

    Raises:
        InvalidRequestError: It ends before that.
    """
    total = sum(map(_length, parts))
    if offset and offset >= total:
        raise InvalidRequestError(f"{uri}: it has {total:,} characters, so there is none at offset {offset:,}")
    found: list[EmbeddedResource] = []
    at, stop, room, blob_room = 0, offset, LONGEST_PIECE, LARGEST_BLOB
    for part in parts:
        start = max(offset - at, 0)
        at += _length(part)
        if start >= _length(part) > 0:
            continue
        if isinstance(part.content, bytes):
            if blob_room < len(part.content) <= LARGEST_BLOB:
                break
            found.append(_show_blob(part))
            blob_room -= len(part.content)
            stop = at
            continue
        piece = part.content[start : start + room]
        found.append(EmbeddedResource(uri=part.uri, content=piece, mime_type=part.mime_type))
        stop, room = at - _length(part) + start + len(piece), room - len(piece)
        if stop < at or not room:
            break
    if stop < total:
        following = f"{uri}?offset={stop}"
        note = f"[toolstead: this is {offset:,} to {stop:,} of {total:,} characters; read on at {following}]"
        found.append(EmbeddedResource(uri=following, content=note, mime_type="text/plain"))
    return found


def _length(part: EmbeddedResource) -> int:
    return len(part.content) if isinstance(part.content, str) else 1


def _show_blob(part: EmbeddedResource) -> EmbeddedResource:
    """The part, or in place of one that is too large a text that says so."""
    size = len(part.content)
    if size <= LARGEST_BLOB:
        return part
    note = f"[toolstead: {part.mime_type or 'data'} of {size:,} bytes is left out; at most {LARGEST_BLOB:,} are sent]"
    return EmbeddedResource(uri=part.uri, content=note, mime_type="text/plain")
