"""A call and a turn in a stead with so many plugins, with and without hooks of their own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.ours.conversations import SCRIPT
from toolstead import Allow, Hooks, Plugin, PluginContext, Toolstead, tool
from toolstead.app.plugin_places import FIRST_PARTY

THREADS = 50
TURNS = 20


def made(number: int, *, hooks: bool) -> Plugin:
    """A plugin with a tool; with hooks, one on every station of a message and of a call."""

    async def before(_thread: str, prompt: str, _invocation: Any) -> str:
        return prompt

    async def gate(_call: Any) -> Allow:
        return Allow()

    async def seen(*_: Any) -> None:
        return None

    async def register(_: PluginContext) -> Hooks:
        return Hooks(
            on_message=seen,
            on_before_invoke=before,
            on_after_invoke=seen,
            on_broadcast=seen,
            on_before_tool=gate,
            on_after_tool=seen,
        )

    name = f"bench{number}"
    return Plugin(name=name, version="1", register=register if hooks else None, tools=[tool(workload.repeat)])


async def main() -> None:
    mode, options = workload.options()
    plugins = [made(number, hooks=options["hooks"] == "1") for number in range(int(options["plugins"]))]
    off = {name: {"enabled": False} for name in FIRST_PARTY} if options["first"] == "0" else {}
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        script = Path(folder, "script.yaml")
        script.write_text(SCRIPT)  # noqa: ASYNC240 - nothing runs yet
        settings = {"plugins": off, "runtime": {"scripted": {"script": str(script)}}}
        environ = {**os.environ, "TOOLSTEAD_HOME": folder}
        async with Toolstead(environ=environ, settings=settings, plugins=plugins) as stead:
            stead.registry.register(tool(workload.repeat))
            states = {plugin["state"] for plugin in stead.plugins.show_plugins() if plugin["enabled"]}
            workload.expect(states <= {"running"}, f"every plugin runs, not {states}")
            await (_calls(stead, float(options["seconds"])) if mode == "call" else _turns(stead))


async def _calls(stead: Toolstead, seconds: float) -> None:
    async def batch(count: int) -> None:
        for _ in range(count):
            await stead.call(workload.REPEAT, workload.REPEAT_ARGUMENTS)

    workload.expect((await stead.call(workload.REPEAT, workload.REPEAT_ARGUMENTS)).text == workload.REPEAT_ANSWER, "it")
    await workload.time_calls(batch, seconds)


async def _turns(stead: Toolstead) -> None:
    async def converse(name: str) -> None:
        for _ in range(TURNS):
            run = await stead.invoke(workload.TURN, thread_id=name)
            workload.expect(run.result == workload.TURN_ANSWER, f"the answer was {run.result!r}, {run.error}")

    await converse("first")  # it pays for what all share
    with workload.Stopwatch() as watch:
        await asyncio.gather(*(converse(f"thread-{number}") for number in range(THREADS)))
    workload.report_turns(watch, THREADS * TURNS)


if __name__ == "__main__":
    asyncio.run(main())
