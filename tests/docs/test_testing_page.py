"""The page on testing: its scripts are scripts, and its tables are whole."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from toolstead.adapters.scripted.script import FAULT_KINDS, ScriptedTurn
from toolstead.adapters.scripted.script_file import parse_script

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


def table(heading: str) -> list[str]:
    """The first column of a section's table."""
    section = PAGE[PAGE.index(heading) :].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_faults_shown_are_read() -> None:
    kinds = [turn.fault.kind for turn in parse_script(block("yaml")).turns if turn.fault is not None]
    assert kinds == ["overloaded", "overflow", "schema", "rate_limit"]


def test_every_field_and_every_fault_has_its_row() -> None:
    assert {*table("## Turns"), "number"} == {field.name for field in fields(ScriptedTurn)}
    assert sorted(table("## Faults")) == sorted(FAULT_KINDS)
