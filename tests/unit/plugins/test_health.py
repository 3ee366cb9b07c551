"""A plugin's health: what is wrong with it, hook by hook, and when a hook is cut off."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF, Health


def healthy() -> tuple[Health, list[tuple[str, str | None]]]:
    told: list[tuple[str, str | None]] = []
    return Health("p", lambda health: told.append((health.state, health.error))), told


def test_a_new_one_is_loaded_and_nothing_is_wrong() -> None:
    health, told = healthy()
    assert (health.plugin, health.state, health.error, told) == ("p", "loaded", None, [])


def test_a_failing_hook_degrades_the_plugin_and_is_named_with_its_count() -> None:
    health, told = healthy()
    health.set_state("running")
    health.failed_hook("on_message", "ValueError: boom")
    health.failed_hook("on_message", "ValueError: boom")
    assert told == [
        ("running", None),
        ("degraded", "on_message: ValueError: boom"),
        ("degraded", "on_message: ValueError: boom (2 in a row)"),
    ]


def test_a_success_resets_the_count_of_that_hook_alone() -> None:
    health, told = healthy()
    health.set_state("running")
    health.failed_hook("a", "x")
    health.failed_hook("b", "y")
    health.succeeded_hook("a")
    assert (health.state, health.error) == ("degraded", "b: y")
    health.succeeded_hook("b")
    assert told[-1] == ("running", None)
    health.failed_hook("a", "x")
    assert health.error == "a: x"


def test_a_hook_is_cut_off_after_five_failures_in_a_row_and_stays_so() -> None:
    health, told = healthy()
    health.set_state("running")
    for number in range(FAILURES_UNTIL_CUT_OFF):
        assert not health.is_cut_off("a")
        health.failed_hook("a", f"x{number}")
    assert health.is_cut_off("a")
    assert not health.is_cut_off("b")
    assert health.error == "a: x4 (5 in a row: cut off until the plugin is enabled again)"
    count = len(told)
    health.failed_hook("a", "late")
    health.succeeded_hook("a")
    assert health.is_cut_off("a")
    assert len(told) == count


def test_the_plugins_own_word_stands_beside_its_hooks() -> None:
    health, told = healthy()
    health.set_state("running")
    health.report_status("degraded", "no network")
    health.failed_hook("a", "x")
    assert (health.state, health.error) == ("degraded", "a: x; no network")
    health.report_status("running")
    assert health.error == "a: x"
    health.succeeded_hook("a")
    assert told[-1] == ("running", None)
    health.report_status("degraded")
    assert health.error == "reported by the plugin, without a reason"


def test_a_status_that_is_none_is_refused() -> None:
    health, told = healthy()
    nonsense: Any = "broken"
    with pytest.raises(ValueError, match="plugin 'p': a plugin reports 'running' or 'degraded', not 'broken'"):
        health.report_status(nonsense, "x")
    assert told == []


def test_a_failed_or_disabled_plugin_stays_so_whatever_its_hooks_do() -> None:
    health, _ = healthy()
    health.set_state("failed", "start: OSError: no")
    health.failed_hook("a", "x")
    assert (health.state, health.error) == ("failed", "start: OSError: no; a: x")
    health.set_state("disabled")
    health.failed_hook("b", "y")
    assert (health.state, health.error) == ("disabled", None)


def test_nothing_is_told_when_nothing_changed() -> None:
    health, told = healthy()
    health.set_state("running")
    health.set_state("running")
    health.succeeded_hook("a")
    health.report_status("running", "all well")
    assert told == [("running", None)]
