"""A plugin's context: one suite, run on that of a real stead and on the one authors are given for their tests.

Whatever a power does or refuses must be the same in both, or a plugin that is green in its tests fails in a stead.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from tests.flows.http_internet import reply, serving
from tests.waiting import PATIENCE
from toolstead import Hooks, Plugin, PluginContext, RefusedError, Tool, ToolError, ToolMeta, UnknownToolError, tool
from toolstead.app.plugin_powers import LARGEST_VALUE, LONGEST_KEY, MOST_BROADCASTS, MOST_CALLS, MOST_NESTED
from toolstead.errors import (
    FileConflictError,
    InvalidFileError,
    NotFoundError,
    UnavailableError,
    UnknownAgentError,
)
from toolstead.plugins.background import MOST
from toolstead.plugins.ports import HttpAnswer
from toolstead.testing import FakeContext, fake_context, memory_stead
from toolstead.types.call import Caller
from toolstead.types.event import Event
from toolstead.types.result import Failure
from toolstead.types.run import RunError
from toolstead.types.thread import Message, Thread

PAGE = b'{"sky": "blue"}'
SCRIPT = """
- {when: weather, say: It is sunny.}
- {when: fail now, fail: the model is tired}
"""
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
SAID = [("user", "one"), ("assistant", "two"), ("user", "three")]


@dataclass
class Settings:
    volume: int = 1


@tool
async def echo(ctx: PluginContext, text: str) -> str:
    """Say it again."""
    return text * ctx.settings.volume


@tool
async def crash() -> str:
    """Fall over."""
    raise RuntimeError("a secret of the machine")


async def where(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return json.dumps([meta.thread_id, meta.run_id, meta.task_id, meta.caller.nested])


async def deeper(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    """Call itself until somebody says no, and tell how deep that was."""
    inner = await ctx.call_tool("probe__deeper", {}, meta=meta)
    return f"{meta.caller.nested}: {inner.text}" if inner.failure is Failure.REFUSED else inner.text


async def announce(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    await ctx.threads.broadcast("probe.said", {"by": "a tool"}, meta=meta)
    return "said"


@tool
async def outside(text: str) -> str:
    """A tool that is no plugin's."""
    return f"outside: {text}"


def raw(name: str, handler: Any) -> Tool:
    return Tool(name=name, description="A probe.", handler=handler)


def tools(gate: asyncio.Event) -> list[Tool]:
    async def wait(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        await gate.wait()
        return "done"

    handlers = {"where": where, "deeper": deeper, "announce": announce, "wait": wait}
    return [echo, crash, *(raw(name, handler) for name, handler in handlers.items())]


@dataclass
class World:
    """A context, and what can be seen from outside of it.

    Attributes:
        url: A page that is there.
        heard: What the other plugins were told.
        others_say: What they do then.
        event: Gives the next event of a type.
        state: How people see the plugin.
        gate: What `probe__wait` waits for.
    """

    ctx: PluginContext
    url: str
    heard: list[tuple[str, Mapping[str, Any]]]
    others_say: list[Callable[[], Awaitable[None]]]
    event: Callable[[str], Awaitable[Event]]
    state: Callable[[], tuple[str, str | None]]
    gate: asyncio.Event


@dataclass
class Others:
    heard: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    say: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        self.heard.append((event, data))
        for say in self.say:
            await say()


@asynccontextmanager
async def fake_world(_: Path) -> AsyncGenerator[World]:
    others, gate, url = Others(), asyncio.Event(), "http://127.0.0.1:4711/sky"
    page = HttpAnswer(status=203, headers={"x-colour": "blue"}, content=PAGE)
    async with fake_context(
        Plugin(name="probe", settings=Settings, tools=tools(gate)),
        settings={"volume": 2},
        history={"t1": SAID},
        answers={"weather": "It is sunny.", "fail now": RunError(code="runtime", message="the model is tired")},
        pages={url: page},
        tools=[outside],
        agents=[],
        on_broadcast=others.on_broadcast,
    ) as ctx:
        assert isinstance(ctx, FakeContext)

        async def event(type: str) -> Event:
            return next(event for event in ctx.broadcasts if event.type == type)

        def state() -> tuple[str, str | None]:
            return ctx.statuses[-1] if ctx.statuses else ("running", None)

        yield World(ctx, url, others.heard, others.say, event, state, gate)


@asynccontextmanager
async def real_world(folder: Path) -> AsyncGenerator[World]:
    others, gate, given = Others(), asyncio.Event(), list[PluginContext]()

    async def start(ctx: PluginContext) -> None:
        given.append(ctx)

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_broadcast=others.on_broadcast)

    script = folder / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    async with serving(reply("203 Non-Authoritative Information", PAGE, x_colour="blue")) as server:
        settings = {
            "runtime": {"default": "scripted", "scripted": {"script": str(script)}},
            "plugins": {"probe": {"volume": 2}},
            "tools": {"allowed_hosts": [f"127.0.0.1:{server.port}"]},
        }
        plugins = [
            Plugin(name="probe", start=start, settings=Settings, tools=tools(gate)),
            Plugin(name="others", register=register),
        ]
        async with memory_stead(outside, settings=settings, plugins=plugins) as stead:
            store = (await stead.conversations()).store
            await store.create_thread(Thread(id="t1", created_at=0.0))
            for number, (role, content) in enumerate(SAID):
                message = Message(id=f"m{number}", thread_id="t1", role=role, content=content, created_at=0.0)
                await store.add_message(message)
            with stead.events() as stream:

                async def event(type: str) -> Event:
                    async with asyncio.timeout(PATIENCE):
                        return await anext(event async for event in stream if event.type == type)

                def state() -> tuple[str, str | None]:
                    (shown,) = [one for one in stead.plugins.show_plugins() if one["name"] == "probe"]
                    return shown["state"], shown.get("error")

                yield World(
                    given[0], f"http://127.0.0.1:{server.port}/sky", others.heard, others.say, event, state, gate
                )


