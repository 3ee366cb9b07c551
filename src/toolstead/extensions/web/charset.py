"""Bytes of the web as text: the charset that a server, a mark in the text or the page itself names, or a likely one."""

from __future__ import annotations

import codecs
import re

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is its beginning
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DECLARED = re.compile(rb"""charset ?= ?["']?([\w.:-]{1,40})""", re.IGNORECASE)
_IN_XML = re.compile(rb"""encoding ?= ?["']([\w.:-]{1,40})""", re.IGNORECASE)
_LOOKED_AT = 4_096
"""Bytes at the beginning in which a page may name its charset."""
_TEXT_CODECS = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|ascii|iso8859-\d+|cp(125\d|437|850|866|874|932|936|949|950)|koi8-\w|euc_\w+"
    r"|shift_\w+|gb\w+|big5\w*|mac-\w+|tis-620|johab|iso2022_jp\w*"
)
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
}
"""Charsets that browsers read as a larger one."""
_FALLBACK = "cp1252"


def decode_text(data: bytes, declared: str, *, is_cut: bool = False) -> str:
    """The text. A charset that is named but cannot be right yields to the next that can.

    Args:
        data: The beginning of the text, or all of it.
        declared: What the server's header names; empty for nothing.
        is_cut: Whether the last character may be incomplete.
    """
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return data.decode(name, "replace").removeprefix("\ufeff")
    head = data[:_LOOKED_AT]
    declaration = head.partition(b"?>")[0] if head.startswith(b"<?xml") else b""
    inside = _IN_XML.search(declaration) or _DECLARED.search(head)
    named = [_find_codec(declared), _find_codec(inside[1].decode("ascii") if inside is not None else "")]
    candidates = list(dict.fromkeys(name for name in named if name))
    if not candidates or candidates[0] == _FALLBACK:  # nearly every text that can be read as UTF-8 is UTF-8
        candidates.insert(0, "utf-8")
    for name in dict.fromkeys([*candidates, "utf-8"]):
        try:
            return codecs.getincrementaldecoder(name)("strict").decode(data, final=not is_cut)
        except UnicodeDecodeError:
            continue
    # Nothing fits without faults: a few faults in what was named are likelier than another charset.
    named_first = next((name for name in candidates if name != "utf-8"), "") or ("utf-8" if declared else _FALLBACK)
    return data.decode(named_first, "replace")


def _find_codec(name: str) -> str:
    """The codec of a charset; empty for a name that is unknown, or no charset of text."""
    try:
        found = codecs.lookup(name).name if name else ""
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(found, found) if _TEXT_CODECS.fullmatch(found) else ""
