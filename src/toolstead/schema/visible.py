"""What a reader cannot see: hidden, reordering and tag characters in names, commands and prose.

A person who approves a tool and a model that uses it must read the same. So whatever is not shown is
refused, and shown escaped in the refusal. Prose may have the four characters that emoji and scripts are
joined and styled with, each directly after a character that is seen.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

import msgspec

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


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """A character that a reader cannot see, or that makes them see something else.

    Attributes:
        position: Its place in the text, the first character being 0.
        character: The character itself; never print it.
        name: What Unicode calls it.
        why: What it does to a reader.
        remedy: What would be right.
    """

    position: int
    character: str
    name: str
    why: str
    remedy: str


def find_unseen(text: str, kind: Kind) -> Iterator[Unseen]:
    """What a reader of a text cannot see, in order; nothing for nearly every text."""
    if is_plain(text, kind):
        return
    for at, character in enumerate(text):
        if _is_unseen(text, at, kind):
            category = unicodedata.category(character)
            why, remedy = _refusal_reason(character, category, kind)
            yield Unseen(
                position=at, character=character, name=_character_name(character, category), why=why, remedy=remedy
            )


def is_plain(text: str, kind: Kind) -> bool:
    """Whether all of a text is certainly visible; a fast check that settles nearly every text."""
    if not text.isprintable() and (kind == "name" or not _in_one_line(text).isprintable()):
        return False
    return text.isascii() or _suspect_pattern().search(text) is None


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
    if is_plain(text, kind):
        return None
    found = find_unseen(text, kind)
    first = next(found, None)
    if first is None:
        return None
    start, end = max(0, first.position - _AROUND), first.position + _AROUND
    shown = f"{'…' if start else ''}{escape_unseen(text[start:end])}{'…' if end < len(text) else ''}"
    others = "" if next(found, None) is None else ", and it is not the only one"
    return (
        f'in "{shown}", {_visible_form(first.character)} is U+{ord(first.character):04X} {first.name}, '
        f"which {first.why}{others}; {first.remedy}"
    )


@functools.cache
def _suspect_pattern() -> re.Pattern[str]:
    return re.compile(_SUSPECT)


def _in_one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")


def _is_unseen(text: str, at: int, kind: Kind) -> bool:
    character = text[at]
    if character.isprintable() and _suspect_pattern().match(character) is None:
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
    return character > " " and character.isprintable() and _suspect_pattern().match(character) is None


def _visible_form(character: str) -> str:
    return _SHORT.get(character) or f"\\u{{{ord(character):x}}}"


def _character_name(character: str, category: str) -> str:
    return unicodedata.name(character, "") or _CONTROLS.get(character) or _NAMELESS[category]


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
