"""Structs as rows of a table, and back: columns are found by the names of the Struct's fields.

    field of the Struct       columns                                    in the database
    text, number, Literal     one, of the field's name                   as it is; text without what it cannot hold
    mapping                   one, of the field's name                   JSON text
    another Struct            its own fields, flattened                  input_tokens, output_tokens, cost
    another Struct, or None   its own fields behind the field's name     error_code, error_message; all NULL for None

What a field needs is found out once, when `StructRows` is made. The order of columns is that of the fields, in
statements and rows alike; nobody writes it down. The table may hold columns that no field has, such as `n`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar, cast

import msgspec
import msgspec.inspect
from sqlalchemy import BigInteger, Boolean, Column, Double, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from toolstead.errors import NotFoundError
from toolstead.types.content import whole_json, whole_text
from toolstead.types.sent import get_fields

Values = tuple[Any, ...]
"""Values in the order of a statement's parameters."""

StructT = TypeVar("StructT", bound=msgspec.Struct)

_STEPS = (1, 8, 64, 512)

_IDENTIFIERS = frozenset({"id", "thread_id", "run_id", "task_id", "key"})
"""Stored as they are, since rows are found by them: one that a database cannot hold is refused."""


def _encode_mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"what is stored must be JSON, and {type(value).__name__} is not")


_encoder = msgspec.json.Encoder(enc_hook=_encode_mapping)
from_json = msgspec.json.Decoder().decode


def storable_text(text: str) -> str:
    """The text, with U+FFFD for what a database cannot hold: NUL, and halves of surrogate pairs."""
    return whole_text(text.replace("\0", "\ufffd") if "\0" in text else text)


def to_json(data: Mapping[str, Any]) -> str:
    """A JSON column's text.

    Raises:
        TypeError: Something in it is not JSON.
    """
    try:
        return _encoder.encode(data).decode()
    except UnicodeEncodeError:
        return _encoder.encode(whole_json(data, storable_text)).decode()


def event_id(n: int) -> str:
    """An event's id: padded, so that ids sort as text."""
    return str(n).zfill(16)


def event_number(id: str) -> int:
    """The number behind an event's id.

    Raises:
        NotFoundError: No event ever had this id.
    """
    if not (id.isascii() and id.isdigit() and 16 <= len(id) <= 18):
        raise NotFoundError("event", id)
    return int(id)


def pad_list(wanted: Collection[Any]) -> dict[str, list[Any]]:
    """The list, filled up with its last value to one of a few lengths: few lengths are few statements to prepare."""
    values = list(wanted)
    length = next((step for step in _STEPS if step >= len(values)), len(values))
    return {"given": values + values[-1:] * (length - len(values))}


class StructColumn:
    """One column of a Struct's table.

    Attributes:
        field: The Struct's field that it holds.
        inner: What it holds of that field, when the field is a Struct itself.
    """

    __slots__ = ("decode", "encode", "field", "inner", "name", "nullable", "type")

    def __init__(self, name: str, kind: msgspec.inspect.Type, *, nullable: bool, field: str, inner: str = "") -> None:
        kind, own_nullable = _split_optional(kind)
        self.name = name
        self.field = field
        self.inner = inner
        self.nullable = nullable or own_nullable
        self.type: type[TypeEngine[Any]] = _COLUMN_TYPES[type(kind)]
        self.encode: Callable[[Any], Any] | None = None
        self.decode: Callable[[Any], Any] | None = None
        if isinstance(kind, msgspec.inspect.DictType):
            self.encode, self.decode = to_json, from_json
        elif isinstance(kind, msgspec.inspect.StrType) and self.name not in _IDENTIFIERS:
            self.encode = storable_text


class ColumnEncoder:
    """Takes the values of columns from a Struct: those of nested Structs last."""

    def __init__(self, columns: Sequence[StructColumn]) -> None:
        self.columns = sorted(columns, key=lambda one: one.inner != "")  # sorting keeps the order of the others
        # One visit for all fields, and then only what needs more: it runs for every row.
        self._get_plain = get_fields([one.field for one in self.columns if not one.inner])
        inner = {field: list(own) for field, own in groupby(self.columns, lambda one: one.inner and one.field) if field}
        self._get_nested = [
            (field, get_fields([one.inner for one in own]), (None,) * len(own)) for field, own in inner.items()
        ]
        self._encoders = [(index, one.encode) for index, one in enumerate(self.columns) if one.encode is not None]

    def encode_row(self, value: object) -> list[Any]:
        """The values, in the order of the columns."""
        row = list(self._get_plain(value))
        for field, get, absent in self._get_nested:
            held = getattr(value, field)
            row += absent if held is None else get(held)
        for index, encode in self._encoders:
            if row[index] is not None:
                row[index] = encode(row[index])
        return row


