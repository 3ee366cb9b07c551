"""Errors: the tree drawn at the top of the file is the real one, and every error says what it knows."""

from __future__ import annotations

import inspect

import pytest

from toolstead import errors
from toolstead.errors import (
    DuplicateToolError,
    SettingsError,
    ToolsteadError,
    UnknownToolError,
)


def drawn() -> dict[str, str]:
    """Each error of the drawing with the one it hangs from."""
    text = (errors.__doc__ or "").split("```")[1]
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in text.strip().splitlines():
        name = line.lstrip("│├└─ ").split()[0]
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
        branch[depth:] = [name]
        parents[name] = branch[depth - 1] if depth else "Exception"
    return parents


def real() -> dict[str, str]:
    classes = [one for one in vars(errors).values() if inspect.isclass(one) and one.__module__ == errors.__name__]
    return {one.__name__: one.__bases__[0].__name__ for one in classes}


def test_the_tree_drawn_is_the_tree_of_classes() -> None:
    assert drawn() == real()


def test_every_error_of_the_tree_is_told_in_words_beside_it() -> None:
    lines = (errors.__doc__ or "").split("```")[1].strip().splitlines()
    silent = [line for line in lines[1:] if len(line.lstrip("│├└─ ").split()) < 3]
    assert not silent


def test_every_error_has_one_base_and_a_docstring() -> None:
    for name in real():
        error = getattr(errors, name)
        assert issubclass(error, ToolsteadError)
        assert len(error.__bases__) == 1
        assert error.__doc__


def test_a_duplicate_names_the_holder() -> None:
    error = DuplicateToolError(tool="t", holder="builtin git.py")
    assert (error.tool, error.field, error.holder) == ("t", "name", "builtin git.py")
    assert "already held by builtin git.py; choose another" in str(error)


@pytest.mark.parametrize(("key", "said"), [("tools.timeout", "f.toml:3: tools.timeout: no"), ("", "f.toml:3: no")])
def test_a_bad_setting_says_where_it_was_said(key: str, said: str) -> None:
    assert str(SettingsError(key=key, origin="f.toml:3", reason="no")) == said


def test_an_unknown_tool_suggests_what_is_near_and_never_repeats_a_huge_name() -> None:
    assert str(UnknownToolError("a")) == "unknown tool 'a'"
    assert str(UnknownToolError("a", ("b", "c"))) == "unknown tool 'a'; did you mean 'b' or 'c'?"
    assert len(str(UnknownToolError("x" * 1_000_000))) < 300
