"""Texts on which a regular expression may take long, made from the expression itself, and how its time grows on them.

A text repeats what a part of the expression matches, after what leads to that part, and before an end that
does not fit: so the engine tries every way to divide the repetition.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from re import _constants as codes
from re import _parser as parser
from typing import Any

MOST_GROWTH = 2.5
"""A text twice as long may take this many times as long: twice, and something for the clock."""
FLOOR = 200e-6
"""Seconds below which nothing is measured: a start costs more than the text."""
_SMALL = 512
_SIZES = (*(int(16 * 2 ** (step / 4)) for step in range(21)), 2_048, 8_192, 65_536)
"""Characters. Steps are small at first, so that a time that doubles with each one is seen before it lasts for ever."""
_MEASUREMENTS = (1, 3, 5, 9)
_USUAL = "a0 Z-.\n"
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_MOST_VARIANTS = 4


@dataclass(frozen=True)
class GrowingText:
    """A text of any length: what it begins with, what is repeated, and what it ends with."""

    head: str
    unit: str
    tail: str

    def grown_to(self, size: int) -> str:
        """The text in about this length."""
        return self.head + self.unit * max(1, size // len(self.unit)) + self.tail


def find_growth(pattern: str | bytes, flags: int, way: str) -> str | None:
    """How an expression's time grows faster than its text, or None where it does not."""
    run = _reading(pattern, flags, way)
    for text in _growing_texts(pattern, flags):
        taken: dict[int, float] = {}
        for size in _SIZES:
            taken[size] = _measure(run, text, size)
            half = _SIZES[_SIZES.index(size) - 1] if size > 2 * _SMALL else size // 2
            if (
                taken[size] > FLOOR
                and _grows(taken[size], taken.get(half), size / half)
                and _surely_grows(run, text, size)
            ):
                return f"{taken[size] * 1000:.1f} ms for {size:,} characters of {text}"
    return None


def _grows(long: float, short: float | None, ratio: float) -> bool:
    return short is None or long > max(short, 1e-7) * MOST_GROWTH ** math.log2(ratio)


