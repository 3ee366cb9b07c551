"""What delegation knows of a run that this process performs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from toolstead.delegation.run_share import RunShare
from toolstead.delegation.task_store import TaskClaim
from toolstead.types.run import Run, TreeLimits


@dataclass(slots=True, kw_only=True, eq=False)
class RunContext:
    """A run while it is performed.

    Attributes:
        run: The run.
        limits: How far the tree below it may grow.
        share: What it may use.
        deadline: When it ends at the latest, in seconds since 1970.
        claim: That of the task which it works on, None where it works on none.
        turn: Which turn of which attempt it is; another process that repeats it has the same.
        has_tasks: Whether it delegated, or holds results: its end concerns them.
        last_event: When it last reported something, on the monotonic clock.
        above: The run that waits for it, where this process performs that too.
    """

    run: Run
    limits: TreeLimits
    share: RunShare
    deadline: float
    claim: TaskClaim | None = None
    turn: str = ""
    has_tasks: bool = False
    last_event: float = 0.0
    above: RunContext | None = None
    _calls: Counter[str] = field(default_factory=Counter[str])
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def number_call(self, digest: str, call_id: str | None) -> int:
        """Which of equal calls this is, from 0; a call that the runtime repeats keeps its number."""
        known = None if call_id is None else self._numbers.get((digest, call_id))
        if known is not None:
            return known
        number = self._calls[digest]
        self._calls[digest] += 1
        if call_id is not None:
            self._numbers[digest, call_id] = number
        return number

    def note_event(self, now: float) -> None:
        """Note that it works; so do the runs that wait for it."""
        context: RunContext | None = self
        while context is not None:
            context.last_event = now
            context = context.above
