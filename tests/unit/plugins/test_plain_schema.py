"""Schemas made by hand are the ones pydantic would have made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ConfigDict, Field, create_model

from toolstead.plugins.decorator import tool
from toolstead.plugins.tool_schema import input_schema, plain_schema


async def nothing() -> str: ...
async def texts(a: str, b: str = "x") -> str: ...
async def numbers(i: int, f: float, j: int = 3, g: float = 0.5) -> str: ...
async def switches(on: bool, off: bool = False) -> str: ...
async def lists(a: list[str], b: list[bool]) -> str: ...
async def by_name(*, a: str, b: int = 1) -> str: ...
async def whole_for_real(f: float = 1) -> str: ...


def theirs(function: Callable[..., Any], texts: dict[str, str]) -> dict[str, Any]:
    hints = inspect.get_annotations(function, eval_str=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default, description=texts.get(parameter.name)))
    return input_schema(create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields))


@pytest.mark.parametrize("function", [nothing, texts, numbers, switches, lists, by_name, whole_for_real])
def test_a_plain_signature_has_pydantics_schema(function: Callable[..., Any]) -> None:
    told = {"a": "The first.", "on": "A switch."}
    hints = inspect.get_annotations(function, eval_str=True)
    assert plain_schema(inspect.signature(function).parameters.values(), hints, told) == theirs(function, told)


async def optional(a: str | None = None) -> str: ...
async def none_for_text(a: str = None) -> str: ...  # noqa: RUF013 - people write it
async def untyped(a) -> str: ...
async def nested(a: list[int], b: dict[str, str]) -> str: ...
async def endless(f: float = float("inf")) -> str: ...
async def rest(*args: str) -> str: ...


@pytest.mark.parametrize("function", [optional, none_for_text, untyped, nested, endless, rest])
def test_what_is_not_plain_is_left_to_pydantic(function: Callable[..., Any]) -> None:
    hints = inspect.get_annotations(function, eval_str=True)
    assert plain_schema(inspect.signature(function).parameters.values(), hints, {}) is None


def test_the_decorator_uses_it() -> None:
    assert tool(name="t", description="T.")(texts).schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}},
        "required": ["a"],
        "additionalProperties": False,
    }
