"""Which tools may be seen and called: the allow-list, the block-list and the switches.

Enforced where a generation is built, so that it holds for every transport.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The rules: patterns that allow, patterns that block, names switched off.

    A pattern is a name, or one with `*`, `?` and `[…]` as in a shell; upper and lower case differ.
    """

    allowed: Sequence[str] = ("*",)
    blocked: Sequence[str] = ()
    disabled: frozenset[str] = field(default=frozenset())
    _allows: Callable[[str], str | None] = field(init=False, repr=False, compare=False)
    _blocks: Callable[[str], str | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Prepared once: every tool is checked whenever a generation is built.
        object.__setattr__(self, "_allows", _build_matcher(self.allowed))
        object.__setattr__(self, "_blocks", _build_matcher(self.blocked))

    def reason_hidden(self, name: str) -> str | None:
        """Why a tool is hidden, or None when it is not."""
        if name in self.disabled:
            return "switched off with `toolstead tools disable`"
        pattern = self._blocks(name)
        if pattern is not None:
            return f"blocked by {pattern!r} in tools.blocked"
        return None if self._allows(name) is not None else "not named by tools.allowed"


def _build_matcher(patterns: Sequence[str]) -> Callable[[str], str | None]:
    """What finds the pattern that a name fits: plain names by one look-up, the rest one by one."""
    names = frozenset(pattern for pattern in patterns if _WILD.isdisjoint(pattern))
    wild = [(pattern, re.compile(translate(pattern)).match) for pattern in patterns if pattern not in names]

    def find_pattern(name: str) -> str | None:
        return name if name in names else next((pattern for pattern, match in wild if match(name)), None)

    return find_pattern
