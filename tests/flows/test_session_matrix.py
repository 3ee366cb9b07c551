"""Warm, resumed, cold, lost, rotated, expired, after a restart: what reaches the model, and which id is kept.

A session that has its conversation never gets the history again; one that has not is told as `cold`, so that whoever
listens to `on_before_invoke` can give it. The hook of these tests does just that, as a plugin would.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flows.talking import World, talking
from tests.unit.invoker.bench import Clock
from toolstead import Toolstead
from toolstead.adapters.scripted.runtime import ScriptedRuntime
from toolstead.invoker.pool import SessionPool
from toolstead.orchestrator.orchestrator import RunRequest
from toolstead.types.run import Invoking

SCRIPT = """
- when: lose
  lose: 1
  say: 'found again'
- when: rotate
  say: 'rotated'
  rotate: true
- when: fail
  fail: 'the model is tired'
- say: 'Hello'
"""


class History:
    """Gives a cold session what was said before, once; notes what it was told about each invocation."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.told: list[str] = []

    async def on_message(self, *_: Any) -> None: ...

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        self.told.append(invocation.session)
        assert self.world is not None
        messages = await self.world.store.list_messages(thread_id)
        earlier = [message.content for message in messages if message.run_id != invocation.run_id]
        if invocation.session != "cold" or not earlier:
            return prompt
        return f"[{' | '.join(earlier)}] {prompt}"

    async def on_after_invoke(self, *_: Any) -> None: ...

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None: ...


class Talk:
    """A world with one thread, and a line for every message: warmth told, text received, id before and after."""

    def __init__(self, world: World, runtime: ScriptedRuntime, history: History) -> None:
        self.world, self._runtime, self._history = world, runtime, history
        history.world = world

    async def kept(self) -> str | None:
        return (await self.world.store.read_thread("t")).session_id

    async def say(self, text: str, **more: Any) -> tuple[list[str], list[str]]:
        """What the hook was told, and what the model was told, on each try."""
        heard, told = len(self._runtime.received), len(self._history.told)
        await self.world.ask(text, **more)
        return self._history.told[told:], [one.prompt for one in self._runtime.received[heard:]]


def kept_id(runtime: ScriptedRuntime) -> str:
    return f"scripted:{runtime.received[-1].session_id}"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.promise("S6")
async def test_a_warm_session_never_gets_its_history_twice(tmp_path: Path) -> None:
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        assert await talk.say("one") == (["cold"], ["one"])
        first = await talk.kept()
        assert first == kept_id(runtime)
        assert await talk.say("two") == (["warm"], ["two"])
        assert await talk.say("three") == (["warm"], ["three"])
        assert await talk.kept() == first
        assert runtime.opened == 1


@pytest.mark.promise("S6")
@pytest.mark.parametrize("resumes", [True, False])
async def test_an_expired_session_is_resumed_where_the_runtime_can_and_else_told_as_cold(
    tmp_path: Path, clock: Clock, resumes: bool
) -> None:
    runtime, history = ScriptedRuntime(SCRIPT, resumes=resumes), History()
    async with talking(tmp_path, runtime, hooks=history, pool=SessionPool(ttl=480, clock=clock)) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        before = await talk.kept()
        clock.now += 479
        assert await talk.say("two") == (["warm"], ["two"])
        clock.now += 481  # eight idle minutes have passed
        heard = await talk.say("three")
        if resumes:
            assert heard == (["resumed"], ["three"])
            assert await talk.kept() == before
        else:
            assert heard == (["cold"], ["[one | Hello | two | Hello] three"])
            assert await talk.kept() == kept_id(runtime) != before  # replaced by the new one
        assert await talk.say("four") == (["warm"], ["four"])


@pytest.mark.promise("S6")
@pytest.mark.parametrize("resumes", [True, False])
async def test_after_an_error_the_next_message_finds_its_conversation(tmp_path: Path, resumes: bool) -> None:
    runtime, history = ScriptedRuntime(SCRIPT, resumes=resumes), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        assert await talk.say("fail") == (["warm"], ["fail"])
        assert runtime.closed == 1  # an error evicts
        expected = (["resumed"], ["two"]) if resumes else (["cold"], ["[one | Hello | fail] two"])
        assert await talk.say("two") == expected


@pytest.mark.promise("S6")
async def test_a_conversation_lost_in_the_middle_is_begun_anew_with_its_history_and_the_new_id_is_kept(
    tmp_path: Path,
) -> None:
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        before = await talk.kept()
        # The first try finds it warm, and lost; the hook runs again for the second, on an empty session.
        assert await talk.say("lose") == (["warm", "cold"], ["lose", "[one | Hello] lose"])
        assert await talk.kept() == kept_id(runtime) != before
        assert await talk.say("two") == (["warm"], ["two"])


@pytest.mark.promise("S6")
async def test_an_id_that_is_lost_for_good_is_cleared(tmp_path: Path) -> None:
    runtime, history = ScriptedRuntime("- when: lose\n  lose: 2\n- say: Hello\n"), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        assert await talk.kept() is not None
        assert (await talk.say("lose"))[0] == ["warm", "cold"]
        run = (await world.store.list_runs(thread_id="t"))[0]
        assert (run.status, run.error and run.error.code) == ("failed", "session_lost")
        assert await talk.kept() is None
        assert await talk.say("two") == (["cold"], ["[one | Hello | lose] two"])
        assert await talk.kept() == kept_id(runtime)


