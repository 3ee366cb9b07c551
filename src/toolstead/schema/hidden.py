"""A whole JSON document looked through for what a reader cannot see: keys, values and prose, each by its rules.

Which text is prose is told by where it stands: a schema's `description` is, a property of that name and a
`default` with such a key are not. Below: `visible`. Above: `tools`, for definitions and tool files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from toolstead.schema.explanation import pointer
from toolstead.schema.visible import Kind, escaped, first_unseen, is_plain

Part = Literal["file", "tool", "schema", "schemas", "name", "value", "prose"]
"""What stands somewhere: a file of tools, a tool, a schema, schemas by name, or only texts of one kind."""

_LONGEST_POINTER = 200
_PROSE = ("description", "title", "$comment", "deprecationMessage", "errorMessage")
_MORE_PROSE = ("markdownDescription", "enumDescriptions", "markdownEnumDescriptions")
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
_BELOW: dict[Part, dict[str, Part]] = {
    "file": {"name": "name", "tools": "tool"},
    "tool": {
        "name": "name",
        "description": "prose",
        "inputSchema": "schema",
        "outputSchema": "schema",
        "annotations": "name",
        "examples": "prose",  # a tool for Persian is tried with Persian
    },
    "schema": {
        **dict.fromkeys((*_PROSE, *_MORE_PROSE, "examples"), "prose"),
        **dict.fromkeys(("enum", "const", "default"), "value"),
        **dict.fromkeys(_BY_NAME, "schemas"),
    },
}
"""What stands below a key that has a meaning."""
_BELOW_OTHERS: dict[Part, Part] = {"file": "value", "tool": "value", "schema": "schema", "schemas": "schema"}
"""What stands below any other key; texts of one kind have only such texts below them."""

_CONTROL_BYTES = bytes((*range(9), 11, 12, *range(14, 32), 127))
_ESCAPE = re.compile(rb"\\[bfnrtu]")
_ODD_ESCAPE = re.compile(rb"\\[bfru]")
_LINES_TO_THE_END = re.compile(rb'\\[nt](?:[^"\\]++|\\.)*+"(?P<key>:)?')
"""A string with several lines, to its end, and whether it is a key; in JSON without spaces."""

_Link = tuple["_Link", str | int] | None
"""A path as a chain, so that no path is built for what is well."""


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a document that has something in it which a reader cannot see.

    Attributes:
        path: Where it stands, in keys and indexes as they are; never print it.
        is_key: It is the last key of the path, not the value there.
        reason: What is hidden in it, escaped, and what would be right.
    """

    path: tuple[str | int, ...]
    is_key: bool
    reason: str

    @property
    def shown_path(self) -> tuple[str | int, ...]:
        """The path with everything visible."""
        return tuple(escaped(step) if isinstance(step, str) else step for step in self.path)

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer with everything visible, or the end of a very long one."""
        whole = pointer(self.shown_path) if self.path else "/"
        return whole if len(whole) <= _LONGEST_POINTER else "…" + whole[-_LONGEST_POINTER:]


def may_hide(data: bytes) -> bool:
    """Whether a JSON text may have something hidden in it: False, told fast, when all of it is plainly seen."""
    return _is_odd(data) or (b"\\" in data and _ESCAPE.search(data) is not None)


def hides_nothing(document: Any) -> bool:
    """Whether all of a schema is plainly seen, told fast; False also for what is no JSON."""
    try:
        data = msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError):
        return False
    if _is_odd(data):
        return False
    if b"\\" not in data:
        return True
    # Many descriptions have lines; only a key may not.
    return _ODD_ESCAPE.search(data) is None and not any(text["key"] for text in _LINES_TO_THE_END.finditer(data))


def unseen_in(document: Any, *, part: Part) -> Iterator[Hidden]:
    """Every text of a document, keys included, in which something is hidden, in the order of the document.

    A value that stands in several places, or within itself, is looked at in the first of them.

    Args:
        document: A schema, a tool, a file of tools, or any other JSON value.
        part: What it is as a whole.
    """
    waiting: list[tuple[Any, Part, _Link]] = [(document, part, None)]
    looked_at: dict[tuple[int, Part], Any] = {}
    while waiting:
        node, part, link = waiting.pop()
        if isinstance(node, str):
            kind: Kind = part if part in ("name", "value", "prose") else "value"
            if not is_plain(node, kind) and (reason := first_unseen(node, kind)) is not None:
                yield Hidden(path=_path(link), is_key=False, reason=reason)
        elif isinstance(node, dict | Mapping | list | tuple):  # a dict first: it is found much faster
            known_as = (id(cast("object", node)), part)
            if known_as in looked_at:
                continue
            looked_at[known_as] = node  # which keeps it, and so its id, in use
            if isinstance(node, dict | Mapping):
                members = [item for item in cast("Mapping[Any, Any]", node).items() if isinstance(item[0], str)]
                yield from _hidden_keys(members, link)
                waiting.extend((item, _below(part, name), (link, name)) for name, item in reversed(members))
            else:
                items = list(enumerate(cast("list[Any] | tuple[Any, ...]", node)))
                waiting.extend((item, part, (link, at)) for at, item in reversed(items))


def _hidden_keys(members: list[tuple[str, Any]], link: _Link) -> Iterator[Hidden]:
    for name, _ in members:
        if not is_plain(name, "name") and (reason := first_unseen(name, "name")) is not None:
            yield Hidden(path=_path((link, name)), is_key=True, reason=reason)


def _is_odd(data: bytes) -> bool:
    """Whether a JSON text has characters, written as they are, that may not be seen."""
    if data.isascii():
        return len(data.translate(None, _CONTROL_BYTES)) != len(data)
    return not is_plain(data.decode("utf-8", "replace"), "value")


def _below(part: Part, key: str) -> Part:
    others = _BELOW_OTHERS.get(part, part)
    known = _BELOW.get(part)
    return others if known is None else known.get(key, others)


def _path(link: _Link) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    while link is not None:
        link, step = link
        steps.append(step)
    return tuple(reversed(steps))
