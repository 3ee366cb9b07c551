"""`${NAME}` in a tool's `env` and `headers`: taken from the user's environment, masked everywhere.

Secrets of eight characters and more are masked in what a tool answers and logs. Shorter ones
would mask half of every text, so they only cause a warning.
"""

from __future__ import annotations

import codecs
import functools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolstead.errors import ToolError

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BACKSLASHES = re.compile(r"(\\++)")
SHORTEST_MASKED = 8
MASK = "********"
_LONGEST_SPELLING = 12  # two times \\uXXXX
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def expand_secrets(text: str, environ: Mapping[str, str]) -> str:
    """The text with every `${NAME}` replaced.

    Raises:
        ToolError: A name is not set, or empty; the text has it.
    """

    def find_value(found: re.Match[str]) -> str:
        name = found.group(1)
        value = environ.get(name, "")
        # Clients hand on a reference to a variable that they do not have themselves as it stands.
        if value in ("", f"${{{name}}}", f"${{env:{name}}}", f"{{env:{name}}}"):
            raise ToolError(
                f"the environment variable {name} is not set where Toolstead runs; this tool needs it. A person has to"
                f" set it: in a terminal with `export {name}=…`; for an MCP client with `toolstead connect CLIENT --env"
                f" {name}`, and a restart of the client where the variable is set"
            )
        return value

    return REFERENCE.sub(find_value, text)


@dataclass(frozen=True, slots=True)
class Mask:
    """Replaces secret values in text."""

    values: tuple[str, ...] = ()

    @classmethod
    def for_call(cls, names: Sequence[str], environ: Mapping[str, str], log: logging.Logger) -> Mask:
        """The mask for a call that uses these names; a value too short to be masked is warned about."""
        for name in too_short(names, environ):
            log.warning("the secret %s is too short to be masked in results and logs", name)
        return cls.mask_names(names, environ)

    @classmethod
    def mask_names(cls, names: Iterable[str], environ: Mapping[str, str]) -> Mask:
        """A mask for the values of these names, longest first."""
        secrets = {environ[name] for name in names if len(environ.get(name, "")) >= SHORTEST_MASKED}
        values = {value for secret in secrets for value in _secret_forms(secret)}
        return cls(tuple(sorted(values, key=lambda value: (-len(value), value))))

    def __call__(self, text: str) -> str:
        """The text with every secret replaced; where secrets overlap, all of them together."""
        return _replace_spans(text, self.find_secrets(text), len(text))

    def find_secrets(self, text: str) -> list[tuple[int, int]]:
        """Where secrets begin and end in a text, in order; they may overlap."""
        spans = [span for value in self.values for span in _find_occurrences(text, value)]
        if "\\" in text or "%" in text:
            spans += [found.span() for value in self.values for found in _spelling_pattern(value).finditer(text)]
        return sorted(spans)

    @property
    def longest(self) -> int:
        """The most characters a secret can take up in a text."""
        return max((len(value) for value in self.values), default=0) * _LONGEST_SPELLING


class MaskedStream:
    """A mask for a stream of chunks: a secret that is split over two chunks is replaced too.

    What could be the beginning of a secret is held back: the line that is not over yet, and those before it that
    begin a secret of several lines.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._of_lines = [value for value in mask.values if "\n" in value]

    def filter_part(self, data: bytes) -> bytes:
        """The next part that is safe to show."""
        text = self._held + self._decoder.decode(data)
        found = self._mask.find_secrets(text)
        safe = max(text.rfind("\n") + 1, len(text) - self._mask.longest)
        safe = min([safe, *(begin for begin, end in found if begin < safe < end), *self._begun_secrets(text)])
        self._held = text[safe:]
        return _replace_spans(text, found, safe).encode()

    def _begun_secrets(self, text: str) -> Iterator[int]:
        """Where a secret of several lines may have begun that is not over yet."""
        for value in self._of_lines:
            at = text.find(value[0], max(0, len(text) - len(value) + 1))
            while at >= 0 and not value.startswith(text[at:]):
                at = text.find(value[0], at + 1)
            if at >= 0:
                yield at

    def filter_end(self) -> bytes:
        """What was held back."""
        text, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return self._mask(text).encode()


def too_short(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The names whose values are set but too short to be masked."""
    return [name for name in names if 0 < len(environ.get(name, "")) < SHORTEST_MASKED]


def _secret_forms(secret: str) -> Iterator[str]:
    """The forms in which a secret may be printed: whole, and line by line, with invalid bytes replaced."""
    shown = secret.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    yield secret
    yield from (line for line in shown.splitlines() if len(line) >= SHORTEST_MASKED)


def _find_occurrences(text: str, value: str) -> Iterator[tuple[int, int]]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _replace_spans(text: str, found: list[tuple[int, int]], end: int) -> str:
    """The text up to an end, with each run of spans replaced by one mask."""
    parts: list[str] = []
    at = 0
    for start, stop in found:
        if start >= end:
            break
        if start >= at:
            parts += [text[at:start], MASK]
        at = max(at, stop)
    parts.append(text[at:end])
    return "".join(parts)


@functools.lru_cache(maxsize=64)
def _spelling_pattern(value: str) -> re.Pattern[str]:
    """The value as it may stand in JSON or in an address: any character escaped, or none.

    Backslashes side by side are all escaped or none of them: were each free, trying all ways would take a time that
    doubles with each of them.
    """
    parts = _BACKSLASHES.split(value)  # every other part is a run of them
    return re.compile("".join(_spell_run(part) if part[:1] == "\\" else _spell_text(part) for part in parts))


def _spell_run(run: str) -> str:
    count = len(run)
    return rf"(?:\\{{{count}}}(?!\\)|\\{{{2 * count}}}|(?i:\\u005c|%5c){{{count}}})"


def _spell_text(text: str) -> str:
    return "".join(map(_spell_character, text))


def _spell_character(character: str) -> str:
    encoded = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    after = re.escape(character) + _SHORT_ESCAPES.get(character, "")
    return rf"(?:{re.escape(character)}|\\[{after}]|(?i:{escaped}|{encoded}))"
