"""Every hook through the doors people use, and what becomes of the rest when one of them misbehaves.

`on_task_create`, `on_task_complete` and `on_task_failed` have no door in this version: nothing delegates yet. They
are proven on the runner of a whole stead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flows.hooked import MISBEHAVIOURS, NAMES, Notes, World, door, echo, hooked, is_deaf, plugin, raises
from tests.surfaces.rest_stead import ended, follow
from tests.waiting import PATIENCE
from toolstead.concurrency import suspended_coroutine
from toolstead.plugins.contract import HOOKS, Hooks, Plugin, PluginContext, Tool
from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF
from toolstead.plugins.hook_runner import Review
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.call import Allow, Deny, Rewrite, ToolCall
from toolstead.types.result import Failure, ToolResult
from toolstead.types.run import Invoking, Run
from toolstead.types.verdict import Verdict

pytestmark = pytest.mark.promise("P6")

POSITIONS = {"first": "alpha", "middle": "beta", "last": "gamma"}
GOOD: dict[str, Any] = {"on_before_tool": Allow(), "on_task_complete": Verdict(True)}
ANSWERED = ("on_before_invoke", "on_before_tool", "on_task_complete")
"""What these answer means something, so that it can be nonsense."""

Use = Callable[[World], Awaitable[Any]]


async def invoked(world: World) -> Run:
    run = await world.stead.invoke("hello", thread_id="t")
    assert run.status == "completed", run.error
    return run


async def called(world: World) -> ToolResult:
    return await world.stead.call("echo", {"text": "hello"})


async def set_all(world: World) -> None:
    """Every plugin gets a setting of its own, through PATCH, in order."""
    async with door(world.stead) as client:
        for name in NAMES:
            before = world.shown(name)["settings"].get("number", 0)
            reply = await client.change(name, settings={"number": before + 1})
            assert (reply.status, reply.json["settings"]) == (200, {"number": before + 1})


async def created(world: World) -> None:
    await world.stead._parts.hooks.on_task_create("t", "task_1")


async def completed(world: World) -> list[Review]:
    return await world.stead._parts.hooks.on_task_complete("t", "task_1", "done")


async def failed(world: World) -> None:
    await world.stead._parts.hooks.on_task_failed("t", "task_1", "no")


USES: dict[str, tuple[Use, int]] = {
    "on_message": (invoked, 2),
    "on_before_invoke": (invoked, 1),
    "on_after_invoke": (invoked, 1),
    "on_broadcast": (invoked, 1),
    "on_before_tool": (called, 1),
    "on_after_tool": (called, 1),
    "on_settings_change": (set_all, 1),
    "on_task_create": (created, 1),
    "on_task_complete": (completed, 1),
    "on_task_failed": (failed, 1),
}
"""Hook → what has it called, and how often that is."""


def three(hook: str, notes: Notes) -> list[Plugin]:
    return [plugin(name, hook, notes) for name in NAMES]


def test_every_hook_has_its_use() -> None:
    assert set(USES) == set(HOOKS)


@pytest.mark.parametrize("hook", USES)
async def test_a_hook_is_called_for_every_plugin_in_order(hook: str, tmp_path: Path) -> None:
    notes, (use, times) = Notes(good=GOOD), USES[hook]
    async with hooked(tmp_path, *three(hook, notes), notes=notes) as world:
        await use(world)
        assert notes.of(hook) == list(NAMES) * times
        assert [world.shown(name)["hooks"] for name in NAMES] == [[hook]] * 3
        assert [world.shown(name)["state"] for name in NAMES] == ["running"] * 3


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(
    ("hook", "manner"),
    [(hook, manner) for hook in USES for manner in MISBEHAVIOURS if hook in ANSWERED or "nonsense" not in manner],
)
async def test_one_that_misbehaves_is_named_and_the_rest_goes_on(
    hook: str,
    manner: str,
    position: str,
    tmp_path: Path,
    *,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspended_coroutine, "LATE_GRACE", 0.02)
    culprit, (misbehave, said) = POSITIONS[position], MISBEHAVIOURS[manner]
    notes, (use, times) = Notes(good=GOOD, bad={culprit: misbehave}), USES[hook]
    async with hooked(tmp_path, *three(hook, notes), notes=notes) as world:
        answer = await asyncio.wait_for(use(world), PATIENCE)  # a run completes, and a call answers

        others = [name for name in NAMES if name != culprit]
        reached = NAMES[: NAMES.index(culprit) + 1] if hook == "on_before_tool" else NAMES  # a no is a no
        assert notes.of(hook) == list(reached) * times
        _check_answer(world, hook, culprit, answer)

        error = world.shown(culprit)["error"]
        assert error.startswith(f"{hook}: ")
        assert said in error
        assert world.shown(culprit)["state"] == "degraded"
        assert [world.shown(name)["state"] for name in others] == ["running"] * 2
        event = await world.status(culprit, "degraded")
        assert event.data["error"].startswith(f"{hook}: ")
        assert said in event.data["error"]
        named = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.getMessage().startswith(f"plugin '{culprit}': {hook} failed: ") for record in named] == (
            [True] * times
        )


def _check_answer(world: World, hook: str, culprit: str, answer: Any) -> None:
    """What the failure rule of the hook promises."""
    others = [name for name in NAMES if name != culprit]
    if hook == "on_before_invoke":
        assert world.heard() == [f"{others[1]}>{others[0]}>hello"]  # the last good prompt
    elif hook == "on_before_tool":
        assert (answer.is_error, answer.failure) == (True, Failure.REFUSED)
        assert f"plugin '{culprit}' has to check it first and could not" in answer.text
    elif hook == "on_after_tool":
        assert answer.text == "hello"
    elif hook == "on_task_complete":
        reviews = {review.plugin: review.verdict for review in answer}
        assert [reviews[name] for name in others] == [Verdict(True)] * 2
        assert reviews[culprit].accepted is None
        assert culprit in reviews[culprit].feedback


@pytest.mark.parametrize("hook", [hook for hook in USES if hook not in ANSWERED])
async def test_what_an_observer_answers_is_no_matter(hook: str, tmp_path: Path) -> None:
    notes, (use, times) = Notes(bad={"beta": MISBEHAVIOURS["answers nonsense"][0]}), USES[hook]
    async with hooked(tmp_path, *three(hook, notes), notes=notes) as world:
        await use(world)
        assert notes.of(hook) == list(NAMES) * times
        assert world.shown("beta")["state"] == "running"


@pytest.mark.parametrize("hook", USES)
async def test_after_five_failures_in_a_row_it_is_cut_off_until_it_is_enabled_again(
    hook: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes, (use, times) = Notes(good=GOOD, bad={"beta": raises}), USES[hook]
    uses = -(-FAILURES_UNTIL_CUT_OFF // times)
    async with hooked(tmp_path, *three(hook, notes), notes=notes) as world:
        for _ in range(uses):
            await use(world)
        assert notes.of(hook).count("beta") == FAILURES_UNTIL_CUT_OFF
        cut_off = "(5 in a row: cut off until the plugin is enabled again)"
        error = world.shown("beta")["error"]
        assert error.startswith(f"{hook}: ValueError: boom")
        assert error.endswith(cut_off)
        for number in range(1, FAILURES_UNTIL_CUT_OFF + 1):
            event = await world.status("beta", "degraded")
            assert (cut_off in event.data["error"]) is (number == FAILURES_UNTIL_CUT_OFF)
        said = f"plugin 'beta': {hook} failed 5 times in a row, and is cut off until the plugin is enabled again"
        assert caplog.messages.count(said) == 1

        before = len(notes.of(hook))
        answer = await use(world)  # it is left out, and nothing more is said
        assert "beta" not in notes.of(hook)[before:]
        assert "alpha" in notes.of(hook)[before:]
        if hook == "on_before_tool":
            assert answer.failure is Failure.REFUSED  # a gate that is cut off stays closed
            assert "cut off" in answer.text
        if hook == "on_task_complete":
            assert answer[1].verdict.accepted is None
        assert caplog.messages.count(said) == 1

        del notes.bad["beta"]
        shown = await world.stead.plugins.change_plugin("beta", enabled=True)
        assert (shown["state"], "error" in shown) == ("running", False)
        assert (await world.status("beta", "running")).data == {"name": "beta", "state": "running"}
        before = len(notes.of(hook))
        answer = await use(world)
        assert notes.of(hook)[before:] == list(NAMES) * times
        if hook == "on_before_tool":
            assert answer.text == "hello"


async def test_one_success_forgets_the_failures_before_it(tmp_path: Path) -> None:
    notes = Notes(bad={"beta": raises})
    async with hooked(tmp_path, *three("on_after_tool", notes), notes=notes) as world:
        for _ in range(3):
            for _ in range(FAILURES_UNTIL_CUT_OFF - 1):
                await called(world)
            assert "(4 in a row)" in world.shown("beta")["error"]
            good = notes.bad.pop("beta")
            await called(world)
            notes.bad["beta"] = good
            assert world.shown("beta")["state"] == "running"
        assert notes.of("on_after_tool").count("beta") == 15


async def test_a_hanging_gate_denies_and_the_tool_does_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    async def note(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> str:
        ran.append("ran")
        return "ran"

    notes = Notes(bad={"alpha": is_deaf})
    deadly = Tool(name="deadly", description="Is noted.", handler=note)
    async with hooked(tmp_path, *three("on_before_tool", notes), notes=notes, tools=(deadly,)) as world:
        answer = await asyncio.wait_for(world.stead.call("deadly"), PATIENCE)
        assert answer.failure is Failure.REFUSED
        async with door(world.stead) as client:
            reply = await client.call("deadly", {})
            assert (reply.status, reply.json["isError"]) == (200, True)
            assert "plugin 'alpha' has to check it first" in reply.json["content"][0]["text"]
    assert ran == []


async def test_a_message_is_told_when_it_is_stored_and_before_it_is_answered(tmp_path: Path) -> None:
    notes = Notes()
    async with hooked(tmp_path, plugin("alpha", "on_message", notes), notes=notes) as world:
        await world.stead.invoke("hello", thread_id="t")
        assert notes.given("on_message") == [("t", "user", "hello"), ("t", "assistant", "You said: hello")]


async def test_a_note_and_a_message_to_a_running_invocation_are_told_too(tmp_path: Path) -> None:
    notes = Notes()
    async with hooked(tmp_path, plugin("alpha", "on_message", notes), notes=notes) as world:
        async with door(world.stead) as client:
            thread = (await client.ask("POST", "/api/threads", {})).json["id"]
            messages = f"/api/threads/{thread}/messages"
            asked = (await client.ask("POST", messages, {"content": "hang on"})).json
            stream = await follow(client, f"/api/runs/{asked['runId']}/events")
            await stream.until("message.delta")
            steered = await client.ask("POST", messages, {"content": "go", "steer": True})
            assert steered.json["runId"] == asked["runId"]
            await stream.rest()
            await stream.close()
        await world.stead.plugins.context_for("alpha").threads.send(thread, "a note")
        said = [(role, content) for _, role, content in notes.given("on_message")]
        assert said[:2] == [("user", "hang on"), ("user", "go")]
        assert said[-1] == ("system", "a note")
        assert [role for role, _ in said] == ["user", "user", "assistant", "system"]


async def test_the_prompt_is_a_chain_and_is_asked_again_for_a_second_try(tmp_path: Path) -> None:
    notes = Notes()
    quiet = {"context": {"enabled": False}}  # the history would stand before the second try's prompt
    async with hooked(tmp_path, *three("on_before_invoke", notes), notes=notes, plugins=quiet) as world:
        await world.stead.invoke("hello", thread_id="t")
        notes.called.clear()
        run = await world.stead.invoke("lose", thread_id="t")
        assert run.result == "found again: gamma>beta>alpha>lose"  # from the prompt as it was, not from the last one
        assert notes.of("on_before_invoke") == list(NAMES) * 2
        given = notes.given("on_before_invoke", "beta")
        assert [prompt for _, prompt, _ in given] == ["alpha>lose"] * 2
        about: list[Invoking] = [invoking for *_, invoking in given]
        assert {(one.run_id, one.runtime) for one in about} == {(run.id, "scripted")}


@pytest.mark.parametrize(
    ("prompt", "status", "event"), [("hello", "completed", "completed"), ("fail", "failed", "error")]
)
async def test_a_run_is_told_at_its_end_with_its_end(prompt: str, status: str, event: str, tmp_path: Path) -> None:
    notes = Notes()
    after, broadcast = plugin("alpha", "on_after_invoke", notes), plugin("beta", "on_broadcast", notes)
    async with hooked(tmp_path, after, broadcast, notes=notes) as world:
        run = await world.stead.invoke(prompt, thread_id="t")
        assert run.status == status
        assert notes.given("on_after_invoke") == [("t", run)]
        assert notes.given("on_broadcast", "beta") == [(event, run.to_json())]
        assert [hook for _, hook, _ in notes.called] == ["on_after_invoke", "on_broadcast"]


async def test_a_cancelled_run_is_told_too(tmp_path: Path) -> None:
    notes = Notes()
    after, broadcast = plugin("alpha", "on_after_invoke", notes), plugin("beta", "on_broadcast", notes)
    async with hooked(tmp_path, after, broadcast, notes=notes) as world, door(world.stead) as client:
        asked = (await client.ask("POST", "/api/runs", {"prompt": "hang on"})).json
        assert (await client.ask("POST", f"/api/runs/{asked['runId']}/cancel")).status in {200, 202}
        assert (await ended(client, asked["runId"]))["status"] == "cancelled"
        assert [(run.id, run.status) for _, run in notes.given("on_after_invoke")] == [(asked["runId"], "cancelled")]
        assert [event for event, _ in notes.given("on_broadcast", "beta")] == ["cancelled"]


async def test_a_broadcast_reaches_the_log_and_every_other_plugin(tmp_path: Path) -> None:
    notes = Notes()

    async def tell(ctx: PluginContext, _: dict[str, Any], meta: ToolMeta) -> str:
        await ctx.threads.broadcast("beta.news", {"n": 1}, meta=meta)
        return "told"

    teller = plugin(
        "beta", "on_broadcast", notes, tools=[Tool(name="tell", description="Tells everybody.", handler=tell)]
    )
    others = [plugin(name, "on_broadcast", notes) for name in ("alpha", "gamma")]
    async with hooked(tmp_path, others[0], teller, others[1], notes=notes) as world:
        with world.stead.events({"beta.news"}) as stream:
            async with door(world.stead) as client:
                assert (await client.call("beta__tell", {}, threadId="t")).json["isError"] is False
            event = await asyncio.wait_for(anext(stream), PATIENCE)
        assert (event.type, event.data, event.thread_id) == ("beta.news", {"n": 1}, "t")
        assert notes.called == [(name, "on_broadcast", ("beta.news", {"n": 1})) for name in ("alpha", "gamma")]


@pytest.mark.parametrize("at", ["python", "rest", "run"])
async def test_gates_and_observers_see_calls_from_every_door(at: str, tmp_path: Path) -> None:
    notes = Notes()
    gate, observer = plugin("alpha", "on_before_tool", notes), plugin("beta", "on_after_tool", notes)
    async with hooked(tmp_path, gate, observer, notes=notes) as world:
        if at == "python":
            await world.stead.call("echo", {"text": "hi"}, thread_id="t")
        elif at == "rest":
            async with door(world.stead) as client:
                await client.call("echo", {"text": "hi"}, threadId="t")
        else:
            assert (await world.stead.invoke("use it", thread_id="t")).result == "It says: from a run"
        text = "from a run" if at == "run" else "hi"
        ((before,),) = notes.given("on_before_tool")
        ((after, result),) = notes.given("on_after_tool", "beta")
        assert isinstance(before, ToolCall)
        assert before == after
        assert (before.name, before.input, before.caller.thread_id) == ("echo", {"text": text}, "t")
        assert before.call_id
        assert result.text == text


async def test_gates_of_plugins_deny_and_rewrite_in_order(tmp_path: Path) -> None:
    notes, seen = Notes(), list[Any]()

    def gate(name: str, decide: Callable[[ToolCall], Any]) -> Plugin:
        async def on_before_tool(call: ToolCall) -> Any:
            seen.append((name, call.input["text"]))
            return decide(call)

        async def register(_: PluginContext) -> Hooks:
            return Hooks(on_before_tool=on_before_tool)

        return Plugin(name=name, register=register)

    loud = gate("alpha", lambda call: Rewrite({"text": call.input["text"].upper()}))
    strict = gate("beta", lambda call: Deny("not so loud") if call.input["text"] == "NO" else None)
    last = gate("gamma", lambda _: Allow())
    async with hooked(tmp_path, loud, strict, last, notes=notes) as world:
        assert (await world.stead.call("echo", {"text": "yes"})).text == "YES"
        no = await world.stead.call("echo", {"text": "no"})
        assert (no.failure, no.text) == (Failure.REFUSED, "echo was refused: not so loud")
    assert seen == [("alpha", "yes"), ("beta", "YES"), ("gamma", "YES"), ("alpha", "no"), ("beta", "NO")]


async def test_new_settings_are_told_to_their_own_plugin_alone_and_are_there_already(tmp_path: Path) -> None:
    told: list[tuple[str, Any, Any]] = []

    def listener(name: str) -> Plugin:
        async def register(ctx: PluginContext) -> Hooks:
            async def on_settings_change(settings: Any) -> None:
                told.append((name, dict(settings), dict(ctx.settings)))

            return Hooks(on_settings_change=on_settings_change)

        return Plugin(name=name, register=register)

    async with hooked(tmp_path, *map(listener, NAMES)) as world, door(world.stead) as client:
        assert (await client.change("beta", settings={"loud": True})).status == 200
        assert told == [("beta", {"loud": True}, {"loud": True})]
        assert (await client.change("beta", settings={"loud": True})).status == 200
        assert len(told) == 1  # nothing changed, so nothing is told
        await world.stead.plugins.reset_plugin("beta")
        assert told[1:] == [("beta", {}, {})]


@pytest.mark.promise("P2")
async def test_a_plugin_with_hooks_alone_and_one_with_nothing_at_all_work(tmp_path: Path) -> None:
    notes = Notes()
    async with hooked(tmp_path, plugin("alpha", "on_after_tool", notes), Plugin(name="empty"), notes=notes) as world:
        assert (await world.stead.call("echo", {"text": "x"})).text == "x"
        assert notes.of("on_after_tool") == ["alpha"]
        for name, hooks in (("alpha", ["on_after_tool"]), ("empty", [])):
            shown = world.shown(name)
            assert (shown["state"], shown["tools"], shown["hooks"]) == ("running", [], hooks)


async def _sync_register(_: PluginContext) -> Hooks:
    return Hooks(on_message=lambda *_: None)  # type: ignore[arg-type, return-value] - on purpose


BAD: dict[str, tuple[Plugin, str]] = {
    "bad name": (Plugin(name="no spaces"), "name: "),
    "no name": (Plugin(name=""), "name: "),
    "twice the same tool": (Plugin(name="bad", tools=[echo, echo]), "tools"),
    "handler not async": (
        Plugin(name="bad", tools=[Tool(name="x", description="x", handler=lambda *_: "x")]),  # type: ignore[arg-type, return-value] - on purpose
        "handler",
    ),
    "schema that is none": (
        Plugin(name="bad", tools=[Tool(name="x", description="x", handler=echo.handler, schema={"type": "objekt"})]),
        "schema",
    ),
    "hook not async": (Plugin(name="bad", register=_sync_register), "on_message"),
}


@pytest.mark.promise("P2")
@pytest.mark.parametrize("what", BAD)
async def test_a_bad_definition_is_refused_alone_with_the_field_and_the_reason(what: str, tmp_path: Path) -> None:
    bad, field = BAD[what]
    notes = Notes()
    neighbours = [plugin(name, "on_after_tool", notes, tools=[echo]) for name in ("alpha", "gamma")]
    async with hooked(tmp_path, neighbours[0], bad, neighbours[1], notes=notes) as world:
        problems = [problem.message for problem in world.stead.registry.quarantined]
        assert any(repr(bad.name) in message and field in message for message in problems), problems
        for name in ("alpha", "gamma"):
            answer = await world.stead.call(f"{name}__echo", {"text": "x"})
            if bad.register is None:
                assert answer.text == "x"
            else:  # it may have had a gate
                assert f"plugin {bad.name!r} has to check it first and cannot" in answer.text
        assert set(notes.of("on_after_tool")) == {"alpha", "gamma"}
        assert not world.stead.registry.has_tool("bad__x")


@pytest.mark.promise("P7")
@pytest.mark.parametrize("position", POSITIONS)
async def test_all_register_then_all_start_and_one_whose_start_fails_is_named_while_the_rest_run(
    position: str, tmp_path: Path
) -> None:
    culprit, steps = POSITIONS[position], list[str]()

    def stepping(name: str) -> Plugin:
        async def register(_: PluginContext) -> Hooks:
            steps.append(f"register {name}")
            return Hooks()

        async def start(_: PluginContext) -> None:
            steps.append(f"start {name}")
            if name == culprit:
                raise OSError("the door is locked")

        async def stop(_: PluginContext) -> None:
            steps.append(f"stop {name}")

        return Plugin(name=name, register=register, start=start, stop=stop, tools=[echo])

    async with hooked(tmp_path, *map(stepping, NAMES)) as world:
        assert steps[:3] == [f"register {name}" for name in NAMES]
        assert [step for step in steps[3:] if step.startswith("start")] == [f"start {name}" for name in NAMES]
        shown = world.shown(culprit)
        assert (shown["state"], shown["enabled"]) == ("failed", True)
        assert shown["error"].startswith("start: OSError: the door is locked")
        assert not world.stead.registry.has_tool(f"{culprit}__echo")
        for name in (name for name in NAMES if name != culprit):
            assert world.shown(name)["state"] == "running"
            assert (await world.stead.call(f"{name}__echo", {"text": "x"})).text == "x"
    # What was begun and failed is stopped at once; the others at the end, the last one first.
    stops = [step for step in steps if step.startswith("stop")]
    assert stops == [f"stop {culprit}", *(f"stop {name}" for name in reversed(NAMES) if name != culprit)]
