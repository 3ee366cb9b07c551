"""Compiling: what is a schema, what is refused, and that nothing is ever fetched."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from toolstead.errors import SchemaError
from toolstead.schema.compiled import MAX_DEPTH, compile_input_schema, compile_schema

pytestmark = pytest.mark.promise("S1")


def refusal(schema: object) -> str:
    with pytest.raises(SchemaError) as caught:
        compile_input_schema(schema, tool="t")  # pyright: ignore[reportArgumentType] - bad ones are the point
    return str(caught.value)


def test_an_absent_schema_accepts_any_object() -> None:
    schema = compile_input_schema(None, tool="t")
    assert schema.document == {"type": "object"}
    assert schema.is_valid({"anything": 1})


def test_a_schema_without_type_or_properties_keeps_its_keywords_and_becomes_an_object() -> None:
    schema = compile_input_schema({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, tool="t")
    assert schema.document == {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert schema.is_valid({"a": 1})
    assert not schema.is_valid({})


def test_arguments_are_an_object_so_another_type_is_refused() -> None:
    assert 'must be "object"' in refusal({"type": "array"})


def test_what_is_no_schema_is_refused_with_its_place() -> None:
    assert "schema.properties.a.type" in refusal({"properties": {"a": {"type": "strng"}}})
    assert "schema.properties.a.pattern" in refusal({"properties": {"a": {"pattern": "(("}}})
    assert "JSON object is needed" in refusal([1])
    assert "is not a JSON value" in refusal({"default": object()})
    assert "keys are strings" in refusal({"properties": {1: {}}})


def test_older_drafts_are_read_by_their_own_rules() -> None:
    draft4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"maximum": 5, "exclusiveMaximum": True}},
    }
    assert not compile_input_schema(draft4, tool="t").is_valid({"n": 5})
    assert "exclusiveMaximum" in refusal({"properties": {"n": {"maximum": 5, "exclusiveMaximum": True}}})


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, object] = {"type": "object"}
    for _ in range(MAX_DEPTH):
        deep = {"type": "object", "properties": {"a": deep}}
    assert "nested deeper" in refusal(deep)
    assert "larger than" in refusal({"description": "x" * 1_000_000})
    assert "larger than" in refusal({"enum": list(range(1_000_000))})


def test_the_schema_is_a_private_copy() -> None:
    given = {"properties": {"a": {"type": "string"}}}
    schema = compile_input_schema(given, tool="t")
    given["properties"]["a"]["type"] = "integer"
    assert schema.document["properties"]["a"]["type"] == "string"


def test_a_file_reference_is_refused_without_reading_the_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "string"}')
    assert "references are never fetched" in refusal({"properties": {"a": {"$ref": secret.as_uri()}}})


def test_a_network_reference_is_refused_without_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        connected = threading.Event()

        def accept() -> None:
            try:
                listener.accept()[0].close()
                connected.set()
            except TimeoutError:
                pass

        watcher = threading.Thread(target=accept)
        watcher.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        assert "references are never fetched" in refusal({"properties": {"a": {"$ref": address}}})
        watcher.join(5)
        assert not connected.is_set()


def test_documents_given_by_the_application_may_be_referred_to() -> None:
    documents = {"https://example.test/name.json": {"type": "string", "maxLength": 3}}
    schema = compile_schema({"$ref": "https://example.test/name.json"}, tool="t", documents=documents)
    assert schema.is_valid("abc")
    assert not schema.is_valid("abcd")


def test_formats_are_not_asserted() -> None:
    assert compile_input_schema({"properties": {"d": {"format": "date"}}}, tool="t").is_valid({"d": "no date"})


def test_a_pattern_that_explodes_elsewhere_ends_at_once_here() -> None:
    schema = compile_input_schema({"properties": {"s": {"pattern": "^(a+)+$"}}}, tool="t")
    assert not schema.is_valid({"s": "a" * 5_000 + "!"})
