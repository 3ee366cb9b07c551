"""A schema compiled once: bounded, self-contained, with its defaults and its error texts.

One that surely compiles is compiled when it is first used: of thousands of tools, few are called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolstead.errors import SchemaError
from toolstead.schema.defaults import SchemaDefaults, find_defaults
from toolstead.schema.explanation import SchemaFinding, explain_problems, find_problems
from toolstead.schema.plain import TYPES, is_obviously_plain
from toolstead.schema.visible import HALF_CHARACTER, escape_unseen

if TYPE_CHECKING:
    import jsonschema_rs

MAX_DEPTH = 64
MAX_SIZE = 512 * 1024
"""Characters of keys and strings, plus one for each other value."""

_PARAMETER_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")

Documents = Mapping[str, Any]
"""Schema documents by address, for `$ref`s that leave their own document."""


class CompiledSchema:
    """A validator for one schema.

    Attributes:
        document: A private copy of the schema.
        is_valid: Whether a value fits; once it is compiled, the validator's own method, for speed.
        defaults: What to fill in before validating, or None when the schema has no defaults.
        flat_defaults: Of these, what a call merges into its arguments directly, for speed.
        deeper_defaults: The defaults again where some are not flat, else None.
        warnings: What its author should know, such as a default that does not fit.
    """

    __slots__ = (
        "_source",
        "_validator",
        "deeper_defaults",
        "defaults",
        "document",
        "flat_defaults",
        "is_valid",
        "warnings",
    )

    def __init__(
        self, document: Any, validator: Any, defaults: SchemaDefaults | None, warnings: tuple[str, ...]
    ) -> None:
        """Put its parts together; `validator` is None for a document that surely compiles, when it is needed."""
        self.document = document
        self.defaults = defaults
        self.flat_defaults: Mapping[str, Any] = defaults.flat if defaults is not None else {}
        self.deeper_defaults = defaults if defaults is not None and defaults.has_deeper else None
        self.warnings = warnings
        self._source = document  # what is shown later may have a `type` that is not compiled
        self._validator = validator
        # Not a property, and no `__getattr__`: either would double the cost of every look at a schema.
        self.is_valid: Callable[[Any], bool] = self._compile_and_check if validator is None else validator.is_valid

    def find_problems(self, value: Any) -> list[SchemaFinding]:
        """Why a value does not fit, each problem with its path; empty when it does."""
        return [] if self.is_valid(value) else find_problems(self._validator, self.document, value)

    def describe_problems(self, value: Any) -> list[str]:
        """Why a value does not fit: a few short lines, each with its JSON pointer."""
        if self._validator is None:
            self._compile_now()
        return explain_problems(self._validator, self.document, value)

    def _compile_and_check(self, value: Any) -> bool:
        self._compile_now()
        return self.is_valid(value)

    def _compile_now(self) -> None:
        self._validator = _validator_for(self._source)
        self.is_valid = self._validator.is_valid


def compile_schema(
    schema: Any,
    *,
    tool: str,
    field: str = "schema",
    documents: Documents | None = None,
    owned: bool = False,
    plain: bool = False,
) -> CompiledSchema:
    """Compile a schema.

    References may point into the schema itself and into `documents`; nothing is ever fetched.

    Args:
        schema: The schema, any draft its `$schema` names, 2020-12 otherwise.
        tool: The tool it belongs to, for error messages.
        field: The tool's field that holds it, for error messages.
        documents: Other documents its `$ref`s may name.
        owned: It was just read from JSON within the bounds and has no other owner, so it need not be copied.
        plain: The grammar of plain schemas accepted it already, so it surely compiles.

    Raises:
        SchemaError: It is not valid, too large, too deep, or refers outside.
    """
    document = schema if owned else _private_copy(schema, tool=tool, field=field)
    waits = plain or (not owned and is_obviously_plain(document))
    validator = None if waits else _validator_or_reason(document, documents or {}, tool=tool, field=field)
    if not isinstance(document, dict):
        return CompiledSchema(document, validator, None, ())
    defaults, warnings = find_defaults(cast("dict[str, Any]", document), documents or {})
    return CompiledSchema(document, validator, defaults, warnings)


def compile_input_schema(
    schema: Mapping[str, Any] | None,
    *,
    tool: str,
    documents: Documents | None = None,
    owned: bool = False,
    plain: bool = False,
) -> CompiledSchema:
    """Compile the schema of a tool's arguments, which are always an object.

    Absent becomes `{"type": "object"}`; a schema without `type` is shown with it.

    Raises:
        SchemaError: As `compile_schema`, and when the schema describes something else.
    """
    if schema is None:
        schema = {"type": "object"}
    if not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - definitions come from people
        raise SchemaError(tool=tool, field="schema", reason=f"a JSON object is needed, not {type(schema).__name__}")
    kind = schema.get("type", "object")
    if kind != "object":
        raise SchemaError(
            tool=tool,
            field="schema.type",
            reason=f'arguments are an object, so it must be "object", not {kind!r}',
            path=("type",),
        )
    compiled = compile_schema(schema, tool=tool, documents=documents, owned=owned, plain=plain)
    # Shown only: compiled in, it would also bind what the schema says of itself through `"$ref": "#"`.
    if "type" not in schema:
        compiled.document = {"type": "object", **compiled.document}
    return compiled


def schema_from_parameters(parameters: Mapping[str, Any], *, tool: str) -> dict[str, Any]:
    """Turn `{"text": {"type": "string", "description": "…", "required": True}}` into a schema.

    `required` is false by default. Anything else in a parameter is kept as its schema.

    Raises:
        SchemaError: They or one of them is no mapping; one has no known type; `required` is no boolean.
    """
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - definitions come from people
        raise SchemaError(
            tool=tool, field="parameters", reason=f"a mapping of names is needed, not {type(parameters).__name__}"
        )
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, given in parameters.items():
        field = f"parameters.{name}"
        if not isinstance(given, Mapping):
            raise SchemaError(
                tool=tool, field=field, reason=f'a mapping such as {{"type": "string"}} is needed, not {given!r}'
            )
        parameter = dict(cast("Mapping[str, Any]", given))
        needed = parameter.pop("required", False)
        if not isinstance(needed, bool):
            raise SchemaError(tool=tool, field=f"{field}.required", reason=f"true or false is needed, not {needed!r}")
        if parameter.get("type") not in _PARAMETER_TYPES:
            raise SchemaError(
                tool=tool,
                field=f"{field}.type",
                reason=f"one of {', '.join(_PARAMETER_TYPES)} is needed, not {parameter.get('type')!r}",
            )
        properties[name] = parameter
        if needed:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _private_copy(value: Any, *, tool: str, field: str) -> Any:
    """Copy a schema, refusing what is no JSON, too deep or too large."""
    room = MAX_SIZE

    def copy_node(node: Any, depth: int, path: str) -> Any:
        nonlocal room
        if depth > MAX_DEPTH:
            raise SchemaError(
                tool=tool, field=field, reason=f"nested deeper than {MAX_DEPTH} levels at {escape_unseen(path[:80])}…"
            )
        room -= len(node) if isinstance(node, str) else 1
        if room < 0:
            raise SchemaError(tool=tool, field=field, reason=f"larger than {MAX_SIZE:,} characters")
        match node:
            case float() if not math.isfinite(node):
                raise SchemaError(tool=tool, field=escape_unseen(path), reason=f"{node} is not a JSON value")
            case str():
                if not node.isascii() and HALF_CHARACTER.search(node):
                    raise SchemaError(
                        tool=tool, field=escape_unseen(path), reason="half of a surrogate pair is no character"
                    )
                return node
            case bool() | int() | float() | None:
                return node
            case Mapping():
                copied: dict[str, Any] = {}
                for key, item in cast("Mapping[Any, Any]", node).items():
                    if not isinstance(key, str):
                        raise SchemaError(tool=tool, field=escape_unseen(path), reason=f"keys are strings, not {key!r}")
                    copied[copy_node(key, depth, path)] = copy_node(item, depth + 1, f"{path}.{key}")
                return copied
            case list() | tuple():
                items = cast("list[Any] | tuple[Any, ...]", node)
                return [copy_node(item, depth + 1, f"{path}[{n}]") for n, item in enumerate(items)]
            case _:
                raise SchemaError(
                    tool=tool, field=escape_unseen(path), reason=f"{type(node).__name__} is not a JSON value"
                )

    return copy_node(value, 0, field)


def _validator_or_reason(document: Any, documents: Documents, *, tool: str, field: str) -> Any:
    import jsonschema_rs

    try:
        return _validator_for(document, jsonschema_rs.Registry(list(documents.items())) if documents else None)
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(
            tool=tool,
            field=escape_unseen(".".join([field, *map(str, error.instance_path)])),
            reason=escape_unseen(_error_reason(error)),
            path=tuple(error.instance_path),
        ) from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaError(tool=tool, field=field, reason=escape_unseen(str(error).split("\n", 1)[0])) from None


def _validator_for(document: Any, registry: jsonschema_rs.Registry | None = None) -> Any:
    import jsonschema_rs  # when a schema is first compiled: a start that only lists tools does without

    return jsonschema_rs.validator_for(document, offline=True, validate_formats=False, registry=registry)


def _error_reason(error: jsonschema_rs.ValidationError) -> str:
    text = error.message
    if "Retrieval is disabled" in text:
        address = text.split("'", 2)[1] if "'" in text else "?"
        return (
            f"refers to {address}, and references are never fetched; "
            "put the schema under $defs and refer to it as #/$defs/NAME"
        )
    if error.instance_path and error.instance_path[-1] == "type":
        return f"{json.dumps(error.instance)[:60]} is no JSON type; one of {', '.join(TYPES)} is needed"
    return text[:300]
