"""Conversations with a tool call in every turn, through `stead.invoke`; everything is stored in SQLite."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from benchmarks import workload
from toolstead import Toolstead, tool

SCRIPT = f"""
- when: {workload.TURN}
  call: [{{tool: {workload.REPEAT}, input: {{text: stead, times: 3}}}}]
- say: "{workload.turn_answer("{{result}}")}"
"""


async def main() -> None:
    _, options = workload.options()
    threads, turns = int(options["threads"]), int(options["turns"])
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        script = Path(folder, "script.yaml")
        script.write_text(SCRIPT)  # noqa: ASYNC240 - nothing runs yet
        environ = {**os.environ, "TOOLSTEAD_HOME": folder}
        async with Toolstead(environ=environ, settings={"runtime": {"scripted": {"script": str(script)}}}) as stead:
            stead.registry.register(tool(workload.repeat))

            async def converse(name: str) -> None:
                for _ in range(turns):
                    run = await stead.invoke(workload.TURN, thread_id=name)
                    workload.expect(run.result == workload.TURN_ANSWER, f"the answer was {run.result!r}, {run.error}")

            await converse("first")  # it pays for what all share
            with workload.Stopwatch() as watch:
                await asyncio.gather(*(converse(f"thread-{number}") for number in range(threads)))
            store = (await stead.conversations()).store
            for name in ("first", f"thread-{threads - 1}"):
                stored = [one.content for one in await store.list_messages(name)]
                workload.expect(stored == [workload.TURN, workload.TURN_ANSWER] * turns, "every message is stored")
    workload.report_turns(watch, threads * turns)


if __name__ == "__main__":
    asyncio.run(main())
