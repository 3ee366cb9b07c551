"""The invoker: hooks with the session held, retries, timeouts, cancellation, steering."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from tests.unit.invoker.bench import SPEC, BenchRuntime, Gate, invoke, request, settle
from tests.virtual_time import run_virtually
from toolstead.errors import InvocationError, NoRoomError, RuntimeFailureError, SessionLostError, TimedOutError
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.pool import SessionPool
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.run import Warmth


class Hooks:
    """Says what each try was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Warmth]] = []
        self.ids: list[str | None] = []

    async def before(self, prompt: str, warmth: Warmth) -> str:
        self.seen.append((prompt, warmth))
        return f"{prompt}, {warmth}"


async def lost(turn: Turn) -> Answer:
    raise SessionLostError("gone")


async def forever(turn: Turn) -> Answer:
    return await Gate()(turn)


async def test_an_answer_comes_with_the_id_of_its_conversation_and_how_the_session_was_found() -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(), Hooks()
    first = await invoke(invoker, request(runtime), before=hooks.before, on_session_id=hooks.ids.append)
    again = request(runtime, resume="id-1")
    second = await invoke(invoker, again, before=hooks.before, on_session_id=hooks.ids.append)
    assert (first, second) == (Answer(text="hello, cold"), Answer(text="hello, warm"))
    assert hooks.seen == [("hello", "cold"), ("hello", "warm")]
    assert hooks.ids == ["id-1"]
    await invoker.close()


async def test_hooks_run_with_the_session_held_so_that_nobody_else_has_it_meanwhile() -> None:
    invoker, runtime, order = Invoker(SessionPool()), BenchRuntime(), list[str]()

    async def before(prompt: str, warmth: Warmth) -> str:
        order.append(f"before {prompt}")
        await settle()
        return prompt

    asked = [invoke(invoker, request(runtime), prompt, before=before) for prompt in ("one", "two")]
    one, two = await asyncio.gather(*asked, return_exceptions=True)
    assert (one, type(two), order) == (Answer(text="one"), NoRoomError, ["before one"])
    assert (await invoke(invoker, request(runtime), "two", before=before)).text == "two"
    assert order == ["before one", "before two"]
    await invoker.close()


async def test_a_warm_session_that_lost_its_conversation_is_tried_again_on_a_cold_one_hooks_included() -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(), Hooks()
    await invoke(invoker, request(runtime))

    async def lose_once(turn: Turn) -> Answer:
        runtime.act = answer
        raise SessionLostError("gone")

    answer, runtime.act = runtime.act, lose_once
    known = request(runtime, resume="id-1")
    outcome = await invoke(invoker, known, before=hooks.before, on_session_id=hooks.ids.append)
    assert hooks.seen == [("hello", "warm"), ("hello", "cold")]
    assert outcome == Answer(text="hello, cold")
    assert hooks.ids == [None, "id-2"]
    assert runtime.resumes == [None, None]
    assert runtime.sessions[0].closes == 1
    assert invoker.pool.stats().evicted == 1
    await invoker.close()


async def test_a_resumed_session_that_lost_its_conversation_is_tried_again_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(act=lost), Hooks()
    known = request(runtime, resume="old")
    with pytest.raises(SessionLostError):
        await invoke(invoker, known, before=hooks.before, on_session_id=hooks.ids.append)
    assert [warmth for _, warmth in hooks.seen] == ["resumed", "cold"]
    assert hooks.ids == [None]
    assert [record.getMessage() for record in caplog.records if "conversation is lost" in record.getMessage()]
    assert not runtime.open_now
    await invoker.close()


async def test_a_prewarmed_session_that_died_before_its_first_message_is_tried_again() -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(act=lost), Hooks()
    await invoker.pool.prewarm(request(runtime))
    with pytest.raises(SessionLostError):
        await invoke(invoker, request(runtime), before=hooks.before)
    assert [warmth for _, warmth in hooks.seen] == ["cold", "cold"]
    await invoker.close()


async def test_a_cold_session_has_nothing_to_lose_so_a_loss_is_an_error() -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(act=lost), Hooks()
    with pytest.raises(SessionLostError):
        await invoke(invoker, request(runtime), before=hooks.before, on_session_id=hooks.ids.append)
    assert len(hooks.seen) == 1
    assert hooks.ids == []
    await invoker.close()


