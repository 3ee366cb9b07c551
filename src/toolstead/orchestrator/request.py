"""Requests to the orchestrator, and their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolstead.invoker.runtime import Runtime
from toolstead.types.call import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """The defaults of a run, where neither it nor its thread sets a value.

    Attributes:
        runtime: Finds a runtime by its name; an empty one means the settings' choice for the model, which comes second.
            Raises RuntimeFailureError when there is none, or it is unavailable.
        tools: The names of the tools that an agent is offered now.
    """

    agent: str
    model: str
    cwd: Path
    timeout: float
    runtime: Callable[[str, str], Runtime]
    tools: Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for. Everything but the prompt may be left to the thread and the settings.

    Attributes:
        thread_must_exist: A thread that is not there is refused; otherwise it is made.
        parent_run_id: The run whose tool call asks; `parent_agent` is that run's agent.
        task_id: The delegated task that the run works on.
        depth: How many runs stand above this one.
        may_wait: False for a child whose parent waits for it: where others wait for a room or behind another run of
            the thread, it is refused. So a run that holds a room never waits for one: no deadlock.
    """

    prompt: str
    thread_id: str | None = None
    session_id: str | None = None
    agent: str = ""
    model: str = ""
    runtime: str = ""
    cwd: str | None = None
    timeout: float | None = None
    idempotency_key: str | None = None
    thread_must_exist: bool = False
    parent_run_id: str | None = None
    parent_agent: str = ""
    task_id: str | None = None
    depth: int = 0
    may_wait: bool = True

    def as_child_of(self, caller: Caller) -> RunRequest:
        """The request as that of a child: a tool call of the caller's run makes it, and waits for its end."""
        return replace(
            self,
            parent_run_id=caller.run_id,
            parent_agent=caller.agent_id or "",
            task_id=caller.task_id,
            depth=caller.depth + 1,
            may_wait=False,
        )
