"""`${NAME}` in a tool's `env` and `headers`: taken from the user's environment, masked everywhere.

Secrets of eight characters and more are masked in what a tool answers and logs. Shorter ones
would mask half of every text, so they are only warned about.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolyard.errors import ToolError

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SHORTEST_MASKED = 8
MASK = "********"
_LONGEST_SPELLING = 12  # two times \\uXXXX


def references(text: str) -> list[str]:
    """The names that a text takes from the environment."""
    return REFERENCE.findall(text)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with every `${NAME}` replaced.

    Raises:
        ToolError: A name is not set; it says which.
    """

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in environ:
            raise ToolError(f"the environment variable {name} is not set; this tool needs it (export {name}=…)")
        return environ[name]

    return REFERENCE.sub(value, text)


@dataclass(frozen=True, slots=True)
class Mask:
    """Replaces secret values in text."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str], environ: Mapping[str, str]) -> Mask:
        """A mask for the values of these names, longest first."""
        values = {environ[name] for name in names if len(environ.get(name, "")) >= SHORTEST_MASKED}
        return cls(tuple(sorted(values, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        """The text with every secret replaced."""
        for value in self.values:
            text = text.replace(value, MASK)
        if "\\" in text or "%" in text:
            for value in self.values:
                text = _spellings(value).sub(MASK, text)
        return text

    @property
    def longest(self) -> int:
        """The most characters a secret can take up in a text."""
        return max((len(value) for value in self.values), default=0) * _LONGEST_SPELLING


@functools.lru_cache(maxsize=64)
def _spellings(value: str) -> re.Pattern[str]:
    """The value as it may stand in JSON or in an address: any character escaped, or none."""
    return re.compile("".join(_spelling(character) for character in value))


def _spelling(character: str) -> str:
    encoded = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return rf"(?:{re.escape(character)}|\\{re.escape(character)}|(?i:{escaped}|{encoded}))"


def too_short(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The names whose values are set but too short to be masked."""
    return [name for name in names if 0 < len(environ.get(name, "")) < SHORTEST_MASKED]
