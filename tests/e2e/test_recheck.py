"""Every regular expression of the package, judged by recheck (npm): linear in its text, or not.

It decides from the expression's automaton, also how a search behaves that begins anywhere; where there is none
(look-around, large counts) it tries texts that it makes up. `regexploit` (PyPI) was looked at as well: it
reports from cubic time on only, and does not read possessive quantifiers.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from tests.architecture.javascript_expressions import JavaScript
from tests.architecture.regular_expressions import Expression, find_expressions

PLANTED = {
    "planted.py:1": (r"(?:[-\d.]+|-static|-dbg)+$", "search", "exponential"),
    "planted.py:2": (r"\s+$", "search", "2nd degree polynomial"),
    "planted.py:3": (r"^\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:\s*(.*)$", "match", "2nd degree polynomial"),
}
_JUDGE = """
const {checkSync} = require("recheck");
for (const [source, places] of JSON.parse(require("fs").readFileSync(0))) {
    const found = checkSync(source, "u", {timeout: 120000});
    const verdict = found.error ? found.error.kind : found.complexity.summary;
    console.log(JSON.stringify([places, found.status, verdict]));
}
"""


def _judge(packages: Path, expressions: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """What recheck says of each expression: its places, whether it is safe, and why not."""
    done = subprocess.run(
        [str(machine.node()), "-e", _JUDGE],
        cwd=packages.parent,
        env={"RECHECK_BACKEND": "pure"},
        input=json.dumps(expressions),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    verdicts: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(expressions)
    return [tuple(verdict) for verdict in verdicts]


@pytest.mark.timeout(700)
def test_every_expression_is_linear(packages: Path) -> None:
    places: dict[str, list[str]] = {}
    for expression in find_expressions():
        if isinstance(expression, Expression):
            for way in expression.ways:
                source = JavaScript(expression.pattern, expression.flags, way).source
                places.setdefault(source, []).append(f"{expression.place} ({way})")
    for place, (pattern, way, _) in PLANTED.items():
        places.setdefault(JavaScript(pattern, 0, way).source, []).append(place)
    verdicts = _judge(packages, [(source, ", ".join(found)) for source, found in places.items()])
    slow = {place: verdict for place, status, verdict in verdicts if status != "safe"}
    assert slow == {place: verdict for place, (_, _, verdict) in PLANTED.items()}