def _surely_grows(run: Callable[[str], object], text: GrowingText, size: int) -> bool:
    """Whether the time grows too much over the last two doublings, however often it is measured."""
    for most in _MEASUREMENTS:
        short = min(_measure(run, text, size // 4) for _ in range(5 * most))
        if not _grows(min(_measure(run, text, size) for _ in range(most)), short, 4):
            return False
    return True


def _measure(run: Callable[[str], object], text: GrowingText, size: int) -> float:
    grown = text.grown_to(size)
    before = time.thread_time()
    run(grown)
    return time.thread_time() - before


def _reading(pattern: str | bytes, flags: int, way: str) -> Callable[[str], object]:
    """What reads a text in this way to the end."""
    if isinstance(pattern, bytes):
        compiled = re.compile(pattern, flags)
        method = getattr(compiled, way)
        return lambda text: deque(_each(method(text.encode("latin-1", "replace"))), maxlen=0)
    method = getattr(re.compile(pattern, flags), way)
    return lambda text: deque(_each(method(text)), maxlen=0)


def _each(found: Any) -> Iterator[Any]:
    return iter(found if hasattr(found, "__next__") else ())


def _growing_texts(pattern: str | bytes, flags: int) -> list[GrowingText]:
    parts = _Parts(pattern, flags)
    texts: dict[GrowingText, None] = {}
    units: dict[str, None] = {}
    for head, unit, misfits in parts.repeated(parts.tree, ""):
        units[unit] = None
        for tail in ("", "\0", *misfits):
            texts[GrowingText(head, unit, tail)] = None
            texts[GrowingText("", unit, tail)] = None
        if head:
            units[head + unit] = None
            texts[GrowingText("", head + unit, "")] = texts[GrowingText("", head, "")] = None
    if not units:  # nothing is repeated, so nothing can take long
        return []
    whole = parts.samples(parts.tree)
    units.update(dict.fromkeys(text for text in whole if text))
    for one, other in itertools.product(list(units)[:5], repeat=2):
        texts[GrowingText("", one + other, "\0")] = None
    return list(texts)


class _Parts:
    """The parts of an expression, and characters that are in its classes."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        source = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        self.tree = parser.parse(source, flags & ~re.UNICODE)
        self._alphabet = list(dict.fromkeys([*_literals(self.tree), *_USUAL]))

    def repeated(self, nodes: Any, head: str) -> Iterator[tuple[str, str, list[str]]]:
        """What is repeated anywhere: what leads there, one repetition, and characters that are none."""
        for code, value in nodes:
            if code in _REPEATS:
                _, most, inside = value
                for unit in filter(None, self.samples(inside) if most > 1 else ()):
                    yield head, unit, self._misfits(inside)
            for inner in _inside(code, value):
                yield from self.repeated(inner, head)
            head += self.samples([(code, value)])[0]

    def samples(self, nodes: Any) -> list[str]:
        """Some texts that a sequence matches."""
        found = [""]
        for code, value in nodes:
            choices = self._choices(code, value)
            found = [before + after for after in choices for before in found][:_MOST_VARIANTS]
        return found

    def _choices(self, code: Any, value: Any) -> list[str]:
        if code in _REPEATS:
            least, most, inside = value
            times = min(max(least, 1), 80) if most else 0
            return [sample * times for sample in self.samples(inside)]
        if code is codes.BRANCH:
            return [sample for branch in value[1] for sample in self.samples(branch)[:2]][:_MOST_VARIANTS]
        if code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            return self.samples(value[3] if code is codes.SUBPATTERN else value)
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            return self._members(code, value)[:_MOST_VARIANTS] or [""]
        return [""]

    def _members(self, code: Any, value: Any) -> list[str]:
        if code is codes.LITERAL:
            return [chr(value)]
        if code is codes.IN:
            firsts = [
                chr(given if given_code is codes.LITERAL else given[0])
                for given_code, given in value
                if given_code in (codes.LITERAL, codes.RANGE)
            ]
        else:
            firsts = []
        return [character for character in dict.fromkeys([*self._alphabet, *firsts]) if _has(code, value, character)]

    def _misfits(self, inside: Any) -> list[str]:
        if len(inside) != 1 or inside[0][0] not in (codes.LITERAL, codes.NOT_LITERAL, codes.IN):
            return []
        return [character for character in self._alphabet if not _has(*inside[0], character)][:1]


def _has(code: Any, value: Any, character: str) -> bool:
    """Whether a class has a character."""
    if code is codes.ANY:
        return True
    if code in (codes.LITERAL, codes.NOT_LITERAL):
        return (chr(value) == character) is (code is codes.LITERAL)
    is_positive = value[0][0] is not codes.NEGATE
    for given_code, given in value:
        if given_code is codes.LITERAL:
            found = given == ord(character)
        elif given_code is codes.RANGE:
            found = given[0] <= ord(character) <= given[1]
        elif given_code is codes.CATEGORY:
            found = re.match(_CATEGORIES[given], character) is not None
        else:
            continue
        if found:
            return is_positive
    return not is_positive


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _inside(code: Any, value: Any) -> list[Any]:
    """The sequences inside a part."""
    if code in _REPEATS:
        return [value[2]]
    if code is codes.BRANCH:
        return list(value[1])
    if code is codes.SUBPATTERN:
        return [value[3]]
    if code is codes.ATOMIC_GROUP:
        return [value]
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return []


def _literals(nodes: Any) -> Iterator[str]:
    for code, value in nodes:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            yield chr(value)
        elif code is codes.IN:
            yield from (chr(given) for given_code, given in value if given_code is codes.LITERAL)
        for inner in _inside(code, value):
            yield from _literals(inner)
