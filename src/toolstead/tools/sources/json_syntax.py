"""Why bytes are no JSON text: where it stops being one, and what a person would have to type there."""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import NamedTuple

from toolstead.tools.sources.json_positions import Position, position_of

SHAPE = '{"name": "my-tools", "tools": […]}'
_BYTE = re.compile(r"\(byte (\d+)\)")
_LARGE = re.compile(r"-?\d+(?:\.\d+)?[eE]\+?\d{3,}")
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


class Fault(NamedTuple):
    """Where a text stops being JSON, and what would be right."""

    position: Position
    message: str


def explain_syntax(data: bytes, reason: str) -> Fault:
    """The first fault of bytes that a strict parser refused.

    Args:
        data: The bytes.
        reason: That parser's message, for faults that Python's own does not find.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Fault(Position(1, 1), "the file is written in UTF-16; save it as UTF-8")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        message = f"not UTF-8: byte 0x{data[error.start]:02x}; save the file as UTF-8"
        return Fault(position_of(before, len(before)), message)
    if not text.strip():
        return Fault(Position(1, 1), f"the file is empty; a tool file looks like {SHAPE}")
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
        return f"a comma is missing before {text[at]!r}" if text[at] in '"{[' else f"a comma is needed here, {found}"
    if message.startswith("Expecting ':' delimiter"):
        return f"a colon is needed between a name and its value, {found}"
    return f"a value is needed here (text in double quotes, a number, true, false, null, {{ or [), {found}"


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
    return Fault(position_of(text, at), f"not valid JSON: {message}")