@pytest.mark.promise("S6")
async def test_an_id_the_runtime_does_not_know_any_more_is_replaced(tmp_path: Path) -> None:
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await world.ask("one")
        await world.store.update_thread("t", session_id="scripted:0123456789abcdef")
        world.orchestrator.invoker.pool.evict("t")
        runtime._state._conversations.clear()  # as after the runtime's own files were deleted
        assert await talk.say("two") == (["cold"], ["[one | Hello] two"])
        assert await talk.kept() == kept_id(runtime)


@pytest.mark.promise("S6")
async def test_an_id_that_changes_is_replaced_and_the_new_one_is_resumed(tmp_path: Path, clock: Clock) -> None:
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history, pool=SessionPool(ttl=480, clock=clock)) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        before = await talk.kept()
        await talk.say("rotate")
        after = await talk.kept()
        assert after is not None
        assert after != before
        clock.now += 500
        assert await talk.say("two") == (["resumed"], ["two"])
        assert kept_id(runtime) == after


@pytest.mark.promise("S6")
async def test_messages_that_queued_while_the_id_changed_use_the_new_one(tmp_path: Path, clock: Clock) -> None:
    """They were accepted when the old id was still the stored one."""
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history, pool=SessionPool(ttl=480, clock=clock)) as world:
        talk = Talk(world, runtime, history)
        await talk.say("one")
        for _ in range(3):
            ids = [await world.post(text) for text in ("rotate", "fail", "two", "rotate", "fail", "three")]
            for run_id in ids:
                await world.end_of(run_id)
        assert set(history.told[1:]) == {"warm", "resumed"}  # never cold: no id was ever stale
        assert await talk.kept() == kept_id(runtime)


@pytest.mark.promise("S5")
async def test_a_prewarmed_session_is_warm_for_a_new_thread_and_cold_where_history_is_missing(tmp_path: Path) -> None:
    runtime, history = ScriptedRuntime(SCRIPT, resumes=False), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await world.orchestrator.submit(RunRequest(prompt="one", thread_id="t"))
        await world.end_of((await world.store.list_runs(thread_id="t"))[0].id)
        world.orchestrator.invoker.pool.evict("t")
        assert await world.orchestrator.prewarm("t") == (True, "scripted")
        opened = runtime.opened
        assert await talk.say("two") == (["cold"], ["[one | Hello] two"])  # open, but empty
        assert runtime.opened == opened
        assert world.orchestrator.invoker.pool.stats().hits == 1
        assert await talk.say("three") == (["warm"], ["three"])


@pytest.mark.promise("S6")
async def test_an_id_that_a_caller_names_is_gone_on_with(tmp_path: Path) -> None:
    runtime, history = ScriptedRuntime(SCRIPT), History()
    async with talking(tmp_path, runtime, hooks=history) as world:
        talk = Talk(world, runtime, history)
        await world.ask("one", thread_id="elsewhere")
        named = runtime.received[-1].session_id
        assert await talk.say("two", session_id=named) == (["resumed"], ["two"])
        assert runtime.received[-1].session_id == named
        assert await talk.say("three") == (["warm"], ["three"])


ANOTHER_PROCESS = """
import asyncio, json, os, sys
from toolstead import Toolstead

async def main():
    project, text = sys.argv[1:]
    async with Toolstead(project, settings=json.loads(os.environ["SETTINGS"])) as stead:
        run = await stead.invoke(text, thread_id="t")
        store = (await stead.conversations()).store
        thread = await store.read_thread("t")
        print(json.dumps({"pid": os.getpid(), "status": run.status, "result": run.result, "kept": thread.session_id}))

asyncio.run(main())
"""


@pytest.mark.promise("S6")
@pytest.mark.promise("S7")
async def test_after_a_restart_another_process_goes_on_with_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    folder = tmp_path / "kept"
    settings = {"runtime": {"scripted": {"script": str(tmp_path / "script.yaml"), "folder": str(folder)}}}

    async def elsewhere(text: str) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path), text),
            env={**os.environ, "SETTINGS": json.dumps(settings)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        told: dict[str, Any] = json.loads(out)
        assert told["pid"] == process.pid
        return told

    def conversation(kept: str) -> list[str]:
        said = json.loads((folder / f"{kept.removeprefix('scripted:')}.json").read_text())["said"]
        return [text for role, text in said if role == "user"]

    first = await elsewhere("one")
    assert conversation(first["kept"]) == ["one"]
    async with Toolstead(tmp_path, settings=settings) as stead:
        here = await stead.invoke("two", thread_id="t")
        assert here.status == "completed"
        thread = await (await stead.conversations()).store.read_thread("t")
    assert thread.session_id == first["kept"]
    assert conversation(first["kept"]) == ["one", "two"]  # one conversation, and no history a second time
    rotated = await elsewhere("rotate")
    assert rotated["kept"] != first["kept"]
    assert conversation(rotated["kept"]) == ["one", "two", "rotate"]
    for path in folder.glob("*.json"):
        path.unlink()  # the runtime loses everything
    last = await elsewhere("three")
    assert last["kept"] not in {rotated["kept"], None}
    [told] = conversation(last["kept"])
    assert told.splitlines()[-1] == "three"  # what was said before stands above it
    print(f"pids: {first['pid']} began, {os.getpid()} went on, {rotated['pid']} and {last['pid']} went on after it")
    assert len({first["pid"], os.getpid(), rotated["pid"], last["pid"]}) == 4
