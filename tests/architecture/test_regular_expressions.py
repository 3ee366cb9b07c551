"""No regular expression takes long on any text: its time grows as the text does.

Every expression of the package is found in its syntax trees. Each is measured here on texts made from the
expression itself; `tests/e2e/test_recheck.py` has each one judged by a tool that was made for it. Growth is what the
promise is about, so the clock is asked here: how much longer a longer text takes, as the best of several measurements
of this thread's own time, and only where it is long enough to be measured.
"""

from __future__ import annotations

from fnmatch import translate

import pytest

from tests.architecture.growing_texts import find_growth
from tests.architecture.regular_expressions import (
    UNKNOWN,
    Expression,
    MadeFromData,
    count_calls,
    find_expressions,
)
from toolstead.tools.handlers.secrets import Mask

# Each expression that is made from data, by its module: where the data comes from, and what bounds it.
MADE_FROM_DATA = {
    "toolstead.adapters.http.routing": "the paths of our own routes; a parameter ends at a slash",
    "toolstead.adapters.installing": "the name of one of our own extras, without anything special in it",
    "toolstead.adapters.scripted.script_file": "the user's own script of a model that is played",
    "toolstead.testing.fake_tasks": "the results that the author of a test wrote",
    "toolstead.testing.plugin_parts": "the answers that the author of a test wrote",
    "toolstead.tools.generation": "patterns of the allow-list and the block-list, for names of at most 64 characters",
    "toolstead.tools.handlers.secrets": "the user's own secret, each character in its spellings",
    "toolstead.tools.handlers.pinned": "names of a project's files, escaped",
}


def test_every_expression_is_found() -> None:
    found = find_expressions()
    assert len(found) == count_calls()
    assert {made.module for made in found if isinstance(made, MadeFromData)} == set(MADE_FROM_DATA)


def test_an_expression_is_read_in_the_ways_that_the_package_uses() -> None:
    places = {
        expression.place.rpartition(":")[0].rpartition("/")[2]: expression.ways
        for expression in find_expressions()
        if isinstance(expression, Expression)
    }
    assert places["file_read.py"] == UNKNOWN  # handed on in a tuple
    assert places["toml_text.py"] == {"match"}
    assert places["json_draft.py"] == {"finditer"}
    assert places["token.py"] == {"search"}


@pytest.mark.timeout(300)
def test_the_time_of_every_expression_grows_as_its_text_does() -> None:
    readings = {
        (expression.pattern, expression.flags, way): expression.place
        for expression in find_expressions()
        if isinstance(expression, Expression)
        for way in expression.ways
    }
    slow = [f"{place}: {growth}" for reading, place in readings.items() if (growth := find_growth(*reading))]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (r"(?:[-\d.]+|-static)+$", "search"),
        (r"(?:[ ]+(?:[a-z]+)*)*", "fullmatch"),
        (r"\s+$", "search"),
        (r'"(?:[^"\\]|\\.)*"', "finditer"),
        (r"\{\{.*?\}\}", "search"),
        (r"a(?=a*b)", "finditer"),
        (rb"-?\d+(?:\.\d+)?[eE]", "finditer"),
        (r"(.*) - at `(.*)`", "fullmatch"),
    ],
)
def test_an_expression_whose_time_grows_faster_is_noticed(pattern: str | bytes, way: str) -> None:
    assert find_growth(pattern, 0, way)


def test_patterns_of_names_and_spellings_of_secrets_stay_within_their_bounds() -> None:
    assert find_growth(translate("*a*a*a*a*a*b"), 0, "match") is None
    text = r"Sesame%20\open" * 4_000
    masked = Mask((r"Sesame%20\open!",))(text)
    assert masked == text
