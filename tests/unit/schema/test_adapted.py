"""Adapted copies: what each API takes, what is told in words, and that every difference is named."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolstead.schema.adapted import RULES, Adapted, adapted_schema

APIS = sorted(RULES)

_TASK: dict[str, Any] = {
    "agent_id": {"type": "string", "pattern": "^[a-z0-9_\\-]+$"},
    "prompt": {"type": "string"},
    "context": {
        "type": "object",
        "properties": {
            "working_directory": {"type": "string"},
            "hints": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": True,
    },
}
DELEGATE_AGENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_TASK,
        "batch": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["agent_id", "prompt"],
                "properties": _TASK,
                "additionalProperties": False,
            },
        },
    },
    "anyOf": [
        {"required": ["agent_id", "prompt"]},
        {"required": ["batch"], "properties": {"batch": {"minItems": 1}}},
    ],
    "additionalProperties": False,
}


def adapted(schema: dict[str, Any], api: str) -> Adapted:
    """The copy for an API; a tool's schema is always shown with its type."""
    return adapted_schema(schema if "type" in schema else {"type": "object", **schema}, RULES[api])


def seen(schema: Any, api: str) -> dict[str, Any]:
    """The copy, as JSON that compiles."""
    copy = dict(adapted(schema, api).schema)
    jsonschema_rs.validator_for(copy, offline=True)
    return copy


def one(property_schema: Any) -> dict[str, Any]:
    """What Gemini sees of a property."""
    return seen({"type": "object", "properties": {"p": property_schema}}, "gemini")["properties"]["p"]


@pytest.mark.parametrize("api", APIS)
def test_every_api_gets_to_see_delegate_agent_with_its_choice_in_words(api: str) -> None:
    copy = adapted(DELEGATE_AGENT, api)
    assert "anyOf" not in copy.schema
    assert copy.schema["type"] == "object"
    assert list(copy.schema["properties"]) == ["agent_id", "prompt", "context", "batch"]
    assert copy.schema["additionalProperties"] is False
    assert copy.schema["description"] == "Give either agent_id and prompt, or batch (at least 1 item)."
    assert copy.changes[0] == f"/anyOf: moved to the description, because {api} does not take it at the top level"
    assert "anyOf" in DELEGATE_AGENT
    if api != "gemini":
        assert copy.schema["properties"] == DELEGATE_AGENT["properties"]
        assert len(copy.changes) == 1


@pytest.mark.parametrize("api", APIS)
def test_a_schema_that_is_taken_as_it_is_stays_the_same_object(api: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "b": {"$ref": "#/$defs/B"},
            "c": {"type": "array", "items": {"enum": ["x", 1]}, "minItems": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"B": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}},
    }
    copy = adapted(schema, api)
    assert copy.schema is schema
    assert copy.changes == ()


@pytest.mark.parametrize("api", APIS)
def test_forms_that_are_told_apart_show_all_their_properties_and_require_what_all_require(api: str) -> None:
    pets = [
        {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind", "lives"]},
        {"title": "Dog", "properties": {"kind": {"const": "dog"}, "breed": {"type": "string"}}, "required": ["kind"]},
        {"type": "string"},
        False,
    ]
    closed = [{**pet, "additionalProperties": False} if isinstance(pet, dict) else pet for pet in pets]
    copy = seen({"description": "A pet", "oneOf": closed}, api)
    assert list(copy["properties"]) == ["kind", "lives", "breed"]
    assert copy["properties"]["lives"] == {"type": "integer"}
    assert len(copy["properties"]["kind"]["anyOf"]) == 2
    assert copy["required"] == ["kind"]
    assert copy["additionalProperties"] is False
    assert copy["description"].startswith('A pet. Fits exactly one of these forms: (1) with kind = "cat" and lives and')
    assert '(2) Dog with kind = "dog" and optionally breed and nothing else' in copy["description"]
    open_forms = seen({"anyOf": pets[:2]}, api)
    assert open_forms["properties"]["lives"] == {"anyOf": [{"type": "integer"}, {}]}
    assert "additionalProperties" not in open_forms


def test_forms_equal_only_to_python_are_both_shown() -> None:
    copy = seen({"anyOf": [{"properties": {"x": {"const": 1}}}, {"properties": {"x": {"const": True}}}]}, "anthropic")
    assert copy["properties"]["x"] == {"anyOf": [{"const": 1}, {"const": True}]}


def test_what_the_top_level_forbids_is_not_shown_from_a_form() -> None:
    schema = {"properties": {"a": {}}, "additionalProperties": False, "anyOf": [{"properties": {"b": {}}}, {}]}
    assert list(seen(schema, "anthropic")["properties"]) == ["a"]


def test_a_reference_at_the_top_level_is_written_out_with_what_it_says() -> None:
    schema = {
        "$ref": "#/$defs/Tree",
        "allOf": [{"required": ["name"]}, {"maxProperties": 3}, {"not": {"required": ["bad"]}}],
        "unevaluatedProperties": False,
        "$defs": {
            "Tree": {
                "type": "object",
                "description": "A tree",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
                "additionalProperties": {"type": "string"},
                "patternProperties": {"^x": {}},
            }
        },
    }
    copy = adapted(schema, "anthropic")
    tree = schema["$defs"]["Tree"]
    assert copy.schema == {
        "type": "object",
        "description": 'A tree. Must fit {"unevaluatedProperties": false}. Must fit {"not": {"required": ["bad"]}}.',
        "properties": tree["properties"],
        "required": ["name"],
        "maxProperties": 3,
        "additionalProperties": {"type": "string"},
        "patternProperties": {"^x": {}},
        "$defs": schema["$defs"],
    }
    assert [change.split(":")[0] for change in copy.changes] == [
        *("/$ref", "/allOf", "/properties", "/unevaluatedProperties")
    ]


def test_in_old_drafts_nothing_counts_beside_a_reference() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "required": ["never"],
        "definitions": {"a": {"type": "object", "properties": {"x": {"$ref": "#/definitions/b", "minLength": 9}}}}
        | {"b": {"items": [{"type": "string"}], "additionalItems": False, "prefixItems": [{"type": "null"}]}},
    }
    assert "required" not in seen(schema, "anthropic")
    copy = seen(schema, "gemini")
    assert "required" not in copy
    assert copy["properties"] == {"x": {"$ref": "#/$defs/b"}}
    assert copy["$defs"]["b"] == {"prefixItems": [{"type": "string"}], "items": {"description": "Never given."}}
    assert one({"$schema": "ignored here", "const": 1}) == {"enum": [1]}
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"p": {"const": 1}}}
    assert seen(older, "gemini")["properties"]["p"] == {}


