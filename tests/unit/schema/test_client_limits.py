"""The table of what known clients cannot take."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.schema.client_limits import LIMITS, ClientLimit, find_reached


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.effect)
def test_each_limit_is_reached_by_its_example_and_says_where(limit: ClientLimit) -> None:
    longest = limit.longest_name or 0
    (reached,) = [one for one in find_reached("n" * (longest + 1), limit.example) if one.limit is limit]
    assert limit not in [one.limit for one in find_reached("n" * longest, {"type": "object"})]
    place: Any = limit.example
    for step in reached.at or ():
        place = place[step]
    assert bool(reached.at) == (not longest)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"kind": {"enum": ["a", 1]}, "list": {"type": "array", "items": {}}}},
        {"type": "object", "properties": {"one": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {"day": {"type": "string", "description": "ISO 8601"}}, "required": ["day"]},
        {
            "type": "object",
            "properties": {"from": {"$ref": "#/$defs/Place"}, "to": {"$ref": "#/$defs/Place"}},
            "$defs": {"Place": {"type": "object", "properties": {"country": {"$ref": "#/$defs/Country"}}}}
            | {"Country": {"type": "object", "properties": {"code": {"type": "string"}}}},
        },
    ],
)
def test_what_every_client_takes_is_not_warned_of(schema: dict[str, Any]) -> None:
    assert not find_reached("x", schema)


def test_a_loop_through_thousands_of_definitions_is_found() -> None:
    definitions = {
        f"d{number}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{(number + 1) % 5000}"}}}
        for number in range(5000)
    }
    (reached,) = find_reached("x", {"type": "object", "properties": {}, "$defs": definitions})
    assert 'the definition "d0" refers to itself' in reached.message


def test_a_place_inside_a_list_and_a_name_with_a_slash_are_found() -> None:
    inner = {"type": "object", "properties": {"a/b~c": {"anyOf": [{"type": "string"}, {"const": 1}]}}}
    (reached,) = find_reached("x", {"type": "object", "properties": {"list": {"type": "array", "items": inner}}})
    assert reached.at == ("properties", "list", "items", "properties", "a/b~c", "anyOf", 1)
