"""Ids in the order they were made, and sessions' ids that mean something to their own runtime only."""

from __future__ import annotations

import pytest

from toolstead.orchestrator.ids import Ids, kept_id, resumable


def test_later_ids_of_a_process_sort_after_earlier_ones_and_no_two_are_equal() -> None:
    ids, others = Ids(), Ids()
    made = [ids.new("run") for _ in range(5_000)]
    assert made == sorted(set(made))
    assert not set(made) & {others.new("run") for _ in range(100)}


@pytest.mark.parametrize(
    ("kept", "runtime", "found"),
    [
        (kept_id("scripted", "abc"), "scripted", "abc"),
        (kept_id("claude", "a:b"), "claude", "a:b"),
        (kept_id("claude", "abc"), "scripted", None),
        (kept_id("claude", None), "claude", None),
        (None, "scripted", None),
        ("abc", "scripted", None),
        ("scripted:", "scripted", None),
    ],
)
def test_a_kept_session_is_found_by_its_own_runtime_alone(kept: str | None, runtime: str, found: str | None) -> None:
    assert resumable(kept, runtime) == found
