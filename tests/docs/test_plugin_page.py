"""docs/plugins.md names every hook, every power, every state and every limit there is, each as it is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from mcp.shared.exceptions import MCPError

import toolstead.testing
from toolstead import Hooks, Plugin, PluginContext, Toolstead
from toolstead.app import plugin_places, plugin_powers
from toolstead.concurrency import owned_tasks
from toolstead.plugins import (
    background,
    client_calls,
    contract,
    definition,
    health,
    hook_call,
    hook_runner,
    plugin_instance,
    ports,
    prompt_definition,
)
from toolstead.testing import FakeContext, connect, fake_context

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")


def section(heading: str) -> str:
    return PAGE[PAGE.index(f"## {heading}\n") :].partition("\n## ")[0]


@pytest.mark.parametrize("hook", contract.HOOKS)
def test_every_hook_has_its_row_with_what_it_is_called_with(hook: str) -> None:
    given = ", ".join(contract.HOOKS[hook])
    assert f"| `{hook}({given})` |" in section("Hooks")


def test_every_wish_that_hooks_can_have_is_named() -> None:
    wishes = {field.name for field in fields(Hooks)} - set(contract.HOOKS)
    assert wishes == {"before", "after", "timeout"}
    assert all(f"`Hooks({wish}=" in PAGE for wish in wishes)


@pytest.mark.parametrize("power", [field.name for field in fields(PluginContext)])
def test_every_attribute_of_the_context_has_its_row(power: str) -> None:
    assert f"| `ctx.{power}` |" in section("The context")


@pytest.mark.parametrize(
    ("power", "port"),
    [
        ("store", ports.KeyValues),
        ("invoker", ports.Agents),
        ("threads", ports.Threads),
        ("tasks", ports.Tasks),
        ("http", ports.Http),
    ],
)
def test_everything_that_a_power_can_do_is_named_in_its_row(power: str, port: Any) -> None:
    (row,) = [line for line in section("The context").splitlines() if line.startswith(f"| `ctx.{power}` |")]
    methods = [name for name, _ in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")]
    assert methods
    assert [name for name in methods if not re.search(rf"`{name}\b", row)] == []


def test_every_state_has_its_row() -> None:
    assert all(f"| `{state}` |" in section("States") for state in get_args(health.State))


def test_everything_that_a_plugin_is_made_of_is_explained() -> None:
    explained = section("Everything a plugin can have")
    assert [field.name for field in fields(Plugin) if f"{field.name}=" not in explained] == []


def limits() -> Iterator[tuple[str, str, float]]:
    yield "a plugin's name", "{} characters", definition.LONGEST_NAME
    yield "`<plugin>__<tool>`", "{} characters", definition.LONGEST_TOOL_NAME
    yield "a plugin's file", "{} bytes", plugin_places.LARGEST_FILE
    yield "`register`", "{} seconds", plugin_instance.REGISTER_SECONDS
    yield "`start`", "{} seconds", plugin_instance.START_SECONDS
    yield "`stop`", "{} seconds, after", plugin_instance.STOP_SECONDS
    yield "`stop`", "its tools had {} seconds", plugin_instance.CALLS_SECONDS
    yield "`stop`", "background work {} to be", owned_tasks.GRACE
    yield "a hook", "{} seconds,", hook_call.TIMEOUT
    yield "a hook", "`on_task_complete` {};", hook_runner.REVIEW_TIMEOUT
    yield "failures of a hook in a row", "{}, then", health.FAILURES_UNTIL_CUT_OFF
    yield "a key of `ctx.store`", "{} characters", plugin_powers.LONGEST_KEY
    yield "a value of `ctx.store`", "{} bytes", plugin_powers.LARGEST_VALUE
    yield "tools that call each other with `ctx.call_tool`", "{} deep", plugin_powers.MOST_NESTED
    yield "open calls of `ctx.call_tool`", "{} |", plugin_powers.MOST_CALLS
    yield "broadcasts in progress at once", "{} |", plugin_powers.MOST_BROADCASTS
    yield "background work", "{} pieces", background.MOST
    yield "a prompt, or a read of a resource", "{} seconds", contract.Prompt.__struct_defaults__[-1]
    yield "a prompt that is filled in", "{} messages", client_calls.MOST_MESSAGES
    yield "a prompt that is filled in", "{} characters", client_calls.LARGEST_PROMPT
    yield "what a read of a resource returns", "{} bytes", client_calls.LARGEST_RESOURCE
    yield "a completion", "{} seconds", client_calls.COMPLETION_SECONDS
    yield "a completion", "{} values", client_calls.MOST_COMPLETIONS
    yield "a completion", "{} characters", client_calls.LONGEST_COMPLETION
    yield "a plugin's instructions", "{} characters", prompt_definition.LONGEST_INSTRUCTIONS


@pytest.mark.parametrize(("what", "shown", "limit"), list(limits()))
def test_every_limit_is_what_the_code_says(what: str, shown: str, limit: float) -> None:
    (row,) = [line for line in section("Limits").splitlines() if line.startswith(f"| {what} |")]
    assert shown.format(f"{limit:,.0f}") in row


async def test_the_example_of_prompts_and_resources_does_what_it_says(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", section("Prompts and resources"), re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)
    stead = Toolstead(tmp_path, plugins=[made["plugin"]], environ={"TOOLSTEAD_HOME": str(tmp_path / "home")})
    async with stead, connect(stead) as client:
        assert client.instructions == "Read notes://today before you plan a day."
        filled = await client.get_prompt("notes__greet", {"name": "Ann"})
        assert filled.messages[0].content.text == "Write a friendly greeting for Ann."
        assert (await client.read_resource("notes://today")).contents[0].text == "Feed the cat."
        with pytest.raises(MCPError, match="there is one of today"):
            await client.read_resource("notes://1999")


def test_what_authors_can_test_with_is_explained() -> None:
    explained = section("Testing it")
    for name in ("fake_context", "call_tool", "run_hook", "memory_stead"):
        assert name in toolstead.testing.__all__
        assert f"{name}(" in explained
    given = [name for name in inspect.signature(fake_context).parameters if name != "plugin"]
    assert [name for name in given if f"`{name}=" not in explained] == []
    own = {field.name for field in fields(FakeContext)} - {field.name for field in fields(PluginContext)}
    read = own - {"plugin", "hooks", "dispatcher", "background"}
    assert sorted(name for name in read if f"`ctx.{name}`" not in explained) == []
