"""What must hold in the database after the scenario of `crash_scenario`, whoever died in the middle of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.programs.crash_scenario import ASK, CHECKIN, DETACHED, NO_NETWORK, ORDERS, SIGNALS, THREAD, Rows
from toolstead.orchestrator.orchestrator import LAST_EVENTS

ATTEMPTS = {"A": 2, "B": 1, "C": 1, "D": 1, "E": 1}
ANSWERS = {"A": "RESULT-A final", "B": "RESULT-B with C", "C": "RESULT-C", "D": "RESULT-D with E", "E": "RESULT-E"}
INTERRUPTED = ("lost", "stopped")

Row = Mapping[str, Any]


def find_problems(rows: Rows, *, had_outage: bool = False) -> list[str]:
    """Everything that is wrong, as sentences.

    While the database is away, a reviewer's run may fail, and so may that of the user, who asks again.
    """
    named: dict[str, list[Row]] = {name: [] for name in ORDERS}
    for task in rows["tasks"]:
        named[task["prompt"][5]].append(task)
    problems = [f"{len(found)} tasks {name}" for name, found in named.items() if len(found) != 1]
    tasks = {name: found[0] for name, found in named.items() if found}
    outcomes = ("completed", "completed_unverified") if had_outage else ("completed",)
    problems += _check_outcomes(rows, tasks, outcomes)
    problems += _check_attempts(rows, tasks, is_strict=not had_outage)
    problems += _check_deliveries(rows, tasks)
    problems += _check_budgets(rows)
    problems += _check_runs(rows, had_outage=had_outage)
    problems += _check_messages(rows, tasks)
    return problems


def _check_outcomes(rows: Rows, tasks: Mapping[str, Row], outcomes: Sequence[str]) -> Iterator[str]:
    told = Counter((event["task_id"], event["type"]) for event in rows["events"])
    for name, task in tasks.items():
        if task["outcome"] not in outcomes:
            yield f"{name} ended as {task['outcome']}: {task['error_message']}"
        elif task["outcome"] == "completed" and task["summary"] != ANSWERS[name]:
            yield f"{name} has the result {task['summary']!r}"
        if task["owner"] is not None:
            yield f"{name} has ended, and {task['owner']} holds it"
        for kinds in (("task.created",), ("task.completed", "task.failed")):
            if (count := sum(told[task["id"], kind] for kind in kinds)) != 1:
                yield f"{name} has {count} events {' or '.join(kinds)}"


def _check_attempts(rows: Rows, tasks: Mapping[str, Row], *, is_strict: bool) -> Iterator[str]:
    """No turn was run again that had its answer: each attempt has one, and D another for the result of E."""
    reviewed = Counter(attempt["task_id"] for attempt in rows["task_attempts"])
    completed = Counter(
        (run["task_id"], run["attempt"], bool(run["prompt"])) for run in rows["runs"] if run["status"] == "completed"
    )
    for name, task in tasks.items():
        if is_strict and not reviewed[task["id"]] == task["attempt"] == ATTEMPTS[name]:
            yield f"{name} is at attempt {task['attempt']}, and has {reviewed[task['id']]} reviewed ones"
        for attempt in range(1, task["attempt"] + 1):
            if (count := completed[task["id"], attempt, True]) != 1:
                yield f"attempt {attempt} of {name} has {count} completed runs"
            further = completed[task["id"], attempt, False]
            if further > (1 if name == "D" else 0):
                yield f"attempt {attempt} of {name} has {further} further turns"


def _check_deliveries(rows: Rows, tasks: Mapping[str, Row]) -> Iterator[str]:
    """Exactly one stored turn holds each result."""
    runs = {run["id"]: run for run in rows["runs"]}
    for name, task in tasks.items():
        if task["delivered_at"] is None:
            yield f"the result of {name} was not delivered"
            continue
        holder = runs.get(task["taken_by"] or "")
        if holder is None or holder["status"] != "completed" or holder["thread_id"] != task["parent_thread_id"]:
            yield f"the result of {name} is held by {'no run' if holder is None else holder['status'] + ' run'}"
        head = f"[Task {task['id']},"
        telling = [one for one in rows["messages"] if one["kind"] == "result" and one["content"].startswith(head)]
        if len(telling) > 1 or (name in DETACHED and not telling):
            yield f"{len(telling)} messages have the result of {name}"
        for message in telling:
            if message["run_id"] != task["taken_by"] or message["thread_id"] != task["parent_thread_id"]:
                yield f"the result of {name} is told by another turn than the one that holds it"
        if name == "C" and not telling and not _has_tool_result(rows, task):
            yield "the turn that waited for C has no result of it"
    noted = [one["content"] for one in rows["messages"] if one["content"].startswith("noted ")]
    for name in (name for name, thread in DETACHED.items() if thread == THREAD):
        if (count := sum(name in content for content in noted)) != 1:
            yield f"{count} stored turns of the root have read {name}"


def _has_tool_result(rows: Rows, task: Row) -> bool:
    return any(
        event["type"] == "tool_result" and event["run_id"] == task["taken_by"] and task["id"] in str(event["data"])
        for event in rows["events"]
    )


def _check_budgets(rows: Rows) -> Iterator[str]:
    shares = {share["run_id"]: share for share in rows["tree_shares"]}
    runs = {run["id"]: run for run in rows["runs"]}
    if len(rows["tree_budgets"]) != 1:
        yield f"{len(rows['tree_budgets'])} trees have a budget"
    for tree in rows["tree_budgets"]:
        if tree["reserved_tokens"] or tree["reserved_cost"] or tree["in_flight"]:
            held = f"{tree['reserved_tokens']} tokens, ${tree['reserved_cost']}, {tree['in_flight']} requests"
            yield f"still reserved: {held}"
        own = [share for share in shares.values() if share["root_run_id"] == tree["root_run_id"]]
        if tree["spent_tokens"] != (used := sum(map(_sum_tokens, own))):
            yield f"{tree['spent_tokens']} tokens are spent, and the runs' shares have {used}"
        if abs(tree["spent_cost"] - sum(share["cost"] for share in own)) > 1e-9:
            yield f"${tree['spent_cost']} is spent, and the shares have another sum"
        for run in runs.values():
            if tree["root_run_id"] not in (run["root_run_id"], run["id"]) or run["status"] in INTERRUPTED:
                continue
            share = shares.get(run["id"])
            if _sum_tokens(run) != (0 if share is None else _sum_tokens(share)):
                yield f"run {run['id']} ({run['status']}) used {_sum_tokens(run)} tokens, its share has {share}"


def _sum_tokens(row: Row) -> int:
    return row["input_tokens"] + row["output_tokens"]


def _check_runs(rows: Rows, *, had_outage: bool) -> Iterator[str]:
    ends = Counter(event["run_id"] for event in rows["events"] if event["type"] in LAST_EVENTS)
    for run in rows["runs"]:
        if run["ended_at"] is None:
            yield f"run {run['id']} is {run['status']}"
        elif ends[run["id"]] != 1:
            yield f"run {run['id']} ({run['status']}) has {ends[run['id']]} last events"
        elif run["status"] in ("failed", "timeout") and not _may_fail(run, had_outage=had_outage):
            yield f"run {run['id']} {run['status']}: {run['error_message']}"
    for command in rows["run_commands"]:
        yield f"a command is left: {command['kind']} {command['run_id']}"


def _may_fail(run: Row, *, had_outage: bool) -> bool:
    """Whether it is no wonder: the database was away, or its process reached no reviewer any more."""
    return run["error_message"] == NO_NETWORK or (had_outage and run["error_code"] == "storage")


def _check_messages(rows: Rows, tasks: Mapping[str, Row]) -> Iterator[str]:
    """Nothing is in a thread twice; only the user may have asked again, for a run that was lost."""
    told = Counter((one["thread_id"], one["role"], one["kind"], one["content"]) for one in rows["messages"])
    asked = told.pop((THREAD, "user", "text", ASK), 0)
    lost = sum(run["prompt"] == ASK and run["status"] != "completed" for run in rows["runs"])
    if not 1 <= asked <= 1 + lost:
        yield f"the root was asked {asked} times"
    for (thread, role, kind, content), count in told.items():
        if count > 1:
            yield f"{count} times in thread {thread}: {role} {kind} {content!r}"
    threads = {THREAD: THREAD} | {name: task["thread_id"] for name, task in tasks.items()}
    wanted = [(THREAD, "checkin", CHECKIN), ("B", "signal", SIGNALS["C"]), ("D", "signal", SIGNALS["E"])]
    for thread, kind, content in wanted:
        found = [
            one
            for one in rows["messages"]
            if one["thread_id"] == threads.get(thread) and one["kind"] == kind and one["content"].endswith(content)
        ]
        if len(found) != 1:
            yield f"{len(found)} messages of kind {kind} in the thread of {thread}"
    for one in rows["messages"]:
        if one["role"] == "assistant" and ("twice" in one["content"] or "known" in one["content"]):
            yield f"an agent was not asked right: {one['content']!r}"


def describe_event(event: Row) -> str:
    """An event in a line, for the log of a round that went wrong."""
    data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"])
    return f"{event['n']} {event['type']} thread={event['thread_id']} task={event['task_id']} {data[:200]}"