WORLDS = {"fake": fake_world, "real": real_world}


@pytest.fixture(params=WORLDS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    async with WORLDS[request.param](tmp_path) as made:
        yield made


async def test_the_context_is_its_plugins_own(world: World) -> None:
    assert (world.ctx.name, world.ctx.settings) == ("probe", Settings(volume=2))
    assert world.ctx.logger.name == "toolstead.plugin.probe"


def test_every_attribute_of_a_context_is_tried_here() -> None:
    tried = Path(__file__).read_text("utf-8")
    assert [one.name for one in fields(PluginContext) if f"ctx.{one.name}" not in tried] == []


# store


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "", "ünïcode 🎉", [], [1, [None]], {}, {"a": {"b": [1, "2"]}}])
async def test_a_json_value_comes_back_as_it_was(world: World, value: Any) -> None:
    await world.ctx.store.set("key", value)
    got = await world.ctx.store.get("key", "nothing")
    assert (got, type(got)) == (value, type(value))


async def test_values_are_kept_found_and_forgotten_by_name(world: World) -> None:
    store = world.ctx.store
    assert (await store.get("a"), await store.get("a", 5), await store.keys()) == (None, 5, [])
    for key in ("b:2", "a", "b:1", "c" * LONGEST_KEY):
        await store.set(key, key)
    assert await store.keys() == ["a", "b:1", "b:2", "c" * LONGEST_KEY]
    assert await store.keys("b:") == ["b:1", "b:2"]
    assert (await store.delete("b:1"), await store.delete("b:1")) == (True, False)
    assert await store.keys("b:") == ["b:2"]


async def test_what_is_kept_is_a_copy(world: World) -> None:
    value = {"list": [1]}
    await world.ctx.store.set("key", value)
    value["list"].append(2)
    got = await world.ctx.store.get("key")
    got["list"].append(3)
    assert await world.ctx.store.get("key") == {"list": [1]}


@pytest.mark.parametrize("key", ["", "k" * (LONGEST_KEY + 1), 5, None])
async def test_a_key_that_is_no_name_is_refused(world: World, key: Any) -> None:
    store = world.ctx.store
    for attempt in (store.get, store.delete, lambda key: store.set(key, 1)):
        with pytest.raises(ValueError, match="a key is a text of 1 to 512 characters"):
            await attempt(key)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", float("nan"), float("inf"), {1: 2}, (1, 2), "\ud800", [{"a": {3}}], ENDLESS]
)
async def test_what_is_no_json_is_refused_and_what_was_there_stays(world: World, value: Any) -> None:
    await world.ctx.store.set("key", "before")
    with pytest.raises(TypeError, match="JSON"):
        await world.ctx.store.set("key", value)
    assert await world.ctx.store.get("key") == "before"