async def test_after_a_loss_nobody_resumes_what_was_lost_also_while_it_is_closing() -> None:
    invoker, runtime, closed = Invoker(SessionPool()), BenchRuntime(act=lost), asyncio.Event()

    async def close(session: object) -> None:
        if session is runtime.sessions[1]:
            await closed.wait()

    runtime.on_close = close
    known = request(runtime, resume="old")
    first = asyncio.create_task(invoke(invoker, known))
    await settle()
    second = asyncio.create_task(invoke(invoker, known))
    await settle()
    closed.set()
    ends = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(end) for end in ends] == [SessionLostError, SessionLostError]
    assert runtime.resumes == ["old", None, None]
    await invoker.close()


async def test_a_lost_conversation_stays_lost_when_no_new_session_can_be_had() -> None:
    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(act=lost), Hooks()

    async def closed(spec: object) -> None:
        if runtime.sessions:
            raise RuntimeFailureError("no more")

    runtime.on_open = closed
    with pytest.raises(RuntimeFailureError, match="no more"):
        await invoke(invoker, request(runtime, resume="old"), on_session_id=hooks.ids.append)
    assert hooks.ids == [None]
    assert invoker.pool._rooms._value == invoker.pool._most_live
    await invoker.close()


@pytest.mark.promise("S4")
async def test_a_failure_ends_the_session_and_keeps_its_conversation_for_the_next_one() -> None:
    async def fail(turn: Turn) -> Answer:
        raise RuntimeFailureError("overloaded")

    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(act=fail), Hooks()
    with pytest.raises(RuntimeFailureError, match="overloaded"):
        await invoke(invoker, request(runtime), on_session_id=hooks.ids.append)
    assert not runtime.open_now
    assert hooks.ids == ["id-1"]
    await invoker.close()


async def test_a_crash_of_a_runtime_is_told_with_an_id_and_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crash(turn: Turn) -> Answer:
        raise ZeroDivisionError("secret inside")

    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=crash)
    with pytest.raises(RuntimeFailureError, match=r"the bench runtime crashed while running a turn \(id \w+\)") as told:
        await invoke(invoker, request(runtime))
    assert "secret" not in str(told.value)
    assert "secret inside" in caplog.text
    assert not runtime.open_now
    await invoker.close()


@pytest.mark.promise("S7")
def test_a_timeout_really_ends_the_invocation_and_keeps_a_session_that_is_still_usable() -> None:
    async def main() -> None:
        ended = list[str]()

        async def act(turn: Turn) -> Answer:
            try:
                return await forever(turn)
            finally:
                ended.append(turn.prompt)

        invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=act)
        with pytest.raises(TimedOutError, match=r"not finished after 2\.5 seconds") as told:
            await invoke(invoker, request(runtime), timeout=2.5)
        assert told.value.seconds == 2.5
        assert asyncio.get_running_loop().time() == 2.5
        assert ended == ["hello"]
        assert invoker.pool.stats().idle == 1
        await invoker.close()

    run_virtually(main())


def test_the_time_runs_from_when_there_is_a_room_for_the_session() -> None:
    async def main() -> None:
        async def act(turn: Turn) -> Answer:
            await asyncio.sleep(3)
            return Answer(text="done")

        started = list[float]()
        invoker, runtime = Invoker(SessionPool(most_live=1)), BenchRuntime(act=act)

        async def before(prompt: str, warmth: Warmth) -> str:
            started.append(asyncio.get_running_loop().time())
            return prompt

        asked = [invoke(invoker, request(runtime, thread), timeout=4, before=before) for thread in "abc"]
        assert [answer.text for answer in await asyncio.gather(*asked)] == ["done"] * 3
        assert started == [0, 3, 6]
        await invoker.close()

    run_virtually(main())


async def test_a_session_that_does_not_come_back_usable_is_ended() -> None:
    invoker, runtime, gate = Invoker(SessionPool()), BenchRuntime(), Gate()

    async def die(turn: Turn) -> Answer:
        try:
            return await gate(turn)
        finally:
            runtime.sessions[0].is_usable = False

    runtime.act = die
    task = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not runtime.open_now
    await invoker.close()


async def test_cancelling_reaches_the_model_and_the_session_stays() -> None:
    invoker, gate = Invoker(SessionPool()), Gate()
    runtime = BenchRuntime(act=gate)
    task = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.let.set()
    hooks = Hooks()
    await invoke(invoker, request(runtime), before=hooks.before)
    assert hooks.seen == [("hello", "warm")]
    await invoker.close()


