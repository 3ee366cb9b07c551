"""The engine port: executes "work on task X" at least once, somewhere. `adapters/engine` implements it.

An engine knows nothing of tasks but their ids. Nothing correct depends on it: the store decides who may work, and the
sweep submits again what nobody works on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

WorkOnTask = Callable[[str], Awaitable[None]]
"""Works on a task until it ends, or until another process does; never raises but when it is cancelled."""


class Engine(Protocol):
    """Executes work. Open it before, close it after."""

    claims_at_once: bool
    """Whether the process that submits a task works on it: then the task is claimed when it is admitted."""

    async def open(self, work: WorkOnTask) -> None:
        """Begin to execute what is submitted."""
        ...

    async def submit(self, task_ids: Sequence[str]) -> None:
        """Execute each at least once; one that is being executed here is not begun again."""
        ...

    def is_working_on(self, task_id: str) -> bool:
        """Whether it is being executed in this process."""
        ...

    def stop_working_on(self, task_id: str) -> None:
        """Cancel what is being executed in this process for a task."""
        ...

    async def close(self) -> None:
        """Begin nothing more, and end what is being executed."""
        ...
