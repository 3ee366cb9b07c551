"""Bad definitions: each is refused with the plugin, the field and the reason, and its neighbours load."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from tests.unit.plugins.hosting import RecordedHost, a_tool, echo, found, registering
from toolstead.plugins.contract import Hooks, Plugin, PluginContext


async def fine(ctx: PluginContext) -> Hooks:
    return Hooks()


def plain(ctx: PluginContext) -> None: ...


async def no_context() -> None: ...


async def two(ctx: PluginContext, more: int) -> None: ...


async def short(ctx: PluginContext, input: dict[str, Any]) -> str:
    return ""


async def one(_: Any) -> None: ...


class AsyncCall:
    async def __call__(self, ctx: PluginContext) -> Hooks:
        return Hooks()


@dataclass
class NoDefault:
    volume: int
    tone: str


class StructWithoutDefault(msgspec.Struct):
    volume: int


@dataclass
class Unreadable:
    volume: Nowhere = 1  # type: ignore[name-defined]  # noqa: F821 - that is the fault


@dataclass
class BadUnion:
    volume: NoDefault | dict[str, int] | None = None


@dataclass
class BadDefaults:
    volume: int = 0

    def __post_init__(self) -> None:
        if not self.volume:
            raise ValueError("too quiet")


class Typed(TypedDict, total=False):
    volume: int


def odd(**of: Any) -> Plugin:
    return Plugin(**{"name": "odd", **of})


BAD: list[tuple[str, Any, str, str]] = [
    ("nothing", None, "plugin", "a Plugin(name='odd', …) is needed, not None"),
    ("a dict", {"name": "odd"}, "plugin", "not a dict"),
    ("the class", Plugin, "plugin", "not the class Plugin"),
    ("no name", odd(name=""), "name", "a name is needed"),
    ("name None", odd(name=None), "name", "not None"),
    ("a number for a name", odd(name=7), "name", "not 7"),
    ("a blank in the name", odd(name="o dd"), "name", "only letters, digits"),
    ("an unseen character in the name", odd(name="o\u200bdd"), "name", "U+200B"),
    ("two underscores", odd(name="odd__one"), "name", "has `__` in it"),
    ("a long name", odd(name="o" * 33), "name", "33 characters; at most 32"),
    (
        "another name than found",
        odd(name="even"),
        "name",
        "it is Plugin(name='even'), but its file or entry point is called 'odd'",
    ),
    ("version is a number", odd(version=1.0), "version", "not 1.0"),
    ("version None", odd(version=None), "version", "text such as"),
    ("no version", odd(version=" "), "version", "text such as"),
    ("a long version", odd(version="1" * 101), "version", "at most 100"),
    ("an unseen character in the version", odd(version="1\u202e0"), "version", "U+202E"),
    ("register not async", odd(register=plain), "register", "put `async` before its `def`"),
    ("start not async", odd(start=plain), "start", "put `async` before its `def`"),
    ("stop not async", odd(stop=plain), "stop", "put `async` before its `def`"),
    ("register is text", odd(register="register"), "register", "not a str"),
    ("start takes nothing", odd(start=no_context), "start", "it is called with (ctx), but takes ()"),
    ("stop takes two", odd(stop=two), "stop", "it is called with (ctx), but takes"),
    ("tools None", odd(tools=None), "tools", "a list of tools is needed, not None"),
    ("tools is text", odd(tools="echo"), "tools", "a list of tools is needed, not a str"),
    ("one tool alone", odd(tools=a_tool()), "tools", "a list of tools is needed, not a Tool"),
    ("a function among tools", odd(tools=[a_tool(), echo]), "tools", "number 2 is a function; decorate"),
    ("a tool twice", odd(tools=[a_tool(), a_tool()]), "tools", "two are called 'echo'"),
    ("a tool without name", odd(tools=[a_tool("")]), "tools", "number 1: name"),
    ("a tool with a bad name", odd(tools=[a_tool("e cho")]), "tools", "not 'e cho'"),
    ("a tool with a long name", odd(tools=[a_tool("e" * 60)]), "tools", "which has 65 characters; at most 64"),
    ("a tool without description", odd(tools=[a_tool(description=" ")]), "tools", "'echo': description"),
    ("a handler not async", odd(tools=[a_tool(handler=plain)]), "tools", "'echo': handler: an `async def` with (ctx, "),
    (
        "a handler with two",
        odd(tools=[a_tool(handler=short)]),
        "tools",
        "'echo': handler: it is called with (ctx, input,",
    ),
    ("a schema that is none", odd(tools=[a_tool(schema={"type": "thing"})]), "tools", "'echo': schema"),
    ("parameters that are none", odd(tools=[a_tool(parameters={"x": {"type": "z"}})]), "tools", "'echo': parameters"),
    ("an output schema that is none", odd(tools=[a_tool(output_schema={"type": 7})]), "tools", "'echo': output_schema"),
    ("settings is a table", odd(settings={}), "settings", "a class is needed: a dataclass"),
    ("settings is another class", odd(settings=dict), "settings", "a class is needed: a dataclass"),
    ("settings is a TypedDict", odd(settings=Typed), "settings", "a class is needed: a dataclass"),
    ("fields without default", odd(settings=NoDefault), "settings", "without one: 'volume', 'tone'"),
    ("a struct without default", odd(settings=StructWithoutDefault), "settings", "without one: 'volume'"),
    ("unreadable annotations", odd(settings=Unreadable), "settings", "the fields of Unreadable cannot be read"),
    ("an annotation nobody can fill", odd(settings=BadUnion), "settings", "volume: its annotation cannot be read"),
    (
        "defaults that do not fit",
        odd(settings=BadDefaults),
        "settings",
        "with its defaults alone: ValueError: too quiet",
    ),
]


@pytest.mark.parametrize(("value", "field", "reason"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_a_bad_definition_is_refused_alone(value: Any, field: str, reason: str) -> None:
    recorded = RecordedHost()
    bad = found(value, name="odd")
    await recorded.host.apply_plugins([recorded.wanted("before"), bad, recorded.wanted("behind")])
    assert recorded.states() == {"before": "running", "odd": "failed", "behind": "running"}
    error = recorded.view("odd").error or ""
    assert error.startswith(f"{field}: ")
    assert reason in error


def hooks(**of: Any) -> Hooks:
    return Hooks(**of)


BAD_HOOKS: list[tuple[str, Any, str, str]] = [
    ("a hook not async", hooks(on_message=plain), "on_message", "put `async` before its `def`"),
    ("a hook that is text", hooks(on_broadcast="x"), "on_broadcast", "not a str"),
    ("a hook with too few", hooks(on_message=one), "on_message", "it is called with (thread_id, role, content)"),
    ("before is text", hooks(on_settings_change=one, before="context"), "before", "a list of plugins' names"),
    ("before is a number", hooks(before=5), "before", "a list of plugins' names"),
    ("before is nothing", hooks(before=None), "before", "a list of plugins' names"),
    ("before with a number among names", hooks(before=["a", 7]), "before", "names of plugins are text, not 7"),
    ("after with numbers", hooks(after=[1]), "after", "names of plugins are text, not 1"),
    ("no time", hooks(timeout=0), "timeout", "seconds above 0 are needed, not 0"),
    ("less than no time", hooks(timeout=-1), "timeout", "seconds above 0 are needed, not -1"),
    ("time that is no number", hooks(timeout=float("nan")), "timeout", "seconds above 0 are needed, not nan"),
    ("endless time", hooks(timeout=float("inf")), "timeout", "seconds above 0 are needed, not inf"),
    ("time is text", hooks(timeout="5"), "timeout", "not '5'"),
    ("time is a switch", hooks(timeout=True), "timeout", "not True"),
]


@pytest.mark.parametrize(("bad", "field", "reason"), [row[1:] for row in BAD_HOOKS], ids=[row[0] for row in BAD_HOOKS])
async def test_bad_hooks_are_refused_alone(bad: Hooks, field: str, reason: str) -> None:
    recorded = RecordedHost()
    await recorded.host.apply_plugins([recorded.wanted("odd", register=registering(bad)), recorded.wanted("behind")])
    assert recorded.states() == {"odd": "failed", "behind": "running"}
    error = recorded.view("odd").error or ""
    assert error.startswith(f"{field}: ")
    assert reason in error


@pytest.mark.parametrize(
    "good",
    [
        odd(register=AsyncCall(), start=functools.partial(two, more=1), stop=fine),
        odd(tools=(a_tool(), a_tool("other")), version="2026.1 beta"),
        odd(tools=[a_tool("e" * 59)], register=registering(Hooks(before=["a"], after=("b",), timeout=1.5))),
    ],
)
async def test_a_good_definition_is_taken(good: Plugin) -> None:
    recorded = RecordedHost()
    await recorded.host.apply_plugins([found(good)])
    assert recorded.states() == {"odd": "running"}, recorded.view("odd").error
    await recorded.host.close()


async def test_a_bare_tool_may_use_all_of_the_name() -> None:
    recorded = RecordedHost()
    await recorded.host.apply_plugins([found(odd(tools=[a_tool("e" * 64)]), bare=True)])
    assert recorded.view("odd").tools == ("e" * 64,)
