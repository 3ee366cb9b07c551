"""A task for tests of its review, and the parts that reviews are made of."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from toolstead.delegation.gates import TaskGates
from toolstead.tools.validation import BoundedValidator
from toolstead.types.run import Run
from toolstead.types.task import Task
from toolstead.types.tool import JSONSchema

T = TypeVar("T")
RUN = Run(id="run_1", thread_id="th_own", prompt="p", created_at=0.0, owner="o", task_id="task_1")
ENVIRON = {**os.environ, "SECRET_API_KEY": "sk-0123456789", "LC_ALL": "C.UTF-8"}


def make_task(id: str = "task_1") -> Task:
    return Task(
        id=id,
        agent="coder",
        prompt="Make the tests pass.",
        thread_id="th_own",
        parent_thread_id="th_parent",
        root_run_id="run_0",
        project="/project",
        duplicate_key=id,
        created_at=0.0,
        timeout=60.0,
    )


def run_python(code: str, *arguments: str, timeout: float = 60) -> dict[str, Any]:
    """A gate that runs a Python program."""
    return {"command": shlex.join([sys.executable, "-S", "-E", "-c", code, *arguments]), "timeout": timeout}


def make_gates(
    folder: Path, gates: Sequence[Mapping[str, Any]] = (), schema: JSONSchema | None = None, **other: Any
) -> TaskGates:
    given: dict[str, Any] = {"find_problems": BoundedValidator().find_problems, "folder_of": _always(folder)}
    return TaskGates(gates_of=_always(gates), schema_of=_always(schema), environ=ENVIRON, **{**given, **other})


def _always(value: T) -> Callable[[Task], T]:
    return lambda _: value
