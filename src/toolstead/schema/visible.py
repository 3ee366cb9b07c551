"""What a reader cannot see: hidden, reordering and tag characters in names, commands and prose.

A person who approves a tool and a model that uses it must read the same. So whatever is not shown is
refused, and shown escaped in the refusal. Prose may have the four characters that emoji and scripts are
joined and styled with, each directly after a character that is seen.

Of a document, what a model reads as words is looked at: names, titles and descriptions, and of a tool file everything
else that is no schema and no example. What is data in a schema (names of properties, `enum`, `default`, `pattern` and
the like) is as its author needs it: any JSON Schema is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from toolstead.schema.explanation import render_pointer

Kind = Literal["name", "value", "prose"]
"""What a text is: a name is compared letter by letter; a value, such as a command, is used as it stands
and may have lines; prose is only read, and may have joiners inside emoji and words besides."""

_AROUND = 24
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no encoding can write."""
_SUSPECT = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U00013441\U00013442\U00016fe4\U0001d159"
    "\U000e0100-\U000e01ef]"
)
"""What Python calls printable and yet shows nothing of its own: selectors, fillers, blanks, CGJ."""
_SELECTOR = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_BLANK = "[\u115f\u1160\u2800\u3164\uffa0\ufffc\U00013441\U00013442\U00016fe4\U0001d159]"
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0f"
_JOINING = f"{_JOINERS}\ufe0e{_EMOJI_STYLE}"
"""ZWNJ, ZWJ and the selectors of text and emoji style."""
_REORDERING = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_TAG = "[\U000e0000-\U000e007f]"
_SHOWN_FORMAT = "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]"
"""Signs that stand under or over numbers: Unicode calls them format characters, but they are drawn."""
_COMING = "[\U0001f000-\U0001faff\U00020000-\U0002fffd\U00030000-\U0003fffd]"
"""Where emoji and ideographs are added each year: this Python may not know them yet, and screens show them."""
_CONTROLS = {"\0": "NULL", "\a": "BELL", "\b": "BACKSPACE", "\t": "TAB", "\n": "LINE FEED", "\v": "LINE TABULATION"} | {
    "\f": "FORM FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x85": "NEXT LINE",
    "\x9b": "CSI",
}
_NAMELESS = {"Cc": "CONTROL CHARACTER", "Cs": "LONE SURROGATE", "Co": "PRIVATE USE", "Cn": "UNASSIGNED"}
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

Part = Literal["file", "tool", "schema", "schemas", "name", "value", "prose", "data"]
"""What stands somewhere: a file of tools, a tool, a schema, schemas by name, only texts of one kind, or data."""

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
        "examples": "data",
    },
    "schema": {
        **dict.fromkeys((*_PROSE, *_MORE_PROSE), "prose"),
        **dict.fromkeys(("enum", "const", "default", "examples"), "data"),
        **dict.fromkeys(_BY_NAME, "schemas"),
    },
}
"""What stands below a key that has a meaning."""
_BELOW_OTHERS: dict[Part, Part] = {"file": "value", "tool": "value", "schema": "schema", "schemas": "schema"}
"""What stands below any other key; texts of one kind have only such texts below them."""

