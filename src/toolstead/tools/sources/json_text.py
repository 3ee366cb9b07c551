"""Where things stand in a JSON text, and why bytes are no such text: looked up only when something is wrong.

A fault is explained by what a person would have to type there.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

SHAPE = '{"name": "my-tools", "tools": […]}'
_BYTE = re.compile(r"\(byte (\d+)\)")
_LARGE = re.compile(r"(?<![\d.])-?\d+(?:\.\d+)?[eE]\+?\d{3,}")
_HALF = re.compile(r"\\u[dD][89abAB]\w\w(?:\\u[dD][c-fC-F]\w\w)?|\\u[dD][c-fC-F]\w\w")
_ONE_ESCAPE = len(r"\ud800")
_WORD = re.compile(r"\w+")
_NOT_ASKED_FOR = {
    "'": 'texts and names stand in double quotes ("), not in single ones',
    "/": "JSON has no comments; remove it",
    "#": "JSON has no comments; remove it",
    "True": "write true, in small letters",
    "False": "write false, in small letters",
    "None": "write null",
    "undefined": "write null",
    "NaN": "NaN is no JSON value; leave it out, or write null",
    "Infinity": "Infinity is no JSON value; leave it out, or write null",
}
_BLANK = re.compile(r"[ \t\n\r]*")
# For a text without escapes. What is cut off inside a string is a token too: else each quote would be tried as its end.
_TOKEN = re.compile(r'(?P<text>"[^"]*"?)(?P<colon>[ \t\n\r]*:)?|[\[\]{},]')
_decode = json.JSONDecoder().raw_decode


class Position(NamedTuple):
    """A place in a text, as editors count: both from 1."""

    line: int
    column: int


Fault = tuple[Position, str]
"""Where a text stops being JSON, and what would be right."""


def find_position(text: str, at: int) -> Position:
    """The position of an offset."""
    return Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _counted_lines(text: str) -> Callable[[int], Position]:
    """What finds the positions of offsets that come in order: each line is counted once."""
    line, before, counted = 1, -1, 0

    def count_on(at: int) -> Position:
        nonlocal line, before, counted
        line += text.count("\n", counted, at)
        before = max(before, text.rfind("\n", counted, at))
        counted = at
        return Position(line, at - before)

    return count_on


def locate_value(text: str, path: Sequence[str | int], *, key: bool = False) -> Position:
    """The position of one value; see `Outline.locate_value`."""
    return Outline(text).locate_value(path, key=key)


class Outline:
    """Where the members of a valid JSON text stand: each object and each list is walked once, when it is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._members: dict[int, dict[str | int, tuple[int, int]]] = {}

    def locate_value(self, path: Sequence[str | int], *, key: bool = False) -> Position:
        """The position of the value at a path.

        Args:
            path: Property names and indexes from the root.
            key: The property's name instead of its value, for the last step.

        A path that does not exist leads to the nearest thing around it.
        """
        at = _skip_blanks(self._text, 0)
        for number, step in enumerate(path):
            found = self.members_at(at).get(step)
            if found is None:
                break
            name_at, value_at = found
            at = name_at if key and number == len(path) - 1 else value_at
        return find_position(self._text, at)

    def members_at(self, at: int) -> dict[str | int, tuple[int, int]]:
        """Where the names and the values of the object or list at an offset begin; it is empty for anything else."""
        if at not in self._members:
            self._members[at] = _find_members(self._text, at)
        return self._members[at]


def locate_each(text: str, name: str, key: str) -> dict[Any, Position]:
    """Where the members `key` of the objects in the root's list `name` stand, by their values, in one walk."""
    outline = Outline(text)
    found = outline.members_at(_skip_blanks(text, 0)).get(name)
    offsets: dict[Any, int] = {}
    for _, at in outline.members_at(found[1]).values() if found is not None else ():
        member = outline.members_at(at).get(key)
        if member is not None:
            offsets.setdefault(_decode(text, member[1])[0], member[1])
    count_on = _counted_lines(text)
    return {value: count_on(offset) for value, offset in offsets.items()}


def find_repeated_names(text: str) -> Iterator[tuple[tuple[str | int, ...], Position]]:
    """Duplicate names in the objects of a valid JSON text: the path to each, and its position."""
    count_on = _counted_lines(text)
    path: list[str | int] = []
    names: list[set[str] | None] = []
    for token in _TOKEN.finditer(_cover_escapes(text)):
        match token[0][0]:
            case "{" | "[" as bracket:
                names.append(set() if bracket == "{" else None)
                path.append(0)
            case "}" | "]":
                names.pop()
                path.pop()
            case "," if isinstance(path[-1], int):
                path[-1] += 1
            case '"' if token["colon"] is not None and (seen := names[-1]) is not None:
                path[-1] = name = str(json.loads(text[slice(*token.span("text"))]))
                if name in seen:
                    yield tuple(path), count_on(token.start())
                seen.add(name)
            case _:
                pass


def find_first_deeper(text: str, most: int) -> Position | None:
    """Where a text, be it valid JSON or not, is first nested more deeply than allowed."""
    depth = 0
    for token in _TOKEN.finditer(_cover_escapes(text)):
        match token[0][0]:
            case "{" | "[":
                depth += 1
                if depth > most:
                    return find_position(text, token.start())
            case "}" | "]":
                depth -= 1
            case _:
                pass
    return None


def _cover_escapes(text: str) -> str:
    """A JSON text, as long as before, in which every quote that is left begins or ends a string."""
    return text.replace("\\\\", "__").replace('\\"', "__") if "\\" in text else text


