"""Valid documents made wrong: in their values, keys, types and depth, in their tokens, and in their bytes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.surfaces.message_parts import ODD_VALUES, Raw, written

ODD_TEXTS = (
    *("", " ", "\0", "a\0b", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\ufeff", "\u202e", "\u200b", "\u2028"),
    *("\U0010ffff",),
    *("é", "e\u0301", "ﬁ", "İ", "ẞ", "👩‍👩‍👧‍👦", "-", "--", "~", ".", "..", "/", "\\", "'", '"', "`", "$", "${"),
    *("${X}", "{{", "}}"),
    *("{{x}}", "{{ x }}", "{{x}}{{x}}", "{{}}", "{{{x}}}", "%s", "%00", "*", "?", "[", "(", ")", "#", "|", "||"),
    *("&&", ";", ">"),
    *("http://", "http://[", "http://a:b@c", "http://[::1]:99999/", "file:///etc/passwd", "//", "http://é.example/"),
    *("http://xn--a/",),
    *("null", "true", "NaN", "1e999", "__proto__", "__class__", "$ref", "#", "#/", "#/$defs/a", "(?=", "(a+)+$", "["),
    *("\\", "(?<n>a)\\k<n>"),
    *("(?=.*[0-9])(?=.*[a-z])[a-z0-9]+[0-9]", "^(a|a)*$", "\\p{L}", "(?i)a", "(?<=a)b", "a{1,1000}"),
    *("(a{1,100}){1,100}", "\\ud800"),
)
KEYS = (
    *("name", "type", "tools", "handler", "command", "url", "inputSchema", "properties", "required", "default"),
    *("pattern", "enum"),
    *("$ref", "$defs", "$id", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "items", "prefixItems"),
    *("contains",),
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "dependentSchemas"),
    *("const", "format"),
    *("minLength", "maxItems", "uniqueItems", "multipleOf", "minimum", "title", "description", "examples", "env"),
    *("stdin", "cwd"),
    *("timeout", "maxOutput", "allowScript", "headers", "method", "allowedHosts", "basePath", "maxSize"),
    *("annotations", "expect"),
)
NUMBERS = (0, -1, 1, 0.1, -0.0, 1e300, 5e-324, 2**31, 2**53 + 1, 2**63, 2**64, -(2**70), 10**30, 10**4_000)
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[-+\w.]+|\s+|.', re.DOTALL)
_DEEPEST = 5_000


class Mutator:
    """Changes documents; the same chance changes them in the same way."""

    def __init__(self, chance: Random, longest: int = 100_000) -> None:
        """Begin.

        Args:
            chance: What is chosen by.
            longest: About how many characters a change may add.
        """
        self.chance = chance
        self.longest = longest

    def value(self) -> Any:
        """Any value, mostly an odd one."""
        pick = self.chance.choice
        makers: list[Callable[[], Any]] = [
            lambda: pick(ODD_TEXTS),
            lambda: pick(NUMBERS),
            lambda: pick((None, True, False, [], {}, [[]], {"": None}, [None] * 3, {"a": {"b": []}})),
            lambda: Raw(pick(ODD_VALUES)),
            lambda: {pick(KEYS): self.value() for _ in range(self.chance.randint(1, 3))},
            lambda: [self.value() for _ in range(self.chance.randint(1, 3))],
            lambda: self.deep(self.chance.choice((5, 60, 130, _DEEPEST))),
            lambda: self.stretched(pick(ODD_TEXTS) or "a"),
            lambda: [pick(NUMBERS)] * self.chance.choice((10, 1_000)),
            lambda: {f"{pick(KEYS)}{number}": number for number in range(self.chance.choice((10, 1_000)))},
        ]
        return self.chance.choices(makers, [6, 4, 4, 4, 3, 2, 1, 2, 1, 1])[0]()

    def deep(self, depth: int) -> Raw:
        """Lists and objects in each other, as bytes: a deep value could not be copied or written."""
        opened, closed = b"", b""
        for _ in range(depth):
            is_list = self.chance.random() < 0.5
            opened += b"[" if is_list else written({self.chance.choice(KEYS): None})[:-5]
            closed = (b"]" if is_list else b"}") + closed
        return Raw(opened + written(self.chance.choice(ODD_TEXTS)) + closed)

    def stretched(self, text: str) -> str:
        """A text with one of its pieces, or another one, again and again."""
        at = self.chance.randint(0, len(text))
        piece = text[at : at + self.chance.randint(1, 4)] if self.chance.random() < 0.5 else ""
        piece = piece or self.chance.choice(
            (
                *(" ", "  ", "\t", "a", "0", "1.", "-", ".", "1", "\\", '"', "'", '\\"', "{{", "{{x}} ", "a ", "aA1"),
                *("a.", "| b ", "[", "(", "é", "../", "x.", "=", ","),
            )
        )
        most = max(self.longest // len(piece), 2)
        times = min(self.chance.choice((2, 10, 30, 60, 200, 2_000, 20_000, most)), most)
        tail = self.chance.choice(("", "", "x", '"x"', "'", ";", "!", "Z", "\\"))
        return text[:at] + piece * times + tail + text[at:]

    def tree(self, document: Any, changes: int = 1) -> Any:
        """A copy of a document with so many values, keys, types or depths changed."""
        document = copy.deepcopy(document)
        for _ in range(changes):
            document = self._change(document)
        return document

    def _change(self, document: Any) -> Any:
        places = list(_walk(document))
        if not places:
            return self.value()
        holder, key = self.chance.choice(places)
        old = holder[key]
        roll = self.chance.random()
        if roll < 0.3:
            holder[key] = self.value()
        elif roll < 0.4:
            del holder[key]
        elif roll < 0.5 and isinstance(holder, dict):
            holder[self.chance.choice((*KEYS, *ODD_TEXTS, f"{key}x", str(key)[:-1]))] = holder.pop(key)
        elif roll < 0.6:
            holder[key] = self.chance.choice(
                ([old], {"a": old}, written(old).decode("utf-8", "replace")[:1_000], [old, old], {key: old})
            )
        elif roll < 0.7 and isinstance(holder, dict):
            holder[self.chance.choice((*KEYS, *ODD_TEXTS))] = self.value()
        elif isinstance(old, str):
            at = self.chance.randint(0, len(old))
            inserted = self.chance.choice(ODD_TEXTS)
            holder[key] = self.stretched(old) if self.chance.random() < 0.5 else old[:at] + inserted + old[at:]
        elif isinstance(old, int | float) and not isinstance(old, bool):
            holder[key] = self.chance.choice(NUMBERS)
        else:
            other, at = self.chance.choice(places)
            holder[key] = copy.deepcopy(other[at]) if len(places) < 2_000 else None
        return document

    def text(self, text: str) -> str:
        """A text with tokens left out, doubled, exchanged, stretched, or cut off."""
        tokens = _TOKENS.findall(text)
        if not tokens:
            return self.chance.choice(ODD_TEXTS)
        at, other = self.chance.randrange(len(tokens)), self.chance.randrange(len(tokens))
        roll = self.chance.randrange(8)
        if roll == 0:
            del tokens[at]
        elif roll == 1:
            tokens[at] *= self.chance.choice((2, 3, 100))
        elif roll == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif roll == 3:
            tokens[at] = self.stretched(tokens[at])
        elif roll == 4:
            tokens.insert(at, written(self.value()).decode("utf-8", "replace"))
        elif roll == 5:
            tokens[at] = self.chance.choice(ODD_TEXTS)
        elif roll == 6:
            tokens[at] = self.stretched(tokens[at])
            del tokens[at + 1 :]
        else:
            del tokens[at:]
        return "".join(tokens)

    def bytes(self, data: bytes) -> bytes:
        """Bytes with a few of them changed, left out or put in."""
        changed = bytearray(data)
        for _ in range(self.chance.randint(1, 4)):
            at = self.chance.randint(0, len(changed))
            piece = self.chance.choice(
                (b"\xff", b"\0", b"\xed\xa0\x80", b"\xc0\x80", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"]", b"\x80")
            )
            changed[at : at + self.chance.randint(0, 2)] = piece
        return bytes(changed)

    def document(self, document: Any) -> bytes:
        """A JSON document, changed on one of these levels, or on several."""
        made = written(self.tree(document, self.chance.choice((1, 1, 1, 2, 5))))
        roll = self.chance.random()
        if roll < 0.35:
            return self.text(json.dumps(document, indent=2, ensure_ascii=False)).encode("utf-8", "surrogatepass")
        return made if roll < 0.9 else self.bytes(made)


def _walk(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as what holds it and its key; bounded."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(places) < 3_000:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            places += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]
    return places
