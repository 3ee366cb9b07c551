"""A run in the process that holds it, from when its message is being stored until its end is stored.

    storing ──▶ waiting ──▶ running ──▶ ending ──▶ ended
       │           │           │          │
       └───────────┴───────────┘          └ nothing interrupts this
         `request_end` leads to `ending`

One task sees a run through `waiting`, `running` and `ending`. It does not exist while the message is being stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from toolstead.orchestrator.request import RunRequest
from toolstead.types.run import NOTHING_USED, Run, RunEnd, Usage


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveRun:
    """What this process knows of a run that it holds.

    Attributes:
        request: What was asked for.
        stored_session: The thread's session id, as it is stored; known from when the run began.
        wanted_end: The end that somebody asked for, and why, in words.
        is_ending: Its end is being stored.
        used: What the runtime has reported so far; a run that fails has used it all the same.
        last_told: The type of the last event that its runtime told.
        has_deltas: Whether it has told two pieces of text after another, which are joined with its end.
        session: Where the runtime's id of the conversation became another: the new one, or None for none.
        steering: Held while a message is given to its running turn.
        takes_messages: False from when its end is about to be stored: what is not given by then is not given any more.
        task: Sees it through, from its first step on.
        ended: Gets the run as it was stored at its end; cancelled when it was never stored at all.
    """

    run: Run
    request: RunRequest
    stored_session: str | None = None
    wanted_end: tuple[RunEnd, str] | None = None
    is_ending: bool = False
    used: Usage = NOTHING_USED
    last_told: str = ""
    has_deltas: bool = False
    session: tuple[str | None] | None = None
    steering: asyncio.Lock = field(default_factory=asyncio.Lock)
    takes_messages: bool = True
    task: asyncio.Task[None] | None = None
    ended: asyncio.Future[Run] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def request_end(self, status: RunEnd, why: str) -> None:
        """Ask for its end; the first one who does so decides. One that runs is interrupted."""
        if self.wanted_end is None:
            self.wanted_end = (status, why)
            # A task that has not made its first step would never make one; it looks at `wanted_end` instead.
            if self.task is not None and not self.is_ending:
                self.task.cancel()


class ActiveRuns(dict[str, ActiveRun]):
    """The runs that this process holds, by id.

    Attributes:
        running: Thread → the run that began last there and is not done here, its hooks included.
    """

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[str, ActiveRun] = {}
        self.arrived = asyncio.Event()
        """Set while there are any."""

    def add(self, active: ActiveRun) -> None:
        """Hold a run."""
        self[active.run.id] = active
        self.arrived.set()

    def remove(self, active: ActiveRun) -> None:
        """Hold it no more."""
        del self[active.run.id]
        if not self:
            self.arrived.clear()
