"""What is sent: a Struct whose fields are the JSON that clients see, in camelCase.

The same definition makes the OpenAPI schema (`adapters/rest/schemas`), whose descriptions are the docstring's.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, cast

import msgspec

StructType = type[msgspec.Struct]


class SentStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that clients are sent.

    Attributes:
        unsent: Fields that are kept here and not sent.
        optional: Fields that are left out while they have their default; all others are always there.
        flattened: Fields whose own members are sent in their place.
        sent_types: What clients see of fields that make another type's JSON.
    """

    unsent: ClassVar[frozenset[str]] = frozenset()
    optional: ClassVar[frozenset[str]] = frozenset()
    flattened: ClassVar[frozenset[str]] = frozenset()
    sent_types: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """The JSON object that clients see.

        What other people wrote, such as a tool's schema or an event's data, is handed on as it is: whether it is
        JSON shows when it is encoded.
        """
        head, fields = _sent_fields(type(self))
        sent: dict[str, Any] = dict(head)
        for name, key, is_flat, is_optional, default in fields:
            value = getattr(self, name)
            if is_optional and value == default:
                continue
            if is_flat:
                sent |= value.to_json()
            else:
                sent[key] = _to_plain(value)
        return sent


SentField = tuple[str, str, bool, bool, Any]
"""A field's name, its name in JSON, whether it is flattened, whether it is optional, and its default."""


@cache
def _sent_fields(struct: type[SentStruct]) -> tuple[dict[str, str], list[SentField]]:
    """The tag that a Struct begins with, if it has one, and the fields that are sent."""
    config = struct.__struct_config__
    head = {config.tag_field: config.tag} if config.tag_field is not None else {}
    fields = [
        (field.name, field.encode_name, field.name in struct.flattened, field.name in struct.optional, _default(field))
        for field in msgspec.structs.fields(struct)
        if field.name not in struct.unsent
    ]
    return cast("dict[str, str]", head), fields


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _to_plain(value: Any) -> Any:
    match value:
        case SentStruct():
            return value.to_json()
        case bytes():
            return base64_text(value)
        case Mapping():
            return dict(cast("Mapping[Any, Any]", value))
        case tuple() | list():
            return [_to_plain(one) for one in cast("tuple[Any, ...]", value)]
        case _:
            return value


def base64_text(data: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(data).decode("ascii")
