"""Structs as rows of a table, and back: columns are found by the names of the Struct's fields.

    field of the Struct       columns                                    in the database
    text, number, Literal     one, of the field's name                   as it is; text without what it cannot hold
    mapping                   one, of the field's name                   JSON text
    another Struct            its own fields, flattened                  input_tokens, output_tokens, cost
    another Struct, or None   its own fields behind the field's name     error_code, error_message; all NULL for None

What a field needs is found out once, when `StructRows` is made. The order of columns is that of the fields, in
statements and rows alike; it is written down nowhere. The table may hold columns that no field has, such as `n`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar, cast

import msgspec
import msgspec.inspect
from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, MetaData, Table, Text
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
    return {"given": values + values[-1:] * (round_up(len(values)) - len(values))}


def round_up(number: int) -> int:
    """The next of a few numbers."""
    return next((step for step in _STEPS if step >= number), number)


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
        self.type, self.encode, self.decode = _COLUMN_TYPES[type(kind)]
        if name in _IDENTIFIERS:
            self.encode = None


class ColumnEncoder:
    """Takes the values of columns from a Struct: those of nested Structs last.

    Attributes:
        columns: The columns, in the order of the values.
    """

    def __init__(self, columns: Sequence[StructColumn]) -> None:
        self.columns = sorted(columns, key=lambda one: one.inner != "")  # sorting keeps the order of the others
        # One visit for all fields, and then only what needs more: it runs for every row.
        self._get_plain = get_fields([one.field for one in self.columns if not one.inner])
        inner = {field: list(own) for field, own in groupby(self.columns, lambda one: one.inner and one.field) if field}
        self._get_nested = [
            (field, get_fields([one.inner for one in own]), (None,) * len(own)) for field, own in inner.items()
        ]
        self._encoders = [(index, one.encode) for index, one in enumerate(self.columns) if one.encode is not None]

    def encode_row(self, value: object) -> Values:
        """The values of a Struct, or of anything that has the fields, in the order of the columns."""
        row = list(self._get_plain(value))
        for field, get, absent in self._get_nested:
            held = getattr(value, field)
            row += absent if held is None else get(held)
        for index, encode in self._encoders:
            if row[index] is not None:
                row[index] = encode(row[index])
        return tuple(row)

    def encode_values(self, value: object) -> dict[str, Any]:
        """The values by column name, without those that are None."""
        encoded = zip(self.columns, self.encode_row(value), strict=True)
        return {column.name: held for column, held in encoded if held is not None}


class StructRows(ColumnEncoder, Generic[StructT]):
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
        super().__init__(columns)
        own = [Column(one.name, one.type, nullable=one.nullable) for one in self.columns]
        self.table = Table(name, metadata, *keys, *own)
        self.names = tuple(self.table.columns.keys())
        self._keys = tuple(key.name for key in keys)
        self._decoders = [(one.name, one.decode) for one in self.columns if one.decode is not None]

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


class StructChange(ColumnEncoder):
    """Some fields of a Struct that are set together in one row.

    Attributes:
        key: The column that names the row.
        clears: Whether None is written too; else it leaves a field as it was.
    """

    def __init__(
        self, rows: StructRows[Any], fields: Collection[str], *, key: str = "id", clears: bool = False
    ) -> None:
        super().__init__([one for one in rows.columns if one.field in fields])
        self.table = rows.table
        self.key = key
        self.clears = clears

    def encode_change(self, value: object) -> Values:
        """The values of a Struct that has the key itself, and the key."""
        return (*self.encode_row(value), getattr(value, self.key))


def _split_optional(kind: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, bool]:
    """A field's type without None, and whether it may be None."""
    if not isinstance(kind, msgspec.inspect.UnionType):
        return kind, False
    others = [one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)]
    if len(others) != 1:
        raise TypeError(f"{kind} cannot be a column: it must be one type, or None")
    return others[0], True


_Codec = Callable[[Any], Any]
_COLUMN_TYPES: dict[type[msgspec.inspect.Type], tuple[type[TypeEngine[Any]], _Codec | None, _Codec | None]] = {
    msgspec.inspect.StrType: (Text, storable_text, None),
    msgspec.inspect.LiteralType: (Text, None, None),
    msgspec.inspect.DictType: (Text, to_json, from_json),
    msgspec.inspect.IntType: (BigInteger, None, None),
    msgspec.inspect.FloatType: (Double, None, None),
    msgspec.inspect.BoolType: (Boolean, None, None),
    msgspec.inspect.BytesType: (LargeBinary, None, bytes),
}
"""A field's type → its column's, and how values are encoded and decoded."""
