"""What the parts of the orchestrator share, as one record instead of ten parameters for each."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolstead.invoker.clock import REAL_CLOCK, Clock
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.runtime_calls import OwnFor
from toolstead.orchestrator.active_run import ActiveRuns
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.hooks import MessageHooks
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.request import RunDefaults
from toolstead.orchestrator.store import Store
from toolstead.types.call import CallTool


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorParts:
    """The ports, the settings, and the runs that this process owns.

    Attributes:
        own_tools: Checks and logs tools of a runtime's own; without it none is used.
        clock: Time and waiting; a simulation puts its own there.
        ids: Makes ids; likewise.
    """

    store: Store
    log: EventLog
    invoker: Invoker
    call_tool: CallTool
    defaults: RunDefaults
    hooks: MessageHooks
    own_tools: OwnFor | None = None
    clock: Clock = REAL_CLOCK
    ids: Ids = field(default_factory=Ids)
    active: ActiveRuns = field(default_factory=ActiveRuns)
