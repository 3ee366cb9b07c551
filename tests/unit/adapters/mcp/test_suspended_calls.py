"""Calls that wait for a modern client: what becomes of them when it leaves, cancels, or needs them no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest
from mcp.client.client import Client

from tests.waiting import PATIENCE
from toolstead import PluginContext, Tool, ToolMeta
from toolstead.testing import memory_stead

FORM = {"type": "object", "properties": {}}


class Scene:
    """A tool that asks as a test wants, and what it noted."""

    def __init__(self, act: Any) -> None:
        self.act = act
        self.began, self.may_go_on, self.tidied = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        try:
            return await self.act(self, meta)
        finally:
            await asyncio.sleep(0)  # tidying up awaits something
            self.tidied.set()


async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept")


@asynccontextmanager
async def connected(scene: Scene, **settings: Any) -> AsyncIterator[Client]:
    tool = Tool(name="t", description="Ask.", handler=scene.handler, interactive=True, progress=True)
    async with memory_stead(tool, settings={"server": settings}) as stead:
        server = stead.registry.to_mcp_server_config()["instance"]
        async with Client(server, elicitation_callback=answer) as client:
            yield client
        assert scene.tidied.is_set(), "the client left, and the stead is still open"


async def call(client: Client, asked: mcp_types.InputRequiredResult | None = None) -> Any:
    answers: Any = {key: mcp_types.ElicitResult(action="accept") for key in (asked and asked.input_requests) or ()}
    state = None if asked is None else asked.request_state
    async with asyncio.timeout(PATIENCE):
        return await client.session.call_tool(
            "t", {}, input_responses=answers or None, request_state=state, allow_input_required=True
        )


def text_of(result: Any) -> str:
    return result.content[0].text


async def test_a_client_that_leaves_ends_its_calls_and_they_tidy_up() -> None:
    async def ask(scene: Scene, meta: ToolMeta) -> str:
        return str(await meta.client.elicit("?", FORM))

    async with connected(Scene(ask)) as client:
        assert isinstance(await call(client), mcp_types.InputRequiredResult)


async def test_a_request_that_is_cancelled_after_the_answer_ends_the_call() -> None:
    async def ask_and_wait(scene: Scene, meta: ToolMeta) -> str:
        await meta.client.elicit("?", FORM)
        scene.began.set()
        await asyncio.Event().wait()
        return "never"

    scene = Scene(ask_and_wait)
    async with connected(scene) as client:
        calling = asyncio.create_task(call(client, await call(client)))
        await asyncio.wait_for(scene.began.wait(), PATIENCE)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await asyncio.wait_for(scene.tidied.wait(), PATIENCE)


async def test_a_call_that_has_its_answer_makes_room_for_another_that_asks() -> None:
    async def ask_and_work(scene: Scene, meta: ToolMeta) -> str:
        await meta.client.elicit("?", FORM)
        scene.began.set()
        await scene.may_go_on.wait()
        return "done"

    scene = Scene(ask_and_work)
    async with connected(scene, max_asking=1) as client:
        working = asyncio.create_task(call(client, await call(client)))
        await asyncio.wait_for(scene.began.wait(), PATIENCE)
        other = await call(client)
        assert isinstance(other, mcp_types.InputRequiredResult)
        scene.may_go_on.set()
        assert [text_of(await working), text_of(await call(client, other))] == ["done", "done"]


async def test_a_handler_that_does_not_wait_for_the_answer_ends_and_its_result_is_fetched_later() -> None:
    async def ask_briefly(scene: Scene, meta: ToolMeta) -> str:
        asking = asyncio.ensure_future(meta.client.elicit("?", FORM))
        await scene.may_go_on.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return "without it"

    scene = Scene(ask_briefly)
    async with connected(scene) as client:
        asked = await call(client)
        scene.may_go_on.set()
        await asyncio.wait_for(scene.tidied.wait(), PATIENCE)
        assert text_of(await call(client, asked)) == "without it"


async def test_what_is_reported_while_no_request_is_open_is_dropped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def ask_and_work(scene: Scene, meta: ToolMeta) -> str:
        async def work() -> None:
            await scene.may_go_on.wait()
            await meta.report_progress(1)
            scene.began.set()

        await asyncio.gather(meta.client.elicit("?", FORM), work())
        await meta.report_progress(2)
        return "done"

    scene = Scene(ask_and_work)
    caplog.set_level("DEBUG", logger="toolstead")
    async with connected(scene) as client:
        session = client.session
        asked = await session.call_tool("t", {}, progress_callback=note, allow_input_required=True)
        assert isinstance(asked, mcp_types.InputRequiredResult)
        scene.may_go_on.set()
        await asyncio.wait_for(scene.began.wait(), PATIENCE)
        answers: Any = {key: mcp_types.ElicitResult(action="accept") for key in asked.input_requests or ()}
        done = await session.call_tool(
            "t",
            {},
            progress_callback=note,
            input_responses=answers,
            request_state=asked.request_state,
            allow_input_required=True,
        )
        assert (text_of(done), seen) == ("done", [2])
    assert "dropped progress: the call waits for its client's answer" in caplog.text


async def test_two_questions_need_two_keys_and_what_a_handler_leaves_behind_asks_no_more() -> None:
    left: list[asyncio.Task[Any]] = []

    async def ask_twice(scene: Scene, meta: ToolMeta) -> str:
        left.append(asyncio.ensure_future(meta.client.elicit("?", FORM, key="name")))
        await asyncio.sleep(0)
        return str(await meta.client.elicit("?", FORM, key="name"))

    async with connected(Scene(ask_twice)) as client:
        asked = await call(client)
        refused = await call(client, asked) if isinstance(asked, mcp_types.InputRequiredResult) else asked
        assert text_of(refused) == "the question 'name' is asked already; give each its own key"
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(left)
        assert left[0].cancelled()