_ESCAPE = re.compile(rb"\\[bfnrtu]")
_ODD_ESCAPE = re.compile(rb"\\[bfru]")


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
        return tuple(escape_unseen(step) if isinstance(step, str) else step for step in self.path)

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer with everything visible, or the end of a very long one."""
        whole = render_pointer(self.shown_path) if self.path else "/"
        return whole if len(whole) <= _LONGEST_POINTER else "…" + whole[-_LONGEST_POINTER:]


def find_unseen(text: str, kind: Kind) -> list[int]:
    """The places of the characters of a text that a reader cannot see; none in nearly every text."""
    return [] if is_plain(text, kind) else [at for at in range(len(text)) if _is_unseen(text, at, kind)]


def is_plain(text: str, kind: Kind) -> bool:
    """Whether all of a text is certainly visible; a fast check that settles nearly every text."""
    if not text.isprintable():
        in_one_line = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
        if kind == "name" or not in_one_line.isprintable():
            return False
    return text.isascii() or re.search(_SUSPECT, text) is None


def escape_unseen(text: str, kind: Kind = "name") -> str:
    r"""A text with everything that is not seen made visible, such as `\u{202e}`, for messages and terminals.

    Args:
        text: The text.
        kind: `name` shows line breaks and joiners too; `prose` keeps what may stand in prose.
    """
    if is_plain(text, kind):
        return text
    return "".join(_visible_form(text[at]) if _is_unseen(text, at, kind) else text[at] for at in range(len(text)))


def first_unseen(text: str, kind: Kind) -> str | None:
    """The message about the first invisible character of a text, or None when all of it is visible."""
    found = find_unseen(text, kind)
    if not found:
        return None
    character = text[found[0]]
    category = unicodedata.category(character)
    name = unicodedata.name(character, "") or _CONTROLS.get(character) or _NAMELESS[category]
    why, remedy = _refusal_reason(character, category, kind)
    start, end = max(0, found[0] - _AROUND), found[0] + _AROUND
    shown = f"{'…' if start else ''}{escape_unseen(text[start:end])}{'…' if end < len(text) else ''}"
    others = ", and it is not the only one" if len(found) > 1 else ""
    return f'in "{shown}", {_visible_form(character)} is U+{ord(character):04X} {name}, which {why}{others}; {remedy}'


def may_hide(data: bytes) -> bool:
    """Whether a JSON text may have something hidden in it: False, after a fast check, when all of it is visible.

    To walk through the 10,000 tools of a thousand files takes 0.3 s, this 2 ms; a test has both agree.
    """
    return _is_odd(data) or (b"\\" in data and _ESCAPE.search(data) is not None)


def hides_nothing(document: Any) -> bool:
    """Whether all of a schema is visible, by a fast check; False also for what is no JSON."""
    try:
        data = msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError):
        return False
    return not _is_odd(data) and (b"\\" not in data or _ODD_ESCAPE.search(data) is None)


def find_hidden(document: Any, *, part: Part) -> Iterator[Hidden]:
    """Every name and prose text of a document in which something is hidden, in the order of the document.

    A value that stands in several places, or within itself, is looked at in the first of them.

    Args:
        document: A schema, a tool, a file of tools, or any other JSON value.
        part: What it is as a whole.
    """
    waiting: list[tuple[Any, Part, tuple[str | int, ...]]] = [(document, part, ())]
    looked_at: dict[tuple[int, Part], Any] = {}
    while waiting:
        node, part, path = waiting.pop()
        if isinstance(node, str):
            if part in ("name", "value", "prose") and (reason := first_unseen(node, part)) is not None:
                yield Hidden(path=path, is_key=False, reason=reason)
        elif isinstance(node, dict | Mapping | list | tuple):  # a dict first: it is found much faster
            known_as = (id(cast("object", node)), part)
            if part == "data" or known_as in looked_at:
                continue
            looked_at[known_as] = node  # which keeps it, and so its id, in use
            if isinstance(node, dict | Mapping):
                members = [item for item in cast("Mapping[Any, Any]", node).items() if isinstance(item[0], str)]
                for name in (name for name, _ in members if part not in ("schema", "schemas")):
                    if (reason := first_unseen(name, "name")) is not None:
                        yield Hidden(path=(*path, name), is_key=True, reason=reason)
                below, others = _BELOW.get(part, {}), _BELOW_OTHERS.get(part, part)
                waiting.extend((item, below.get(name, others), (*path, name)) for name, item in reversed(members))
            else:
                items = list(enumerate(cast("list[Any] | tuple[Any, ...]", node)))
                waiting.extend((item, part, (*path, at)) for at, item in reversed(items))


def _is_unseen(text: str, at: int, kind: Kind) -> bool:
    character = text[at]
    if character.isprintable() and re.match(_SUSPECT, character) is None:
        return False
    category = unicodedata.category(character)
    if kind != "name" and (category == "Zs" or character in "\t\n" or text[at : at + 2] == "\r\n"):
        return False
    if kind == "prose" and character in _JOINING and _is_joining(text, at):
        return False
    return not (re.match(_SHOWN_FORMAT, character) or (category == "Cn" and re.match(_COMING, character)))


def _is_joining(text: str, at: int) -> bool:
    """Whether a joiner or a style stands after a character that is seen, and not between two of ASCII.

    No word or emoji needs one there; "1\ufe0f\u20e3" and a Persian ending after "PDF" have one side outside ASCII.
    """
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if before == _EMOJI_STYLE:
        return text[at] in _JOINERS  # a rainbow flag is a flag, its style, a joiner and a rainbow
    return _is_seen(before) and not (before.isascii() and (after.isascii() or not _is_seen(after)))


def _is_seen(character: str) -> bool:
    return character > " " and character.isprintable() and re.match(_SUSPECT, character) is None


def _visible_form(character: str) -> str:
    return _SHORT.get(character) or f"\\u{{{ord(character):x}}}"


def _refusal_reason(character: str, category: str, kind: Kind) -> tuple[str, str]:
    """What a character does to a reader, and what would be right."""
    if re.match(_REORDERING, character):
        return "changes the order in which text is shown", "remove it: right-to-left scripts are shown well without"
    if re.match(_TAG, character):
        return "is not shown and carries letters that only a machine reads", "remove it, or write what is meant"
    if re.match(_SELECTOR, character) or character in _JOINERS:
        if kind == "prose":
            return "is not shown and belongs to no emoji or word here", "remove it"
        return f"is not shown, and a {kind} has only what is seen", "remove it (in descriptions it may stand)"
    if re.match(_BLANK, character) or category == "Zs":
        return "looks like a space, or like nothing", "write an ordinary space, or remove it"
    if category in ("Zl", "Zp") or character in "\n\t\r\x0b\x0c\x85":
        return "breaks or moves the line", f"write {'one line' if kind == 'name' else 'an ordinary line break'}"
    if category == "Cc":
        return "steers a terminal instead of being shown", "remove it, or write what is meant"
    if category in ("Co", "Cn", "Cs"):
        return "has no agreed appearance", "write what is meant with assigned characters"
    return "is not shown", "remove it, or write what is meant"


def _is_odd(data: bytes) -> bool:
    """Whether a JSON text, which has control characters only as escapes, has others that may not be seen."""
    if data.isascii():
        return b"\x7f" in data
    return not is_plain(data.decode("utf-8", "replace"), "value")