class StructRows(Generic[StructT]):
    """A Struct and the table of its rows.

    Attributes:
        table: Its columns are the keys, which the Struct does not have, then those of the Struct.
        names: The names of the table's columns.
    """

    def __init__(self, name: str, struct: type[StructT], metadata: MetaData, *keys: Column[Any]) -> None:
        self._struct = struct
        self._nested: dict[str, tuple[type[msgspec.Struct], dict[str, str]]] = {}
        columns: list[StructColumn] = []
        for field in cast("msgspec.inspect.StructType", msgspec.inspect.type_info(struct)).fields:
            kind, nullable = _split_optional(field.type)
            if isinstance(kind, msgspec.inspect.StructType):
                prefix = f"{field.name}_" if nullable else ""
                names = {one.name: prefix + one.name for one in kind.fields}
                self._nested[field.name] = (kind.cls, names)
                columns += [
                    StructColumn(names[one.name], one.type, nullable=nullable, field=field.name, inner=one.name)
                    for one in kind.fields
                ]
            else:
                columns.append(StructColumn(field.name, kind, nullable=nullable, field=field.name))
        self._encoder = ColumnEncoder(columns)
        self.columns = self._encoder.columns
        own = [Column(one.name, one.type, nullable=one.nullable) for one in self.columns]
        self.table = Table(name, metadata, *keys, *own)
        self.names = tuple(self.table.columns.keys())
        self._keys = tuple(key.name for key in keys)
        self._decoders = [(one.name, one.decode) for one in self.columns if one.decode is not None]

    def encode_row(self, value: StructT) -> Values:
        """The Struct's columns."""
        return tuple(self._encoder.encode_row(value))

    def encode_values(self, value: StructT) -> dict[str, Any]:
        """The Struct's columns by name."""
        return {column.name: held for column, held in zip(self.columns, self._encoder.encode_row(value), strict=True)}

    def decode_row(self, row: Iterable[Any]) -> StructT:
        """The Struct of a whole row of the table."""
        return self._struct(**self.decode_fields(row))

    def decode_fields(self, row: Iterable[Any]) -> dict[str, Any]:
        """The Struct's fields, from a whole row of the table."""
        fields: dict[str, Any] = dict(zip(self.names, row, strict=True))
        for key in self._keys:
            del fields[key]
        for name, decode in self._decoders:
            if fields[name] is not None:
                fields[name] = decode(fields[name])
        for name, (struct, columns) in self._nested.items():
            inner = {field: fields.pop(column) for field, column in columns.items()}
            fields[name] = struct(**inner) if any(one is not None for one in inner.values()) else None
        return fields


class StructChange(Generic[StructT]):
    """Some fields of a Struct that are set together in the row of an id; None leaves a field as it was."""

    def __init__(self, rows: StructRows[StructT], fields: Collection[str]) -> None:
        self.table = rows.table
        self._encoder = ColumnEncoder([one for one in rows.columns if one.field in fields])
        self.names = tuple(one.name for one in self._encoder.columns)

    def encode_row(self, values: object, id: str) -> Values:
        """The values of the fields, from anything that has them, and the row's id."""
        return (*self._encoder.encode_row(values), id)

    def encode_values(self, values: object) -> dict[str, Any]:
        """What changes, by column name."""
        encoded = zip(self.names, self._encoder.encode_row(values), strict=True)
        return {name: value for name, value in encoded if value is not None}


def _split_optional(kind: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, bool]:
    """A field's type without None, and whether it may be None."""
    if not isinstance(kind, msgspec.inspect.UnionType):
        return kind, False
    others = [one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)]
    if len(others) != 1:
        raise TypeError(f"{kind} cannot be a column: it must be one type, or None")
    return others[0], True


_COLUMN_TYPES: dict[type[msgspec.inspect.Type], type[TypeEngine[Any]]] = {
    msgspec.inspect.StrType: Text,
    msgspec.inspect.LiteralType: Text,
    msgspec.inspect.DictType: Text,
    msgspec.inspect.IntType: BigInteger,
    msgspec.inspect.FloatType: Double,
    msgspec.inspect.BoolType: Boolean,
}
