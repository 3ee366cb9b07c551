"""Docstrings: what the model is told of a tool, and of each argument."""

from __future__ import annotations

import pytest

from toolstead.plugins.decorator import read_docstring


def described(text: str | None) -> tuple[str, dict[str, str]]:
    def function() -> None: ...

    function.__doc__ = text
    return read_docstring(function)


def test_the_description_is_everything_before_the_first_section() -> None:
    text = """Find a row.

    It looks in every table, so: be patient.

    Args:
        table: Where to look.

    Returns:
        table: What was found.

    Raises:
        ToolError: Nothing was found.
    """
    assert described(text) == (
        "Find a row.\n\nIt looks in every table, so: be patient.",
        {"table": "Where to look."},
    )


@pytest.mark.parametrize("header", ["Args:", "Arguments:", "Parameters:"])
def test_each_name_of_the_section_of_arguments_is_known(header: str) -> None:
    assert described(f"Do.\n\n{header}\n    a: First.\n") == ("Do.", {"a": "First."})


def test_a_description_may_go_on_over_lines_that_look_like_arguments() -> None:
    text = """Do.

    Args:
        a: First,
            namely: this
            and that.

        b (str, optional): Second.
        c (Callable[[int], str] (or None)) : Third.
        *rest: Others.
    """
    assert described(text)[1] == {
        "a": "First, namely: this and that.",
        "b": "Second.",
        "c": "Third.",
        "rest": "Others.",
    }


def test_arguments_at_the_margin_are_read_too() -> None:
    assert described("Do.\n\nArgs:\na: First.\nb: Second.")[1] == {"a": "First.", "b": "Second."}


@pytest.mark.parametrize("header", ["Warning:", "Side Effects:", "See also the manual."])
def test_an_unknown_section_after_the_arguments_is_no_part_of_the_last_one(header: str) -> None:
    assert described(f"Do.\n\nArgs:\n    a: First.\n\n{header}\n    b: No argument.\n")[1] == {"a": "First."}


def test_an_unknown_section_after_no_arguments_is_none_of_them() -> None:
    assert described("Do.\n\nArgs:\n\nSide Effects:\n    b: No argument.\n")[1] == {}


@pytest.mark.parametrize("text", [None, "", "Args:\n    a: First."])
def test_without_a_summary_the_description_is_empty(text: str | None) -> None:
    assert described(text)[0] == ""


def test_a_section_without_arguments_gives_none() -> None:
    assert described("Do.\n\nArgs:\n    just prose without a name\n\nNote:\n    a: b") == ("Do.", {})