async def test_a_value_that_is_too_large_is_refused(world: World) -> None:
    await world.ctx.store.set("key", "x" * (LARGEST_VALUE - 2))
    with pytest.raises(ValueError, match="at most 1,048,576"):
        await world.ctx.store.set("key", "x" * (LARGEST_VALUE - 1))


# files


async def test_a_file_is_written_edited_listed_read_and_deleted_and_its_history_stays(world: World) -> None:
    files = world.ctx.files
    first = await files.write("./notes/a.md", "one\n", thread_id="t1")
    second = await files.edit("notes/a.md", "one", "two", thread_id="t1")
    assert (first.path, first.version, first.author, second.version) == ("notes/a.md", 1, "probe", 2)
    assert (await files.read("notes/a.md", thread_id="t1")).content == "two\n"
    assert (await files.read("notes/a.md", version=1, thread_id="t1")).content == "one\n"
    assert await files.list("notes/", thread_id="t1") == [second]
    assert await files.list(thread_id="another") == []
    third = await files.delete("notes/a.md", thread_id="t1")
    assert (third.deleted, await files.list(thread_id="t1")) == (True, [])
    assert await files.log("notes/a.md", thread_id="t1") == [third, second, first]
    for attempt in (
        files.read("notes/a.md", thread_id="t1"),
        files.delete("b"),
        files.edit("b", "x", "y"),
        files.log("b"),
    ):
        with pytest.raises(NotFoundError, match="no file"):
            await attempt


async def test_a_lost_update_of_a_file_is_refused_with_a_diff(world: World) -> None:
    files = world.ctx.files
    await files.write("a", "one\n", expected_version=0)
    await files.write("a", "two\n", expected_version=1)
    with pytest.raises(FileConflictError, match="version 1 was expected, but its newest version is 2") as refused:
        await files.write("a", "three\n", expected_version=1)
    assert refused.value.diff.splitlines()[-2:] == ["-one", "+two"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "1 to 512 characters"),
        ("a" * 513, "1 to 512 characters"),
        ("/etc/passwd", "is absolute"),
        ("a/../b", "a part `..`"),
        ("a//b", "an empty part"),
        ("a/", "an empty part"),
        ("a\\b", "a backslash"),
        (".", "names no file"),
        ("a/ b", "spaces around a part"),
        ("a\nb", "LINE FEED"),
        ("a\u202eb", "changes the order"),
        ("a\0b", "NULL"),
        ("a\ud800", "LONE SURROGATE"),
    ],
)
async def test_a_path_that_can_be_none_is_refused_everywhere(world: World, path: str, reason: str) -> None:
    files = world.ctx.files
    attempts = (
        files.write(path, "x"),
        files.read(path),
        files.edit(path, "x", "y"),
        files.delete(path),
        files.log(path),
    )
    for attempt in attempts:
        with pytest.raises(InvalidFileError, match=re.escape(reason)):
            await attempt


@pytest.mark.parametrize("content", ["a\0b", "\x1b[1m", "\x7f", "\ud800", "x" * ((1 << 20) + 1), "é" * (1 << 19) + "x"])
async def test_what_is_no_text_or_too_long_is_refused_and_what_was_there_stays(world: World, content: str) -> None:
    files = world.ctx.files
    await files.write("a", "before")
    for attempt in (files.write("a", content), files.edit("a", "before", content)):
        with pytest.raises(InvalidFileError, match=r"^content: it has (U\+|more than 1,048,576 bytes)"):
            await attempt
    assert (await files.read("a")).content == "before"
    await files.write("a", "tab\tline\r\nform\f ü 🎉" + "x" * 1_000_000)


# threads


async def test_history_has_the_messages_oldest_first(world: World) -> None:
    history = await world.ctx.threads.history("t1")
    assert [(message.role, message.content) for message in history] == SAID
    assert [message.content for message in await world.ctx.threads.history("t1", limit=2)] == ["two", "three"]
    assert len(await world.ctx.threads.history("t1", limit=9)) == 3
    assert await world.ctx.threads.history("nowhere") == []


