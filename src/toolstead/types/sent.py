"""What is sent: a Struct whose fields are the JSON that clients see, in camelCase.

The same definition makes the OpenAPI schema (`adapters/rest/schemas`), whose descriptions are the docstring's.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, cast, get_args, get_origin

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

        Third-party data, such as a tool's schema or an event's data, is passed on unchanged: encoding finds out
        whether it is JSON.
        """
        plan = _plan_of(type(self))
        sent = dict(zip(plan.keys, plan.get_values(self), strict=True))
        for key, default in plan.optional:
            if sent[key] == default:
                del sent[key]
        for key in plan.converted:
            if key in sent:
                sent[key] = _to_plain(sent[key])
        for key in plan.flattened:
            sent |= sent.pop(key)
        return plan.tag | sent if plan.tag else sent


class SentPlan:
    """How a Struct becomes JSON, found out once: most fields are taken as they are, all in one step."""

    __slots__ = ("converted", "flattened", "get_values", "keys", "optional", "tag")

    def __init__(self, struct: type[SentStruct]) -> None:
        config = struct.__struct_config__
        fields = [field for field in msgspec.structs.fields(struct) if field.name not in struct.unsent]
        fields.sort(key=lambda field: field.name != "id")  # it comes first, also where a Struct extends one without
        self.tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        self.keys = [field.encode_name for field in fields]
        self.get_values = get_fields([field.name for field in fields])
        self.optional = [(field.encode_name, _default(field)) for field in fields if field.name in struct.optional]
        self.converted = [field.encode_name for field in fields if not _is_plain(field.type)]
        self.flattened = [field.encode_name for field in fields if field.name in struct.flattened]


_plan_of = cache(SentPlan)


def get_fields(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """A function that returns the values of these fields, all in one step."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _is_plain(kind: Any) -> bool:
    """Whether values of a type are JSON as they are: texts, numbers, and None."""
    if get_origin(kind) in (Annotated, Literal):
        return get_origin(kind) is Literal or _is_plain(get_args(kind)[0])
    return kind in _PLAIN or (bool(get_args(kind)) and all(map(_is_plain, get_args(kind))))


_PLAIN = frozenset({str, float, int, bool, type(None)})


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _to_plain(value: Any) -> Any:
    if isinstance(value, SentStruct):
        return value.to_json()
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).copy()
    if isinstance(value, tuple | list):
        return [one if type(one) is str else _to_plain(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, bytes):
        return base64_text(value)
    return dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else value


def base64_text(data: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(data).decode("ascii")
