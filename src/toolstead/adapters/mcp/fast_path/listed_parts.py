"""The lists of prompts, resources and resource templates as bytes, prepared once for each state of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolstead.adapters.mcp.fast_path.messages import ListPrompts, ListResources, ListTemplates, PartsList
from toolstead.adapters.mcp.parts_port import OfferedParts
from toolstead.types.client_parts import ClientLists

PAGE = 1_000
"""Items a page: large, because some clients never request a second page."""

_encode = msgspec.json.Encoder().encode


class ListedParts:
    """Renders each list once for each protocol version, until it changes."""

    def __init__(self, parts: OfferedParts) -> None:
        """Render nothing yet."""
        self.parts = parts
        self._rendered: ClientLists | None = None
        self._ends: tuple[bytes, bytes] = (b"", b"")
        self._pages: dict[tuple[type[PartsList], bool], Mapping[str | None, bytes]] = {}

    def set_ends(self, handshake: bytes, modern: bytes) -> None:
        """Set what closes a result in each kind of protocol version."""
        self._ends, self._pages = (handshake, modern), {}

    def render_page(self, message: PartsList, *, modern: bool) -> bytes | None:
        """The current result for a message; None for a cursor that begins no page, which the SDK must check."""
        lists = self.parts.lists
        if lists is not self._rendered:
            self._rendered, self._pages = lists, {}
        key = type(message), modern
        pages = self._pages.get(key)
        if pages is None:
            pages = self._pages[key] = _render_pages(*_select_list(message, lists), self._ends[modern])
        return pages.get(message.params.cursor)


def _select_list(message: PartsList, lists: ClientLists) -> tuple[bytes, Sequence[Any], Sequence[str]]:
    """The key of a list in its result, its items, and the cursor that each would be."""
    match message:
        case ListPrompts():
            return b"prompts", lists.prompts, [one.name for one in lists.prompts]
        case ListResources():
            return b"resources", lists.resources, [one.uri for one in lists.resources]
        case ListTemplates():
            return b"resourceTemplates", lists.templates, [one.uri_template for one in lists.templates]


def _render_pages(key: bytes, items: Sequence[Any], cursors: Sequence[str], end: bytes) -> Mapping[str | None, bytes]:
    """Every page by its cursor: that of the last item of the page before."""
    pages: dict[str | None, bytes] = {}
    cursor: str | None = None
    for start in range(0, len(items) or 1, PAGE):
        stop = start + PAGE
        following = cursors[stop - 1] if stop < len(items) else None
        more = b"" if following is None else b',"nextCursor":' + _encode(following)
        pages[cursor] = b'{"' + key + b'":' + _encode(items[start:stop]) + more + end
        cursor = following
    return pages
