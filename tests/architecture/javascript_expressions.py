"""A regular expression of Python in the syntax of JavaScript, which tools that judge expressions read.

Where the two differ in what a class holds, some characters stand for all: `\\w` has Latin letters beyond ASCII.
JavaScript has no possessive quantifier and no atomic group; a look-ahead and a reference to what it found are the same.
"""

from __future__ import annotations

import re
from re import _constants as codes
from re import _parser as parser
from typing import Any

_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d\u{660}-\u{669}",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w\u{c0}-\u{24f}",
    codes.CATEGORY_NOT_WORD: r"\W",
}
_PLACES = {
    codes.AT_BEGINNING: "^",
    codes.AT_BEGINNING_STRING: "^",
    codes.AT_END: "$",
    codes.AT_END_STRING: "$",
    codes.AT_BOUNDARY: r"\b",
    codes.AT_NON_BOUNDARY: r"\B",
}
_REPEATS = {codes.MAX_REPEAT: "", codes.MIN_REPEAT: "?", codes.POSSESSIVE_REPEAT: ""}


class JavaScript:
    """One expression, translated: `source` is to be read with the flag `u`."""

    def __init__(self, pattern: str | bytes, flags: int, way: str) -> None:
        """Translate.

        Args:
            pattern: As Python has it.
            flags: As Python has them.
            way: `match` and `fullmatch` begin at the beginning, `fullmatch` ends at the end.

        Raises:
            NotImplementedError: It has something that no expression of the package had so far.
        """
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        tree = parser.parse(text, flags & ~re.UNICODE)
        self._flags = tree.state.flags
        if self._flags & re.MULTILINE:
            raise NotImplementedError(f"MULTILINE in {pattern!r}")
        self._atoms = 0
        inside = self._all(tree)
        self.source = {"match": f"^(?:{inside})", "fullmatch": f"^(?:{inside})$"}.get(way, inside)

    def _all(self, nodes: Any) -> str:
        return "".join(self._one(code, value) for code, value in nodes)

    def _one(self, code: Any, value: Any) -> str:
        match code:
            case codes.LITERAL:
                return f"[{self._spell(value)}]"
            case codes.NOT_LITERAL:
                return f"[^{self._spell(value)}]"
            case codes.ANY:
                return r"[\u{0}-\u{10ffff}]" if self._flags & re.DOTALL else r"[^\n]"
            case codes.IN:
                return self._spell_class(value)
            case codes.BRANCH:
                return f"(?:{'|'.join(self._all(branch) for branch in value[1])})"
            case codes.SUBPATTERN:
                number, *_, inside = value
                return f"(?:{self._all(inside)})" if number is None else f"(?<g{number}>{self._all(inside)})"
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                least, most, inside = value
                upper = "" if most is codes.MAXREPEAT else most
                repeated = f"(?:{self._all(inside)}){{{least},{upper}}}{_REPEATS[code]}"
                return self._atomic(repeated) if code is codes.POSSESSIVE_REPEAT else repeated
            case codes.ATOMIC_GROUP:
                return self._atomic(self._all(value))
            case codes.ASSERT | codes.ASSERT_NOT:
                direction, inside = value
                return f"(?{'<' if direction < 0 else ''}{'=' if code is codes.ASSERT else '!'}{self._all(inside)})"
            case codes.AT:
                return _PLACES[value]
            case codes.GROUPREF:
                return rf"\k<g{value}>"
            case _:
                raise NotImplementedError(f"{code} is not translated")

    def _atomic(self, inside: str) -> str:
        self._atoms += 1
        return rf"(?:(?=(?<atom{self._atoms}>{inside}))\k<atom{self._atoms}>)"

    def _spell_class(self, members: Any) -> str:
        spelled = ""
        for code, value in members:
            match code:
                case codes.NEGATE:
                    spelled += "^"
                case codes.LITERAL:
                    spelled += self._spell(value)
                case codes.RANGE:
                    spelled += self._spell(*value)
                case codes.CATEGORY:
                    spelled += _CATEGORIES[value]
                case _:
                    raise NotImplementedError(f"{code} in a class is not translated")
        return f"[{spelled}]"

    def _spell(self, first: int, last: int | None = None) -> str:
        """A character or a range as a class has it; both cases where they are the same to the expression."""
        ends = [chr(first), chr(first if last is None else last)]
        cases = [str.lower, str.upper] if self._flags & re.IGNORECASE and "".join(ends).isalpha() else [str]
        return "".join("-".join(rf"\u{{{ord(in_case(end)):x}}}" for end in dict.fromkeys(ends)) for in_case in cases)
