"""A tool's arguments from the command line: `key=value`, `key:=JSON`, `--input`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, cast

import click

from toolstead.types.tool import JSONSchema

_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def read_arguments(pairs: Sequence[str], given: str | None, schema: JSONSchema) -> dict[str, Any]:
    """Merge the arguments; a pair wins over `--input`.

    Raises:
        click.UsageError: A pair has no `=`, or something is no JSON.
    """
    arguments = _from_input(given) if given is not None else {}
    return arguments | dict(_read_pair(pair, schema) for pair in pairs)


def _from_input(given: str) -> dict[str, Any]:
    value = _parse_json(sys.stdin.read() if given == "-" else given, "--input")
    if not isinstance(value, dict):
        raise click.UsageError(f"--input: a JSON object is needed, not {type(value).__name__}")
    return cast("dict[str, Any]", value)


def _read_pair(pair: str, schema: JSONSchema) -> tuple[str, Any]:
    if pair.lstrip().startswith("{"):
        raise click.UsageError(
            f"{pair[:200]!r}: write --input before a JSON object; else arguments look like key=value"
        )
    key, sign, text = pair.partition("=")
    if not sign or not key:
        raise click.UsageError(f"{pair!r}: arguments look like key=value, or key:=JSON")
    if key.endswith(":"):
        return key[:-1], _parse_json(text, key[:-1])
    return key, _convert_text(text, schema.get("properties", {}).get(key))


def _convert_text(text: str, schema: Any) -> Any:
    """Read text as the schema's type; what does not look like it stays text, and validation refuses it."""
    kinds: Any = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    for kind in cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]:
        match kind:
            case "boolean" if text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
            case "null" if text in ("", "null"):
                return None
            case "integer" | "number" | "array" | "object":
                try:
                    return json.loads(text)
                except ValueError:
                    continue
            case _:
                continue
    return text


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{where}: not valid JSON: {error}") from None