@pytest.mark.parametrize("api", APIS)
def test_a_schema_that_refers_to_its_own_top_level_keeps_it_as_a_definition(api: str) -> None:
    schema = {
        "properties": {"next": {"$ref": "#"}, "first": {"$ref": "#/anyOf/0"}, "not_me": {"not": {"$ref": "#"}}},
        "anyOf": [{"required": ["next"]}, {"required": ["first"]}],
        "$defs": {"whole": {"type": "string"}},
    }
    copy = adapted(schema, api)
    validator = jsonschema_rs.validator_for(dict(copy.schema))
    assert validator.is_valid({"next": {}, "first": {}, "not_me": {"first": 7}}) is (api == "gemini")
    assert validator.is_valid({"next": {"first": 7}, "first": {"next": 1}, "not_me": {}})
    assert copy.schema["$defs"]["whole"] == {"type": "string"}
    assert copy.schema["properties"]["next"] == {"$ref": "#/$defs/whole2"}
    assert any(change.startswith("/$defs: what is referred to") for change in copy.changes)


def test_anthropic_is_told_in_words_of_properties_whose_names_it_refuses() -> None:
    schema = {
        "type": "object",
        "properties": {"filter[id]": {"type": "string"}, "n" * 65: {}, "same": {"$ref": "#/properties/filter[id]"}},
        "additionalProperties": False,
    }
    copy = seen(schema, "anthropic")
    assert list(copy["properties"]) == ["same"]
    assert "additionalProperties" not in copy
    assert 'Also takes "filter[id]": {"type": "string"}.' in copy["description"]
    assert jsonschema_rs.is_valid(copy, {"same": "x", "filter[id]": "y"})
    assert not jsonschema_rs.is_valid(copy, {"same": 1})
    assert adapted(schema, "openai").changes == ()


