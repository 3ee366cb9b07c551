"""Edits of JSON texts that leave everything else as it stands: order, spaces, comments, trailing commas.

Comments and trailing commas are blanked first, so that what is left is JSON of the same length: every place found
in it is a place in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolstead.errors import ClientConfigError

# Texts and comments without an end go on to the end, so that no search begins twice at the same place.
_TEXT = r'"(?:[^"\\\n]++|\\.)*+"?+'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+", re.DOTALL)
_TRAILING = re.compile(rf"{_TEXT}|,(?=\s*+[}}\]])", re.DOTALL)
_SPACE = re.compile(r"\s*+")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One `"key": value` of an object: where its key begins, where its value does, and where that ends."""

    key: str
    start: int
    value: int
    end: int


def parse_json(text: str, *, comments: bool, commas: bool = True) -> dict[str, Any]:
    """The object that a text holds; nothing at all is an empty one.

    Args:
        text: The text.
        comments: Comments are allowed.
        commas: Trailing commas are, where comments are.

    Raises:
        ClientConfigError: It is not a JSON object; says where.
    """
    plain = _blank_comments(text) if comments else text
    plain = _blank_commas(plain) if comments and commas else plain
    if not plain.strip():
        return {}
    try:
        value = json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        before = len(plain[: error.pos].rstrip()) - 1
        if (at := _find_trailing(plain, before, error.pos)) is not None:  # Python 3.13 points at the comma itself
            line, column = plain.count("\n", 0, at) + 1, at - plain.rfind("\n", 0, at)
            raise ClientConfigError(f"line {line}, column {column}: nothing follows this comma; remove it") from None
        raise ClientConfigError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ClientConfigError(str(error)) from None
    if not isinstance(value, dict):
        raise ClientConfigError("it holds no object")
    return cast("dict[str, Any]", value)


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a value at a path of keys; objects on the way there are made.

    Raises:
        ClientConfigError: Something on the way is no object.
    """
    plain = _blank_extras(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not plain.strip():
        nested = _nest_value(path, value)
        return text + json.dumps(nested, indent=2, ensure_ascii=False).replace("\n", newline) + newline
    at = _skip_space(plain, 0)
    for depth, key in enumerate(path):
        members = _find_members(plain, at)
        found = next((member for member in reversed(members) if member.key == key), None)
        if found is None:
            return _insert_member(text, plain, at, members, (key, _nest_value(path[depth + 1 :], value)))
        if depth == len(path) - 1:
            indent = _line_indent(plain, found.start)
            return text[: found.value] + _render_value(value, text, indent or "") + text[found.end :]
        if plain[found.value] != "{":
            raise ClientConfigError(f"its {key!r} is no object")
        at = found.value
    return text


def remove_value(text: str, path: Sequence[str]) -> str:
    """The text without the member at a path; the same text where there is none."""
    plain = _blank_extras(text)
    if not plain.strip():
        return text
    at = _skip_space(plain, 0)
    for depth, key in enumerate(path):
        members = _find_members(plain, at) if plain[at] == "{" else []
        place = next((place for place in reversed(range(len(members))) if members[place].key == key), None)
        if place is None:
            return text
        if depth == len(path) - 1:
            return _cut_member(text, plain, at, members, place)
        at = members[place].value
    return text


def _cut_member(text: str, plain: str, at: int, members: Sequence[Member], place: int) -> str:
    member = members[place]
    start, end = member.start, member.end
    comma = _find_comma(text, plain, end)
    end = comma or end
    indent = _line_indent(plain, start)
    if indent is not None:
        start -= len(indent)
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    elif comma:
        end = _skip_space(plain, end)
    if not comma and place > 0:  # the one before becomes the last: its comma goes
        before = plain.index(",", members[place - 1].end)
        return text[:before] + ("" if indent is None else text[before + 1 : start]) + text[end:]
    if len(members) == 1:
        brace = plain.index("}", member.end)
        if not text[at + 1 : start].strip() and not text[end:brace].strip():
            return text[: at + 1] + text[brace:]
    return text[:start] + text[end:]


def _insert_member(text: str, plain: str, at: int, members: Sequence[Member], added: tuple[str, Any]) -> str:
    """A new last member, on lines of its own unless the others share one."""
    key, value = added
    newline = "\r\n" if "\r\n" in text else "\n"
    name = json.dumps(key, ensure_ascii=False)
    if not members:
        outer = re.compile(r"[ \t]*+").match(plain, plain.rfind("\n", 0, at) + 1)
        indent = (outer[0] if outer is not None else "") + _indent_unit(plain)
        brace = plain.index("}", at)
        inside = text[at + 1 : brace]
        member = f"{newline}{indent}{name}: {_render_value(value, text, indent)}"
        if inside.strip():  # a comment
            return text[: at + 1] + member + text[at + 1 :]
        return text[: at + 1] + member + newline + indent[: -len(_indent_unit(plain))] + text[brace:]
    last = members[-1]
    indent = _line_indent(plain, last.start)
    comma = _find_comma(text, plain, last.end)
    if indent is None:
        return f"{text[: last.end]}, {name}: {json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    brace = plain.index("}", last.end)
    line_end = plain.find("\n", last.end, brace)
    place = brace if line_end < 0 else line_end - (plain[line_end - 1] == "\r")
    member = f"{newline}{indent}{name}: {_render_value(value, text, indent)}"
    if comma:
        return text[:place] + member + "," + text[place:]
    return text[: last.end] + "," + text[last.end : place] + member + text[place:]


def _find_comma(text: str, plain: str, end: int) -> int:
    """Where the comma after a value ends, be it a trailing one; 0 where there is none."""
    at = _skip_space(plain, end)
    if plain[at] == ",":
        return at + 1
    at = _skip_space(text, end)
    return at + 1 if text[at] == "," else 0


def _find_members(plain: str, at: int) -> list[Member]:
    """The members of the object whose brace stands at a place."""
    members: list[Member] = []
    at = _skip_space(plain, at + 1)
    while plain[at] != "}":
        key, end = _DECODER.raw_decode(plain, at)
        value = _skip_space(plain, _skip_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members.append(Member(key=key, start=at, value=value, end=end))
        at = _skip_space(plain, end)
        if plain[at] == ",":
            at = _skip_space(plain, at + 1)
    return members


def _find_trailing(plain: str, *places: int) -> int | None:
    """The place of these where a comma stands that nothing follows."""
    return next((at for at in places if re.compile(r",\s*+[}\]]").match(plain, at)), None)


def _blank_extras(text: str) -> str:
    """The text with spaces for comments and trailing commas, as long as it was."""
    return _blank_commas(_blank_comments(text))


def _blank_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " * len(found[0]), text)


def _blank_commas(plain: str) -> str:
    return _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else " ", plain)


def _skip_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return at if found is None else found.end()


def _line_indent(plain: str, at: int) -> str | None:
    """What stands before a place on its line, if that is only space; None also on the first line."""
    begin = plain.rfind("\n", 0, at) + 1
    indent = plain[begin:at]
    return indent if begin and not indent.strip() else None


def _indent_unit(plain: str) -> str:
    found = re.search(r"\n([ \t]+)\"", plain)
    return found[1] if found is not None else "  "


def _render_value(value: Any, text: str, indent: str) -> str:
    rendered = json.dumps(value, indent=_indent_unit(_blank_extras(text)), ensure_ascii=False)
    return rendered.replace("\n", ("\r\n" if "\r\n" in text else "\n") + indent)


def _nest_value(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
