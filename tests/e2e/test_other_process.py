"""A run is cancelled and steered from another process, whichever runtime it is on: the kernel, Claude Code, Codex."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAMS
from tests.e2e.model_stage import KERNELS, Player, Stage, playing
from tests.programs import reach_run
from tests.waiting import PATIENCE
from toolstead import Tool, tool
from toolstead.orchestrator.request import RunRequest

PLAYERS = [pytest.param(KERNELS["anthropic"], id="kernel"), *PROGRAMS]
SCRIPT = """
- {when: rather, say: As you wish.}
- {when: begin, call: [{tool: wait, input: {}}], say: As you wish.}
"""


def waiting() -> tuple[Tool, asyncio.Event, asyncio.Event]:
    """A tool, when it has begun, and what it waits for."""
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        await go_on.wait()
        return "waited"

    return wait, began, go_on


async def elsewhere(stage: Stage, what: str, given: str) -> str:
    """Have another process do it, within a second."""
    environ = {**os.environ, "TOOLSTEAD_HOME": str(stage.folder / "home")}
    command = [sys.executable, "-m", reach_run.__name__, what, str(stage.project), "t1", given]
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    pid, outcome, seconds = json.loads(out)
    print(f"{stage.name}: {what} from process {pid} took {seconds:.2f} s")
    assert pid == process.pid != os.getpid()
    return str(outcome)


async def start(stage: Stage) -> str:
    wanted = RunRequest(prompt="begin", thread_id="t1", model=stage.player.model, runtime=stage.player.runtime)
    return (await (await stage.stead.conversations()).submit(wanted)).run_id


@pytest.mark.parametrize("player", PLAYERS)
async def test_a_run_is_cancelled_from_another_process(player: Player, tmp_path: Path) -> None:
    wait, began, _ = waiting()
    async with playing(player, SCRIPT, tmp_path, tools=[wait]) as stage:
        run_id = await start(stage)
        await asyncio.wait_for(began.wait(), PATIENCE)
        assert await elsewhere(stage, "cancel", run_id) == "cancelled"
        run = await (await stage.stead.conversations()).wait(run_id)
        assert (run.status, run.error and run.error.code) == ("cancelled", "cancelled")
        await stage.until(lambda: stage.api.active == 0)


@pytest.mark.parametrize("player", PLAYERS)
async def test_a_run_is_steered_from_another_process(player: Player, tmp_path: Path) -> None:
    wait, began, go_on = waiting()
    async with playing(player, SCRIPT, tmp_path, tools=[wait]) as stage:
        run_id = await start(stage)
        await asyncio.wait_for(began.wait(), PATIENCE)
        assert await elsewhere(stage, "steer", "rather do that") == run_id
        go_on.set()
        run = await asyncio.wait_for((await stage.stead.conversations()).wait(run_id), PATIENCE)
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        first, second = stage.requests
        assert stage.view.spoken(first) == ["begin"]
        assert stage.view.spoken(second) == ["begin", "rather do that"]
