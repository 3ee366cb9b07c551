"""A test is skipped only by name, and a checker is silenced only with a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, comments, files_of_tests, own_files, parsed, shown, uses

SKIPS = ("pytest.skip", "pytest.xfail", "pytest.importorskip", "pytest.exit", "unittest.skip", "unittest.SkipTest")
SKIPS += ("pytest.mark.skip", "pytest.mark.xfail", "unittest.case.SkipTest", "unittest.expectedFailure")

SILENCED = re.compile(
    r"\b(?:(?:ruff|flake8):\s*noqa|noqa|type:\s*ignore|pyright:\s*\w+|mypy:|pylint:|fmt:\s*(?:off|skip)|isort:\s*\w+"
    r"|pragma:\s*no)",
    re.IGNORECASE,
)
RULE = r"noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|pyright: ignore\[\w+(?:, ?\w+)*\]|type: ignore\[[\w-]+(?:, ?[\w-]+)*\]"
REASONED = re.compile(rf"^# (?:{RULE})(?: +# (?:{RULE}))* [-–—] \S.{{5,}}")


def _skips(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, name) for line, name in uses(tree) if name.startswith(SKIPS)]


def _unreasoned(comment: str) -> bool:
    return bool(SILENCED.search(comment)) and not REASONED.match(comment)


def test_tests_are_skipped_by_name_only() -> None:
    stray = [
        f"{shown(path, line)}: {name}"
        for path in files_of_tests()
        if path != ROOT / "tests" / "conftest.py"
        for line, name in _skips(parsed(path))
    ]
    assert not stray, f"say @pytest.mark.requires(name), so that it is counted: {stray}"


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\npytest.skip('no')",
        "from pytest import skip",
        "import pytest\n@pytest.mark.skipif(True, reason='no')\ndef test_x(): ...",
        "import pytest as p\np.mark.xfail(f)",
        "import unittest\nraise unittest.SkipTest",
    ],
)
def test_every_way_to_skip_is_seen(text: str) -> None:
    assert _skips(ast.parse(text))


def test_no_checker_is_silenced_without_a_rule_and_a_reason() -> None:
    files: list[Path] = [path for path in own_files() if path.suffix == ".py"]
    stray = [
        f"{shown(path, line)}: {comment}" for path in files for line, comment in comments(path) if _unreasoned(comment)
    ]
    assert not stray, "name the rule, then ` - ` and why:\n" + "\n".join(stray)


@pytest.mark.parametrize(
    ("comment", "refused"),
    [
        ("# noqa", True),
        ("# noqa: E501", True),
        ("# noqa - because it is so", True),
        ("# type: ignore", True),
        ("# pyright: ignore[reportAny]", True),
        ("# pyright: basic", True),
        ("# ruff: noqa: E501 - the whole file", True),
        ("# noqa: BLE001 - the handler's to see", False),
        ("# pyright: ignore[reportAny] - definitions come from people", False),
        ("# noqa: B004  # pyright: ignore[reportAny] - its type matters", False),
        ("# a type that is ignored on purpose", False),
    ],
)
def test_what_counts_as_a_reason(comment: str, refused: bool) -> None:
    assert _unreasoned(comment) is refused
