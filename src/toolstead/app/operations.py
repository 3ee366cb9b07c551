"""What those who operate a server ask: whether it can work, and its numbers.

`adapters/rest/operator_routes` answers `/readyz` and `/metrics` with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.adapters.rest.exposition import Distribution, Metric
from toolstead.app.version import VERSION
from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import ToolsteadError
from toolstead.tools.call_records import BOUNDS, UNKNOWN, CallCounts

if TYPE_CHECKING:
    from toolstead.app.wiring import Wiring
    from toolstead.tools.registry import Swap

logger = logging.getLogger(__name__)

READY_SECONDS = 2.0
"""How long a probe waits for the database."""
REMEMBERED_SECONDS = 1.0
"""How long an answer of the database counts: probes need no token, so anybody may ask for any number of them."""
CLOSED_GATE = "A plugin that may have to check calls is not in use, so that every call is denied"
NO_ANSWER = "The database does not answer"


class Readiness:
    """Whether the server can work: one question to the database at a time, for everybody who asks meanwhile."""

    def __init__(self, parts: Wiring) -> None:
        self._parts = parts
        self._tasks = OwnedTasks()
        self._asking: asyncio.Task[str | None] | None = None
        self._last: str | None = None
        self._is_known_until = float("-inf")

    async def find_fault(self) -> str | None:
        """What keeps the server from working, after at most `READY_SECONDS`; None where nothing does."""
        if self._parts.plugins.find_closed_gates():  # which of them, the log says: this needs no token
            return CLOSED_GATE
        if time.monotonic() < self._is_known_until:
            return self._last
        if self._asking is None:
            self._asking = self._tasks.start(self._ask_database(), name="toolstead-readiness")
        asking = self._asking
        await asyncio.wait((asking,), timeout=READY_SECONDS)
        if not asking.done():
            self._note_fault(NO_ANSWER, f"no answer within {READY_SECONDS:g} seconds")
            return NO_ANSWER
        return asking.result()

    async def close(self) -> None:
        """Ask nothing more."""
        await self._tasks.end_all()

    async def _ask_database(self) -> str | None:
        try:
            # With threads and runs, not the database alone: what was lost is recovered then, too.
            orchestrator = await self._parts.open_conversations()
            await orchestrator.store.list_threads(limit=1)
        except ToolsteadError as error:
            self._note_fault(NO_ANSWER, str(error))
        else:
            self._note_fault(None)
        finally:
            self._asking = None
            self._is_known_until = time.monotonic() + REMEMBERED_SECONDS
        return self._last

    def _note_fault(self, fault: str | None, why: str = "") -> None:
        """Note it, and log a change: probes come every few seconds."""
        if fault is not None and self._last is None:
            logger.warning("not ready: the database does not answer: %s", why)
        elif fault is None and self._last is not None:
            logger.warning("ready again: the database answers")
        self._last = fault


class Numbers:
    """The numbers of a server, counted since it was built."""

    def __init__(self, parts: Wiring, *, count_requests: Callable[[], int], count_sessions: Callable[[], int]) -> None:
        """Count from now on.

        Args:
            parts: What is counted.
            count_requests: How many HTTP requests are answered now.
            count_sessions: How many MCP sessions are open.
        """
        self._parts, self._count_requests, self._count_sessions = parts, count_requests, count_sessions
        self._calls = CallCounts()
        self._reloads = Counter[str]()
        self._endings = (
            parts.dispatcher.add_recorder(self._calls.record_call),
            parts.registry.subscribe(self._count_reload),
        )

    def close(self) -> None:
        """Count nothing more."""
        for end in self._endings:
            end()

    def collect(self) -> list[Metric]:
        """Everything, as it is now."""
        return [*self._list_calls(), *self._list_tools(), *self._list_runs(), *self._list_server(), *_list_process()]

    def _count_reload(self, swap: Swap) -> None:
        self._reloads["partial" if swap.problems else "ok"] += 1

    def _list_calls(self) -> Iterator[Metric]:
        tools = sorted(self._calls.tools.items())
        yield Metric(
            name="toolstead_tool_calls_total",
            kind="counter",
            help="Tool calls by tool and outcome.",
            values=[
                ({"tool": name, "outcome": str(outcome)}, number)
                for name, calls in tools
                for outcome, number in sorted(calls.count_outcomes().items())
            ],
        )
        yield Metric(
            name="toolstead_tool_call_duration_seconds",
            kind="histogram",
            help="How long tool calls took, gates and approvals included.",
            values=[
                ({"tool": name}, Distribution(bounds=BOUNDS, counts=calls.buckets, total=calls.seconds))
                for name, calls in tools
                if name != UNKNOWN  # which take no time
            ],
        )

    def _list_tools(self) -> Iterator[Metric]:
        current = self._parts.registry.current
        sources = Counter[str](tool.info.provenance.source for tool in current.tools.values())
        yield _gauge("tools", "Tools that can be called, by source.", sources, label="source")
        yield _gauge("tools_quarantined", "Tools and files that were found invalid.", len(current.problems))
        yield _gauge("generation", "The number of the registry's generation.", current.number)
        help_text = "Changes of the tools, by whether everything loaded."
        values = [({"outcome": outcome}, self._reloads[outcome]) for outcome in ("ok", "partial")]
        yield Metric(name="toolstead_reloads_total", kind="counter", help=help_text, values=values)

    def _list_runs(self) -> Iterator[Metric]:
        orchestrator = self._parts.conversations.orchestrator
        if orchestrator is None:
            return
        runs, pool = orchestrator.runs, orchestrator.invoker.pool
        stats = pool.stats()
        yield Metric(
            name="toolstead_runs_ended_total",
            kind="counter",
            help="Runs that ended in this process, by status and runtime.",
            values=[
                ({"status": status, "runtime": runtime}, number)
                for (status, runtime), number in sorted(runs.ended.items())
            ],
        )
        states = Counter({"queued": 0, "running": 0})
        states.update(active.run.status for active in runs.values())
        yield _gauge("runs", "Runs of this process that have not ended, by status.", states, label="status")
        sessions = {"idle": stats.idle, "live": stats.live}
        yield _gauge("sessions", "Sessions of runtimes; the idle ones are live, too.", sessions, label="state")
        for name in ("hits", "misses", "rebuilt", "evicted"):
            yield Metric(
                name=f"toolstead_sessions_{name}_total",
                kind="counter",
                help=f"Sessions of runtimes: {name}, as in /api/health.",
                values=[({}, getattr(stats, name))],
            )
        yield _gauge("sessions_waiting", "Runs that wait for a place for their session.", pool.waiting)

    def _list_server(self) -> Iterator[Metric]:
        parts = self._parts
        yield _gauge("approvals_waiting", "Calls of this process that wait for a person.", parts.approvals.waiting)
        yield _gauge("events_waiting", "Events that wait to be stored.", parts.events.waiting)
        yield _gauge("http_requests_in_flight", "HTTP requests that are answered now.", self._count_requests())
        yield _gauge("mcp_sessions", "Open MCP sessions over HTTP.", self._count_sessions())


def _gauge(name: str, help_text: str, value: float | Mapping[str, int], *, label: str = "") -> Metric:
    values: list[tuple[dict[str, str], float]] = [({}, value)] if isinstance(value, int | float) else []
    if isinstance(value, Mapping):
        values = [({label: key}, number) for key, number in sorted(value.items())]
    return Metric(name=f"toolstead_{name}", kind="gauge", help=help_text, values=values)


def _list_process() -> Iterator[Metric]:
    """The process under the names that every Prometheus client gives them; what a system does not tell is left out."""
    build = {"version": VERSION, "python": ".".join(map(str, sys.version_info[:3]))}
    yield Metric(name="toolstead_build_info", kind="gauge", help="Which version runs.", values=[(build, 1)])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = Metric(
        name="process_cpu_seconds_total",
        kind="counter",
        help="User and system CPU seconds.",
        values=[({}, usage.ru_utime + usage.ru_stime)],
    )
    yield seconds
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    gauges = {"max_fds": ("Most open files.", float(limit if limit != resource.RLIM_INFINITY else -1))}
    with suppress(OSError, ValueError, IndexError):  # not Linux
        fields = Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()
        page, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
        booted = next(line for line in Path("/proc/stat").read_text("ascii").splitlines() if line.startswith("btime "))
        gauges |= {
            "start_time_seconds": ("When it started.", int(booted.split()[1]) + int(fields[19]) / ticks),
            "virtual_memory_bytes": ("Virtual memory.", float(fields[20])),
            "resident_memory_bytes": ("Resident memory.", float(int(fields[21]) * page)),
            "open_fds": ("Open files.", float(len(list(Path("/proc/self/fd").iterdir())))),
        }
    for name, (help_text, value) in gauges.items():
        yield Metric(name=f"process_{name}", kind="gauge", help=help_text, values=[({}, value)])
