"""What the parts of the orchestrator share: the ports, the settings, and the runs that this process owns.

A run in the process that owns it, from the storing of its message to the storing of its end:

    storing ──▶ waiting ──▶ running ──▶ ending ──▶ ended
       │           │           │          │
       └───────────┴───────────┘          └ nothing interrupts this
         `request_end` leads to `ending`

One task takes a run through `waiting`, `running` and `ending`; it is created when the message is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolstead.delegation.run_context import RunContext
from toolstead.invoker.clock import REAL_CLOCK, Clock
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.runtime_calls import OwnFor
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.request import AgentConfigs, RunRequest
from toolstead.orchestrator.store import Store
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.handlers.secrets import Mask
from toolstead.types.call import CallTool
from toolstead.types.run import NOTHING_USED, Run, RunEnd, Usage
from toolstead.types.task import Task
from toolstead.types.thread import Message


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveRun:
    """A run that this process owns.

    Attributes:
        request: What was asked for.
        context: What delegation knows of it.
        results: The tasks whose results its turn holds.
        result_messages: Those results as messages, of the moment when the turn took them.
        stored_session: The thread's stored session id; known once the run began.
        wanted_end: The requested end, its code and its reason.
        is_ending: Its end is being stored.
        used: What the runtime has reported so far; it counts for a failed run, too.
        session: Where the runtime's id of the conversation became another: the new one, or None for none.
        steering: Held while a message is given to its running turn.
        takes_messages: False from when its end is about to be stored: what is not given by then is not given any more.
        task: Sees it through, from its first step on.
        ended: Gets the run as it was stored at its end; cancelled when it was never stored at all.
    """

    run: Run
    request: RunRequest
    context: RunContext
    results: Sequence[Task] = ()
    result_messages: Sequence[Message] = ()
    stored_session: str | None = None
    wanted_end: tuple[RunEnd, str, str] | None = None
    is_ending: bool = False
    used: Usage = NOTHING_USED
    session: tuple[str | None] | None = None
    steering: asyncio.Lock = field(default_factory=asyncio.Lock)
    takes_messages: bool = True
    task: asyncio.Task[None] | None = None
    ended: asyncio.Future[Run] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def request_end(self, status: RunEnd, why: str, *, code: str = "") -> None:
        """Request its end; the first request decides. A running turn is interrupted."""
        if self.wanted_end is None:
            self.wanted_end = (status, code or status, why)
            # A task cancelled before its first step would never run; it checks `wanted_end` instead.
            if self.task is not None and not self.is_ending:
                self.task.cancel()


class ActiveRuns(dict[str, ActiveRun]):
    """The runs that this process owns, by id.

    Attributes:
        ended: How many ended here, by status and runtime.
        running: Thread → the run that began last there and is not done here, its hooks included.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended = Counter[tuple[str, str]]()
        self.running: dict[str, ActiveRun] = {}
        self.arrived = asyncio.Event()
        """Set while there are any."""

    def add(self, active: ActiveRun) -> None:
        """Add a run."""
        self[active.run.id] = active
        self.arrived.set()

    def remove(self, active: ActiveRun) -> None:
        """Remove a run."""
        del self[active.run.id]
        if not self:
            self.arrived.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorParts:
    """The ports, the settings, and the runs that this process owns.

    Attributes:
        agents: Configures the agents.
        own_tools: Checks and logs tools of a runtime's own; without it none is used.
        find_mask: Masks what must not be stored of a run's steps, as it is known when the run begins.
        clock: Time and waiting; a simulation puts its own there.
        ids: Makes ids; likewise.
    """

    store: Store
    log: EventLog
    invoker: Invoker
    call_tool: CallTool
    agents: AgentConfigs
    hooks: HookRunner
    own_tools: OwnFor | None = None
    find_mask: Callable[[], Mask] = Mask
    clock: Clock = REAL_CLOCK
    ids: Ids = field(default_factory=Ids)
    active: ActiveRuns = field(default_factory=ActiveRuns)
