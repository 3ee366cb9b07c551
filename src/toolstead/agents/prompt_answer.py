"""The answer of a child agent as JSON: found in its text, also inside a code fence or between sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

LARGEST_ANSWER = 1_048_576
"""Characters of an answer that are searched for JSON."""
MOST_TRIED = 50
"""Places in an answer where JSON may begin."""

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_BEGINNING = re.compile(r"[{\[]")
_decoder = json.JSONDecoder()


class NoJsonError(ValueError):
    """There is no JSON value in the answer; the text says why."""


def find_json(answer: str) -> Any:
    """The JSON value of an answer: the whole of it, else a code fence, else the first object or array in it.

    Raises:
        NoJsonError: There is none.
    """
    if len(answer) > LARGEST_ANSWER:
        raise NoJsonError(f"it has {len(answer):,} characters, more than {LARGEST_ANSWER:,}")
    first: str | None = None
    for candidate in _list_candidates(answer):
        try:
            return json.loads(candidate, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            first = first or str(error)
    for tried, found in enumerate(_BEGINNING.finditer(answer)):
        if tried == MOST_TRIED:
            break
        try:
            return _decoder.raw_decode(answer, found.start())[0]
        except (ValueError, RecursionError):
            continue
    raise NoJsonError(f"it is no JSON ({first})")


def _list_candidates(answer: str) -> Iterator[str]:
    yield answer.strip()
    for fence in _FENCE.finditer(answer):
        yield fence[1]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
