"""One function makes the key, another the fingerprint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.invoker.bench import SPEC
from toolstead.invoker.lease import session_key
from toolstead.invoker.runtime import fingerprint


@pytest.mark.promise("S3")
@pytest.mark.parametrize(
    ("thread", "session", "key"),
    [("t", "s", "t"), ("t", None, "t"), (None, "s", "s"), ("", "s", "s"), (None, None, "default"), ("", "", "default")],
)
def test_the_key_is_the_thread_else_the_session_else_default(thread: str, session: str, key: str) -> None:
    assert session_key(thread, session) == key


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "other"},
        {"model": "n"},
        {"cwd": Path("/elsewhere")},
        {"tools": ("a",)},
        {"instructions": "Be kind."},
        {"permissions": ("Read",)},
    ],
)
def test_everything_a_session_is_built_with_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert fingerprint(replace(SPEC, **change)) != fingerprint(SPEC)


def test_the_order_of_tools_and_permissions_means_nothing() -> None:
    one = replace(SPEC, tools=("a", "b"), permissions=("x", "y"))
    other = replace(SPEC, tools=("b", "a", "a"), permissions=("y", "x"))
    assert fingerprint(one) == fingerprint(other)


def test_a_name_moved_from_one_field_to_another_is_another_fingerprint() -> None:
    assert fingerprint(replace(SPEC, agent="ab", model="c")) != fingerprint(replace(SPEC, agent="a", model="bc"))
    one = replace(SPEC, tools=("x",), permissions=())
    assert fingerprint(one) != fingerprint(replace(SPEC, tools=(), permissions=("x",)))
