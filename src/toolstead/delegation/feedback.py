"""The texts of a review: feedback of bounded length, and what of it stays the same when a defect is found again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from toolstead.schema.visible import escape_unseen

MOST_FEEDBACK = 4_000
"""Characters of feedback that the next attempt is given."""
LONGEST_DEFECT = 2_000

_LEAST_CUT = 200
_NOTE = "\n[… {:,} characters left out …]\n"
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""Colours, cursor movements and titles."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_DIGEST = re.compile(r"\b[0-9a-f]{7,}\b")
_TEMPORARY = re.compile(r"\btmp[a-z0-9_]{6,12}\b")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_RULER = re.compile(r"([=_*#.~-])\1+")


def clean_output(text: str) -> str:
    """What a program wrote, as text that can be read, stored and sent: without colours, and nothing hidden in it."""
    plain = _TERMINAL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return escape_unseen(plain, "prose")


def shorten_middle(text: str, room: int) -> str:
    """A text of at most so many characters: the first quarter, the end, and a note of what is left out between."""
    if len(text) <= room:
        return text
    left = room - len(_NOTE.format(len(text)))
    if left < _LEAST_CUT:
        return text[: max(0, room - 1)] + "…"
    head = left // 4
    return text[:head] + _NOTE.format(len(text) - left) + text[head - left :]


def join_feedback(texts: Sequence[str]) -> str:
    """Several texts as one of bounded length; the long ones share what the short ones leave."""
    room = MOST_FEEDBACK - 2 * max(0, len(texts) - 1)
    fitted: dict[int, str] = {}
    for at, text in sorted(enumerate(texts), key=lambda one: len(one[1])):
        fitted[at] = shorten_middle(text, max(0, room) // (len(texts) - len(fitted)))
        room -= len(fitted[at])
    return "\n\n".join(fitted[at] for at in range(len(texts)))[:MOST_FEEDBACK]


def normalise_defect(text: str) -> str:
    """What of a text stays the same when the same defect is found again.

    Numbers, times, addresses, digests and names of temporary files change from run to run, and rulers with them.
    """
    text = _ADDRESS.sub("0x", text)
    text = _DIGEST.sub(lambda found: "0" if any(map(str.isdigit, found[0])) else found[0], text)
    text = _TEMPORARY.sub("tmp", text)
    text = _NUMBER.sub("0", text)
    text = " ".join(_RULER.sub(r"\1", text).split())
    if len(text) <= LONGEST_DEFECT:
        return text
    return f"{text[:LONGEST_DEFECT]} {blake2b(text.encode(), digest_size=16).hexdigest()}"
