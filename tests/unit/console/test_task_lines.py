"""Tasks as lines: within the width of a terminal, whatever stands in them."""

from __future__ import annotations

from typing import Any

import click
import pytest

from toolstead.console.cli.columns import fit_text, measure_text, pad_text
from toolstead.console.cli.task_lines import (
    MOST_LINES,
    name_state,
    render_duration,
    render_event,
    render_list,
    render_tree,
    shorten_lines,
)


def make_task(**given: Any) -> dict[str, Any]:
    usage = {"inputTokens": 1_000_000, "outputTokens": 234_567, "cost": 1.5}
    task = {"id": f"task_{'6' * 27}", "agent": "helper", "prompt": "do it", "outcome": None, "createdAt": 1000.0}
    return {**task, "attempt": 1, "maxAttempts": 5, "usage": usage, "children": [], **given}


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("two\n\tlines ", 20, "two lines"),
        ("調査して", 8, "調査して"),
        ("調査して", 7, "調査し…"),
        ("調査して", 6, "調査…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
        ("\x1b]0;x", 20, "\\u{1b}]0;x"),
        ("\x1b\x1b", 8, "\\u{1b}\\…"),
        ("a" * 10_000_000, 4, "aaa…"),
        (" " * 10_000_000 + "a", 4, "…"),
        ("", 4, ""),
    ],
)
def test_a_text_is_one_visible_line_of_at_most_so_many_columns(text: str, most: int, shown: str) -> None:
    assert fit_text(text, most) == shown
    assert measure_text(shown) <= most
    assert measure_text(pad_text(shown, most + 2)) == most + 2


def test_a_list_keeps_to_the_width_and_shows_states_as_words() -> None:
    agents = ["helper", "調査する人の長い名前の代理人", "main/task_1/a-spawned-agent-with-a-name"]
    outcomes = ["completed_unverified", "cancelled", None]
    tasks = [
        make_task(agent=agent, outcome=outcome, prompt="調査してください " * 20)
        for agent, outcome in zip(agents, outcomes, strict=True)
    ]
    head, *lines = render_list(tasks, now=1000.0 + 3 * 86_400, width=80)
    assert click.unstyle(head).split() == ["ID", "STATE", "AGENT", "AGE", "PROMPT"]
    assert [line.split()[1] for line in lines] == ["unverified", "cancelled", "running"]
    assert [line.split()[3] for line in lines] == ["3d"] * 3
    assert all(70 < measure_text(line) <= 80 for line in lines)
    *_, whole = render_list(tasks, now=1000.0 + 3 * 86_400, width=None)
    assert f"  {agents[-1]}  " in whole
    assert whole.endswith("  " + " ".join(["調査してください"] * 20))
    assert name_state(make_task(queuedAt=5.0)) == "queued"
    assert [render_duration(seconds) for seconds in (-1, 59.9, 60, 7199, 7200)] == ["0s", "59s", "1m", "1h", "2h"]


def test_a_deep_tree_leaves_out_the_word_before_it_leaves_the_width() -> None:
    tree = make_task()
    for _ in range(2):
        tree = make_task(children=[tree])
    flat = render_tree([tree], width=90)
    assert all("attempt 1/5  1,234,567 tokens" in line for line in flat)
    narrow = render_tree([tree], width=80)
    assert [len(line) - len(line.lstrip()) for line in narrow] == [0, 2, 4]
    assert all("  1/5  1,234,567 tokens" in line and measure_text(line) <= 80 for line in narrow)
    assert all(line.endswith("  do it") for line in render_tree([tree], width=110))


def test_ids_are_cut_on_a_terminal_to_what_tells_them_apart_so_that_prompts_have_room() -> None:
    ids = [f"task_660888db87c06{digit * 14}" for digit in "123"]
    tasks = [make_task(id=one, prompt="write the page of the gates") for one in ids]
    for lines in (render_tree(tasks, width=80), render_list(tasks, now=2000.0, width=80)[1:]):
        assert [line.split()[0] for line in lines] == [f"660888db87c06{digit}" for digit in "123"]
        assert all("write the page" in line for line in lines)
    assert [line.split()[0] for line in render_tree(tasks, width=None)] == ids


def test_every_event_of_a_task_is_said_in_words() -> None:
    usage = {"inputTokens": 1000, "outputTokens": 234, "cost": 0.0}
    events = [
        ("task.created", {"prompt": "look"}, "created for helper: look"),
        ("task.created", {"prompt": "look", "position": 2}, "created for helper, waits at place 2: look"),
        ("task.checkin", {"message": "half"}, "helper checks in: half"),
        ("task.evaluated", {"number": 1, "accepted": False, "feedback": "no tests"}, "attempt 1 rejected: no tests"),
        ("task.evaluated", {"number": 2, "accepted": None, "feedback": ""}, "attempt 2 not decided"),
        ("task.completed", {"outcome": "completed", "usage": usage}, "completed, 1,234 tokens"),
        (
            "task.failed",
            {"outcome": "timeout", "usage": usage, "error": {"message": "too slow"}},
            "timeout, 1,234 tokens: too slow",
        ),
    ]
    for kind, data, said in events:
        assert render_event({"type": kind, "data": {"agent": "helper", **data}}) == said


def test_much_output_of_a_gate_is_shown_by_its_first_and_last_lines() -> None:
    whole = "\n".join(["one " * 30, "", *(f"line {number}" for number in range(100)), "y" * 1_000_000, "the end"])
    lines = shorten_lines(whole, 60).splitlines()
    assert lines[2] == ""
    assert lines[-1] == "the end"
    assert len(lines) == MOST_LINES + 1
    assert any("lines more: --json" in line for line in lines)
    assert max(map(len, lines)) <= 60
    assert shorten_lines("short\n\ntext", 60) == "short\n\ntext"
