"""A server with a lot to show in its console, which then reports deltas as fast as it is asked to.

It says where everything is in one line of JSON, and obeys stdin: each line is a command of JSON, `{"rate", "seconds"}`:
so many events a second in several runs at once, each run ending after a while and another beginning in its thread. When
that is over it answers with a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import workload
from toolstead import Toolstead
from toolstead.orchestrator.store import Ending, Store
from toolstead.types.event import NewEvent
from toolstead.types.run import Run, Usage
from toolstead.types.thread import Message, Thread

BATCH_SECONDS = 0.02
DELTAS_OF_A_RUN = 1_500
STREAMING = 4
FANOUT = 9
PAGE = 2_000
TEXT = (
    "The build is **green**: `make check` passed, and the [notes](https://example.com/notes) say why.\n\n- one\n- two\n"
)


class Stage:
    """What is in the database."""

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project
        self._number = 0

    def new_id(self, kind: str) -> str:
        self._number += 1
        return f"{kind}_bench{self._number:08}"

    async def begin_run(self, thread: str, prompt: str, parent: Run | None = None) -> Run:
        """A run under way, in a thread of its own where there is none of that name."""
        root = None if parent is None else parent.root_run_id or parent.id
        run = Run(
            id=self.new_id("run"),
            thread_id=thread,
            prompt=prompt,
            created_at=time.time(),
            owner=self._store.owner,
            agent="main" if parent is None else "reader",
            runtime="kernel",
            model="bench:model",
            parent_run_id=parent.id if parent else None,
            root_run_id=root,
            depth=parent.depth + 1 if parent else 0,
        )
        message = Message(
            id=self.new_id("msg"), thread_id=thread, role="user", content=prompt, created_at=run.created_at
        )
        said = {"messageId": message.id, "role": "user", "content": prompt, "kind": "text"}
        place = Thread(
            id=thread,
            created_at=run.created_at,
            title=prompt,
            project=self._project,
            parent_thread_id=parent.thread_id if parent else None,
        )
        await self._store.accept_message(message, run, thread=place, events=[_event("message", said, run)])
        begun = {"agent": run.agent, "runtime": run.runtime, "model": run.model}
        await self._store.begin_run(run, time.time(), [_event("run.started", begun, run)])
        return run

    async def end_run(self, run: Run, answer: str) -> None:
        usage = Usage(input_tokens=1_200, output_tokens=len(answer) // 4, cost=0.002)
        message = Message(
            id=self.new_id("msg"),
            thread_id=run.thread_id,
            role="assistant",
            content=answer,
            created_at=time.time(),
            run_id=run.id,
        )
        said = {"messageId": message.id, "role": "assistant", "content": answer, "kind": "text"}
        ended = {"result": answer, "usage": usage.to_json()}
        events = [_event("message", said, run), _event("completed", ended, run)]
        ending = Ending(
            status="completed", ended_at=time.time(), result=answer, usage=usage, answer=message, events=events
        )
        await self._store.end_run(run.id, ending)

    async def fill_thread(self, messages: int) -> str:
        """A conversation with so many messages, and a call for each answer."""
        run = await self.begin_run(self.new_id("thread"), "A long conversation")
        events: list[NewEvent] = []
        for number in range(1, messages):
            is_answer = number % 2 == 1
            if is_answer:
                call = {"callId": f"call{number}", "name": "file-reader"}
                events.append(_event("tool_use", {**call, "input": {"path": f"notes-{number}.md"}}, run))
                events.append(
                    _event("tool_result", {**call, "content": "line\n" * 20, "isError": False, "durationMs": 3}, run)
                )
            text = f"Answer {number}. {TEXT * (1 + number % 3)}" if is_answer else f"Question {number}?"
            role = "assistant" if is_answer else "user"
            said = {"messageId": self.new_id("msg"), "role": role, "content": text, "kind": "text"}
            events.append(_event("message", said, run))
        await self._append(events)
        await self.end_run(run, f"Answer {messages}, the last one.")
        return run.thread_id

    async def fill_tree(self, runs: int) -> str:
        """A tree of so many runs, of which the last hundred are under way."""
        rows = [await self.begin_run(self.new_id("thread"), "The root of a large tree")]
        while len(rows) < runs:
            parent = rows[(len(rows) - 1) // FANOUT]
            rows.append(await self.begin_run(self.new_id("thread"), f"Part {len(rows)} of the work", parent))
        for run in rows[1 : -min(100, runs // 2)]:
            await self.end_run(run, "Done.")
        return rows[0].id

    async def fill_log(self, events: int) -> None:
        """So many more events, of many threads."""
        runs = [await self.begin_run(self.new_id("thread"), f"Source {number} of many events") for number in range(20)]
        filler: list[NewEvent] = []
        for number in range(events // 2):
            run, call = runs[number % len(runs)], {"callId": f"many{number}", "name": "git-status"}
            filler.append(_event("tool_use", {**call, "input": {"number": number}}, run))
            filler.append(_event("tool_result", {**call, "content": "clean", "isError": False, "durationMs": 2}, run))
        await self._append(filler)
        for run in runs:
            await self.end_run(run, "Done.")

    async def stream(self, threads: Sequence[str], rate: int, seconds: float) -> int:
        """Deltas of a run in each thread, `rate` a second over all; how many were stored."""
        async with self._streaming(threads) as (sent, runs):
            began, count = time.monotonic(), 0
            while (passed := time.monotonic() - began) < seconds:
                due = min(int(passed * rate), count + rate)
                batch = [_delta(runs[threads[number % len(threads)]], number) for number in range(count, due)]
                count = due
                await self._store.append_events(batch)
                for event in batch:
                    sent[event.thread_id or ""].append(event.data["text"])
                for thread in threads:
                    if len(sent[thread]) >= DELTAS_OF_A_RUN:
                        await self.end_run(runs[thread], "".join(sent.pop(thread)))
                        sent[thread] = []
                        runs[thread] = await self.begin_run(thread, "And then?")
                await asyncio.sleep(max(BATCH_SECONDS - (time.monotonic() - began - passed), 0))
        return count

    @asynccontextmanager
    async def _streaming(self, threads: Sequence[str]) -> AsyncIterator[tuple[dict[str, list[str]], dict[str, Run]]]:
        runs = {thread: await self.begin_run(thread, "Tell it all") for thread in threads}
        sent: dict[str, list[str]] = {thread: [] for thread in threads}
        yield sent, runs
        for thread in threads:
            await self.end_run(runs[thread], "".join(sent[thread]))

    async def _append(self, events: Sequence[NewEvent]) -> None:
        for start in range(0, len(events), PAGE):
            await self._store.append_events(events[start : start + PAGE])


def _event(kind: str, data: dict[str, Any], run: Run) -> NewEvent:
    return NewEvent(type=kind, time=time.time(), data=data, thread_id=run.thread_id, run_id=run.id)


def _delta(run: Run, number: int) -> NewEvent:
    """A piece of a text with paragraphs, a list now and then, and its own number."""
    end = "\n\n" if number % 160 < STREAMING else "\n- " if number % 40 < STREAMING else " "
    return _event("message.delta", {"text": f"m{number}{end}", "attempt": 1}, run)


async def main() -> None:
    _, options = workload.options()
    async with Toolstead() as stead:
        conversations = await stead.conversations()
        stage = Stage(conversations.store, conversations.project)
        await stage.fill_log(int(options["events"]))
        tree = await stage.fill_tree(int(options["runs"]))
        thread = await stage.fill_thread(int(options["messages"]))
        streaming = [stage.new_id("thread") for _ in range(STREAMING)]

        async def obey() -> None:
            print(json.dumps({"tree": tree, "thread": thread, "streaming": streaming}), flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                asked = json.loads(line)
                count = await stage.stream(streaming, asked["rate"], asked["seconds"])
                print(json.dumps({"count": count}), flush=True)

        obeying = asyncio.create_task(obey())
        await stead.serve_http(host="127.0.0.1", port=int(options["port"]))
        obeying.cancel()


if __name__ == "__main__":
    asyncio.run(main())