def _find_members(text: str, at: int) -> dict[str | int, tuple[int, int]]:
    """Where each member's name and value begin; the last of equal names counts, as for every parser."""
    found: dict[str | int, tuple[int, int]] = {}
    opening = text[at]
    if opening not in "{[":
        return found
    at = _skip_blanks(text, at + 1)
    while text[at] not in "}]":
        step, name_at = len(found), at
        if opening == "{":
            step, at = _decode(text, at)
            at = _skip_blanks(text, _skip_blanks(text, at) + 1)
        found[step] = name_at, at
        at = _skip_value(text, at)
    return found


def _skip_value(text: str, at: int) -> int:
    """Past a value and its comma."""
    _, at = _decode(text, at)
    at = _skip_blanks(text, at)
    return _skip_blanks(text, at + 1) if text[at] == "," else at


def _skip_blanks(text: str, at: int) -> int:
    return cast("re.Match[str]", _BLANK.match(text, at)).end()


def explain_syntax(data: bytes, reason: str) -> Fault:
    """The first fault of bytes that a strict parser refused.

    Args:
        data: The bytes.
        reason: That parser's message, for faults that Python's own does not find.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Position(1, 1), "the file is written in UTF-16; save it as UTF-8"
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        message = f"not UTF-8: byte 0x{data[error.start]:02x}; save the file as UTF-8"
        return find_position(before, len(before)), message
    if not text.strip():
        return Position(1, 1), f"the file is empty; a tool file looks like {SHAPE}"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _explain_error(text, error)
    except ValueError as error:  # such as a number of more digits than Python reads
        return _fault_at(text, 0, str(error).partition(";")[0])
    return _check_strictly(text, data, reason)


def _explain_error(text: str, error: json.JSONDecodeError) -> Fault:
    at = error.pos
    comma = _trailing_comma(text, at)
    if comma is not None:
        return _fault_at(text, comma, f"remove this comma: nothing follows it before `{text[comma + 1 :].lstrip()[0]}`")
    if "control character" in error.msg:
        return _fault_at(text, at, _describe_control(text[at]))
    if error.msg.startswith("Unterminated string"):
        return _fault_at(text, at, 'this text is never closed; a " is missing')
    if "escape" in error.msg:
        return _fault_at(text, at, r"a backslash in a text is written twice: \\ (or begins \n, \t, \", \u0041)")
    if error.msg == "Extra data":
        return _fault_at(text, at, "the JSON ended before this; remove what follows, or join it with what is before")
    if at >= len(text.rstrip()):
        return _fault_at(text, len(text.rstrip()), "the file ends in the middle; close what is open with `]` and `}`")
    return _fault_at(text, at, _not_asked_for(text, at) or _explain_needed(text, at, error.msg))


def _explain_needed(text: str, at: int, message: str) -> str:
    found = f"not {text[at]!r}"
    if message.startswith("Expecting property name"):
        return f"a name in double quotes is needed here, {found}"
    if message.startswith("Expecting ',' delimiter"):
        opened = _find_opened(text, at)
        closing = "]" if text[opened] == "[" else "}"
        if text[at] in "]}" and text[at] != closing:
            what, where = "list" if closing == "]" else "object", find_position(text, opened)
            place = f"the {what} that begins at {where.line}:{where.column} is not closed"
            return f"a comma or {closing!r} is needed here, {found}: {place}"
        return f"a comma is missing before {text[at]!r}" if text[at] in '"{[' else f"a comma is needed here, {found}"
    if message.startswith("Expecting ':' delimiter"):
        return f"a colon is needed between a name and its value, {found}"
    return f"a value is needed here (text in double quotes, a number, true, false, null, {{ or [), {found}"


def _find_opened(text: str, at: int) -> int:
    """Where the object or list begins that is open at an offset; what is before it is valid JSON."""
    opened: list[int] = []
    for token in _TOKEN.finditer(_cover_escapes(text), 0, at):
        match token[0][0]:
            case "{" | "[":
                opened.append(token.start())
            case "}" | "]":
                opened.pop()
            case _:
                pass
    return opened[-1]


def _not_asked_for(text: str, at: int) -> str | None:
    """What to say about something that other languages have, and JSON has not."""
    word = _WORD.match(text, at)
    return _NOT_ASKED_FOR.get(word[0] if word else text[at])


def _trailing_comma(text: str, at: int) -> int | None:
    """The offset of a comma that closes a list, near the fault; parsers point at it, or behind it."""
    end = at + 1 if text[at : at + 1] == "," else at
    before = text[:end].rstrip()
    following = text[end:].lstrip()
    return len(before) - 1 if before.endswith(",") and following.startswith(("}", "]")) else None


def _describe_control(character: str) -> str:
    written = {"\n": r"a line break", "\r": "a line break", "\t": "a tab"}.get(character, f"{character!r}")
    instead = {"\n": r"\n", "\r": r"\n", "\t": r"\t"}.get(character, json.dumps(character)[1:-1])
    return f'{written} in a text is written as {instead}; or a " is missing before it'


def _check_strictly(text: str, data: bytes, reason: str) -> Fault:
    """What Python's parser lets through: half of a surrogate pair, numbers out of range, NaN."""
    for half in _HALF.finditer(text):
        if len(half[0]) == _ONE_ESCAPE:
            return _fault_at(text, half.start(), f"{half[0]} is half of a character; write the whole one")
    for number in _LARGE.finditer(text):
        if math.isinf(float(number[0])):
            return _fault_at(text, number.start(), f"{number[0][:40]} is too large for a number")
    where = _BYTE.search(reason)
    at = len(data[: int(where[1])].decode("utf-8", "replace")) if where else 0
    return _fault_at(text, at, _not_asked_for(text, at) or _BYTE.sub("", reason).strip())


def _fault_at(text: str, at: int, message: str) -> Fault:
    return find_position(text, at), f"not valid JSON: {message}"
