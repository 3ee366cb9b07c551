"""JSON Schemas of response and request bodies, generated from their Structs.

Descriptions come from docstrings: the first paragraph describes the Struct, its `Attributes` the fields. A `SentStruct`
itself declares which fields are sent, always or sometimes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from toolstead.types.sent import SentStruct, StructType

Schema = dict[str, Any]

_NAMES = {
    "Approval": "ApprovalFields",
    "ApprovalAnswer": "Approval",
    "HealthAnswer": "Health",
    "PluginView": "Plugin",
    "Problem": "SetAside",
    "ProblemDocument": "Problem",
    "Reloaded": "Reload",
    "SentResource": "EmbeddedResource",
    "Thread": "ThreadSummary",
    "ThreadAnswer": "Thread",
    "ToolInfo": "Tool",
    "ToolResult": "KeptResult",
}
"""Schemas that are not named after their Struct; a `…Body` is a `…Request`."""
_NULL: Schema = {"type": "null"}
_PLACE = "#/components/schemas/"
_ATTRIBUTE = re.compile(r"(\w+): (.*)")


def refer_to(struct: StructType) -> Schema:
    """A reference to a Struct's schema."""
    return {"$ref": _PLACE + schema_name(struct)}


def schema_name(struct: StructType) -> str:
    """The name of a Struct's schema."""
    return _NAMES.get(struct.__name__, re.sub("Body$", "Request", struct.__name__))


class SentMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a JSON object: the field of a Struct that it is, or a Struct's tag."""

    name: str
    type: Any
    text: str | None
    required: bool
    may_be_null: bool


def build_schemas(structs: Iterable[StructType]) -> dict[str, Schema]:
    """The schemas of Structs, and of all that they refer to, by name."""
    members: dict[StructType, list[SentMember]] = {}
    waiting = list(structs)
    while waiting:
        struct = waiting.pop()
        if struct not in members:
            members[struct] = _members_of(struct)
            waiting += [one for member in members[struct] for one in _structs_of(member.type)]
    references = {struct.__name__: refer_to(struct) for struct in members}
    # One call for all: each makes msgspec inspect every annotation.
    types = [member.type for own in members.values() for member in own]
    made = iter(msgspec.json.schema_components(types, ref_template="{name}")[0])
    schemas: dict[str, Schema] = {}
    for struct, own in members.items():
        properties: Schema = {}
        for member in own:
            schema = _tidy_schema(next(made), references, may_be_null=member.may_be_null)
            properties[member.name] = {**schema, "description": member.text} if member.text else schema
        schemas[schema_name(struct)] = {
            "type": "object",
            "description": " ".join(inspect.cleandoc(struct.__doc__ or "").partition("\n\n")[0].split()),
            "properties": properties,
            "required": [member.name for member in own if member.required],
            **({"additionalProperties": False} if struct.__struct_config__.forbid_unknown_fields else {}),
            **getattr(struct, "extra_schema", {}),
        }
    return dict(sorted(schemas.items()))


def _members_of(struct: StructType) -> list[SentMember]:
    """The members that a Struct has as JSON."""
    texts, config = _field_texts(struct), struct.__struct_config__
    members: list[SentMember] = []
    if config.tag_field is not None:
        tag = Literal[cast("str", config.tag)]  # pyright: ignore[reportInvalidTypeForm] - known only here
        members.append(SentMember(name=config.tag_field, type=tag, text=None, required=True, may_be_null=False))
    for field in msgspec.structs.fields(struct):
        kind, is_optional, may_be_null = field.type, not field.required, True
        if issubclass(struct, SentStruct):
            if field.name in struct.unsent:
                continue
            if field.name in struct.flattened:
                members += _members_of(kind)
                continue
            kind, is_optional = struct.sent_types.get(field.name, kind), field.name in struct.optional
            may_be_null = not is_optional
        text = texts.get(field.name)
        members.append(
            SentMember(name=field.encode_name, type=kind, text=text, required=not is_optional, may_be_null=may_be_null)
        )
    return members


def _tidy_schema(schema: Schema, references: Mapping[str, Schema], *, may_be_null: bool) -> Schema:
    """A msgspec schema without defaults, with the document's references, and with the shorter form of null."""
    if "$ref" in schema:
        return references[schema["$ref"]]
    tidy: Schema = {key: value for key, value in schema.items() if key not in ("default", "discriminator", "anyOf")}
    if "pattern" in tidy:
        tidy["pattern"] = tidy["pattern"].replace(r"\Z", "$")  # as in the regular expressions of JSON Schema
    if "enum" in tidy:
        tidy["type"] = "string"
    for key in tidy.keys() & {"items", "additionalProperties"}:
        tidy[key] = _tidy_schema(tidy[key], references, may_be_null=True)
    if "anyOf" not in schema:
        return tidy
    branches = [_tidy_schema(one, references, may_be_null=True) for one in schema["anyOf"] if one != _NULL]
    is_nullable = may_be_null and _NULL in schema["anyOf"]
    if is_nullable and len(branches) == 1 and "type" in branches[0]:
        only = branches[0]
        return {**only, "type": [only["type"], "null"]} | ({"enum": [*only["enum"], None]} if "enum" in only else {})
    branches += [_NULL] if is_nullable else []
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _structs_of(kind: Any) -> Iterator[StructType]:
    """The Structs that a type names."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in get_args(kind):
        yield from _structs_of(argument)


def _field_texts(struct: StructType) -> dict[str, str]:
    """The field descriptions in the docstrings of a Struct and its bases."""
    texts: dict[str, str] = {}
    for one in reversed(struct.__mro__):
        _, _, attributes = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")
        name = ""
        for line in attributes.partition("\n\n")[0].splitlines():
            if found := _ATTRIBUTE.fullmatch(line.removeprefix("    ")):
                name = found[1]
                texts[name] = found[2]
            elif name:
                texts[name] += f" {line.strip()}"
    return texts
