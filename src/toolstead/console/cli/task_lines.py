"""Tasks as lines of text, for lists, trees and whoever follows them. Tasks are JSON here, as the client gives them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import fit_text, measure_text, pad_text
from toolstead.console.cli.thread_choice import shorten_id

Row = Sequence[str]

KIND = "task_"
"""What our own ids of tasks begin with; it may be left out."""

WIDEST_AGENT = 16
ROOM_FOR_PROMPT = 10
MOST_LINES = 12
MOST_WRAPPED = 20_000
_SHORT_STATES = {"completed_unverified": "unverified"}


def name_state(task: Mapping[str, Any]) -> str:
    """How a task ended or how far it is, in one word."""
    outcome: str | None = task["outcome"]
    if outcome is not None:
        return _SHORT_STATES.get(outcome, outcome)
    return "queued" if task.get("queuedAt") is not None else "running"


def render_duration(seconds: float) -> str:
    """A time as the largest unit alone: `5m`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def render_list(tasks: Sequence[Mapping[str, Any]], *, now: float, width: int | None) -> list[str]:
    """A line for each task below one of titles: id, state, agent, age, and the beginning of its prompt.

    An id is cut to what the other commands need of it. Without a width, as in a pipe, nothing is cut.
    """
    ids = [task["id"] for task in tasks]
    rows = [
        (
            _fit_id(task["id"], ids, width),
            name_state(task),
            _fit_agent(task["agent"], width),
            render_duration(now - task["createdAt"]),
        )
        for task in tasks
    ]
    aligned = _align_rows([("ID", "STATE", "AGENT", "AGE"), *rows])
    head, *lines = _add_prompts(aligned, ["PROMPT", *(task["prompt"] for task in tasks)], width)
    return [paint_text(head, "dim"), *lines]


def render_tree(nodes: Sequence[Mapping[str, Any]], *, width: int | None) -> list[str]:
    """One line for each task of a tree, those below it two spaces to the right."""
    found = [one for node in nodes for one in _walk_tree(node, 0)]
    ids = [task["id"] for _, task in found]
    for attempt in ("attempt ", ""):  # the word only where it fits
        rows = [
            (
                f"{'  ' * level}{_fit_id(task['id'], ids, width)}",
                name_state(task),
                _fit_agent(task["agent"], width),
                f"{attempt}{task['attempt']}/{task['maxAttempts']}",
                f"{count_tokens(task):,} tokens",
            )
            for level, task in found
        ]
        lines = _align_rows(rows)
        if width is None or all(measure_text(line.rstrip()) <= width for line in lines):
            break
    return _add_prompts(lines, [task["prompt"] for _, task in found], width)


def render_event(event: Mapping[str, Any]) -> str:
    """What an event says about its task."""
    data: Mapping[str, Any] = event["data"]
    agent = data["agent"]
    match event["type"]:
        case "task.created":
            waits = f", waits at place {data['position']}" if "position" in data else ""
            return f"created for {agent}{waits}: {data['prompt']}"
        case "task.checkin":
            return f"{agent} checks in: {data['message']}"
        case "task.evaluated":
            return f"attempt {data['number']} {describe_verdict(data)}"
        case _:
            used = f"{count_tokens(data):,} tokens"
            why = f": {data['error']['message']}" if "error" in data else ""
            return f"{data['outcome']}, {used}{why}"


def describe_verdict(attempt: Mapping[str, Any]) -> str:
    """What reviewers decided on an attempt, and what they said."""
    verdict = {True: "accepted", False: "rejected", None: "not decided"}[attempt["accepted"]]
    return f"{verdict}: {attempt['feedback']}" if attempt["feedback"] else verdict


def shorten_lines(text: str, width: int | None) -> str:
    """A text of as many lines as can be looked over, each as wide as the terminal; the first and the last ones.

    Without a width, as in a pipe, all of it.
    """
    if width is None:
        return text
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line[:MOST_WRAPPED], width) or [""]]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"[{len(lines) - 2 * half:,} lines more: --json]", *lines[-half:]]
    return "\n".join(lines)


def count_tokens(task: Mapping[str, Any]) -> int:
    """The tokens that a task used."""
    return task["usage"]["inputTokens"] + task["usage"]["outputTokens"]


def _fit_id(id: str, others: Sequence[str], width: int | None) -> str:
    return id if width is None else shorten_id(id, others, KIND)


def _walk_tree(task: Mapping[str, Any], level: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield level, task
    for child in task["children"]:
        yield from _walk_tree(child, level + 1)


def _align_rows(rows: Sequence[Row]) -> list[str]:
    """Each row as a line, its cells below those of the others."""
    widths = [max(map(measure_text, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(pad_text(cell, width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _fit_agent(agent: str, width: int | None) -> str:
    return fit_text(agent, None if width is None else WIDEST_AGENT)


def _add_prompts(lines: Sequence[str], prompts: Sequence[str], width: int | None) -> list[str]:
    """The lines with as much of the prompts as fits; without them where that is next to nothing."""
    room = None if width is None else width - max(map(measure_text, lines), default=0) - 2
    if room is not None and room < ROOM_FOR_PROMPT:
        return [line.rstrip() for line in lines]
    return [f"{line}  {fit_text(prompt, room)}" for line, prompt in zip(lines, prompts, strict=True)]
