"""The client interface: a stead in this process and one behind its server answer alike."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE
from toolstead import Toolstead, ToolsteadError
from toolstead.app.client import InProcessClient, SteadClient, open_client
from toolstead.app.server_file import ServerAddress, ServerFile
from toolstead.errors import ServeError
from toolstead.types.thread import Message, Thread

SCRIPT = """
- when: ^hand on
  call: [{tool: delegation__delegate, input: {prompt: "hang there"}}]
  say: Handed on
- when: ^hang
  say: I begin
  hang: 60
- say: Hello {{prompt}}
"""
TASK_EVENTS = ("task.created", "task.failed")


def no_token() -> str:
    raise AssertionError("the server of the project has a token of its own")


def no_stead() -> Toolstead:
    raise AssertionError("a server answers")


def stead_of(folder: Path) -> Toolstead:
    (folder / "script.yaml").write_text(SCRIPT)
    return Toolstead(
        folder,
        settings={"runtime": {"scripted": {"script": "script.yaml"}}},
        environ={"TOOLSTEAD_HOME": str(folder / "home")},
        watch=False,
    )


@pytest.fixture(params=["in process", "http"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SteadClient]:
    async with stead_of(tmp_path) as stead:
        if request.param == "in process":
            yield InProcessClient(stead)
            return
        ready: asyncio.Future[ServerAddress] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
        try:
            address = await asyncio.wait_for(ready, PATIENCE)
            async with open_client(stead.places, no_stead, url=None, read_token=no_token) as client:
                assert client.url == address.url
                yield client
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


def nothing(_: str, __: dict[str, Any]) -> None:
    return


async def test_a_run_is_asked_for_told_as_it_comes_and_given_at_its_end(client: SteadClient) -> None:
    told: list[str] = []
    run = await client.run_agent("you", lambda kind, _: told.append(kind), thread_id="t1")
    assert (run["status"], run["result"], run["threadId"]) == ("completed", "Hello you", "t1")
    assert told[-1] == "completed"
    assert {"run.started", "message.delta"} <= set(told)


async def test_a_text_with_unusual_line_separators_arrives_whole(client: SteadClient) -> None:
    texts: list[str] = []
    odd = "a\u2028b\x85c\x0bd\r\ne"
    await client.run_agent(odd, lambda kind, data: texts.append(data["text"]) if kind == "message.delta" else None)
    assert "".join(texts) == f"Hello {odd}"


async def test_conversations_are_listed_read_renamed_and_deleted(client: SteadClient) -> None:
    await client.run_agent("first", nothing, thread_id="t1")
    await client.run_agent("second", nothing, thread_id="t2")
    assert [thread["id"] for thread in await client.list_threads(10)] == ["t2", "t1"]
    assert [thread["id"] for thread in await client.list_threads(1)] == ["t2"]
    read = await client.read_thread("t1")
    assert [(one["role"], one["content"]) for one in read["messages"]] == [
        ("user", "first"),
        ("assistant", "Hello first"),
    ]
    assert [event["type"] for event in await client.list_events("t1", {"run.started", "completed"})] == [
        "run.started",
        "completed",
    ]
    await client.rename_thread("t1", "Ünïcode / 🙂")
    assert (await client.read_thread("t1"))["title"] == "Ünïcode / 🙂"
    await client.delete_thread("t1")
    for work in (client.read_thread("t1"), client.rename_thread("t1", "x"), client.delete_thread("t1")):
        with pytest.raises(ToolsteadError, match=re.compile("no thread 't1'", re.IGNORECASE)):
            await work


async def test_conversations_are_chosen_by_project_use_and_beginning_of_their_id(client: SteadClient) -> None:
    for name in ("one_1", "one_2", "two_1"):
        await client.run_agent(name, nothing, thread_id=name)
    await client.run_agent("again", nothing, thread_id="one_1")

    async def found(limit: int = 10, **chosen: Any) -> list[str]:
        return [thread["id"] for thread in await client.list_threads(limit, **chosen)]

    assert await found() == await found(own=True) == await found(own=True, roots=True) == ["one_1", "two_1", "one_2"]
    assert await found(prefix="one_") == ["one_1", "one_2"]
    assert await found(prefix="one%") == await found(prefix="ONE_") == []
    last = (await client.list_threads(1))[0]
    assert (last["status"], last["usedAt"] > last["createdAt"]) == ("completed", True)


async def test_long_conversations_and_long_lists_come_whole_from_a_server_that_gives_pages(tmp_path: Path) -> None:
    async with stead_of(tmp_path) as stead:
        store = (await stead.conversations()).store
        for number in range(1_100):
            await store.create_thread(Thread(id=f"t{number}", created_at=float(number)))
        texts = [str(number) for number in range(450)] + ["x" * 5_000_000] * 3 + ["last"]
        for number, text in enumerate(texts):
            await store.add_message(
                Message(id=f"m{number}", thread_id="t0", role="user", content=text, created_at=float(number))
            )
        ready: asyncio.Future[ServerAddress] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
        try:
            await asyncio.wait_for(ready, PATIENCE)
            inside = InProcessClient(stead)
            async with open_client(stead.places, no_stead, url=None, read_token=no_token) as client:
                assert await client.read_thread("t0") == await inside.read_thread("t0")
                assert [one["content"] for one in (await client.read_thread("t0"))["messages"]] == texts
                for limit in (1, 500, 501, 1_000):
                    assert await client.list_threads(limit) == await inside.list_threads(limit)
                assert len(await client.list_threads(2_000)) == 1_100
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


async def test_shared_files_are_written_listed_read_and_their_history_told(client: SteadClient) -> None:
    first = await client.files.write_file("t1", "a/ü?&.md", "one")
    await client.files.write_file("t1", "b", "x")
    second = await client.files.write_file("t1", "a/ü?&.md", "two", expected_version=1)
    assert (first["version"], second["version"], second["author"]) == (1, 2, "user")
    assert await client.files.list_files("t1", "a/") == [second]
    assert await client.files.read_file("t1", "a/ü?&.md") == {**second, "content": "two"}
    assert await client.files.read_file("t1", "a/ü?&.md", 1) == {**first, "content": "one"}
    for limit, expected in ((1, [second]), (2, [second, first]), (5, [second, first])):
        assert await client.files.list_versions("t1", "a/ü?&.md", limit) == expected
    for work, message in (
        (client.files.read_file("t1", "nope"), "no (shared )?file 'nope'"),
        (client.files.list_versions("t1", "nope", 5), "no (shared )?file 'nope'"),
        (client.files.write_file("t1", "b", "y", 7), "its newest version is 1, written by user"),
        (client.files.write_file("t1", "../b", "y"), "a part `..`"),
    ):
        with pytest.raises(ToolsteadError, match=re.compile(message)):
            await work


async def test_tasks_are_followed_listed_read_cancelled_and_started_again(client: SteadClient) -> None:
    async with client.tasks.follow_events(TASK_EVENTS) as events, asyncio.timeout(PATIENCE):
        await client.run_agent("hand on", nothing, thread_id="t1")
        created = await anext(events)
        assert (created["type"], created["threadId"]) == ("task.created", "t1")
        (task,) = await client.tasks.list_tasks(thread="t1")
        assert (task["id"], task["prompt"], task["outcome"]) == (created["taskId"], "hang there", None)
        for wanted in ({"root": task["rootRunId"]}, {"is_open": True}, {"limit": 1}):
            assert await client.tasks.list_tasks(**wanted) == [task]
        for unwanted in ({"root": "nope"}, {"is_open": False}, {"thread": "t2"}):
            assert await client.tasks.list_tasks(**unwanted) == []
        with pytest.raises(ToolsteadError, match=re.compile("has not ended yet", re.IGNORECASE)):
            await client.tasks.retry_task(task["id"])
        cancelled = await client.tasks.cancel_task(task["id"])
        assert (cancelled["id"], cancelled["outcome"]) == (task["id"], "cancelled")
        assert (await anext(events))["data"]["outcome"] == "cancelled"
        again = await client.tasks.retry_task(task["id"])
        assert (again["retryOf"], (await anext(events))["taskId"]) == (task["id"], again["id"])
        assert (await client.tasks.cancel_task(again["id"]))["outcome"] == "cancelled"
    read = await client.tasks.read_task(task["id"])
    assert (read["error"]["message"], read["tree"], read["attempts"]) == ("a person cancelled it", [], [])
    part = await client.tasks.read_task_result(task["id"], offset=0, limit=5)
    assert part == {"text": "", "offset": 0, "size": 0}
    for work in (
        client.tasks.read_task("nö?pe"),
        client.tasks.read_task_result("nö?pe"),
        client.tasks.cancel_task("nö?pe"),
        client.tasks.retry_task("nö?pe"),
    ):
        with pytest.raises(ToolsteadError, match=re.compile(r"no task 'nö\?pe'", re.IGNORECASE)):
            await work


async def test_plugins_are_listed_changed_and_reset(client: SteadClient) -> None:
    async def state() -> tuple[bool, str]:
        found = next(plugin for plugin in await client.list_plugins() if plugin["name"] == "time")
        return found["enabled"], found["state"]

    assert await state() == (True, "running")
    assert (await client.change_plugin("time", enabled=False))["enabled"] is False
    assert await state() == (False, "disabled")
    changed = await client.change_plugin("time", enabled=True, settings={"timezone": "Europe/Paris"})
    assert changed["settings"]["timezone"] == "Europe/Paris"
    assert (await client.reset_plugin("time"))["settings"].get("timezone") != "Europe/Paris"
    with pytest.raises(ToolsteadError, match="nope"):
        await client.reset_plugin("nope")
    for odd in (math.nan, "half a character: \udcff"):
        with pytest.raises(ToolsteadError):
            await client.change_plugin("time", enabled=True, settings={"timezone": odd})


async def test_a_reload_says_what_changed_and_the_state_which_runtime_answers(client: SteadClient) -> None:
    answer = await client.reload_tools()
    assert (answer["success"], answer["added"], answer["errors"]) == (True, [], [])
    assert answer["toolCount"] > 0
    assert (await client.describe_state())["runtime"] == "scripted"


async def test_cancelling_the_wait_cancels_the_run(client: SteadClient) -> None:
    begun = asyncio.Event()

    def hear(kind: str, _: dict[str, Any]) -> None:
        if kind == "message.delta":
            begun.set()

    asking = asyncio.create_task(client.run_agent("hang", hear, thread_id="t1"))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, PATIENCE)
    assert (await client.run_agent("you", nothing, thread_id="t1"))["result"] == "Hello you"


async def test_a_server_that_is_gone_is_replaced_by_this_process_and_named(tmp_path: Path) -> None:
    stead = stead_of(tmp_path)
    with ServerFile(stead.places.data).announce_server(stead.places.project, "http://127.0.0.1:9", "t"):
        async with open_client(stead.places, lambda: stead, url=None, read_token=no_token) as client:
            assert (client.url, client.lost_server) == (None, "http://127.0.0.1:9")
            assert await client.list_threads(5) == []


async def test_where_the_newest_server_of_a_project_does_not_answer_an_older_one_does(tmp_path: Path) -> None:
    async with stead_of(tmp_path) as stead:
        ready: asyncio.Future[ServerAddress] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
        try:
            older = (await asyncio.wait_for(ready, PATIENCE)).url
            servers = ServerFile(stead.places.data)
            with servers.announce_server(stead.places.project, "http://127.0.0.1:9", "t"):
                async with open_client(stead.places, no_stead, url=None, read_token=no_token) as client:
                    assert client.url == older
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


async def test_a_server_that_was_named_and_does_not_listen_is_no_reason_to_act_here(tmp_path: Path) -> None:
    stead = stead_of(tmp_path)
    async with open_client(stead.places, no_stead, url="http://127.0.0.1:9/", read_token=lambda: "") as client:
        with pytest.raises(ServeError, match=r"http://127\.0\.0\.1:9 cannot be reached: no server listens there"):
            await client.list_threads(5)
