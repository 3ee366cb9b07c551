"""Structs as rows: columns by the names of fields, nested Structs flattened, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest
from sqlalchemy import BigInteger, Column, MetaData

from toolstead.adapters.storage.rows import StructChange, StructRows


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """Two columns."""

    code: str
    count: int = 0


class Outer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every kind of field."""

    id: str
    first_text: str | None = None
    always: Inner = Inner(code="none")
    sometimes: Inner | None = None
    kind: Literal["a", "b"] = "a"
    data: Mapping[str, Any] | None = None
    is_good: bool = True
    time: float = 0.5


class Two(msgspec.Struct, frozen=True, kw_only=True):
    """What no column can hold."""

    value: str | int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Some fields of `Outer`, and one that it does not have."""

    kind: Literal["a", "b"] = "b"
    always: Inner | None = None
    sometimes: Inner | None = None
    other: str = "x"


@pytest.fixture
def rows() -> StructRows[Outer]:
    return StructRows("outer", Outer, MetaData(), Column("n", BigInteger, primary_key=True))


def test_columns_are_the_fields_and_those_of_nested_structs(rows: StructRows[Outer]) -> None:
    found = {column.name: (type(column.type).__name__, column.nullable) for column in rows.table.columns}
    assert found == {
        "n": ("BigInteger", False),
        "id": ("Text", False),
        "first_text": ("Text", True),
        "kind": ("Text", False),
        "data": ("Text", True),
        "is_good": ("Boolean", False),
        "time": ("Double", False),
        "code": ("Text", False),
        "count": ("BigInteger", False),
        "sometimes_code": ("Text", True),
        "sometimes_count": ("BigInteger", True),
    }


@pytest.mark.parametrize(
    "value",
    [
        Outer(id="1"),
        Outer(id="2", first_text="", sometimes=Inner(code="", count=0), data={}, is_good=False),
        Outer(id="3", first_text="é", always=Inner(code="x", count=2), kind="b", data={"a": [1, None]}, time=1e9),
    ],
)
def test_a_row_that_is_read_is_what_was_written(rows: StructRows[Outer], value: Outer) -> None:
    assert rows.decode_row((7, *rows.encode_row(value))) == value
    assert list(rows.encode_values(value).values()) == [one for one in rows.encode_row(value) if one is not None]


def test_texts_lose_what_no_database_holds_and_ids_do_not(rows: StructRows[Outer]) -> None:
    kept = rows.encode_values(Outer(id="a\0", first_text="b\0\ud800", sometimes=Inner(code="c\0")))
    assert (kept["id"], kept["first_text"], kept["sometimes_code"]) == ("a\0", "b\ufffd\ufffd", "c\ufffd")


def test_a_change_has_the_fields_that_both_have_and_leaves_out_what_is_none(rows: StructRows[Outer]) -> None:
    change = StructChange(rows, set(Change.__struct_fields__))
    assert [one.name for one in change.columns] == ["kind", "code", "count", "sometimes_code", "sometimes_count"]
    assert change.encode_row(Change()) == ("b", None, None, None, None)
    assert change.encode_values(Change(sometimes=Inner(code="x"))) == {
        "kind": "b",
        "sometimes_code": "x",
        "sometimes_count": 0,
    }


def test_a_field_that_no_column_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="must be one type, or None"):
        StructRows("two", Two, MetaData())
