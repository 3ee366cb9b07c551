"""The scenario of `crash_matrix`: a tree of delegated work, played by a runtime that answers by what it is asked.

    root ──detached batch──▶ A   rejected once by a reviewer that asks a model, accepted at the second attempt
                         ├─▶ B   delegates C and waits for it; C signals B's running turn; B checks in with root
                         └─▶ D   delegates E, ends its turn, and answers E's result in another; E signals D

Every result wakes whoever delegated it. Answers hold the mark of their task, such as `RESULT-A`, so that the stored
conversations tell which turn held which result.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from toolstead.app.stead import Toolstead
from toolstead.errors import RuntimeFailureError, StorageError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.orchestrator.request import RunRequest
from toolstead.plugins.contract import Hooks, Plugin, PluginContext
from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.verdict import Verdict

THREAD = "root"
ASK = "ROOT: have the parts written"
AGENTS = ("writer", "editor", "checker", "planner")
TASKS = {"A": "writer", "B": "editor", "C": "checker", "D": "planner", "E": "planner"}
"""Task → its agent."""
ORDERS = {
    "A": "WORK-A: write the first part",
    "B": "WORK-B: edit the second part",
    "C": "WORK-C: check a paragraph",
    "D": "WORK-D: plan the third part",
    "E": "WORK-E: look up one source",
}
DETACHED = {"A": THREAD, "B": THREAD, "D": THREAD, "E": "D"}
"""Task → the thread, or the task whose thread it is, that its result comes to as a message."""
CHECKIN = "B is half done"
SIGNALS = {"C": "C asks which paragraph", "E": "E found two sources"}
USED = Usage(input_tokens=7, output_tokens=3, cost=0.001)
"""What each request uses."""
_RESULT = re.compile(r"RESULT-([A-E])\b")
_EARLIER = re.compile(r"<earlier_messages>.*</earlier_messages>\s*", re.DOTALL)
_TABLES = ("tasks", "task_attempts", "runs", "messages", "tree_budgets", "tree_shares", "run_commands")
_EVENTS = "SELECT n, type, task_id, run_id, thread_id, data FROM events ORDER BY n"

NO_NETWORK = "the network is gone"
CUT_OFF = threading.Event()
"""Set in a process that reaches no reviewer any more."""

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table → its rows."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A database, and the folder that its processes share.

    Attributes:
        pause: Seconds that each request to the model takes.
    """

    folder: Path
    url: str | None = None
    pause: float = 0.01

    def prepare(self) -> None:
        """Make the folder, and the agents in it."""
        agents = self.folder / "home" / "agents"
        agents.mkdir(parents=True)
        for name in AGENTS:
            (agents / f"{name}.md").write_text(f"---\nname: {name}\ndescription: works\n---\nWork.\n", "utf-8")

    def open_stead(self) -> Toolstead:
        """A process's own stead there."""
        environ = {"TOOLSTEAD_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"], "HOME": str(self.folder)}
        if self.url is not None:
            environ["TOOLSTEAD_DATABASE_URL"] = self.url
        return Toolstead(
            self.folder,
            environ=environ,
            settings={"multi_agent": {"agents": list(AGENTS)}, "limits": {"run_timeout": PATIENCE}},
            plugins=[EXAMINER],
            installed_plugins=False,
            runtimes=[ActingRuntime(self.pause)],
            watch=False,
        )


@dataclass(eq=False)
class ActingRuntime:
    """Opens sessions that act the agents of the scenario; it remembers nothing from one process to the next."""

    pause: float
    name: str = "acting"
    owns_process: bool = False

    def resolve_model(self, model: str) -> str:
        return model

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> ActingSession:
        return ActingSession(spec, self.pause)


@dataclass(eq=False)
class ActingSession:
    spec: SessionSpec
    pause: float
    id: str | None = None
    is_resumed: bool = False
    is_usable: bool = True
    steered: list[str] = field(default_factory=list)
    running: bool = False

    async def run(self, turn: Turn) -> Answer:
        self.running = True
        try:
            return await Part(turn, self).act()
        finally:
            self.running = False

    async def steer(self, text: str) -> bool:
        if self.running:
            self.steered.append(text)
        return self.running

    async def adapt_to(self, spec: SessionSpec) -> bool:
        self.spec = spec
        return True

    async def close(self) -> None:
        self.is_usable = False


