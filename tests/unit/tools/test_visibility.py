"""Visibility: the allow-list, the block-list and the switches, and which of them is named as the reason."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstead.tools import generation
from toolstead.tools.generation import Visibility

NAMES = ("git-status", "git-diff", "file-reader", "shouty__shout", "Git-Status")


def seen(rules: Visibility) -> list[str]:
    return [name for name in NAMES if rules.reason_hidden(name) is None]


def test_without_rules_everything_is_seen() -> None:
    assert seen(Visibility()) == list(NAMES)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ([], []),
        (["git-status"], ["git-status"]),
        (["git-*"], ["git-status", "git-diff"]),
        (["git-*", "file-reader"], ["git-status", "git-diff", "file-reader"]),
        (["*__*"], ["shouty__shout"]),
        (["git-?tatus"], ["git-status"]),
        (["[gG]it-[sS]tatus"], ["git-status", "Git-Status"]),
        (["[!gGs]*"], ["file-reader"]),
        (["GIT-*"], []),
        (["git"], []),
        (["git-status\n", "file-reader.*"], []),
    ],
)
def test_an_allow_list_shows_what_one_of_its_patterns_names(allowed: list[str], expected: list[str]) -> None:
    rules = Visibility(allowed=allowed)
    assert seen(rules) == expected
    hidden = [name for name in NAMES if name not in expected]
    assert {rules.reason_hidden(name) for name in hidden} <= {"not named by tools.allowed"}


def test_a_block_list_hides_what_one_of_its_patterns_names_and_says_which() -> None:
    rules = Visibility(blocked=["file-reader", "g*-d*"])
    assert seen(rules) == ["git-status", "shouty__shout", "Git-Status"]
    assert rules.reason_hidden("git-diff") == "blocked by 'g*-d*' in tools.blocked"
    assert rules.reason_hidden("file-reader") == "blocked by 'file-reader' in tools.blocked"


def test_blocking_wins_over_allowing_and_switching_off_over_both() -> None:
    rules = Visibility(allowed=["git-*"], blocked=["git-diff"], disabled=frozenset({"git-status", "git-diff"}))
    assert seen(rules) == []
    assert rules.reason_hidden("git-status") == "switched off with `toolstead tools disable`"
    assert rules.reason_hidden("git-diff") == "switched off with `toolstead tools disable`"
    assert seen(replace(rules, disabled=frozenset())) == ["git-status"]


def test_a_switch_is_a_name_and_no_pattern() -> None:
    assert seen(Visibility(disabled=frozenset({"git-*"}))) == list(NAMES)


def test_equal_rules_are_equal() -> None:
    assert Visibility(allowed=("a",), blocked=("b",)) == Visibility(allowed=("a",), blocked=("b",))
    assert Visibility(allowed=("a",)) != Visibility(blocked=("a",))


words = st.text(alphabet="abAB-_*?[]!", min_size=1, max_size=6)


@settings(deadline=None)
@given(name=st.text(alphabet="abAB-_", min_size=1, max_size=6), patterns=st.lists(words, max_size=4))
def test_patterns_mean_what_they_mean_in_a_shell(name: str, patterns: list[str]) -> None:
    fits = any(fnmatchcase(name, pattern) for pattern in patterns)
    assert (Visibility(allowed=patterns).reason_hidden(name) is None) is fits
    assert (Visibility(blocked=patterns).reason_hidden(name) is not None) is fits


def test_a_memory_of_names_is_bounded_and_says_the_same_after_it_forgot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "MOST_REMEMBERED", 3)
    rule = Visibility(allowed=["a*"], blocked=["ab*"])
    memory = generation.NameMemory(rule)
    for name in ["a", "ab", "b", "abc", "ac", "a", "b", "x", "ab"] * 3:
        assert memory[name] == rule.reason_hidden(name)
        assert len(memory) <= 3
