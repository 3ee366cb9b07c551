"""A schema compiled once: bounded, self-contained, with its defaults and its error texts.

One that surely compiles is compiled when it is first used: of thousands of tools, few are called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

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

MOST_BACKTRACKING = 100_000
"""Steps that a pattern with look-around or back-references may go back in one text; beyond them it does not match."""
_LARGE, _TINY = 65_536, 256
_COSTLY_KEYWORDS = (
    *(b'"anyOf"', b'"oneOf"', b'"allOf"', b'"not"', b'"if"', b'"contains"', b'"uniqueItems"', b'"propertyNames"'),
    *(b'"patternProperties"', b'"dependencies"', b'"dependentSchemas"', b'"unevaluatedItems"'),
    *(b'"unevaluatedProperties"', b'Ref"', b'"$ref"'),
)
"""Keywords that may look at a part of a value more than once."""
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
        inline_size: How many bytes a value may have to be validated on the event loop; None for any size, because
            the time grows with the size alone. What is larger is validated in a process of its own.
        expands_far: Whether it may refer to itself: then explaining what is wrong may take a time that doubles with
            every level of the value.
        documents: Other documents that its references name.
    """

    __slots__ = (
        "_validator",
        "deeper_defaults",
        "defaults",
        "document",
        "documents",
        "expands_far",
        "flat_defaults",
        "inline_size",
        "is_valid",
        "source",
        "warnings",
    )

    def __init__(
        self,
        document: Any,
        validator: _Validator | None,
        defaults: SchemaDefaults | None = None,
        warnings: tuple[str, ...] = (),
        documents: Documents | None = None,
    ) -> None:
        """Put its parts together; `validator` is None for a document that surely compiles, when it is needed."""
        self.document = document
        self.documents = documents or {}
        self.defaults = defaults
        self.flat_defaults: Mapping[str, Any] = defaults.flat if defaults is not None else {}
        self.deeper_defaults = defaults if defaults is not None and defaults.has_deeper else None
        self.warnings = warnings
        self.source = document  # what is shown later may have a `type` that is not compiled
        self._validator: Any = None
        # Not properties, and no `__getattr__`: either would double the cost of every look at a schema.
        self.is_valid: Callable[[Any], bool] = self._compile_and_check
        self.inline_size: int | None = 0
        self.expands_far = True
        if validator is not None:
            self._take_validator(validator)

    def find_problems(self, value: Any) -> list[SchemaFinding]:
        """Why a value does not fit, each problem with its path; empty when it does."""
        return [] if self.is_valid(value) else find_problems(self._validator, self.document, value)

    def ensure_compiled(self) -> None:
        """Compile it, unless that is done; then `inline_size` is known."""
        if self._validator is None:
            self._take_validator(_validator_for(self.source))

    def describe_problems(self, value: Any, *, first_only: bool = False) -> list[str]:
        """Why a value does not fit: a few short lines, each with its JSON pointer; for a large value one is enough."""
        self.ensure_compiled()
        return explain_problems(self._validator, self.document, value, first_only=first_only)

    def _compile_and_check(self, value: Any) -> bool:
        self.ensure_compiled()
        return self.is_valid(value)

    def _take_validator(self, validator: _Validator) -> None:
        self._validator, is_linear = validator
        self.is_valid = self._validator.is_valid
        text = msgspec.json.encode(self.source)
        self.expands_far = b'Ref"' in text or (b'"$ref"' in text and _expands_far(self.source))
        if not is_linear:
            self.inline_size = _TINY
        else:
            self.inline_size = _LARGE if any(keyword in text for keyword in _COSTLY_KEYWORDS) else None


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
        return CompiledSchema(document, validator)
    defaults, warnings = find_defaults(cast("dict[str, Any]", document), documents or {})
    return CompiledSchema(document, validator, defaults, warnings, documents)


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


_Validator = tuple[Any, bool]
"""A compiled validator, and whether all its patterns are matched in linear time."""


def _validator_or_reason(document: Any, documents: Documents, *, tool: str, field: str) -> _Validator:
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


def _validator_for(document: Any, registry: jsonschema_rs.Registry | None = None) -> _Validator:
    import jsonschema_rs  # when a schema is first compiled: a start that only lists tools does without

    compile_with = partial(
        jsonschema_rs.validator_for, document, offline=True, validate_formats=False, registry=registry
    )
    try:
        return compile_with(pattern_options=jsonschema_rs.RegexOptions()), True
    except jsonschema_rs.ValidationError:  # a pattern with look-around or back-references, or no schema at all
        limit = jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_BACKTRACKING)
        return compile_with(pattern_options=limit), False


def _expands_far(document: Any) -> bool:
    from toolstead.schema.references import may_expand_far  # few schemas have references

    return isinstance(document, dict) and may_expand_far(cast("dict[str, Any]", document))


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
