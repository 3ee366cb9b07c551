"""Which tools may be seen and called: the allow-list, the block-list and the switches.

Enforced where a generation is built, so that no door can forget it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The rules: patterns that allow, patterns that block, names switched off."""

    allowed: Sequence[str] = ("*",)
    blocked: Sequence[str] = ()
    disabled: frozenset[str] = field(default=frozenset())

    def hides(self, name: str) -> str | None:
        """Why a tool is hidden, or None when it is not."""
        if name in self.disabled:
            return "switched off with `toolyard tools disable`"
        for pattern in self.blocked:
            if fnmatchcase(name, pattern):
                return f"blocked by {pattern!r} in tools.blocked"
        if not any(fnmatchcase(name, pattern) for pattern in self.allowed):
            return "not named by tools.allowed"
        return None
