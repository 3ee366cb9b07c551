"""A message in, an answer out: in order, one at a time for each thread, each run with exactly one end."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.flows.talking import Recording, World, bounded, talking
from tests.unit.invoker.bench import BenchRuntime, Gate
from toolstead.adapters.scripted.runtime import ScriptedRuntime
from toolstead.adapters.storage.store import open_store
from toolstead.errors import InvocationError, NotFoundError, StorageError
from toolstead.invoker.clock import Clock
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.endings import end_lost_run
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.orchestrator import watched_run
from toolstead.orchestrator.request import RunRequest
from toolstead.types.event import Event
from toolstead.types.run import Invoking, Run
from toolstead.types.thread import Message

ECHO = """
- when: add
  call: [{tool: add, input: {a: 1, b: 2}}]
- say: 'It is {{result}}'
- say: 'You said {{prompt}}'
"""


async def test_a_message_goes_through_every_station_in_order(tmp_path: Path) -> None:
    runtime = BenchRuntime()
    async with talking(tmp_path, runtime) as world:
        noted = world.noted

        async def opened(_: object) -> None:
            noted.append(("session taken",))

        async def act(turn: Turn) -> Answer:
            noted.append(("invoked", turn.prompt))
            return Answer(text="Hello")

        runtime.on_open, runtime.act = opened, act
        world.hooks.change = lambda prompt: f"<{prompt}>"
        noted.clear()
        run = await world.ask("Hi")
        stations = [one for one in noted if one[0] != "store" or one[1] in {"accept_message", "begin_run", "end_run"}]
        assert stations == [
            ("store", "accept_message"),
            ("store", "begin_run"),
            ("on_message user", "Hi"),
            ("session taken",),
            ("on_before_invoke", "Hi"),
            ("invoked", "<Hi>"),
            ("store", "end_run"),
            ("on_message assistant", "Hello"),
            ("on_after_invoke", "Hello"),
            ("on_broadcast", "completed"),
        ]
        assert (run.status, run.result) == ("completed", "Hello")
        assert [(m.role, m.content) for m in await world.store.list_messages("t")] == [
            ("user", "Hi"),
            ("assistant", "Hello"),
        ]
        told = [event.type for event in await world.events_of(run.id)]
        assert told == ["message", "run.started", "message", "completed"]


async def test_hooks_find_the_answer_stored_and_the_session_held(tmp_path: Path) -> None:
    runtime, seen = BenchRuntime(), {}

    class Looking:
        world: World

        async def on_message(self, *_: Any) -> None: ...

        async def on_before_invoke(self, thread_id: str, prompt: str, _: Any) -> str:
            seen["idle"] = self.world.orchestrator.invoker.pool.stats().idle
            return prompt

        async def on_after_invoke(self, thread_id: str, result: Any) -> None:
            seen["stored"] = [message.content for message in await self.world.store.list_messages(thread_id)]

        async def on_broadcast(self, event: str, data: Any) -> None:
            seen["broadcast"] = (await self.world.store.read_run(data["id"])).status

    hooks = Looking()
    async with talking(tmp_path, runtime, hooks=hooks) as world:
        hooks.world = world
        await world.ask("Hi")
        await world.ask("Hi again")
    assert seen["idle"] == 0
    assert seen["stored"] == ["Hi", "Hi", "Hi again", "Hi again"]
    assert seen["broadcast"] == "completed"


@pytest.mark.parametrize(
    ("fail", "status"),
    [
        ("on_message user", "completed"),
        ("on_before_invoke", "failed"),
        ("on_message assistant", "completed"),
        ("on_after_invoke", "completed"),
        ("on_broadcast", "completed"),
    ],
)
async def test_a_hook_that_raises_leaves_one_end_and_a_thread_that_goes_on(
    tmp_path: Path, fail: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(tmp_path, BenchRuntime(), fail=fail) as world:
        first, second = await world.post("one"), await world.post("two")
        for run_id in (first, second):
            assert (await world.end_of(run_id)).status == status
            run = await world.check_end(run_id)
            assert run.status == status
            assert "broken" not in (run.error.message if run.error else "")  # a crash's text stays inside
        called = [name for name, *_ in world.noted]
        assert called.count("on_broadcast") == 2  # whoever failed before, the others are called
    assert f"{fail} is broken" in caplog.text


@pytest.mark.promise("S4")
async def test_fifty_messages_of_one_thread_are_answered_one_at_a_time_in_the_order_they_came(tmp_path: Path) -> None:
    runtime = BenchRuntime()
    running, most, order = 0, 0, []

    async def act(turn: Turn) -> Answer:
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(turn.prompt)
        await asyncio.sleep(0)
        running -= 1
        return Answer(text=f"re {turn.prompt}")

    runtime.act = act
    async with talking(tmp_path, runtime) as world:
        prompts = [f"message {number}" for number in range(50)]
        ids = await asyncio.gather(*(world.post(prompt) for prompt in prompts))
        for run_id in ids:
            await world.end_of(run_id)
            await world.check_end(run_id)
        stored = [message.content for message in await world.store.list_messages("t") if message.role == "user"]
        assert order == stored == prompts
        assert most == 1
        answers = [message.content for message in await world.store.list_messages("t") if message.role == "assistant"]
        assert answers == [f"re {prompt}" for prompt in order]


@pytest.mark.promise("S4")
async def test_many_threads_run_at_once(tmp_path: Path) -> None:
    runtime, everybody = BenchRuntime(owns_process=False), asyncio.Barrier(40)

    async def act(turn: Turn) -> Answer:
        await bounded(everybody.wait())  # nobody gets past this before all forty run
        return Answer(text=turn.prompt)

    runtime.act = act
    async with talking(tmp_path, runtime) as world:
        runs = await asyncio.gather(*(world.ask(f"hello {number}", f"t{number}") for number in range(40)))
        assert [run.result for run in runs] == [f"hello {number}" for number in range(40)]


async def test_a_run_that_waits_is_cancelled_before_it_began_and_one_that_runs_is_interrupted(tmp_path: Path) -> None:
    runtime = BenchRuntime(act=(gate := Gate()))
    async with talking(tmp_path, runtime) as world:
        running = await world.post("runs")
        waiting = await world.post("waits")
        after = await world.post("after")
        await bounded(gate.begun.wait())
        assert (await bounded(world.orchestrator.cancel(waiting))).status == "cancelled"
        assert (await world.store.read_run(running)).status == "running"
        both = await bounded(asyncio.gather(*(world.orchestrator.cancel(running) for _ in range(2))))
        assert [run.status for run in both] == ["cancelled", "cancelled"]
        assert (await bounded(world.orchestrator.cancel(running))).status == "cancelled"  # it stays as it is
        gate.let.set()
        assert (await world.end_of(after)).status == "completed"
        for run_id in (running, waiting, after):
            await world.check_end(run_id)
        assert [turn for session in runtime.sessions for turn in session.turns] == ["runs", "after"]
        assert [event.type for event in await world.events_of(waiting)] == ["message", "cancelled"]
        with pytest.raises(NotFoundError, match="no run 'run_x'"):
            await world.orchestrator.cancel("run_x")


async def test_cancelling_at_any_moment_leaves_one_end_and_nobody_waiting(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        for _ in range(5):
            await asyncio.sleep(0)
        return Answer(text=turn.prompt)

    statuses = set()
    async with talking(tmp_path, BenchRuntime(act=act, owns_process=False)) as world:
        for moment in [*range(25), *range(25, 400, 15)]:
            thread = f"t{moment}"
            first, second = await world.post("first", thread), await world.post("second", thread)
            for _ in range(moment):
                await asyncio.sleep(0)
            cancelled = await bounded(world.orchestrator.cancel(first))
            statuses.add(cancelled.status)
            assert (await world.end_of(second)).status == "completed"
            assert (await world.check_end(first)).status == cancelled.status
            await world.check_end(second)
    assert statuses == {"cancelled", "completed"}


async def test_what_was_cancelled_before_does_not_cling_to_the_next_run(tmp_path: Path) -> None:
    """A task that still counts a cancellation makes task groups and timeouts inside it behave oddly."""
    counted = []

    class Counting(Recording):
        async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
            task = asyncio.current_task()
            assert task is not None
            counted.append(task.cancelling())
            return await super().on_before_invoke(thread_id, prompt, invocation)

    async with talking(tmp_path, BenchRuntime(act=(gate := Gate())), hooks=Counting([])) as world:
        first, second = await world.post("first"), await world.post("second")
        await bounded(gate.begun.wait())
        await bounded(world.orchestrator.cancel(first))
        gate.let.set()
        assert (await world.end_of(second)).status == "completed"
    assert counted == [0, 0]


async def test_a_run_that_somebody_else_ended_is_told_as_it_was_stored(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as world:
        run_id = await world.post("Hi")
        await bounded(gate.begun.wait())
        await world.store.end_run(run_id, end_lost_run(await world.store.read_run(run_id), 2.0))
        gate.let.set()
        assert (await world.end_of(run_id)).status == "lost"
        assert (await world.check_end(run_id)).status == "lost"
        assert [message.role for message in await world.store.list_messages("t")] == ["user"]


async def test_a_run_that_got_its_end_while_it_waited_never_begins(tmp_path: Path) -> None:
    runtime = BenchRuntime(act=(gate := Gate()))
    async with talking(tmp_path, runtime) as world:
        first, second = await world.post("first"), await world.post("second")
        await bounded(gate.begun.wait())
        await world.store.end_run(second, end_lost_run(await world.store.read_run(second), 2.0))
        gate.let.set()
        assert (await world.end_of(first)).status == "completed"
        assert (await world.end_of(second)).status == "lost"
        assert [turn for session in runtime.sessions for turn in session.turns] == ["first"]


async def test_runs_that_a_dead_process_left_are_ended_when_the_next_one_opens(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "toolstead.db")
    run = Run(id="run_1", thread_id="t", prompt="Hi", created_at=1.0, owner=store.owner)
    message = Message(id="msg_1", thread_id="t", role="user", content="Hi", created_at=1.0, run_id="run_1")
    await store.accept_message(message, run)
    await store.close()  # it went without a word
    async with talking(tmp_path, BenchRuntime()) as world:
        assert (await world.check_end("run_1")).status == "lost"
        assert (await world.ask("again")).status == "completed"


async def test_runs_of_another_process_are_cancelled_from_here_whether_they_run_or_wait(tmp_path: Path) -> None:
    async with (
        talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as one,
        talking(tmp_path, BenchRuntime()) as other,
    ):
        running, waiting, after = await one.post("runs"), await one.post("waits"), await one.post("after")
        await bounded(gate.begun.wait())
        ended = await bounded(other.orchestrator.cancel(waiting))
        assert (ended.status, ended.error and ended.error.message) == ("cancelled", "it was cancelled")
        assert (await one.store.read_run(running)).status == "running"
        assert (await bounded(other.orchestrator.cancel(running))).status == "cancelled"
        gate.let.set()
        assert (await one.end_of(after)).status == "completed"
        assert (await bounded(other.orchestrator.cancel(after))).status == "completed"  # it stays as it is
        for run_id in (running, waiting, after):
            await other.check_end(run_id)
        assert await one.store.list_commands() == []


async def test_a_steering_message_reaches_the_running_turn_and_without_one_it_is_any_message(tmp_path: Path) -> None:
    script = "- when: wait\n  delay: 100\n  say: waited\n- say: 'You said {{prompt}}'\n"
    runtime = ScriptedRuntime(script)
    async with talking(tmp_path, runtime) as world:
        run_id = await world.post("wait")
        async with asyncio.timeout(30):
            while not runtime.received:
                await asyncio.sleep(0.01)
        accepted = await bounded(world.orchestrator.steer(RunRequest(prompt="hurry", thread_id="t")))
        assert (accepted.run_id, accepted.fresh) == (run_id, True)
        run = await world.end_of(run_id)
        assert run.result == "You said hurry"
        assert [(one.prompt, one.steered) for one in runtime.received] == [("wait", False), ("hurry", True)]
        stored = [(message.role, message.content) for message in await world.store.list_messages("t")]
        assert stored == [("user", "wait"), ("user", "hurry"), ("assistant", "You said hurry")]
        assert ("on_message user", "hurry") in world.noted
        plain = await bounded(world.orchestrator.steer(RunRequest(prompt="later", thread_id="t")))
        assert plain.run_id != run_id
        assert (await world.end_of(plain.run_id)).result == "You said later"


@pytest.mark.promise("R7")
async def test_a_message_that_comes_while_a_run_ends_is_answered_by_the_next_run(tmp_path: Path) -> None:
    ending, leave = asyncio.Event(), asyncio.Event()

    class Slow(Recording):
        async def on_after_invoke(self, thread_id: str, result: Any) -> None:
            ending.set()
            await leave.wait()

    async with talking(tmp_path, ScriptedRuntime("- say: 'You said {{prompt}}'\n"), hooks=Slow([])) as world:
        first = await world.post("one")
        await bounded(ending.wait())
        accepted = await bounded(world.orchestrator.steer(RunRequest(prompt="two", thread_id="t")))
        assert accepted.run_id != first
        leave.set()
        assert (await world.end_of(first)).result == "You said one"
        assert (await world.end_of(accepted.run_id)).result == "You said two"


async def test_posts_with_the_same_key_are_one_message_and_one_run(tmp_path: Path) -> None:
    runtime = BenchRuntime()
    async with talking(tmp_path, runtime) as world:
        request = RunRequest(prompt="once", thread_id="t", idempotency_key="k")
        posts = await asyncio.gather(*(world.orchestrator.submit(request) for _ in range(20)))
        assert sum(post.fresh for post in posts) == 1
        assert len({(post.message_id, post.run_id) for post in posts}) == 1
        await world.end_of(posts[0].run_id)
        again = await world.orchestrator.submit(request)
        assert (again.run_id, again.fresh) == (posts[0].run_id, False)
        assert [message.content for message in await world.store.list_messages("t")] == ["once", "once"]
        assert len(await world.store.list_runs(thread_id="t")) == 1
        assert world.store.asked["begin_run"] == 1


async def test_steering_messages_with_the_same_key_are_given_once_also_when_a_sender_leaves(tmp_path: Path) -> None:
    given = list[str]()

    async def take(text: str) -> bool:
        given.append(text)
        await asyncio.sleep(0.01)
        return True

    runtime = BenchRuntime(act=(gate := Gate()), on_steer=take)
    async with talking(tmp_path, runtime) as world:
        running = await world.post("Hi")
        await bounded(gate.begun.wait())
        request = RunRequest(prompt="go on", thread_id="t", idempotency_key="k")
        posts = [asyncio.create_task(world.orchestrator.steer(request)) for _ in range(5)]
        async with asyncio.timeout(30):
            while not given:
                await asyncio.sleep(0)
        posts[0].cancel()  # it may be the one that is being given
        left, *answers = await bounded(asyncio.gather(*posts, return_exceptions=True))
        assert isinstance(left, asyncio.CancelledError)
        assert {(answer.message_id, answer.run_id) for answer in answers} == {(answers[0].message_id, running)}
        assert given == ["go on"]
        gate.let.set()
        assert (await world.end_of(running)).status == "completed"
        assert [message.content for message in await world.store.list_messages("t")] == ["Hi", "go on", "let"]
        late = await bounded(world.orchestrator.steer(request))
        assert (late.message_id, late.fresh) == (answers[0].message_id, False)


async def test_a_key_whose_message_could_not_be_stored_may_be_used_again(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime()) as world:
        request = RunRequest(prompt="Hi", thread_id="t", idempotency_key="k")
        world.store.fail["accept_message"] = 1
        with pytest.raises(StorageError):
            await world.orchestrator.submit(request)
        assert (await world.orchestrator.submit(request)).fresh


@pytest.mark.promise("S7")
async def test_a_timeout_ends_the_invocation_itself(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def act(_: Turn) -> Answer:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()
        raise AssertionError

    async with talking(tmp_path, BenchRuntime(act=act)) as world:
        run = await world.ask("Hi", timeout=0.05)
        assert (run.status, run.error.code if run.error else "") == ("timeout", "timeout")
        assert ended.is_set()
        await world.check_end(run.id)


@pytest.mark.promise("P11")
@pytest.mark.parametrize("text", ["/delegate x", "/help", "@agent do", "!ls", "<tool>add</tool>", "/cancel\n/quit"])
async def test_text_that_looks_like_a_command_arrives_as_it_is_and_does_nothing(tmp_path: Path, text: str) -> None:
    runtime = ScriptedRuntime("- say: '{{prompt}}'\n")
    async with talking(tmp_path, runtime) as world:
        run = await world.ask(text)
        assert [one.prompt for one in runtime.received] == [text]
        assert run.result == text  # and what the model says is text as well
        told = [event.type for event in await world.events_of(run.id)]
        assert set(told) == {"message", "run.started", "message.delta", "completed"}


async def test_a_tool_call_of_a_run_is_told_in_its_place(tmp_path: Path) -> None:
    async with talking(tmp_path, ScriptedRuntime(ECHO)) as world:
        run = await world.ask("add")
        assert run.result == "It is 3"
        told = [(event.type, event.data.get("name")) for event in await world.events_of(run.id)]
        assert [kind for kind, _ in told if kind != "message.delta"] == [
            "message",
            "run.started",
            "tool_use",
            "tool_result",
            "message",
            "completed",
        ]
        assert ("tool_use", "add") in told


@pytest.mark.parametrize(
    ("method", "status"), [("begin_run", "failed"), ("end_run", "completed"), ("append_events", "completed")]
)
async def test_a_database_that_fails_for_a_while_loses_nothing_that_was_acknowledged(
    tmp_path: Path, method: str, status: str
) -> None:
    async with talking(tmp_path, ScriptedRuntime(ECHO)) as world:
        await world.ask("before")
        world.store.fail[method] = 2
        ids = [await world.post("add", f"t{number}") for number in range(5)]
        runs = [await world.end_of(run_id) for run_id in ids]
        assert sum(run.status == status for run in runs) >= (2 if method == "begin_run" else 5)
        for run_id in ids:
            run = await world.check_end(run_id)
            told = await world.events_of(run_id)
            if run.status == "completed":
                assert [event.type for event in told].count("tool_result") == 1
                said = "".join(event.data["text"] for event in told if event.type == "message.delta")
                assert said == "It is 3"
            else:
                assert run.error is not None
                assert run.error.code == "storage"
        assert world.store.fail[method] < 2  # it did fail


async def test_a_message_that_could_not_be_stored_is_refused_and_nothing_happens(tmp_path: Path) -> None:
    runtime = BenchRuntime()
    async with talking(tmp_path, runtime) as world:
        world.store.fail["accept_message"] = 1
        with pytest.raises(StorageError, match="the disk says no"):
            await world.post("lost")
        assert await world.store.list_messages("t") == []
        assert (await world.ask("kept")).status == "completed"
        assert [turn for session in runtime.sessions for turn in session.turns] == ["kept"]


async def test_a_locked_database_delays_an_end_and_does_not_lose_it(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as world:
        run_id = await world.post("Hi")
        await bounded(gate.begun.wait())
        other = sqlite3.connect(tmp_path / "toolstead.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        gate.let.set()
        while world.orchestrator.invoker.pool.stats().idle == 0:
            await asyncio.sleep(0.01)
        assert other.execute("SELECT status FROM runs").fetchall() == [("running",)]
        other.execute("ROLLBACK")
        other.close()
        assert (await world.end_of(run_id)).status == "completed"
        await world.check_end(run_id)


async def test_closing_while_runs_run_and_wait_stores_an_end_for_each(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime(act=Gate(), owns_process=False)) as world:
        ids = [await world.post(f"message {number}", f"t{number % 4}") for number in range(20)]
        early = world.store.asked["accept_message"]
        late = asyncio.gather(*(world.post("late", f"t{number}") for number in range(3, 9)), return_exceptions=True)
        async with asyncio.timeout(30):
            while world.store.asked["accept_message"] < early + 6:  # the last of these are being stored right now
                await asyncio.sleep(0)
        world.store.fail["end_run"] = 3  # and the database is not at its best
        await bounded(world.orchestrator.close())
        for outcome in await bounded(late):
            assert isinstance(outcome, str | InvocationError), outcome
        with pytest.raises(InvocationError, match="shutting down"):
            await world.post("too late")
        stored = await world.store.list_runs(limit=1000)
        assert {(run.status, run.error and run.error.code) for run in stored} == {("stopped", "stopped")}
        assert set(ids) <= {run.id for run in stored}
        for run in stored:
            await world.check_end(run.id)
    store = await open_store(tmp_path / "toolstead.db")
    assert await store.list_runs(unfinished=True) == []
    await store.close()


async def test_whoever_leaves_while_the_message_is_being_stored_leaves_no_run_without_an_end(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime()) as world:
        for number in range(10):
            request = RunRequest(prompt="mine", thread_id=f"watched{number}")
            watching = watched_run(world.orchestrator, world.log, request, lambda _: None)
            left = [asyncio.create_task(world.post("hello", f"posted{number}")), asyncio.create_task(watching)]
            async with asyncio.timeout(30):
                while world.store.asked["accept_message"] < 2 * number + 2:  # both are being stored right now
                    await asyncio.sleep(0)
            for task in left:
                task.cancel()
            outcomes = await bounded(asyncio.gather(*left, return_exceptions=True))
            assert isinstance(outcomes[0], str | asyncio.CancelledError)  # it may have been stored by now
            assert isinstance(outcomes[1], asyncio.CancelledError)
        async with asyncio.timeout(30):  # what was left while it was being stored may be stored only now
            while len(stored := await world.store.list_runs(limit=1000)) < 20 or not all(
                run.has_ended for run in stored
            ):
                await asyncio.sleep(0.01)
        assert len(stored) == 20
        assert {run.status for run in stored if run.thread_id.startswith("posted")} == {"completed"}
        assert {run.status for run in stored if run.thread_id.startswith("watched")} == {"cancelled"}
        for run in stored:
            await world.check_end(run.id)


async def test_a_thread_that_is_deleted_takes_its_runs_along_and_nobody_waits_for_them(tmp_path: Path) -> None:
    async with talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as world:
        running, waiting = await world.post("runs"), await world.post("waits")
        await bounded(gate.begun.wait())
        ends = asyncio.gather(world.end_of(running), world.end_of(waiting))
        await bounded(world.orchestrator.delete_thread("t"))
        assert [run.status for run in await bounded(ends)] == ["cancelled", "cancelled"]
        for run_id in (running, waiting):
            with pytest.raises(NotFoundError):
                await world.store.read_run(run_id)
        with pytest.raises(NotFoundError):
            await world.orchestrator.delete_thread("t")


async def test_a_thread_that_somebody_else_deletes_ends_its_run_without_anybody_hanging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(tmp_path, BenchRuntime(act=(gate := Gate()))) as world:
        run_id = await world.post("Hi")
        await bounded(gate.begun.wait())
        await world.store.delete_thread("t")  # as another process does it
        gate.let.set()
        await world.end_of(run_id)
        assert (await world.ask("again")).status == "completed"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_what_cannot_be_stored_as_an_event_is_left_out_alone_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(turn: Turn) -> Answer:
        turn.tell("message.delta", {"text": "good"})
        turn.tell("thinking", {"text": object()})
        if turn.prompt == "slowly":
            await asyncio.sleep(0.05)  # the journal gets there first
        return Answer(text="done")

    async with talking(tmp_path, BenchRuntime(act=act)) as world:
        for prompt in ("at once", "slowly", "at once"):
            run = await world.ask(prompt)
            assert run.status == "completed"
            await world.check_end(run.id)
            assert "message.delta" in [event.type for event in await world.events_of(run.id)]
        assert "an event thinking of run" in caplog.text
        world.store.fail["append_events"] = 1  # what was told waits, and is to be stored with the end
        run = await world.ask("at once")
        assert (run.status, (await world.check_end(run.id)).result) == ("completed", "done")
        assert f"run {run.id} emitted events that cannot be stored" in caplog.text


def _said(events: list[Event]) -> str:
    return "".join(one.data["text"] for one in events if one.type == "message.delta")


async def test_every_event_of_a_run_is_told_in_order_and_ends_with_its_end(tmp_path: Path) -> None:
    heard: list[Event] = []
    async with talking(tmp_path, ScriptedRuntime(ECHO)) as world:
        request = RunRequest(prompt="add", thread_id="t")
        run = await bounded(watched_run(world.orchestrator, world.log, request, heard.append))
        assert [event.id for event in heard] == sorted({event.id for event in heard})
        # Those of one answer are joined with the run's end; everything else is stored as it was told.
        stored = await world.events_of(run.id)
        assert [one for one in stored if one.type != "message.delta"] == [
            one for one in heard if one.type != "message.delta"
        ]
        assert {one.id for one in stored} <= {one.id for one in heard}
        assert _said(stored) == _said(heard)
        assert heard[-1].type == "completed"


async def test_time_and_ids_come_from_outside_so_that_a_simulation_can_give_its_own(tmp_path: Path) -> None:
    moments, ticks = itertools.count(100), itertools.count(1)
    clock = Clock(now=lambda: float(next(moments)))
    ids = Ids(process="0123456789", time_ns=lambda: next(ticks) * 1000)
    async with talking(tmp_path, BenchRuntime(), clock=clock, ids=ids) as world:
        run = await world.ask("Hi")
        assert run.id == "run_000000000000101234567890001"
        assert [message.id for message in await world.store.list_messages("t")] == [
            "msg_000000000000201234567890002",
            "msg_000000000000301234567890003",
        ]
        (step,) = await world.store.list_steps(run.id)
        times = (run.created_at, run.started_at, step.created_at, run.ended_at)
        assert times == (102.0, 103.0, 104.0, 105.0)
        assert [event.time for event in await world.events_of(run.id)] == [102.0, 103.0, 105.0, 105.0]
