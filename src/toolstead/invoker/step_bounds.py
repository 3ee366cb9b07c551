"""How much of a run's steps is stored: a limit for each step, and one for all of them.

What is over a limit is shortened, never dropped in silence, and each place says how much is missing there:

    1. the largest texts are cut in the middle
    2. where that is not enough, the oldest messages are null, and a note says how many: there are too many of them
    3. where that is not enough either, a note stands for the request and one for the reply

When a run comes near its limit, its steps get smaller and smaller shares of the rest; when nothing is left, no step is
stored any more. The log says each of it once for a run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from toolstead.types.content import whole_text
from toolstead.types.sent import base64_text

logger = logging.getLogger(__name__)

MOST_STEP = 256_000
"""Bytes of the JSON of one step."""
MOST_RUN = 8_000_000
"""Bytes of the JSON of all steps of a run."""
LEAST_STEP = 1_500
"""Bytes that a step gets at least, while its run has them: enough for one with two notes."""
SHARE = 16
"""A step gets at most this part of what is left for its run."""
SHORTEST = 200
"""Characters that are left of every text at least."""
DEEPEST = 64
"""Objects and lists inside each other; what is deeper is a note."""
NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding raises for what JSON cannot hold; half characters are a ValueError."""
_NOTE = 100
"""Bytes of a note and its name."""
_TOO_DEEP = "[toolstead: nested too deeply to be stored]"


class StepBounds:
    """The limits of one run's steps, and how much is stored of it so far.

    Attributes:
        most: Bytes that the next step may have.
    """

    def __init__(self, run_id: str, *, most_step: int = MOST_STEP, most_run: int = MOST_RUN) -> None:
        self._run_id = run_id
        self._most_step, self._left = most_step, most_run
        self._is_told = self._is_over = False
        self.most = min(most_step, max(most_run // SHARE, LEAST_STEP), most_run)

    def fit_step(self, text: bytes) -> bytes | None:
        """A step, shortened where it must be; None when nothing is left for it."""
        if len(text) > self.most:
            if not self._is_told:
                self._is_told = True
                sizes = f"{len(text):,}", f"{self.most:,}"
                logger.warning(
                    "run %s: its steps are stored shortened, from one of %s bytes to %s", self._run_id, *sizes
                )
            text = shorten_step(text, self.most)
        if len(text) > self._left:
            if not self._is_over:
                self._is_over = True
                logger.warning("run %s: there is no room for further steps, and they are not stored", self._run_id)
            return None
        self.count_bytes(len(text))
        return text

    def count_bytes(self, size: int) -> None:
        """Count what is stored, of one step or of several that have no more than one may have."""
        self._left = left = self._left - size
        if left < self._most_step * SHARE:
            self.most = min(max(left // SHARE, LEAST_STEP), left)


def _encode_other(value: object) -> object:
    """What is no JSON by itself: other mappings as objects, of everything else what it is."""
    return dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else f"[{type(value).__name__}]"


encode_plain = msgspec.json.Encoder(enc_hook=_encode_other).encode
decode_step = msgspec.json.Decoder(dict[str, Any]).decode


def encode_step(step: msgspec.Struct) -> bytes:
    """A step as JSON, whatever its request and its reply hold."""
    try:
        return encode_plain(step)
    except NOT_JSON:
        return encode_plain(make_plain(step))


def make_plain(value: Any, depth: int = DEEPEST) -> Any:
    """A copy of a value that is JSON: texts without half characters, nothing nested too deeply."""
    match value:
        case str():
            return whole_text(value)
        case Mapping() | list() | tuple() | msgspec.Struct() if not depth:
            return _TOO_DEEP
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            return {whole_text(str(key)): make_plain(item, depth - 1) for key, item in items}
        case list() | tuple():
            return [make_plain(item, depth - 1) for item in cast("list[Any]", value)]
        case int() if not -(2**63) <= value < 2**64:
            return str(value)
        case bool() | int() | float() | None:
            return value
        case msgspec.Struct():
            return make_plain(_read_members(value), depth)
        case bytes():
            return base64_text(value)
        case _:
            return _encode_other(value)


def is_deep(value: object) -> bool:
    """Whether objects and lists are nested deeper than is stored. How deep encoding can go depends on the Python."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for item in level for inner in _read_items(item)]
        if not level:
            return False
    return True


def _read_items(value: object) -> Iterable[object]:
    match value:
        case dict():
            return cast("dict[str, object]", value).values()
        case list() | tuple():
            return cast("Sequence[object]", value)
        case _:
            return ()


def _read_members(value: msgspec.Struct) -> dict[str, Any]:
    """The members of a struct's JSON."""
    config = value.__struct_config__
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    members = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    return tag | {name: member for name, member in members.items() if member is not msgspec.UNSET}


def shorten_step(text: bytes, most: int) -> bytes:
    """A step shortened to so many bytes; with two notes where nothing of it fits."""
    whole: dict[str, Any] = make_plain(decode_step(text))
    step, size = whole, len(text)
    lengths = sorted(_text_lengths(whole))
    goal = sum(lengths)
    while len(text) > most:
        goal = int(goal * most / len(text) * 0.9)
        level = _find_level(lengths, goal)
        step = _cut_texts(whole, max(level, SHORTEST))
        text = encode_plain(step)
        if level <= SHORTEST:
            break
    if len(text) > most:
        text = _drop_messages(step, len(text) - most)
    if len(text) > most:
        note = {"leftOut": f"[toolstead: {size:,} bytes left out]"}
        text = encode_plain({**step, "request": note, "reply": None if step.get("reply") is None else note})
    return text


def _text_lengths(value: Any) -> list[int]:
    match value:
        case str():
            return [len(value)]
        case dict():
            inner = list(cast("dict[str, Any]", value).values())
        case list():
            inner = cast("list[Any]", value)
        case _:
            return []
    return [length for item in inner for length in _text_lengths(item)]


def _find_level(lengths: list[int], goal: int) -> int:
    """The length to which the longest texts must be cut so that all of them together have so many characters."""
    left = goal
    for index, length in enumerate(lengths):
        share = left // (len(lengths) - index)
        if length > share:
            return share
        left -= length
    return lengths[-1]


def _cut_texts(value: Any, level: int) -> Any:
    match value:
        case str() if len(value) > level:
            half = level // 2
            return f"{value[:half]}\n[toolstead: {len(value) - 2 * half:,} characters left out]\n{value[-half:]}"
        case dict():
            return {key: _cut_texts(item, level) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_cut_texts(item, level) for item in cast("list[Any]", value)]
        case _:
            return value


def _drop_messages(step: dict[str, Any], excess: int) -> bytes:
    """The step with null for its oldest messages, as many of them as are too much, and a note of how much they were."""
    request: dict[str, Any] = step["request"]
    messages: list[Any] = request.get("messages", [])
    count = gone = 0
    while count < len(messages) and gone < excess + _NOTE:
        gone += len(encode_plain(messages[count])) - len(b"null")
        messages[count] = None
        count += 1
    if count:
        request["leftOut"] = f"[toolstead: {count:,} messages with {gone:,} bytes left out]"
    return encode_plain(step)
