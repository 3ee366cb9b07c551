"""The history of a thread, as the model is told it by the stead as it comes: once where it is missing, never else.

The same matrix as `test_session_matrix`, with the `context` plugin instead of a hook of the test's own. Looked at is
what the model has before it when it answers: everything its session was told since it began.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.invoker.bench import Clock
from toolstead import Toolstead
from toolstead.adapters.scripted.runtime import ScriptedRuntime
from toolstead.adapters.scripted.script_state import Received
from toolstead.invoker.pool import SessionPool
from toolstead.orchestrator.orchestrator import Orchestrator, RunRequest
from toolstead.types.run import Run

pytestmark = pytest.mark.promise("S6")

MARK = "<earlier_messages>"
SCRIPT = """
- when: lose\\Z
  lose: 1
  say: 'answer to {{prompt}}'
- when: gone\\Z
  lose: 2
- when: rotate\\Z
  say: 'rotated'
  rotate: true
- when: fail\\Z
  fail: 'the model is tired'
- say: 'Hello'
"""


class Talk:
    """One thread of a stead, and what its model knows of it."""

    def __init__(self, stead: Toolstead, runtime: ScriptedRuntime, orchestrator: Orchestrator) -> None:
        self.stead, self.runtime, self.orchestrator = stead, runtime, orchestrator

    async def say(self, text: str, **more: Any) -> Run:
        return await self.stead.invoke(text, thread_id="t", **more)

    async def begin(self) -> None:
        """Two turns, of which the model knows everything."""
        for text in ("question-1", "question-2"):
            assert (await self.say(text)).status == "completed"
        assert [one.prompt for one in self.runtime.received] == ["question-1", "question-2"]

    def evict(self) -> None:
        self.orchestrator.invoker.pool.evict("t")

    def sent(self, text: str) -> str:
        """What the model was told with the last message, which ends with it."""
        prompt = self.runtime.received[-1].prompt
        assert prompt.endswith(text)
        return prompt


def known(received: list[Received]) -> str:
    """Everything that the conversation that was told something last was told since it began."""
    last = received[-1].session_id
    return "\n".join(one.prompt for one in received if one.session_id == last)


def check_once(told: str, *texts: str) -> None:
    """Each of these stands in it exactly once, and there is at most one history."""
    assert [told.count(text) for text in texts] == [1] * len(texts), told
    assert told.count(MARK) <= 1, told


@asynccontextmanager
async def talking(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    resumes: bool = True,
    clock: Clock | None = None,
    settings: dict[str, Any] | None = None,
) -> AsyncIterator[Talk]:
    """A whole stead as it comes, with a model that can be looked at."""
    (folder / "script.yaml").write_text(SCRIPT)
    runtime = ScriptedRuntime(SCRIPT, resumes=resumes)
    monkeypatch.setattr("toolstead.app.runtimes.Runtimes._make_scripted", lambda _: runtime)
    if clock is not None:

        def pool(**given: Any) -> SessionPool:
            return SessionPool(**given, clock=clock)

        monkeypatch.setattr("toolstead.invoker.pool.SessionPool", pool)
    chosen = {"runtime": {"scripted": {"script": str(folder / "script.yaml")}}, **(settings or {})}
    async with Toolstead(folder, settings=chosen, watch=False) as stead:
        shown = {one["name"]: one["state"] for one in stead.plugins.show_plugins()}
        assert shown["context"] == "running"
        yield Talk(stead, runtime, await stead.conversations())


async def test_a_warm_session_is_told_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(tmp_path, monkeypatch) as talk:
        await talk.begin()
        for number in range(3, 10):
            await talk.say(f"question-{number}")
        assert [one.prompt for one in talk.runtime.received] == [f"question-{number}" for number in range(1, 10)]
        assert talk.runtime.opened == 1


async def test_a_cold_session_that_is_resumed_is_told_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch) as talk:
        await talk.begin()
        talk.evict()
        await talk.say("question-3")
        assert talk.sent("question-3") == "question-3"
        assert talk.runtime.opened == 2
        check_once(known(talk.runtime.received), "question-1", "question-2", "question-3")


async def test_a_cold_session_that_cannot_be_resumed_is_told_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, resumes=False) as talk:
        await talk.begin()
        talk.evict()
        await talk.say("question-3")
        sent = talk.sent("question-3")
        check_once(sent, MARK, "question-1", "question-2", "question-3")
        assert sent.count("Hello") == 2
        await talk.say("question-4")
        assert talk.sent("question-4") == "question-4"
        check_once(known(talk.runtime.received), MARK, *(f"question-{number}" for number in range(1, 5)))
        talk.evict()  # and once more: the history that was told before is no message, and is not told itself
        await talk.say("question-5")
        check_once(talk.sent("question-5"), MARK, *(f"question-{number}" for number in range(1, 6)))


async def test_a_session_lost_in_the_middle_of_a_turn_is_told_everything_once_on_the_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch) as talk:
        await talk.begin()
        assert (await talk.say("lose")).status == "completed"
        first, second = (one.prompt for one in talk.runtime.received[2:])
        assert first == "lose"
        check_once(second, MARK, "question-1", "question-2")
        assert second.endswith("</earlier_messages>\n\nlose")
        assert second.count("lose") == 1
        await talk.say("question-3")
        assert talk.sent("question-3") == "question-3"
        check_once(known(talk.runtime.received), MARK, "question-1", "question-2", "question-3")


async def test_a_lost_id_is_cleared_and_the_next_message_brings_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch) as talk:
        await talk.begin()
        run = await talk.say("gone")
        assert (run.status, run.error and run.error.code) == ("failed", "session_lost")
        assert (await talk.orchestrator.store.read_thread("t")).session_id is None
        await talk.say("question-3")
        check_once(talk.sent("question-3"), MARK, "question-1", "question-2", "\ngone\n", "question-3")


async def test_an_id_that_the_runtime_does_not_know_any_more_brings_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch) as talk:
        await talk.begin()
        talk.evict()
        talk.runtime._state._conversations.clear()  # as after the runtime's own files were deleted
        await talk.say("question-3")
        check_once(talk.sent("question-3"), MARK, "question-1", "question-2", "question-3")
        check_once(known(talk.runtime.received), MARK, "question-1", "question-2", "question-3")


async def test_an_id_that_changes_brings_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with talking(tmp_path, monkeypatch, clock=clock) as talk:
        await talk.begin()
        await talk.say("rotate")
        await talk.say("question-3")  # warm, under another id
        clock.now += 100_000
        await talk.say("question-4")  # resumed, by the new id
        prompts = [one.prompt for one in talk.runtime.received]
        assert prompts == ["question-1", "question-2", "rotate", "question-3", "question-4"]
        assert talk.runtime.opened == 2


@pytest.mark.parametrize("resumes", [True, False])
async def test_an_expired_session_is_resumed_or_told_everything_once(
    resumes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with talking(tmp_path, monkeypatch, resumes=resumes, clock=clock) as talk:
        await talk.begin()
        clock.now += 100_000
        await talk.say("question-3")
        sent = talk.sent("question-3")
        if resumes:
            assert sent == "question-3"
        else:
            check_once(sent, MARK, "question-1", "question-2", "question-3")
        await talk.say("question-4")
        assert talk.sent("question-4") == "question-4"


@pytest.mark.parametrize("resumes", [True, False])
async def test_after_an_error_what_failed_is_part_of_the_history(
    resumes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, resumes=resumes) as talk:
        await talk.begin()
        assert (await talk.say("fail")).status == "failed"
        await talk.say("question-3")
        if resumes:
            assert talk.sent("question-3") == "question-3"
        else:
            check_once(talk.sent("question-3"), MARK, "question-1", "question-2", "\nfail\n", "question-3")


async def test_a_prewarmed_session_of_a_thread_with_a_history_is_told_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, resumes=False) as talk:
        await talk.begin()
        talk.evict()
        assert await talk.orchestrator.prewarm("t") == (True, "scripted")
        await talk.say("question-3")
        check_once(talk.sent("question-3"), MARK, "question-1", "question-2", "question-3")
        await talk.say("question-4")
        assert talk.sent("question-4") == "question-4"


async def test_messages_that_wait_in_a_row_are_each_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten were stored before the first of them was asked: none of the nine is history to it."""
    async with talking(tmp_path, monkeypatch, resumes=False) as talk:
        await talk.begin()
        talk.evict()
        texts = [f"waiting-{number}." for number in range(10)]
        accepted = [await talk.orchestrator.submit(RunRequest(prompt=text, thread_id="t")) for text in texts]
        for one in accepted:
            assert (await asyncio.wait_for(talk.orchestrator.wait(one.run_id), 30)).status == "completed"
        check_once(known(talk.runtime.received), MARK, "question-1", "question-2", *texts)
        talk.evict()
        await talk.say("question-3")
        check_once(talk.sent("question-3"), MARK, "question-1", "question-2", *texts, "question-3")


