"""Requests to the orchestrator, and how an agent is configured for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from toolstead.delegation.task_store import TaskClaim
from toolstead.invoker.runtime import Runtime, SessionSpec, TurnLimits
from toolstead.types.call import Caller
from toolstead.types.run import TreeLimits

SIGNAL = "signal"
"""The kind of a message from a sub-agent to the agent that delegated."""


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent runs: what the call says, else its file, else the settings.

    Attributes:
        agent: Its name.
        runtime: Drives the model.
        model: The model's full name; empty for the runtime's own choice.
        timeout: Seconds that a run may take.
        tree: How far the tree below a run may grow.
        turn: Where one turn is stopped.
    """

    agent: str
    runtime: Runtime
    model: str
    timeout: float
    tree: TreeLimits
    turn: TurnLimits


class AgentConfigs(Protocol):
    """Configures agents; `app/agent_configs.py` implements it."""

    @property
    def cwd(self) -> Path:
        """The folder that agents work in."""
        ...

    def resolve_agent(self, agent: str, *, model: str = "", runtime: str = "", is_child: bool = False) -> RunConfig:
        """How an agent runs now; an empty name leaves the choice to its file and the settings.

        Args:
            agent: Its name; empty for the settings' one.
            model: The model that the call asks for.
            runtime: The runtime that the call asks for.
            is_child: Whether a run asks; some agents are only for those.

        Raises:
            UnknownAgentError: There is no such agent.
            RuntimeFailureError: There is no such runtime or model, or it is unavailable.
        """
        ...

    async def check_agent(self, agent: str, *, model: str = "", runtime: str = "") -> None:
        """Refuse, before anything is stored, an agent that no model could answer for; looking may take a moment.

        Raises:
            UnknownAgentError: There is no such agent.
            RuntimeFailureError: No model can be asked; the text says what to do.
        """
        ...

    def choose_runtime(self, preferred: str, model: str) -> Runtime:
        """The preferred runtime if it runs this model, else the one that does. Raises RuntimeFailureError."""
        ...

    def build_spec(
        self, config: RunConfig, *, cwd: Path, may_spawn: bool, has_task: bool = False, profile: str | None = None
    ) -> SessionSpec:
        """What a session of this agent is built with, now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for. Everything but the prompt may be left to the thread and the settings.

    Attributes:
        thread_must_exist: A thread that is not there is refused; otherwise it is made.
        parent_run_id: The run whose tool call asks; `parent_agent` is that run's agent.
        parent_thread_id: The thread of that run; a new thread of this request stands below it.
        root_run_id: The run at the top of the tree.
        task_id: The delegated task that the run works on.
        depth: How many runs stand above this one.
        attempt: Which try of the same work it is; only the first one counts as a child.
        may_wait: False for a child whose parent waits for it: where others wait for a room or behind another run of
            the thread, it is refused. So a run that holds a room never waits for one: no deadlock.
        kind: That of the message that is stored.
        claim: That of the task which the run works on; checked when the run is accepted.
        turn: Which turn of which attempt it is.
        answers: The stored message that it answers, where a run before it was to and was lost.
        is_woken: The run has no words of its own: it answers the results that wait in its thread.
        is_new_thread: The thread cannot be there yet.
        profile: What the caller may see and call, and so the run and what it starts; None for no profile.
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
    parent_thread_id: str | None = None
    root_run_id: str | None = None
    task_id: str | None = None
    depth: int = 0
    attempt: int = 1
    may_wait: bool = True
    kind: str = "text"
    claim: TaskClaim | None = None
    turn: str = ""
    answers: str | None = None
    is_woken: bool = False
    is_new_thread: bool = False
    profile: str | None = None

    @property
    def belongs_to_tree(self) -> bool:
        """Whether its budget is that of a tree in which something was delegated."""
        return self.claim is not None or self.is_woken or self.kind == SIGNAL

    @property
    def is_repeated(self) -> bool:
        """Whether the same work is done again where the run ends with its process: a task's, or that of a result."""
        return self.claim is not None or self.is_woken

    def as_child_of(self, caller: Caller) -> RunRequest:
        """The request as that of a child: a tool call of the caller's run makes it, and waits for its end."""
        return replace(
            self,
            parent_run_id=caller.run_id,
            parent_agent=caller.agent_id or "",
            parent_thread_id=caller.thread_id,
            root_run_id=caller.root_run_id or caller.run_id,
            depth=caller.depth + 1,
            profile=caller.profile,
            may_wait=False,
        )