async def test_a_note_is_the_systems_and_keeps_its_kind(world: World) -> None:
    sent = await world.ctx.threads.send("t1", "a note", kind="result")
    last = (await world.ctx.threads.history("t1"))[-1]
    assert (last.id, last.role, last.content, last.kind, last.run_id) == (sent, "system", "a note", "result", None)


async def test_a_message_that_wakes_is_the_users(world: World) -> None:
    sent = await world.ctx.threads.send("t1", "how is the weather", wake=True)
    (message,) = [message for message in await world.ctx.threads.history("t1") if message.id == sent]
    assert (message.role, message.content, message.kind) == ("user", "how is the weather", "text")
    assert message.run_id


@pytest.mark.parametrize("wake", [False, True])
async def test_nothing_is_sent_to_a_thread_that_is_not_there(world: World, wake: bool) -> None:
    for _ in range(2):  # the first attempt made none
        with pytest.raises(NotFoundError, match="no thread 'nowhere'"):
            await world.ctx.threads.send("nowhere", "hello", wake=wake)
    assert await world.ctx.threads.history("nowhere") == []


async def test_a_broadcast_is_told_to_the_log_and_to_the_others(world: World) -> None:
    await world.ctx.threads.broadcast("probe.seen_it", {"what": ["a", 1]}, thread_id="t1")
    event = await world.event("probe.seen_it")
    assert (dict(event.data), event.thread_id, event.run_id) == ({"what": ["a", 1]}, "t1", None)
    assert world.heard == [("probe.seen_it", {"what": ["a", 1]})]


async def test_a_broadcast_of_everybodys_belongs_to_no_thread(world: World) -> None:
    await world.ctx.threads.broadcast("probe.up.again", {})
    assert (await world.event("probe.up.again")).thread_id is None


async def test_a_broadcast_from_a_call_belongs_to_its_thread(world: World) -> None:
    assert (await world.ctx.call_tool("probe__announce")).text == "said"
    assert (await world.event("probe.said")).thread_id == "default"


@pytest.mark.parametrize(
    "type", ["completed", "plan.updated", "others.word", "probe", "probe.", "probe.two words", "prober.x", "", 5, None]
)
async def test_an_event_that_is_not_the_plugins_is_refused(world: World, type: Any) -> None:
    with pytest.raises(ValueError, match=r"is called probe\.<word>"):
        await world.ctx.threads.broadcast(type, {})
    assert world.heard == []


async def test_a_broadcast_that_is_no_json_is_refused(world: World) -> None:
    with pytest.raises(TypeError, match="JSON"):
        await world.ctx.threads.broadcast("probe.x", {"x": object()})
    assert world.heard == []


async def test_a_broadcast_that_is_answered_with_another_comes_to_an_end(world: World) -> None:
    refused: list[str] = []

    async def again() -> None:
        try:
            await world.ctx.threads.broadcast("probe.again", {})
        except RefusedError as error:
            refused.append(str(error))
            world.others_say.clear()

    world.others_say.append(again)
    await world.ctx.threads.broadcast("probe.first", {})
    assert len(refused) == 1
    assert "without end" in refused[0]
    assert len(world.heard) == MOST_BROADCASTS
    await world.ctx.threads.broadcast("probe.after", {})  # it was only too many at once


# call_tool


async def test_tools_are_called_by_the_names_that_models_use(world: World) -> None:
    assert (await world.ctx.call_tool("probe__echo", {"text": "ab"})).text == "abab"
    assert (await world.ctx.call_tool("outside", {"text": "x"})).text == "outside: x"


async def test_arguments_are_validated(world: World) -> None:
    result = await world.ctx.call_tool("probe__echo", {"text": 5})
    assert (result.is_error, result.failure) == (True, Failure.INVALID_ARGUMENTS)
    assert "/text: expected string" in result.text


async def test_a_tool_that_is_not_there_is_an_error_that_is_raised(world: World) -> None:
    with pytest.raises(UnknownToolError, match="probe__ech"):
        await world.ctx.call_tool("probe__ech", {})


