"""A plugin's settings: three kinds of classes, and what is said of a table that does not fit."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from toolstead.errors import PluginError
from toolstead.plugins.contract import Plugin
from toolstead.plugins.settings import check_settings_class, read_settings

SECRET = "hunter2-hunter2"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Inner:
    host: str = "localhost"
    port: int = 1


@dataclass(frozen=True, kw_only=True)
class Data:
    name: str = "x"
    count: int = 1
    ratio: float = 0.5
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.RED
    folder: Path = Path()
    token: str = ""
    inner: Inner = field(default_factory=Inner)
    many: list[Inner] = field(default_factory=list[Inner])
    named: dict[str, Inner] = field(default_factory=dict[str, Inner])
    maybe: Inner | None = None

    def __post_init__(self) -> None:
        if self.token.startswith("hunter") or self.count == 13131313:
            raise ValueError(f"the token {self.token!r} of {self.count} is no good")


class InnerStruct(msgspec.Struct, kw_only=True):
    host: str = "localhost"
    port: int = 1


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = "x"
    big_count: Annotated[int, msgspec.Meta(ge=1)] = 1
    inner: InnerStruct = msgspec.field(default_factory=InnerStruct)


class InnerModel(pydantic.BaseModel):
    host: str = "localhost"
    port: int = 1


class Model(pydantic.BaseModel):
    name: str = "x"
    count: int = pydantic.Field(default=1, ge=0)
    token: str = ""
    other: int = pydantic.Field(default=1, alias="theOther")
    inner: InnerModel = InnerModel()

    @pydantic.field_validator("token")
    @classmethod
    def _checked(cls, value: str) -> str:
        if value.startswith("hunter"):
            raise ValueError(f"{value} is no token")
        return value


class Open(pydantic.BaseModel, extra="allow"):
    name: str = "x"


@pydantic.dataclasses.dataclass
class ModelData:
    count: int = 1


def of(kind: type | None) -> Plugin:
    return Plugin(name="shouty", settings=kind)


@pytest.mark.parametrize("kind", [Data, Struct, Model, Open, ModelData, None])
def test_nothing_needs_to_be_set(kind: type | None) -> None:
    check_settings_class(of(kind))
    assert read_settings(of(kind), {}) == (kind() if kind else {})


def test_a_dataclass_is_filled() -> None:
    table = {"count": 3, "ratio": 1, "mode": "slow", "colour": "blue", "folder": "~/x", "inner": {"port": 9}}
    read = read_settings(
        of(Data), {**table, "many": [{"host": "a"}], "named": {"b": {"port": 2}}, "maybe": {"port": 3}}
    )
    assert read == Data(
        count=3,
        ratio=1.0,
        mode="slow",
        colour=Colour.BLUE,
        folder=Path("~/x"),
        inner=Inner(port=9),
        many=[Inner(host="a")],
        named={"b": Inner(port=2)},
        maybe=Inner(port=3),
    )
    assert type(read.ratio) is float


def test_a_struct_is_filled_by_the_names_it_gives_its_fields() -> None:
    assert read_settings(of(Struct), {"bigCount": 3, "inner": {"port": 2}}) == Struct(
        big_count=3, inner=InnerStruct(port=2)
    )


def test_a_model_is_filled_by_its_own_rules() -> None:
    read = read_settings(of(Model), {"count": "3", "theOther": 4, "inner": {"port": 2}})
    assert read == Model(count=3, theOther=4, inner=InnerModel(port=2))
    assert read_settings(of(ModelData), {"count": 2}) == ModelData(count=2)
    assert read_settings(of(Open), {"more": 2}).more == 2


def test_without_a_class_the_table_is_there_and_read_only() -> None:
    table = {"a": {"b": 1}}
    read = read_settings(of(None), table)
    table["a"]["b"] = 2
    assert read == {"a": {"b": 1}}
    with pytest.raises(TypeError):
        read["a"] = 3


@pytest.mark.parametrize(
    ("kind", "table", "said"),
    [
        (Data, {"count": "many"}, "count: it must be a whole number, not text"),
        (Data, {"count": True}, "count: it must be a whole number, not true or false"),
        (Data, {"mode": "brisk"}, "mode: one of 'fast', 'slow' is needed"),
        (Data, {"colour": "green"}, "colour: one of 'red', 'blue' is needed"),
        (Data, {"folder": 3}, "folder: it must be `Path`, not a whole number"),
        (Data, {"inner": {"port": "x"}}, "inner.port: it must be a whole number, not text"),
        (Data, {"inner": 3}, "inner: it must be a table, not a whole number"),
        (Data, {"many": [{}, {"port": "x"}]}, "many[1].port: it must be a whole number, not text"),
        (Data, {"cuont": 1}, "there is no setting 'cuont'; did you mean 'count'?"),
        (Data, {"zzz": 1}, "there is no setting 'zzz'; known here: name, count, ratio"),
        (Data, {"inner": {"prot": 1}}, "there is no setting 'inner.prot'; did you mean 'port'?"),
        (Data, {"many": [{"prot": 1}]}, "there is no setting 'many[0].prot'; did you mean 'port'?"),
        (Data, {"named": {"b": {"prot": 1}}}, "there is no setting 'named.b.prot'; did you mean 'port'?"),
        (Data, {"maybe": {"prot": 1}}, "there is no setting 'maybe.prot'; did you mean 'port'?"),
        (
            Data,
            {"cuont": 1, "count": "x"},
            "there is no setting 'cuont'; did you mean 'count'?; count: it must be a whole number",
        ),
        (Struct, {"bigCount": 0}, "bigCount: Expected `int` >= 1"),
        (Struct, {"big_count": 1}, "there is no setting 'big_count'; did you mean 'bigCount'?"),
        (Struct, {"inner": {"prot": 1}}, "there is no setting 'inner.prot'; did you mean 'port'?"),
        (Model, {"count": -1}, "count: Input should be greater than or equal to 0"),
        (Model, {"cuont": 1}, "there is no setting 'cuont'; did you mean 'count'?"),
        (Model, {"inner": {"prot": 1}}, "there is no setting 'inner.prot'; did you mean 'port'?"),
        (Model, {"inner": {"port": "x"}}, "inner.port: Input should be a valid integer"),
    ],
)
def test_what_does_not_fit_is_named(kind: type, table: dict[str, Any], said: str) -> None:
    with pytest.raises(PluginError) as caught:
        read_settings(of(kind), table)
    assert (caught.value.plugin, caught.value.field) == ("shouty", "settings")
    assert caught.value.reason.startswith(said)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (Data, {"token": SECRET}),
        (Data, {"token": 'hunter"2\n\\secret'}),
        (Data, {"count": SECRET}),
        (Data, {"count": 13131313}),
        (Data, {"mode": SECRET}),
        (Data, {"colour": SECRET}),
        (Data, {"inner": {"port": SECRET}}),
        (Data, {"many": [SECRET]}),
        (Struct, {"bigCount": SECRET}),
        (Model, {"token": SECRET}),
        (Model, {"token": 'hunter"2\n\\secret'}),
        (Model, {"count": SECRET}),
        (Model, {"inner": {"port": SECRET}}),
        (Model, {"inner": [SECRET]}),
    ],
)
def test_no_value_is_in_the_text_of_an_error_or_its_traceback(kind: type, table: dict[str, Any]) -> None:
    import traceback

    with pytest.raises(PluginError) as caught:
        read_settings(of(kind), table)
    text = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in (SECRET, "13131313", "\\secret") if secret in text]


def test_a_class_whose_code_leaves_ends_nothing() -> None:
    @dataclass
    class Leaving:
        volume: int = 1

        def __post_init__(self) -> None:
            if self.volume > 1:
                raise SystemExit(3)

    with pytest.raises(PluginError, match="SystemExit: 3"):
        read_settings(of(Leaving), {"volume": 2})
