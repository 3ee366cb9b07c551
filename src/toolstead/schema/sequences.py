"""Characters that are not shown by themselves, yet belong to what is: joiners and selectors of emoji and scripts.

A family emoji is several people and joiners; Persian and Hindi need joiners to be spelt; an ideograph
may have a selector for its form. After the emoji standard (UTS #51) and the context rules for joiners
(UAX #31), with what people really write added. Below: nothing. Above: `visible`, which asks for prose.
"""

from __future__ import annotations

import re
import unicodedata

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_TEXT_STYLE, _EMOJI_STYLE = "\ufe0e", "\ufe0f"
_KEYCAP = "\u20e3"
_VIRAMA = 9
"""The combining class of signs that silence a vowel and so make letters join."""

_PICTURE = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3"
    "\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705"
    "\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767"
    "\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e"
    "\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a"
    "\U0001f23c-\U0001f23f\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f"
    "\U0001f888-\U0001f88f\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001faff]"
)
"""What may begin an emoji: the standard's `Extended_Pictographic`, with the places it keeps for later ones."""

_SKIN_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")
_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""The flags of England, Scotland and Wales: the only emoji that are spelt with tag characters."""
_LONGEST_FLAG = 7

_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd]")
_IDEOGRAPH_FORM = re.compile("[\ufe00-\ufe02\U000e0100-\U000e01ef]")
_MONGOLIAN = re.compile("[\u1820-\u18aa]")
_MONGOLIAN_FORM = re.compile("[\u180b-\u180d\u180f]")
_BRAILLE = re.compile("[\u2801-\u28ff]")
_BRAILLE_BLANK = "\u2800"
_TAG = re.compile("[\U000e0020-\U000e007f]")

_JOINED = re.compile("[\u07ca-\u07ea\u0840-\u0858\u1820-\u18aa\ua840-\ua871\U0001e900-\U0001e943]")
"""Letters of N'Ko, Mandaic, Mongolian, Phags-pa and Adlam, which join like Arabic ones."""
_THAANA = re.compile("[\u0780-\u07bf]")
_STACKED = re.compile("[\u0900-\u109f\u1700-\u17ff\u1a20-\u1aaf\u1b00-\u1bff\ua800-\uabff\U00011000-\U00011fff]")
"""The scripts of South and South-East Asia, whose signs are stacked around letters."""
_ONE_SCRIPT = 128
"""Code points of one of those scripts stand in one block of this size."""


def belongs(text: str, at: int) -> bool:
    """Whether an unseen character is a needed part of the emoji or the word it stands in."""
    character = text[at]
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if character in (_ZWJ, _ZWNJ):
        return _joins(text, at, before, after)
    if character in (_TEXT_STYLE, _EMOJI_STYLE):
        keycap = character == _EMOJI_STYLE and after == _KEYCAP and before in tuple("0123456789#*")
        return keycap or _is(_PICTURE, before)
    if _is(_IDEOGRAPH_FORM, character):
        return _is(_IDEOGRAPH, before)
    if _is(_MONGOLIAN_FORM, character):
        return _is(_MONGOLIAN, before)
    if _is(_TAG, character):
        near = max(0, at - _LONGEST_FLAG)
        return any(flag.start() <= at < flag.end() for flag in _FLAG.finditer(text, near, at + _LONGEST_FLAG))
    return character == _BRAILLE_BLANK and (_is(_BRAILLE, before) or _is(_BRAILLE, after))


def _joins(text: str, at: int, before: str, after: str) -> bool:
    """Whether a joiner or non-joiner stands where emoji or a script need one; two in a row never do."""
    if not before or before in (_ZWJ, _ZWNJ):
        return False
    if text[at] == _ZWJ and _is(_PICTURE, after) and _ends_with_picture(text, at):
        return True
    letter = _letter_before(text, at)
    if letter and unicodedata.combining(letter) == _VIRAMA:
        return True
    if _is(_STACKED, before) and _is(_STACKED, after) and ord(before) // _ONE_SCRIPT == ord(after) // _ONE_SCRIPT:
        return unicodedata.category(after) in ("Mn", "Mc")
    if text[at] == _ZWJ:  # shows a letter in its joined form, as in the abbreviation of the Hijri year
        return _is_joined(letter) or _is_joined(after)
    # A Persian ending is set apart from its word, which may be a number or foreign: "PDF" and its plural.
    return (_is_joined(letter) and after.isalnum()) or (letter.isalnum() and _is_joined(after))


def _ends_with_picture(text: str, at: int) -> bool:
    """Whether an emoji ends here: a picture, with a style or a skin tone or neither."""
    last = text[at - 1]
    if last == _EMOJI_STYLE or _is(_SKIN_TONE, last):
        last = text[at - 2 : at - 1]
    return _is(_PICTURE, last)


def _letter_before(text: str, at: int) -> str:
    """The letter or the silencing sign before a place; other marks between are passed over."""
    while at > 0 and unicodedata.combining(text[at - 1]) not in (0, _VIRAMA):
        at -= 1
    return text[at - 1 : at]


def _is_joined(letter: str) -> bool:
    """Whether a letter's form depends on its neighbours."""
    if not letter:
        return False
    if unicodedata.bidirectional(letter) == "AL":
        return letter.isalpha() and not _is(_THAANA, letter)
    return _is(_JOINED, letter)


def _is(characters: re.Pattern[str], character: str) -> bool:
    return characters.match(character) is not None