async def test_a_crash_is_a_result_that_tells_no_secrets(world: World) -> None:
    result = await world.ctx.call_tool("probe__crash")
    assert (result.is_error, result.failure) == (True, Failure.CRASH)
    assert "secret" not in result.text


async def test_a_call_from_nowhere_has_the_default_thread(world: World) -> None:
    assert json.loads((await world.ctx.call_tool("probe__where")).text) == ["default", None, None, 1]


async def test_tools_that_call_each_other_come_to_an_end(world: World) -> None:
    result = await world.ctx.call_tool("probe__deeper")
    assert result.text.startswith(f"{MOST_NESTED}: probe__deeper was refused: {MOST_NESTED} tools call each other")


async def test_more_calls_at_once_than_there_may_be_are_refused(world: World) -> None:
    calls = [asyncio.create_task(world.ctx.call_tool("probe__wait")) for _ in range(MOST_CALLS)]
    await asyncio.sleep(0)
    refused = await world.ctx.call_tool("probe__where")
    world.gate.set()
    results = await asyncio.gather(*calls)
    assert (refused.failure, f"{MOST_CALLS} calls" in refused.text) == (Failure.REFUSED, True)
    assert {result.text for result in results} == {"done"}
    assert not (await world.ctx.call_tool("probe__where")).is_error


# invoker


async def test_an_agent_answers_in_a_thread_of_its_own(world: World) -> None:
    run = await world.ctx.invoker.invoke("how is the weather?")
    assert (run.status, run.result, run.error, run.prompt) == ("completed", "It is sunny.", None, "how is the weather?")
    history = await world.ctx.threads.history(run.thread_id)
    assert [(message.role, message.content, message.run_id) for message in history] == [
        ("user", "how is the weather?", run.id),
        ("assistant", "It is sunny.", run.id),
    ]


async def test_an_agent_answers_in_the_thread_that_was_named(world: World) -> None:
    run = await world.ctx.invoker.invoke("weather", thread_id="t1", model="some:model", timeout=20, agent="main")
    assert (run.thread_id, run.model, run.agent, run.runtime) == ("t1", "some:model", "main", "scripted")
    assert len(await world.ctx.threads.history("t1")) == 5
    assert (await world.ctx.invoker.invoke("weather", thread_id="fresh")).thread_id == "fresh"


@pytest.mark.parametrize(("prompt", "why"), [("fail now", "the model is tired"), ("what nobody foresaw", "answer")])
async def test_a_run_that_fails_says_why_and_raises_nothing(world: World, prompt: str, why: str) -> None:
    run = await world.ctx.invoker.invoke(prompt, thread_id="t1")
    assert run.error is not None
    assert (run.status, run.result, run.error.code) == ("failed", None, "runtime")
    assert why in run.error.message
    assert [message.content for message in await world.ctx.threads.history("t1")][-1] == prompt


async def test_a_thread_is_warmed_only_where_there_is_one(world: World) -> None:
    assert await world.ctx.invoker.prewarm("t1") is True
    with pytest.raises(NotFoundError, match="no thread 'nowhere'"):
        await world.ctx.invoker.prewarm("nowhere")


# http


async def test_a_page_is_read_with_its_status_and_headers(world: World) -> None:
    answer = await world.ctx.http.request("get", world.url, headers={"x-me": "probe"})
    assert (answer.status, answer.text, answer.content, answer.cut) == (203, PAGE.decode(), PAGE, False)
    assert answer.headers["x-colour"] == "blue"


async def test_json_is_sent(world: World) -> None:
    assert (await world.ctx.http.request("POST", world.url, json={"a": 1})).status == 203


async def test_no_more_is_read_than_was_asked_for(world: World) -> None:
    assert not (await world.ctx.http.request("GET", world.url, max_bytes=len(PAGE))).cut
    answer = await world.ctx.http.request("GET", world.url, max_bytes=4)
    assert (answer.content, answer.cut) == (PAGE[:4], True)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "nonsense",
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:password@example.org/",
    ],
)
async def test_what_the_guard_refuses_is_refused(world: World, url: str) -> None:
    with pytest.raises(RefusedError, match="refused"):
        await world.ctx.http.request("GET", url)


async def test_a_page_that_does_not_answer_is_a_foreseen_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: Any, **__: Any) -> list[Any]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nowhere)
    with pytest.raises(ToolError) as raised:
        await world.ctx.http.request("GET", "http://nobody.example/")
    assert not isinstance(raised.value, RefusedError)


