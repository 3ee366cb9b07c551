"""What a tool's author receives: the call, its caller, and the two things that must be declared first."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolstead.errors import DefinitionError, NoClientError, ToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import Client, Progress, ToolMeta
from toolstead.types.call import Caller
from toolstead.types.tool import Annotations


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ""


class Person:
    """A client whose person says yes to everything."""

    async def log(self, level: str, text: str) -> None: ...

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {}}

    async def sample(self, prompt: str, max_tokens: int) -> str:
        return prompt[:max_tokens]


def meta_for(
    caller: Caller | None = None,
    *,
    listen: Progress | None = None,
    client: Client | None = None,
    **declared: bool,
) -> ToolMeta:
    numbers = itertools.count(1)
    tool = Tool(name="t", description="d", handler=handler, **declared)
    new_id = lambda: f"ours_{next(numbers)}"  # noqa: E731 - as the dispatcher passes it
    return ToolMeta(tool, caller or Caller(), Path("/p"), new_id, listen, client)


def test_building_a_tool_checks_and_registers_nothing() -> None:
    bad = Tool(name="", description="", handler=None, timeout=-1)  # pyright: ignore[reportArgumentType] - bad on purpose
    assert bad.timeout == -1
    with pytest.raises(AttributeError, match="immutable"):
        bad.timeout = 1  # pyright: ignore[reportAttributeAccessIssue] - refused on purpose


def test_a_tool_promises_nothing_its_author_did_not_say() -> None:
    tool = Tool(name="t", description="d", handler=handler)
    unsaid = {field.name: getattr(tool, field.name) for field in msgspec.structs.fields(tool)[3:]}
    assert unsaid == {
        "schema": None,
        "parameters": None,
        "output_schema": None,
        "annotations": Annotations(),
        "timeout": None,
        "max_output": None,
        "progress": False,
        "interactive": False,
        "spawns": False,
        "audience": "everyone",
        "title": None,
    }


def test_a_call_tells_on_whose_behalf_it_is_made() -> None:
    caller = Caller(
        thread_id="th",
        call_id="c",
        task_id="ta",
        run_id="r",
        session_id="s",
        agent_id="a",
        parent_agent_id="p",
        depth=2,
    )
    meta = meta_for(caller)
    assert (meta.thread_id, meta.call_id, meta.task_id, meta.run_id, meta.session_id) == ("th", "c", "ta", "r", "s")
    assert (meta.agent_id, meta.parent_agent_id, meta.depth, meta.cwd) == ("a", "p", 2, Path("/p"))


def test_a_call_without_a_run_has_the_default_thread_and_an_id_of_ours_that_stays() -> None:
    meta = meta_for()
    assert (meta.thread_id, meta.run_id, meta.task_id, meta.depth) == ("default", None, None, 0)
    assert (meta.call_id, meta.call_id) == ("ours_1", "ours_1")


async def test_progress_reaches_who_listens_and_may_be_reported_to_nobody() -> None:
    told: list[Any] = []

    async def listen(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    meta = meta_for(listen=listen, progress=True)
    assert (meta.wants_progress, meta_for(progress=True).wants_progress) == (True, False)
    await meta.report_progress(1)
    await meta.report_progress(2, 3, "nearly")
    assert told == [(1, None, None), (2, 3, "nearly")]
    await meta_for(progress=True).report_progress(1)


async def test_a_tool_that_did_not_declare_progress_may_not_report_it_even_when_nobody_listens() -> None:
    with pytest.raises(DefinitionError, match="tool 't': progress: only a tool declared with progress=True"):
        await meta_for().report_progress(1)


async def test_an_interactive_tool_reaches_its_callers_own_side() -> None:
    client = meta_for(client=Person(), interactive=True).client
    assert await client.elicit("Sure?", {"type": "object"}) == {"action": "accept", "content": {}}


def test_a_tool_that_did_not_declare_it_may_not_talk_to_its_caller() -> None:
    with pytest.raises(DefinitionError, match="tool 't': interactive: only a tool declared with interactive=True"):
        _ = meta_for(client=Person()).client


def test_a_caller_that_cannot_be_asked_is_a_foreseen_failure_the_model_can_read() -> None:
    with pytest.raises(NoClientError, match="tool 't': this caller cannot be asked; call it from an MCP client") as no:
        _ = meta_for(interactive=True).client
    assert isinstance(no.value, ToolError)


def test_a_context_has_empty_settings_and_a_logger_unless_given() -> None:
    context = PluginContext(name="shouty")
    assert (context.name, context.settings, context.logger.name) == ("shouty", {}, "toolstead.plugin")
    given = PluginContext(name="p", settings={"a": 1}, logger=logging.getLogger("mine"))
    assert (given.settings, given.logger.name) == ({"a": 1}, "mine")