def test_openai_is_told_of_properties_and_items_and_refuses_more_at_the_top_level() -> None:
    assert seen({"type": "object"}, "openai") == {"type": "object", "properties": {}}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "array"]},
            "b": {"anyOf": [{"type": "array"}, {"type": "array", "prefixItems": [{}]}]},
            "enum": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "null"}}},
        },
        "enum": [{"a": "x"}],
        "not": {"required": ["b"]},
    }
    copy = seen(schema, "openai")
    assert copy["properties"] == {
        "a": {"type": ["string", "array"], "items": {}},
        "b": {"anyOf": [{"type": "array", "items": {}}, {"type": "array", "prefixItems": [{}]}]},
        "enum": schema["properties"]["enum"],
    }
    assert copy["description"] == 'One of: {"a": "x"}. Must fit {"not": {"required": ["b"]}}.'
    assert "enum" not in copy
    assert "not" not in copy
    assert adapted(schema, "anthropic").changes == ()


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"const": "x"}, {"enum": ["x"]}),
        ({"const": True}, {"description": "Always true."}),
        ({"const": "x", "enum": ["x", "y"]}, {"enum": ["x", "y"], "description": 'Always "x".'}),
        ({"enum": ["a", None]}, {"description": 'One of: "a", null.'}),
        ({"minimum": 5, "exclusiveMinimum": 1}, {"minimum": 5, "description": "More than 1."}),
        ({"exclusiveMaximum": 1, "maximum": 5}, {"maximum": 1, "description": "Less than 1."}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "email"}, {"type": "string", "description": "Format: email."}),
        ({"description": "A code", "pattern": "^x$"}, {"description": "A code. Matches the regular expression ^x$"}),
        ({"minLength": 1, "maxLength": 2}, {"description": "At least 1 character. At most 2 characters."}),
        ({"multipleOf": 5, "default": 10}, {"description": "A multiple of 5. Default: 10."}),
        ({"uniqueItems": True}, {"description": "No item twice."}),
        ({"uniqueItems": False, "examples": [1], "$comment": "x", "x-y": 1, "deprecated": True}, {}),
        ({"items": True}, {"items": {}}),
        (
            {"items": False, "prefixItems": [{}, {}], "maxItems": 9},
            {"items": {"description": "Never given."}, "prefixItems": [{}, {}], "maxItems": 9},
        ),
        (False, {"description": "Never given."}),
        (
            {"oneOf": [{"type": "null"}, False]},
            {
                "anyOf": [{"type": "null"}, {"description": "Never given."}],
                "description": "Fits exactly one of the forms.",
            },
        ),
        (
            {"anyOf": [{"type": "null"}], "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
            {"anyOf": [{"type": "null"}], "description": "Give either x, or y. Not both."},
        ),
        ({"anyOf": [False]}, {"anyOf": [{"description": "Never given."}]}),
        ({"required": ["x"]}, {"description": "Needed: x."}),
        (
            {"properties": {"x": {}}, "required": ["x", "y"]},
            {"properties": {"x": {}}, "required": ["x"], "description": "Needed: y."},
        ),
        ({"allOf": [{"type": "string"}], "title": "T"}, {"title": "T", "anyOf": [{"type": "string"}]}),
        ({"dependentRequired": {"a": ["b", "c"]}}, {"description": "With a, also b and c."}),
        ({"$ref": "https://elsewhere.example/x"}, {"description": "As https://elsewhere.example/x says."}),
        ({"if": {"type": "null"}, "then": True}, {"description": 'Must fit {"if": {"type": "null"}, "then": true}.'}),
        (
            {"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
            {
                "description": 'Must fit {"additionalProperties": false}. '
                'Must fit {"patternProperties": {"^x": {"type": "null"}}}.',
            },
        ),
        (
            {"allOf": [{"type": "object", "properties": {"a": {}}}, {"required": ["a"], "minProperties": 2}]},
            {
                "anyOf": [{"type": "object", "properties": {"a": {}}}],
                "description": 'Must fit {"allOf": [{"required": ["a"], "minProperties": 2}]}.',
            },
        ),
    ],
)
def test_gemini_sees_what_it_knows_and_is_told_the_rest(given: Any, taken: dict[str, Any]) -> None:
    assert one(given) == taken
    changes = adapted({"type": "object", "properties": {"p": given}}, "gemini").changes
    assert bool(changes) is (given != taken)
    assert all(change.startswith("/properties/p") for change in changes)


def test_gemini_finds_what_is_referred_to_under_defs() -> None:
    schema = {
        "$id": "https://stead.example/tool",
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"$ref": "#/properties/a", "description": "Like a."},
            "c": {"$ref": "https://stead.example/tool#/definitions/D%25"},
            "d": {"$ref": "#named"},
            "e": {"$id": "https://other.example/", "$ref": "#/properties/a"},
            "f": {"$ref": "#/properties/a", "anyOf": [{}]},
        },
        "definitions": {"D%": {"$anchor": "named", "type": "integer"}},
    }
    copy = seen(schema, "gemini")
    assert copy["$defs"] == {"D%": {"type": "integer"}, "a": {"type": "string"}}
    assert copy["properties"]["b"] == {"description": "Like a.", "anyOf": [{"$ref": "#/$defs/a"}]}
    assert copy["properties"]["c"] == copy["properties"]["d"] == {"$ref": "#/$defs/D%25"}
    assert copy["properties"]["e"]["description"].endswith('"$ref": "#/properties/a"}.')
    assert copy["properties"]["f"] == {"anyOf": [{}], "description": "As #/$defs/a says."}
    assert jsonschema_rs.is_valid(copy, {"c": 1, "d": 2, "b": "x"})
    assert not jsonschema_rs.is_valid(copy, {"c": "x"})


