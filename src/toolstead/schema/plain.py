"""Recognises schemas that certainly compile, so that compiling can wait until a tool is called.

Most tools' schemas name types, bounds and texts and nothing else. Two recognisers accept only such: nothing that
refers elsewhere, only the simplest regular expressions, no other draft. A test has both agree with the compiler.

- `grammar`, for tool files: 16 ms for 10,000 schemas where compiling takes 130 ms, a quarter of the whole load.
- `is_obviously_plain`, for tools in Python: a start that only lists tools does without the compiler, 11 ms of 120.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")

_ATOM = r"(?:[A-Za-z0-9_ @/:,;=#%!~'<>&-]|\\[dwsDWS.+*?()/-]|\.|\[\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_ @/:,.]|\\[dws.])+-?\])"
_TIMES = r"(?:[*+?]|\{\d\d?,?\}|\{(?:[01],[1-9]|[0-4],[5-9]|\d,[1-9]\d)\})?"
_ATOMS = f"(?:{_ATOM}{_TIMES})+"
_GROUP = rf"\((?:\?:)?{_ATOMS}(?:\|{_ATOMS})*\)[*+?]?"
_EXPRESSION = {"type": "string", "maxLength": 80, "pattern": rf"^\^?(?:{_ATOM}{_TIMES}|{_GROUP})*\$?$"}
"""Regular expressions of single characters, classes and flat groups, too short to become too large."""

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_FLAG = {"type": "boolean"}
_LIST = {"type": "array"}
_ANYTHING: dict[str, Any] = {}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**31}
_TYPE = {"enum": list(TYPES)}

_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def plain_grammar(place: str = "#") -> dict[str, Any]:
    """The grammar as a JSON Schema, which refers to itself by the place where it will stand."""
    schema = {"$ref": place}
    schema_or_boolean = {"type": ["object", "boolean"], "if": {"type": "object"}, "then": schema}
    types = {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}
    keywords: dict[str, Any] = {
        "type": {"if": _TEXT, "then": _TYPE, "else": types},
        "properties": {"type": "object", "additionalProperties": schema},
        "required": {"type": "array", "items": _TEXT, "uniqueItems": True},
        **dict.fromkeys(("additionalProperties", "items"), schema_or_boolean),
        **{name: {"type": "array", "items": schema, "minItems": 1} for name in ("anyOf", "oneOf", "allOf")},
        **dict.fromkeys(("title", "description", "format", "$comment"), _TEXT),
        **dict.fromkeys(("default", "const"), _ANYTHING),
        **dict.fromkeys(("enum", "examples"), _LIST),
        "pattern": _EXPRESSION,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
        **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _FLAG),
    }
    return {"type": "object", "properties": keywords, "additionalProperties": False}


def is_obviously_plain(schema: Any) -> bool:
    """Whether a schema has only the few keywords of most tools, rightly used; what this does not know may still be one.

    The schema is JSON and not deep: it was copied.
    """
    try:
        _encode_json(schema).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return _is_obvious(schema)


def _is_obvious(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    for keyword, value in cast("dict[str, Any]", schema).items():
        accepts = _OBVIOUS.get(keyword)
        if accepts is None or not accepts(value):
            return False
    return True


def _is_kind(value: Any) -> bool:
    if isinstance(value, list):
        kinds = cast("list[Any]", value)
        return bool(kinds) and _are_distinct_texts(kinds) and all(kind in TYPES for kind in kinds)
    return value in TYPES


def _are_distinct_texts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    texts = cast("list[Any]", value)
    return all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**31


_LARGEST = 2**53
_OBVIOUS: dict[str, Callable[[Any], bool]] = {
    "type": _is_kind,
    "properties": lambda value: (
        isinstance(value, dict) and all(map(_is_obvious, cast("dict[str, Any]", value).values()))
    ),
    "items": _is_obvious,
    "required": _are_distinct_texts,
    "additionalProperties": lambda value: isinstance(value, bool),
    "title": lambda value: isinstance(value, str),
    "description": lambda value: isinstance(value, str),
    "default": lambda _: True,
    "enum": lambda value: bool(value) and _are_distinct_texts(value),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
}