# background, status, and what is not there


async def test_background_work_runs_and_is_named_when_it_fails(world: World) -> None:
    done = asyncio.Event()

    async def well() -> None:
        done.set()

    async def badly() -> None:
        raise ValueError("out of paper")

    world.ctx.run_background(well(), name="printing")
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    assert world.state() == ("running", None)
    world.ctx.run_background(badly(), name="printing")
    async with asyncio.timeout(PATIENCE):
        while world.state()[0] == "running":
            await asyncio.sleep(0)
    state, error = world.state()
    assert state == "degraded"
    assert error is not None
    assert "background work 'printing': ValueError: out of paper" in error


async def test_only_a_coroutine_can_be_background_work(world: World) -> None:
    with pytest.raises(TypeError, match="run_background takes a coroutine"):
        world.ctx.run_background(lambda: None)  # pyright: ignore[reportArgumentType] - the point


async def test_more_background_work_than_there_may_be_is_refused(world: World) -> None:
    async def wait() -> None:
        await world.gate.wait()

    for _ in range(MOST):
        world.ctx.run_background(wait())
    with pytest.raises(RuntimeError, match=f"{MOST} are running already"):
        world.ctx.run_background(wait())


async def test_a_plugin_says_how_it_is(world: World) -> None:
    world.ctx.report_status("degraded", "the printer is off")
    assert world.state() == ("degraded", "the printer is off")
    world.ctx.report_status("running")
    assert world.state() == ("running", None)
    with pytest.raises(ValueError, match="reports 'running' or 'degraded'"):
        world.ctx.report_status("splendid")  # pyright: ignore[reportArgumentType] - the point
    assert world.state() == ("running", None)


async def test_a_task_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFoundError, match="no task 'task_7'"):
        await world.ctx.tasks.status("task_7")
    with pytest.raises(NotFoundError, match="no task 'task_7'"):
        await world.ctx.tasks.cancel("task_7")


def of_call(caller: Caller) -> ToolMeta:
    return ToolMeta(outside, caller, Path("/"), lambda: "call_1")


REFUSED_ITEMS = {
    "a misspelt member": ({"agnet": "a", "prompt": "x"}, "item 1: 'agnet' is no field; did you mean 'agent_id'?"),
    "no prompt": ({"agent_id": "a"}, "item 1: 'prompt' is missing: what the agent is to do"),
    "no agent": (
        {"prompt": "x"},
        "item 1: 'agent_id' is missing: who is to do it ('markdown' defines an agent instead)",
    ),
    "a prompt that is no text": ({"agent_id": "a", "prompt": 3}, "item 1: 'prompt' must be text"),
    "an unknown agent": ({"agent_id": "ghost", "prompt": "x"}, str(UnknownAgentError("ghost", ()))),
}


@pytest.mark.parametrize("case", REFUSED_ITEMS)
async def test_an_item_that_cannot_be_delegated_is_refused_with_a_sentence(world: World, case: str) -> None:
    item, why = REFUSED_ITEMS[case]
    (entry,) = await world.ctx.tasks.delegate([item], meta=of_call(Caller(run_id="r1", agent_id="main")))
    assert (entry["status"], entry["error"]["message"]) == ("refused", why)


async def test_only_agents_delegate_and_only_tasks_report(world: World) -> None:
    outsider, agent = of_call(Caller()), of_call(Caller(run_id="r1", agent_id="main"))
    with pytest.raises(ToolError, match="for agents at work"):
        await world.ctx.tasks.start("x", parent=outsider)
    with pytest.raises(ToolError, match="for agents at work"):
        await world.ctx.tasks.delegate([], meta=outsider)
    for report in (world.ctx.tasks.checkin, world.ctx.tasks.signal):
        with pytest.raises(ToolError, match="for agents at work"):
            await report("x", meta=outsider)
        with pytest.raises(RefusedError, match="nobody delegated this work"):
            await report("x", meta=agent)


async def test_a_power_that_is_not_there_says_so(world: World) -> None:
    with pytest.raises(UnavailableError, match=r"ctx\.search"):
        await world.ctx.search("anything")
