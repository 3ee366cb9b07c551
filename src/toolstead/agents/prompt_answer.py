"""The answer of a child agent as JSON: found in its text, also inside a code fence or between sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

LARGEST_ANSWER = 1_048_576
"""Characters of an answer that are searched for JSON."""
MOST_TRIED = 50
"""Places in an answer where JSON may begin."""

_BEGINNING = re.compile(r"[{\[]")


class NoJsonError(ValueError):
    """There is no JSON value in the answer; the text says why."""


def find_json(answer: str) -> Any:
    """The JSON value of an answer: the whole of it, else a code fence, else the first object or array in it.

    Raises:
        NoJsonError: There is none, or one that JSON cannot express again: NaN, a number without end, half a character.
    """
    if len(answer) > LARGEST_ANSWER:
        raise NoJsonError(f"it has {len(answer):,} characters, more than {LARGEST_ANSWER:,}")
    first: str | None = None
    for candidate in _list_candidates(answer):
        try:
            return _check_text(_DECODER.decode(candidate))
        except (ValueError, RecursionError) as error:
            first = first or str(error)
    place = 0
    for _ in range(MOST_TRIED):
        if (found := _BEGINNING.search(answer, place)) is None:
            break
        try:
            return _check_text(_DECODER.raw_decode(answer, found.start())[0])
        except json.JSONDecodeError as error:
            # What is inside an unfinished value is no answer; and no part of the text is read twice.
            place = max(error.pos, found.end())
        except (ValueError, RecursionError) as error:
            raise NoJsonError(f"it is no JSON ({error})") from None
    raise NoJsonError(f"it is no JSON ({first})")


def _list_candidates(answer: str) -> Iterator[str]:
    yield answer.strip()
    fenced: list[str] | None = None
    for line in answer.splitlines():
        if not line.lstrip().startswith("```"):
            if fenced is not None:
                fenced.append(line)
        elif fenced is None:
            fenced = []
        else:
            yield "\n".join(fenced).strip()
            fenced = None


def _check_text(value: Any) -> Any:
    """The value, if it can be written as JSON again: half of a surrogate pair cannot."""
    msgspec.json.encode(value)
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _read_float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_float)