def test_a_turn_that_ignores_its_end_is_left_alone_and_its_session_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def stubborn(turn: Turn) -> Answer:
            for _ in range(3):
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    continue
            return Answer(text="never read")

        invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=stubborn)
        with pytest.raises(TimedOutError):
            await invoke(invoker, request(runtime), timeout=1)
        assert asyncio.get_running_loop().time() == 6
        assert not runtime.open_now
        await invoker.close()
        await asyncio.sleep(200)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with caplog.at_level(logging.ERROR):
        run_virtually(main())
    assert "the bench turn of 't' ignored its cancellation and was abandoned" in caplog.text


async def test_an_error_that_comes_while_a_turn_is_interrupted_is_not_lost_in_the_loop() -> None:
    complaints = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    gate = Gate()

    async def act(turn: Turn) -> Answer:
        try:
            return await gate(turn)
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=act)
    task = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await settle()
    await invoker.close()
    assert not complaints


async def test_steering_gives_a_message_to_the_running_invocation_only() -> None:
    gate, given = Gate(), list[str]()

    async def take(text: str) -> bool:
        given.append(text)
        return True

    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=gate, on_steer=take)
    assert not await invoker.steer("t", "too early")
    task = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    assert await invoker.steer("t", "now")
    assert not await invoker.steer("other", "elsewhere")
    gate.let.set()
    await task
    assert not await invoker.steer("t", "too late")
    assert given == ["now"]
    await invoker.close()


async def test_a_session_that_crashes_while_it_is_steered_did_not_take_the_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crash(text: str) -> bool:
        raise ZeroDivisionError

    gate = Gate()
    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=gate, on_steer=crash)
    task = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    assert not await invoker.steer("t", "now")
    assert "a message could not be sent" in caplog.text
    gate.let.set()
    await task
    await invoker.close()


async def test_closing_ends_what_runs_and_nothing_begins_after_it() -> None:
    gate, hook = Gate(), asyncio.Event()

    async def before(prompt: str, warmth: Warmth) -> str:
        await hook.wait()
        return prompt

    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=gate)
    running = asyncio.create_task(invoke(invoker, request(runtime)))
    await gate.begun.wait()
    in_hook = asyncio.create_task(invoke(invoker, request(runtime, "u"), before=before))
    await settle()
    closing = asyncio.create_task(invoker.close())
    await settle()
    hook.set()
    await closing
    for task in (running, in_hook):
        with pytest.raises(InvocationError, match="shutting down"):
            await task
    assert not runtime.open_now
    assert not runtime.sessions[1].turns


async def test_a_conversation_that_is_cut_off_by_closing_can_be_resumed_later() -> None:
    gate, hooks = Gate(), Hooks()
    invoker, runtime = Invoker(SessionPool()), BenchRuntime(act=gate)
    running = asyncio.create_task(invoke(invoker, request(runtime), on_session_id=hooks.ids.append))
    await gate.begun.wait()
    await invoker.close()
    with pytest.raises(InvocationError):
        await running
    assert hooks.ids == ["id-1"]


async def test_a_session_in_which_nothing_was_said_is_never_resumed() -> None:
    async def broken(prompt: str, warmth: Warmth) -> str:
        raise ZeroDivisionError

    invoker, runtime, hooks = Invoker(SessionPool()), BenchRuntime(lost={"old"}), Hooks()
    waiting = request(runtime, resume="old")
    with pytest.raises(ZeroDivisionError):
        await invoke(invoker, waiting, before=broken, on_session_id=hooks.ids.append)
    assert hooks.ids == []
    await invoker.pool.prewarm(request(runtime))
    outcome = await invoke(invoker, request(runtime, spec=replace(SPEC, tools=())), before=hooks.before)
    assert outcome.text == "hello, cold"
    assert runtime.resumes == ["old", None, None, None]
    await invoker.close()


async def test_a_hook_that_fails_lets_the_session_go() -> None:
    async def broken(prompt: str, warmth: Warmth) -> str:
        raise TimeoutError("its own")

    invoker, runtime = Invoker(SessionPool()), BenchRuntime()
    with pytest.raises(TimeoutError, match="its own"):
        await invoke(invoker, request(runtime), timeout=5, before=broken)
    assert (await invoke(invoker, request(runtime))).text == "hello"
    await invoker.close()
