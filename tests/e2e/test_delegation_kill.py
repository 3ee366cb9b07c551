"""A process dies in the middle of a task of Claude Code or Codex, and another goes on with the same conversation."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.agent_folder import write_agent
from tests.e2e import captured
from tests.e2e.conftest import PROGRAMS
from tests.e2e.model_stage import Player
from tests.programs import delegating
from tests.programs.running import running
from tests.waiting import until
from toolstead.delegation.task_texts import RESUMED
from toolstead.testing import scripted_models

SCRIPT = """
- when: ^begin$
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: search the house, mode: detached}}]
- say: begun
- when: Work that you delegated
  say: "thanks"
- when: The process that ran you ended
  say: found it after all
- when: search the house
  call: [{tool: look, input: {}}]
- call: [{tool: wait, input: {}}]
- say: never
"""


def is_written(folder: Path) -> bool:
    """Whether a program has written what it was answered into the file of its conversation."""
    return any(delegating.LOOKED in path.read_text(errors="replace") for path in folder.rglob("*.jsonl"))


@pytest.mark.promise("B1")
@pytest.mark.parametrize("child", PROGRAMS)
async def test_a_task_of_a_killed_process_is_adopted_and_its_conversation_goes_on(
    child: Player, tmp_path: Path
) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    write_agent("helper", f"runtime: {child.runtime}\nmodel: {child.model}", home=tmp_path / "home")
    command = [sys.executable, "-m", delegating.__name__]
    async with scripted_models(SCRIPT) as api:
        given = [str(tmp_path), api.url]
        async with running([*command, "ask", *given], errors=tmp_path / "first.txt") as first:
            assert (await first.line()).decode().strip() == "waiting", first.stderr
            await until(lambda: is_written(tmp_path))  # programs write their conversations a moment later
            asked = len(api.requests)
            os.kill(first.pid, signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
            async with running([*command, "adopt", *given], errors=tmp_path / "second.txt") as second:
                line = await second.line()
                assert line, second.stderr
                assert line.startswith(b"{"), (second.stderr, line)
                assert await second.ended() == 0
        found = json.loads(line)
        assert (found["outcome"], found["summary"]) == ("completed", "found it after all"), second.stderr
        assert (found["epoch"], found["child"]) == (3, ["lost", "completed"])
        assert found["parent"] == ["begun", "thanks"]
        assert found["asked"] == ["search the house"]  # the order is stored once
        resumed = next(one for one in api.requests[asked:] if RESUMED.strip() in child.view.spoken(one)[-1])
        spoken = child.view.spoken(resumed)
        assert spoken[0] == "search the house"
        assert spoken[-1] == f"{RESUMED}search the house"
        assert any(delegating.LOOKED in text for text in captured.results_of(resumed))  # what it had done is there
        assert found["session"]
        await until(lambda: api.active == 0)