async def test_without_the_plugin_a_cold_session_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other tests see is the plugin's work."""
    async with talking(tmp_path, monkeypatch, resumes=False) as talk:
        await talk.begin()
        await talk.stead.plugins.change_plugin("context", enabled=False)
        talk.evict()
        await talk.say("question-3")
        assert talk.sent("question-3") == "question-3"


ANOTHER_PROCESS = """
import asyncio, json, os, sys
from toolstead import Toolstead

async def main():
    project, text = sys.argv[1:]
    async with Toolstead(project, settings=json.loads(os.environ["SETTINGS"]), watch=False) as stead:
        run = await stead.invoke(text, thread_id="t")
        thread = await (await stead.conversations()).store.read_thread("t")
        print(json.dumps({"pid": os.getpid(), "status": run.status, "kept": thread.session_id}))

asyncio.run(main())
"""


async def test_after_a_restart_another_process_tells_the_history_only_where_the_runtime_lost_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    folder = tmp_path / "kept"
    settings = {"runtime": {"scripted": {"script": str(tmp_path / "script.yaml"), "folder": str(folder)}}}
    pids: list[int] = []

    async def elsewhere(text: str) -> str:
        """What the model has before it after this message, in a process of its own."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path), text),
            env={**os.environ, "SETTINGS": json.dumps(settings)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        told = json.loads(out)
        assert (told["pid"], told["status"]) == (process.pid, "completed")
        pids.append(process.pid)
        said = json.loads((folder / f"{told['kept'].removeprefix('scripted:')}.json").read_text())["said"]
        return "\n".join(content for role, content in said if role == "user")

    assert await elsewhere("question-1") == "question-1"
    assert await elsewhere("question-2") == "question-1\nquestion-2"  # resumed: not a word twice
    assert await elsewhere("rotate") == "question-1\nquestion-2\nrotate"
    assert await elsewhere("question-3") == "question-1\nquestion-2\nrotate\nquestion-3"
    for path in folder.glob("*.json"):
        path.unlink()  # the runtime loses everything
    after = await elsewhere("question-4")
    check_once(after, MARK, "question-1", "question-2", "\nrotate\n", "question-3", "question-4")
    last = await elsewhere("question-5")
    check_once(last, MARK, "question-1", "question-2", "question-3", "question-4", "question-5")
    assert last == f"{after}\nquestion-5"
    print(f"pids: {pids}")
    assert len({*pids, os.getpid()}) == 7
