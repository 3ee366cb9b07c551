"""What is recorded of every call, for operators: numbers for `/metrics`, and a line for each call in the log.

Both are recorders of the dispatcher, which calls none where none was added.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import Final

from toolstead.schema.visible import escape_unseen
from toolstead.tools.dispatch import UNKNOWN_TOOL
from toolstead.types.call import Caller

logger = logging.getLogger("toolstead.calls")

BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the durations' buckets, in seconds."""
MOST_TOOLS: Final = 500
"""Tools that are counted by name: every name makes a series for each bucket, and tools may come and go."""
OK: Final = "ok"
"""The outcome of a call that succeeded."""
OTHERS: Final = "(others)"
UNKNOWN: Final = "(unknown)"
"""No tool can have these names."""
_LONGEST = 80


class CallsOfTool:
    """The calls of one tool.

    Attributes:
        buckets: How many calls took at most as long as each bound but longer than the one before it; then the longer.
        seconds: How long all of them took.
        failures: How many failed, by failure.
    """

    __slots__ = ("buckets", "failures", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.failures: dict[str, int] = {}

    def count_outcomes(self) -> dict[str, int]:
        """How often each outcome came."""
        succeeded = sum(self.buckets) - sum(self.failures.values())
        return {**({OK: succeeded} if succeeded else {}), **self.failures}


class CallCounts:
    """Counts calls and their durations by tool, from the moment it is added to a dispatcher.

    Attributes:
        tools: The calls by tool; those of unknown names are together under `UNKNOWN`.
    """

    def __init__(self) -> None:
        self.tools: dict[str, CallsOfTool] = {}

    def record_call(self, name: str, failure: str | None, seconds: float, _: Caller) -> None:
        """Count one call. On the path of every call of a server: one that succeeded costs 0.2 µs."""
        if failure is UNKNOWN_TOOL:
            name = UNKNOWN
        calls = self.tools.get(name) or self._add_tool(name)
        calls.buckets[bisect_left(BOUNDS, seconds)] += 1
        calls.seconds += seconds
        if failure is not None:
            calls.failures[failure] = calls.failures.get(failure, 0) + 1

    def _add_tool(self, name: str) -> CallsOfTool:
        name = name if len(self.tools) < MOST_TOOLS else OTHERS
        return self.tools.setdefault(name, CallsOfTool())


def log_call(name: str, failure: str | None, seconds: float, caller: Caller) -> None:
    """Write one line about a call, with its caller; the same as fields for logs that are read by programs."""
    about: dict[str, str | float | None] = {
        "tool": escape_unseen(name[:_LONGEST]),
        "outcome": OK if failure is None else str(failure),
        "durationMs": round(seconds * 1000, 3),
        "transport": caller.transport,
        "client": None if caller.client is None else escape_unseen(caller.client[:_LONGEST]),
        "profile": caller.profile,
        "thread": caller.thread_id,
        "run": caller.run_id,
        "agent": caller.agent_id,
    }
    about = {key: value for key, value in about.items() if value is not None}
    details = " ".join(f"{key}={value}" for key, value in about.items() if key not in _SAID)
    line = "%s %s in %s ms %s"
    logger.info(line, about["tool"], about["outcome"], about["durationMs"], details, extra={"about": about})


_SAID = ("tool", "outcome", "durationMs")
