"""Error texts: short, with their pointer, what was expected and what came."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.schema.compiled import compile_input_schema
from toolstead.schema.explanation import LONGEST_LINE, MOST_LINES

pytestmark = pytest.mark.promise("S1")


def lines(properties: dict[str, Any], value: Any, **keywords: Any) -> list[str]:
    return compile_input_schema({"properties": properties, **keywords}, tool="t").describe_problems(value)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "integer"}, "five", '/x: expected integer, got string "five"'),
        ({"type": ["integer", "null"]}, [], "/x: expected null or integer, got array of 0 items"),
        ({"enum": ["a", "b"]}, "c", '/x: expected one of ["a", "b"], got string "c"'),
        ({"const": 3}, 4, "/x: expected 3, got number 4"),
        ({"minimum": 3}, 1, "/x: expected at least 3, got number 1"),
        ({"exclusiveMaximum": 3}, 3, "/x: expected less than 3, got number 3"),
        ({"maxLength": 2}, "abc", "/x: expected at most 2 characters, got 3"),
        ({"minItems": 2}, [1], "/x: expected at least 2 items, got 1"),
        ({"pattern": "^a"}, "b", '/x: expected text that matches ^a, got string "b"'),
        ({"type": "object", "required": ["k"]}, {}, '/x: "k" is missing'),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            "/x: fits none of 2 alternatives: expected string, got number 1; or expected null, got number 1",
        ),
        ({"type": "string"}, True, "/x: expected string, got true"),
        ({"type": "string"}, {"a": 1}, "/x: expected string, got object with a"),
    ],
)
def test_each_kind_of_problem_says_what_was_expected_and_what_came(schema: Any, value: Any, said: str) -> None:
    assert lines({"x": schema}, {"x": value}) == [said]


def test_an_unexpected_property_names_the_one_that_was_meant() -> None:
    said = lines({"path": {}}, {"pth": 1}, additionalProperties=False)
    assert said == ['(arguments): "pth" is not allowed here; did you mean "path"?']
    said = lines({"path": {}, "line": {}}, {"zzz": 1}, additionalProperties=False)
    assert said == ['(arguments): "zzz" is not allowed here; allowed: path, line']


def test_a_pointer_escapes_and_counts() -> None:
    said = lines({"a/b": {"items": {"type": "string"}}}, {"a/b": ["x", 1]})
    assert said == ["/a~1b/1: expected string, got number 1"]


def test_many_problems_are_a_few_lines_and_a_count() -> None:
    said = lines({f"p{n}": {"type": "string"} for n in range(12)}, {f"p{n}": n for n in range(12)})
    assert len(said) == MOST_LINES + 1
    assert said[-1] == "… and 7 more"


def test_a_huge_value_never_makes_a_huge_message() -> None:
    huge, long = "x" * 10_000_000, "y" * 100_000
    for schema in ({"type": "integer"}, {"enum": [long]}, {"maxLength": 3}, {"pattern": "^y"}, {"const": long}):
        (line,) = lines({"x": schema}, {"x": huge})
        assert len(line) <= LONGEST_LINE


def test_what_is_no_json_is_said_so() -> None:
    assert "Dict key must be str" in lines({}, {1: 2}, minProperties=1)[0]