class Part:
    """One turn: what an agent does with what it is asked."""

    def __init__(self, turn: Turn, session: ActingSession) -> None:
        self._turn, self._session = turn, session
        self._used = NOTHING_USED
        self._asked = _EARLIER.sub("", turn.prompt)
        self._earlier = turn.prompt[: len(turn.prompt) - len(self._asked)]

    async def act(self) -> Answer:
        await self._request()
        text = await self._answer()
        return Answer(text=text, usage=self._used)

    async def _answer(self) -> str:
        asked = self._asked
        held = "".join(sorted(set(_RESULT.findall(asked))))
        if asked.startswith("REVIEW"):
            if CUT_OFF.is_set():
                raise RuntimeFailureError(NO_NETWORK)
            return "REJECT: it is a draft" if "draft" in asked else "ACCEPT"
        for name, order in ORDERS.items():
            if order in asked and order in self._earlier and "was reviewed" not in asked:
                return f"{name} reads its order twice"
        if ORDERS["A"] in asked:
            return "RESULT-A final" if "was reviewed and rejected" in asked else "RESULT-A draft"
        if ORDERS["B"] in asked:
            return await self._edit()
        if ORDERS["C"] in asked:
            await self._call("signal_parent", {"message": SIGNALS["C"]})
            return "RESULT-C"
        if ORDERS["E"] in asked:
            await self._call("signal_parent", {"message": SIGNALS["E"]})
            return "RESULT-E"
        if held:
            return f"RESULT-D with {held}" if self._session.spec.agent == "planner" else f"noted {held}"
        if "[Signal of" in asked:
            return "heard"
        if ORDERS["D"] in asked:
            await self._call("delegation__delegate", {"prompt": ORDERS["E"]})
            return "waiting for E"
        if asked.startswith(ASK):
            orders = [{"agent_id": TASKS[name], "prompt": ORDERS[name]} for name in "ABD"]
            await self._call("delegate_agent", {"batch": orders, "mode": "detached"})
            return "delegated"
        return f"asked for nothing known: {asked}"

    async def _edit(self) -> str:
        found = await self._call("delegate_agent", {"agent_id": TASKS["C"], "prompt": ORDERS["C"]})
        await self._call("delegation__checkin", {"message": CHECKIN})
        return f"RESULT-B with {''.join(sorted(set(_RESULT.findall(found))))}"

    async def _call(self, tool: str, input: Mapping[str, Any]) -> str:
        result = await self._turn.call_tool(tool, input)
        if result.is_error:
            return f"{tool} failed: {result.text}"
        await self._request()
        return result.text

    async def _request(self) -> None:
        """Ask the model once; half of the agents reserve before, as the kernel does, the others have an envelope."""
        turn, budget = self._turn, self._turn.budget
        reserves = budget is not None and budget.is_shared and self._session.spec.agent in ("writer", "checker")
        if reserves and budget is not None:
            await budget.reserve(least=20, most=200, base_cost=0.001, token_cost=0.00001)
        try:
            await asyncio.sleep(self._session.pause)
            turn.tell("usage", USED.to_json())
            self._used += USED
        finally:
            if reserves and budget is not None:
                budget.release()


async def _register_examiner(ctx: PluginContext) -> Hooks:
    async def on_task_complete(thread_id: str, task_id: str, result: str) -> Verdict | None:
        prompt = f"REVIEW of {task_id}: {result}"
        run = await ctx.invoker.invoke(prompt)
        while run.status in ("lost", "stopped"):  # another process took this one for dead
            run = await ctx.invoker.invoke(prompt)
        if run.status != "completed" or run.result is None:
            return Verdict(None, f"the reviewer's run ended as {run.status}")
        return Verdict(run.result == "ACCEPT", run.result)

    return Hooks(on_task_complete=on_task_complete)


EXAMINER = Plugin(name="examiner", register=_register_examiner)


async def ask(talk: Orchestrator) -> None:
    """Ask the root, as its user does: again with the same key, and anew when the run was lost with nothing delegated.

    A process that dies before its client has an answer leaves the client in doubt: the same key makes that safe.
    """
    for key in ("ask-1", "ask-2", "ask-3"):
        while True:
            try:
                accepted = await talk.submit(RunRequest(prompt=ASK, thread_id=THREAD, idempotency_key=key))
                run = await talk.wait(accepted.run_id)
                if run.status == "completed" or (await read_rows(talk, ("tasks",)))["tasks"]:
                    return
                break
            except StorageError:  # it is away for a while
                await asyncio.sleep(0.1)


async def wait_until_settled(talk: Orchestrator, seconds: float) -> str:
    """Wait until everything that was delegated has ended and was delivered; gives what is missing after so long."""
    deadline, missing = time.monotonic() + seconds, "nothing was read"
    while missing and time.monotonic() < deadline:
        with suppress(StorageError):  # the database may be away for a while
            missing = _find_unsettled(await read_rows(talk, ("tasks", "runs")))
        await asyncio.sleep(0.02)
    return missing and f"not settled after {seconds:g} s: {missing}"


def _find_unsettled(rows: Rows) -> str:
    missing = [f"run {run['id']} is {run['status']}" for run in rows["runs"] if run["ended_at"] is None]
    for task in rows["tasks"]:
        if task["outcome"] is None:
            missing.append(f"task {task['prompt'][:6]} is open, epoch {task['epoch']}")
        elif task["delivered_at"] is None:
            missing.append(
                f"the result of {task['prompt'][:6]} waits: woken {task['woken_by']}, taken {task['taken_by']}"
            )
    return "; ".join(missing) if rows["tasks"] else "nothing was delegated"


async def read_rows(talk: Orchestrator, tables: Sequence[str] = _TABLES, *, events: bool = False) -> Rows:
    """The rows of some tables."""
    queries = {name: f"SELECT * FROM {name}" for name in tables}
    if events:
        queries["events"] = _EVENTS

    def read(connection: Any) -> Rows:
        return {
            name: [dict(row) for row in connection.exec_driver_sql(query).mappings()] for name, query in queries.items()
        }

    store: Any = talk.store
    return await store.read(read)
