"""Our sub-tasks in the background: detached tasks that are queued for a slot, and wake the parent with their results.

The parent's model hands them out in batches; each time it is woken it has the results so far, of which it keeps a
list. After a kill it finds the earlier ones in the conversation, which a new session is given.

    python -m benchmarks.ours.tasks plain count=200 at_once=50                 # the same children as plain stored runs
    python -m benchmarks.ours.tasks turns rounds=4 database=postgresql://…     # both in turns, in one process

A plain run looks for its thread and for earlier messages; the run of a new task knows that there are none. So the two
differ by more than the delegation, and beside few others (`at_once=1`) a task costs several times as much: what many
tasks share in one commit, one pays alone. Only the CPU of this process is counted, not that of a database server.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import task_work as work
from benchmarks import workload
from toolstead import Toolstead
from toolstead.delegation.task_store import TaskFilter
from toolstead.invoker.runtime import Answer, SessionSpec, Turn
from toolstead.types.run import Usage

BATCH = 50
CHILD = "child"
USED = Usage(input_tokens=work.INPUT_TOKENS, output_tokens=work.OUTPUT_TOKENS)


class Models:
    """A runtime whose sessions play the parent's and the children's models."""

    name = "bench"
    owns_process = False

    def resolve_model(self, model: str) -> str:
        return "bench"

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> Session:
        return Session(spec.agent)


class Session:
    id = None
    is_resumed = False
    is_usable = True

    def __init__(self, agent: str) -> None:
        self._is_child = agent == CHILD
        self._wanted = range(0)
        self._answers: dict[int, str] = {}

    async def run(self, turn: Turn) -> Answer:
        turn.tell("usage", USED.to_json())
        if self._is_child:
            return Answer(text=await work.answer(turn.prompt), usage=USED)
        if (found := re.search(r"Hand out the tasks \d+ to \d+\.", turn.prompt)) is not None:
            self._wanted = work.wanted(found[0])
            if "earlier_message" not in turn.prompt:
                await self._hand_out(turn)
        self._answers |= {int(number): f"done {number}" for number in re.findall(r"done (\d+)", turn.prompt)}
        whole = len(self._answers) == len(self._wanted)
        text = work.last_sentence(self._answers[n] for n in self._wanted) if whole else "I wait for the others."
        return Answer(text=text, usage=USED)

    async def _hand_out(self, turn: Turn) -> None:
        items = [{"agent_id": CHILD, "prompt": work.child_prompt(number)} for number in self._wanted]
        for start in range(0, len(items), BATCH):
            given = {"batch": items[start : start + BATCH], "mode": "detached", "queue": True}
            result = await turn.call_tool("delegate_agent", given)
            if result.is_error:
                raise AssertionError(result.text)

    async def steer(self, text: str) -> bool:
        return False

    async def adapt_to(self, spec: SessionSpec) -> bool:
        return False

    async def close(self) -> None:
        pass


class OurTasks:
    def __init__(self, stead: Toolstead) -> None:
        self._stead = stead

    async def delegate(self, name: str, prompt: str) -> str:
        wanted = set(work.wanted(prompt))
        with self._stead.events({"completed"}) as ends:
            await self._stead.invoke(prompt, thread_id=name)
            async for event in ends:
                said = str(event.data["result"])
                if event.thread_id == name and len(re.findall(r"done \d+", said)) == len(wanted):
                    return said
        raise AssertionError("the events ended")

    async def run_plain(self, name: str, count: int, at_once: int) -> None:
        """The children's work as plain runs, each in a thread of its own."""
        slots = asyncio.Semaphore(at_once)

        async def run_one(number: int) -> None:
            async with slots:
                await self._stead.invoke(work.child_prompt(number), thread_id=f"{name}.{number}", agent=CHILD)

        await asyncio.gather(*map(run_one, range(count)))

    async def stored(self, numbers: Iterable[int]) -> Mapping[int, list[str]]:
        store = (await self._stead.conversations()).store
        found: dict[int, list[str]] = {number: [] for number in numbers}
        for task in await store.list_tasks(TaskFilter(), limit=100_000):
            number = int(task.prompt.rstrip(".").split()[-1])
            if task.outcome == "completed" and number in found:
                found[number].append(task.summary or "")
        return found

    async def said(self, name: str) -> str | None:
        store = (await self._stead.conversations()).store
        answers = [one.content for one in await store.list_messages(name) if one.role == "assistant"]
        return answers[-1] if answers else None

    async def resume(self, name: str) -> bool:
        return False


@asynccontextmanager
async def opened(folder: Path, at_once: int, database: str | None = None) -> AsyncGenerator[OurTasks]:
    agents = folder / "home" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {CHILD}\ndescription: Does one task.\n---\n{work.CHILD_INSTRUCTIONS}\n"
    (agents / f"{CHILD}.md").write_text(text, encoding="utf-8")
    settings: dict[str, Any] = {
        "multi_agent": {"agents": [CHILD], "max_concurrent_delegates": at_once},
        "limits": {"max_fanout": 100_000, "max_descendants": 100_000, "token_budget": 10**9},
        "plugins": {"context": {"max_tokens": 1_000_000}},
    }
    environ = {"TOOLSTEAD_HOME": str(folder / "home"), "HOME": str(folder)}
    if database is not None:
        environ["TOOLSTEAD_DATABASE_URL"] = database
    async with Toolstead(folder, settings=settings, runtimes=[Models()], environ=environ, watch=False) as stead:
        await stead.conversations()  # what the first life left goes on
        yield OurTasks(stead)


async def _take_turns(count: int, at_once: int, rounds: int, database: str | None, *, with_tasks: bool) -> None:
    """Milliseconds of CPU for each plain run and each task, round by round, after some that pay for what all share."""
    told: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        async with opened(Path(folder), at_once, database) as tasks:
            await tasks.run_plain("warm-plain", at_once, at_once)
            if with_tasks:
                await tasks.delegate("warm", work.prompt(range(at_once)))
            for number in range(rounds):
                with workload.Stopwatch() as plain:
                    await tasks.run_plain(f"plain{number}", count, at_once)
                told.append({"plain_ms": plain.cpu / count * 1000})
                if with_tasks:
                    first = at_once + number * count
                    with workload.Stopwatch() as delegated:
                        await tasks.delegate(f"tasks{number}", work.prompt(range(first, first + count)))
                    told[-1] |= {"task_ms": delegated.cpu / count * 1000, "ratio": delegated.cpu / plain.cpu}
    workload.report(count=count, at_once=at_once, rounds=told)


def _main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[2:] if "=" in argument)
    database = given.get("database")
    if sys.argv[1] in ("plain", "turns"):
        count, at_once = int(given.get("count", work.COUNT)), int(given.get("at_once", work.AT_ONCE))
        rounds, with_tasks = int(given.get("rounds", 1)), sys.argv[1] == "turns"
        asyncio.run(_take_turns(count, at_once, rounds, database, with_tasks=with_tasks))
    else:
        work.main(partial(opened, database=database))


if __name__ == "__main__":
    _main()
