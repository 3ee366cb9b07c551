"""Where things stand in a JSON text, as an editor counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstead.tools.sources.json_text import (
    find_first_deeper,
    find_position,
    find_repeated_names,
    locate_each,
    locate_value,
)

pytestmark = pytest.mark.promise("R4")

TEXT = """{
  "name": "x",
  "tools": [
    {"name": "a\\"}]", "list": [1, [2, {"ü": 3}]]},
    {
      "name"
        :
          "b", "empty": {}
    }
  ]
}"""


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ((), False, (1, 1)),
        (("name",), False, (2, 11)),
        (("name",), True, (2, 3)),
        (("tools",), False, (3, 12)),
        (("tools", 0), False, (4, 5)),
        (("tools", 0, "name"), False, (4, 14)),
        (("tools", 0, "list", 1, 1, "ü"), True, (4, 40)),
        (("tools", 0, "list", 1, 1, "ü"), False, (4, 45)),
        (("tools", 1), True, (5, 5)),
        (("tools", 1, "name"), False, (8, 11)),
        (("tools", 1, "empty"), False, (8, 25)),
    ],
)
def test_a_value_and_its_name_are_found(path: tuple[str | int, ...], key: bool, expected: tuple[int, int]) -> None:
    assert locate_value(TEXT, path, key=key) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("tools", 1, "missing"), (5, 5)),
        (("tools", 9, "name"), (3, 12)),
        (("tools", 1, "empty", "x", "y"), (8, 25)),
        (("nothing",), (1, 1)),
        ((0,), (1, 1)),
        (("tools", "name"), (3, 12)),
        (("name", "x"), (2, 11)),
    ],
)
def test_a_path_that_leads_nowhere_leads_to_the_nearest_thing(
    path: tuple[str | int, ...], expected: tuple[int, int]
) -> None:
    assert locate_value(TEXT, path) == expected


def test_of_two_equal_names_the_last_counts() -> None:
    assert locate_value('{"a": 1, "a": 2}', ("a",)) == (1, 15)


def test_repeated_names_are_found_with_their_paths() -> None:
    text = '{"a": 1, "b": [{"c": 1}, {"c": 1,\n "d": {"x": "c:"}, "c": 2}], "a": "a"}'
    assert list(find_repeated_names(text)) == [(("b", 1, "c"), (2, 20)), (("a",), (2, 30))]
    assert list(find_repeated_names(TEXT)) == []
    assert list(find_repeated_names('{"\\u0061": 1, "a": 2}')) == [(("a",), (1, 15))]


def test_every_tools_name_is_found_in_one_walk() -> None:
    assert locate_each(TEXT, "tools", "name") == {'a"}]': (4, 14), "b": (8, 11)}
    assert locate_each('{"tools": [1, {"x": 2}, {"name": null}]}', "tools", "name") == {None: (1, 34)}
    assert locate_each('{"tools": {}}', "nothing", "name") == {}
    assert locate_each("[]", "tools", "name") == {}


def test_the_first_bracket_that_is_too_deep_is_found_also_where_the_text_is_no_json() -> None:
    assert find_first_deeper('[["[[[["], {}]', 2) is None
    assert find_first_deeper('[["[[[["],\n{"a": [}', 2) == (2, 7)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES, indent=st.sampled_from([None, 0, 2, "\t"]))
def test_every_value_of_any_text_is_found_where_it_stands(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.split("\n")
    for path, item in everything(value):
        line, column = locate_value(text, path)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == item
    assert list(find_repeated_names(text)) == []


def everything(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    found: list[tuple[tuple[str | int, ...], Any]] = [(path, value)]
    if isinstance(value, dict):
        found += [step for name, item in value.items() for step in everything(item, (*path, name))]
    elif isinstance(value, list):
        found += [step for number, item in enumerate(value) for step in everything(item, (*path, number))]
    return found


def test_an_offset_becomes_a_line_and_a_column() -> None:
    assert [find_position("ab\nc\n", at) for at in (0, 1, 2, 3, 5)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]
