"""Finds a tool call that a model wrote as text: some small models, and servers of them, make no other calls."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, cast

_MARKS = re.compile(
    r"<tool_call>|<\|tool_call|<\|python_tag\|>|\[TOOL_CALLS\]|<function=|<function_calls>|<invoke name="
)
_NAME = re.compile(r"\"name\"\s*:\s*\"([\w.-]{1,128})\"|<function=([\w.-]{1,128})|<invoke name=\"([\w.-]{1,128})\"")
_FENCE = re.compile(r"```\w*\n")
_BEGINS = re.compile(r"[{\[]")
_MOST_BEGINS = 20
_LONGEST_LEAD = 500
"""Characters that may stand before a call: an answer that explains more than it calls is one."""
_INPUTS = ("arguments", "parameters", "input", "args")
_LONGEST = 20_000


def find_written_call(answer: str) -> str | None:
    """The name of the tool that an answer calls in words; empty where it does not say, None where it is no call."""
    text = answer.strip()
    if len(text) > _LONGEST:
        return None
    if _MARKS.search(text):
        found = _NAME.search(text)
        return next(filter(None, found.groups()), "") if found else ""
    if text.endswith("```") and (fence := _FENCE.search(text[:_LONGEST_LEAD])):
        text = text[fence.end() :].removesuffix("```").strip()
    for begin in islice(_BEGINS.finditer(text[:_LONGEST_LEAD]), _MOST_BEGINS):  # what it says before the call
        try:
            return _read_name(json.loads(text[begin.start() :]))
        except (ValueError, RecursionError):
            continue
    return None


def _read_name(value: object) -> str | None:
    """The name in what looks like a call: a name beside its arguments, in the forms that models learn from."""
    if isinstance(value, list) and value:
        value = cast("list[Any]", value)[0]
    if not isinstance(value, dict):
        return None
    call = cast("dict[str, Any]", value)
    if isinstance(call.get("function"), dict):
        call = cast("dict[str, Any]", call["function"])
    name = call.get("name", call.get("tool"))
    has_input = any(isinstance(call.get(key), dict | str) for key in _INPUTS)
    return name if isinstance(name, str) and has_input else None
