"""Ids in the order they were made, and sessions' ids that mean something to their own runtime only."""

from __future__ import annotations

import pytest

from toolstead.orchestrator.ids import Ids, format_session_id, parse_session_id


def test_later_ids_of_a_process_sort_after_earlier_ones_and_no_two_are_equal() -> None:
    ids, others = Ids(), Ids()
    made = [ids.new_id("run") for _ in range(5_000)]
    assert made == sorted(set(made))
    assert not set(made) & {others.new_id("run") for _ in range(100)}


@pytest.mark.parametrize(
    ("kept", "runtime", "found"),
    [
        (format_session_id("scripted", "abc"), "scripted", "abc"),
        (format_session_id("claude", "a:b"), "claude", "a:b"),
        (format_session_id("claude", "abc"), "scripted", None),
        (format_session_id("claude", None), "claude", None),
        (None, "scripted", None),
        ("abc", "scripted", None),
        ("scripted:", "scripted", None),
    ],
)
def test_a_kept_session_is_found_by_its_own_runtime_alone(kept: str | None, runtime: str, found: str | None) -> None:
    assert parse_session_id(kept, runtime) == found
