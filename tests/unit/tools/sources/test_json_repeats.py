"""Names that stand twice, and how deep a text is: told from the text as a whole, whatever its strings hold."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from toolstead.schema.compiled import MAX_DEPTH
from toolstead.tools.sources.json_report import FileReport

STRINGS = ["a", "b", "", ":", '":', '\\":', "{{x}}", "[", "}", "\\", '"', "\u0022", "é", "\n", "x\\", ' " : "']


def spelled(chance: random.Random, text: str) -> str:
    """A string as somebody may write it: any character escaped, or none that need not be."""
    plain = json.dumps(text, ensure_ascii=chance.random() < 0.5)[1:-1]
    return '"' + ("".join(f"\\u{ord(c):04x}" for c in text) if chance.random() < 0.2 else plain) + '"'


def written(chance: random.Random, depth: int) -> tuple[str, int, bool]:
    """A JSON text, how deep it is, and whether a name stands in one of its objects twice."""
    blank = chance.choice(["", "", " ", "\n  "])
    kind = chance.choice("sn{[{[") if depth else "s"
    if kind == "s":
        return spelled(chance, chance.choice(STRINGS)), 0, False
    if kind == "n":
        return chance.choice(["1", "-2.50", "1e3", "true", "null"]), 0, False
    inside = [written(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    deepest = 1 + max((part[1] for part in inside), default=0)
    twice = any(part[2] for part in inside)
    if kind == "[":
        return f"[{blank}{f'{blank},{blank}'.join(part[0] for part in inside)}{blank}]", deepest, twice
    names = [chance.choice(STRINGS) for _ in inside]
    members = [f"{spelled(chance, name)}{blank}:{blank}{part[0]}" for name, part in zip(names, inside, strict=True)]
    return f"{{{blank}{f'{blank},'.join(members)}{blank}}}", deepest, twice or len(set(names)) < len(names)


def problems_of(text: str) -> list[str]:
    report = FileReport(Path("x.json"))
    report.parse(text.encode())
    return [problem.message for problem in report.problems]


def test_a_name_that_stands_twice_is_found_and_nothing_else_is_taken_for_one() -> None:
    chance = random.Random(3)
    found = {True: 0, False: 0}
    for _ in range(4_000):
        text, _, twice = written(chance, 4)
        text = f'{{"tools": {text}}}'
        assert any("duplicate name" in message for message in problems_of(text)) == twice, text
        found[twice] += 1
    assert min(found.values()) > 300


def test_brackets_in_strings_hide_no_depth() -> None:
    def nested(levels: int, opening: str, closing: str) -> str:
        value: Any = "".join(['{"}": 1, "a": ', opening] * levels) + "1" + "".join([closing, ', "{": 1}'] * levels)
        return f'{{"tools": {value}}}'

    for levels, flat in ((MAX_DEPTH // 8, True), (MAX_DEPTH // 2, False)):
        report = FileReport(Path("x.json"))
        assert report.parse(nested(levels, "[", "]").encode()) is not None
        assert report.is_flat is flat
