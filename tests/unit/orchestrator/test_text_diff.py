"""Diffs: what `git apply` and people can read, and bounded whatever the texts are."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from toolstead.orchestrator import text_diff
from toolstead.orchestrator.text_diff import LONGEST_LINE, MOST_COMPARED, MOST_SHOWN, render_diff

NAMES = ("old", "new")


def test_equal_texts_have_no_diff() -> None:
    assert render_diff("a\nb", "a\nb", NAMES) == ""


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    before = "".join(f"{n}\n" for n in range(1, 21))
    diff = render_diff(before, before.replace("10\n", "ten\n"), NAMES)
    assert diff == "--- old\n+++ new\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13"


def test_a_missing_last_line_break_is_told() -> None:
    assert render_diff("a\n", "a", NAMES).splitlines()[3:] == ["-a", "+a", "\\ No newline at end of file"]
    assert render_diff("", "a\n", NAMES) == "--- old\n+++ new\n@@ -0,0 +1,1 @@\n+a"


def test_git_makes_the_newer_text_of_the_older_one(tmp_path: Path) -> None:
    chance = random.Random(5)
    for number in range(60):
        before = [chance.choice("abcdefgh") * 3 for _ in range(chance.randrange(60))]
        after = [line for line in before if chance.random() > 0.1]
        for _ in range(chance.randrange(6)):
            after.insert(chance.randrange(len(after) + 1), f"new {number}")
        old, new = ("".join(f"{line}\n" for line in lines)[: chance.choice([None, -1])] for lines in (before, after))
        if old == new:
            continue
        (tmp_path / "text").write_text(old)
        diff = render_diff(old, new, ("a/text", "b/text")) + "\n"
        subprocess.run(["git", "apply", "--unidiff-zero"], cwd=tmp_path, input=diff, check=True, encoding="utf-8")
        assert (tmp_path / "text").read_text() == new


def test_a_diff_has_a_bounded_number_of_lines_of_bounded_length() -> None:
    diff = render_diff("", "x" * 10_000 + "\n" + "y\n" * 900, NAMES).splitlines()
    assert len(diff) == MOST_SHOWN + 3
    assert max(map(len, diff)) == LONGEST_LINE + 1
    assert diff[-1] == f"[{902 - MOST_SHOWN:,} more lines of this diff are left out]"


def test_texts_that_differ_in_many_lines_are_not_compared_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_diff, "_compare_lines", lambda *_: pytest.fail("it was compared"))
    before = "top\n" + "".join(f"a{n}\n" for n in range(MOST_COMPARED)) + "end\n"
    diff = render_diff(before, before.replace("a", "b"), NAMES).splitlines()
    assert len(diff) <= MOST_SHOWN + 2
    assert {line[0] for line in diff[3:]} == {" ", "-", "+", "["}
    assert "+b0" in diff
