"""What models are told about tasks: the order to a sub-agent, feedback, and results to the agent that delegated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolstead.types.task import SUCCESSES, Task

RESUMED = (
    "[The process that ran you ended in the middle of this task. What you did so far is above. Go on from there, and "
    "do not repeat what is done. The task was:]\n\n"
)
"""Before the order that a resumed conversation has been given already."""

DELEGATED = "Task delegated. You will be notified when it completes."
LARGEST_CONTEXT = 16_384
"""Characters of context that a call may pass on."""


def write_order(prompt: str, context: Mapping[str, Any] | None) -> str:
    """What a sub-agent is asked: the prompt, then hints and whatever else the caller knows."""
    hints: list[str] = [str(hint) for hint in (context or {}).get("hints") or ()]
    others = {key: value for key, value in (context or {}).items() if key not in ("hints", "working_directory")}
    parts = [prompt]
    if hints:
        parts.append("Hints:\n" + "\n".join(f"- {hint}" for hint in hints))
    if others:
        parts.append(f"Context:\n{msgspec.json.encode(others).decode()}")
    return "\n\n".join(parts)


def write_feedback(task: Task, feedback: str, attempt: int) -> str:
    """What the next attempt is asked: what was wrong with the one before, which is in the same conversation."""
    left = task.max_attempts - attempt
    more = f"{left} more attempt{'s' if left != 1 else ''}" if left else "no further attempt"
    return (
        f"Your result was reviewed and rejected:\n\n{feedback}\n\nMend what is wrong and answer with the whole result "
        f"again; the same answer would be rejected again. After this you have {more}. The task was:\n\n{task.prompt}"
    )


def describe_result(task: Task) -> str:
    """The result of a task as the agent that delegated it reads it."""
    head = f"[Task {task.id}, delegated to {task.agent}: {task.outcome}]"
    lines = [head]
    if task.error is not None:
        lines.append(task.error.message)
    if task.summary:
        lines.append(task.summary)
    elif task.outcome in SUCCESSES:
        lines.append("(it answered with an empty text)")
    if task.summary is not None and task.result_size > len(task.summary):
        lines.append(
            f"[{task.result_size - len(task.summary):,} of {task.result_size:,} characters left out; read on with "
            f'delegate_status {{"action": "read", "run_id": "{task.id}", "offset": {len(task.summary)}}}]'
        )
    return "\n".join(lines)


def join_results(results: Sequence[Task], prompt: str) -> str:
    """The prompt of a turn that holds results."""
    if not results:
        return prompt
    intro = "Work that you delegated has ended:" if len(results) == 1 else "Tasks that you delegated have ended:"
    told = "\n\n".join([intro, *map(describe_result, results)])
    return f"{told}\n\n{prompt}" if prompt.strip() else f"{told}\n\nGo on with what you were asked, using this."


def write_signal(agent: str, task_id: str, message: str) -> str:
    """A signal as the parent's agent reads it."""
    return f"[Signal of your sub-agent {agent}, task {task_id}]\n{message}"
