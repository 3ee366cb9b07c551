"""The security page promises only what a test shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PROMISED = ("## What a model cannot do", "## What a project brings", "## What a web page cannot do")


def test_every_test_the_page_names_exists() -> None:
    named = TEST.findall(PAGE)
    assert len(named) >= 10
    for file, test in named:
        source = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_every_promised_line_names_its_test() -> None:
    for heading in PROMISED:
        section = PAGE[PAGE.index(heading) + len(heading) :].partition("\n## ")[0]
        lines = re.findall(r"^- .*?(?=^- |^\n|\Z)", section, re.MULTILINE | re.DOTALL)
        assert lines, heading
        assert all(TEST.search(line) for line in lines), heading