def test_gemini_requires_no_property_that_leads_back_to_itself() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "required": ["tree"],
        "$defs": {
            "Tree": {"properties": {"kids": {"$ref": "#/$defs/Kids"}, "leaf": {"$ref": "#/$defs/Leaf"}}}
            | {"required": ["kids", "leaf"]},
            "Kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            "Leaf": {"type": "string"},
        },
    }
    copy = adapted(schema, "gemini")
    assert copy.schema["required"] == ["tree"]
    assert copy.schema["$defs"]["Tree"]["required"] == ["leaf"]
    assert copy.schema["$defs"]["Tree"]["description"] == "Needed: kids."
    assert copy.changes == ("/$defs/Tree/required: kids moved to the description, being a loop",)


@pytest.mark.parametrize("api", APIS)
def test_chains_and_loops_of_references_come_to_an_end(api: str) -> None:
    chain = {f"n{n}": {"$ref": f"#/$defs/n{n + 1}"} for n in range(3_000)} | {"n3000": {"$ref": "#/$defs/n0"}}
    assert seen({"$ref": "#/$defs/n0", "$defs": chain}, api)["type"] == "object"
    twice = {f"n{n}": {"anyOf": [{"$ref": f"#/$defs/n{n + 1}"}, {"$ref": f"#/$defs/n{n + 1}"}]} for n in range(60)}
    last = {"n60": {"properties": {"x": {"type": "string"}}}}
    assert seen({"$ref": "#/$defs/n0", "$defs": twice | last}, api)["type"] == "object"
    again = [{"$ref": "#/$defs/n"}, {"required": ["p"]}]
    endless = {"n": {"properties": {"p": {"allOf": again}, "q": {"allOf": again}}}}
    copy = seen({"type": "object", "properties": {"p": {"allOf": again}}, "$defs": endless}, api)
    assert len(str(copy)) < 5_000


def test_long_words_are_cut() -> None:
    copy = seen({"type": "object", "anyOf": [{"required": [f"name{n}"]} for n in range(500)]}, "anthropic")
    assert copy["description"].startswith("Give either name0, or name1, or")
    assert copy["description"].endswith("…")
    assert len(copy["description"]) == 600


def test_what_the_top_level_says_of_a_property_stays_and_forms_with_patterns_take_other_names() -> None:
    copy = seen(
        {"properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"a": {"minLength": 2}}}]}, "anthropic"
    )
    assert copy["properties"] == {"a": {"type": "string"}}
    patterned = {"additionalProperties": False, "patternProperties": {"^x": {}}}
    copy = seen({"anyOf": [{"properties": {"x": {"type": "integer"}}}, patterned]}, "anthropic")
    assert copy["properties"]["x"] == {"anyOf": [{"type": "integer"}, {}]}


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_taken_out_of_a_schema_with_an_address_of_its_own(api: str) -> None:
    apart = {
        "$id": "https://other.example/",
        "$anchor": "named",
        "properties": {"y": {"$ref": "#/$defs/z"}},
        "$defs": {"z": {"type": "null"}},
    }
    copy = seen({"$ref": "#/$defs/x", "$defs": {"x": apart}}, api)
    assert copy.get("properties", {}) == {}
    assert copy["description"] == "As #/$defs/x says."
    assert ("x" in copy["$defs"]) is (api != "gemini")
    assert seen({"anyOf": [apart]}, api).get("properties", {}) == {}
    named = {"type": "object", "properties": {"n": {"type": "integer"}}, "$anchor": "named"}
    assert list(seen({"$ref": "#named", "$defs": {"n": named, "x": apart}}, api)["properties"]) == ["n"]


def test_in_old_drafts_nothing_counts_beside_a_second_reference_either() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "maxProperties": 9,
        "definitions": {
            "a": {"$ref": "#/definitions/b", "minProperties": 9},
            "b": {"properties": {"p": {"items": False, "prefixItems": [{}]}}},
        },
    }
    assert not {"minProperties", "maxProperties"} & set(seen(schema, "anthropic"))
    assert seen(schema, "gemini")["properties"]["p"] == {"items": {"description": "Never given."}}


def test_a_difference_is_named_once() -> None:
    changes = adapted({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"minLength": 1}}}, "gemini").changes
    assert len(changes) == len(set(changes)) == 3


def test_what_many_refer_to_is_never_written_out() -> None:
    big = {"properties": {f"property{n}": {"type": "string"} for n in range(300)}}
    many = {f"p{n}": {"allOf": [{"$ref": "#/$defs/big"}, {"type": "object"}]} for n in range(200)}
    copy = seen({"type": "object", "properties": many, "$defs": {"big": big}}, "gemini")
    assert copy["properties"]["p0"] == {
        "anyOf": [{"$ref": "#/$defs/big"}],
        "description": 'Must fit {"allOf": [{"type": "object"}]}.',
    }
    loop = {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}}
    assert seen({"$ref": "#/$defs/n", "$defs": loop}, "gemini")["type"] == "object"
