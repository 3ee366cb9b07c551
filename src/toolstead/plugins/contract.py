"""The contract: everything that a plugin defines, is given and may return, on one page.

A plugin is a value, `Plugin(name=…, version=…)`, and nothing else happens at import time. It has tools
(`Tool`, or functions decorated with `@tool`), prompts and resources for MCP clients, hooks (`Hooks`, given back
by `register`), settings, and what it needs to `start` and `stop`. It knows nothing of other plugins. Everything
here is checked when the plugin is loaded: a bad one is refused alone, with its name, the field and the reason.

In order: `register(ctx)` for every plugin, then `start(ctx)` for every plugin, then tools and hooks are
live; at the end hooks and tools go, background work is cancelled, and `stop(ctx)` runs in reverse order.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.plugins.ports import (
    Agents,
    CallPluginTool,
    Files,
    Http,
    KeyValues,
    ReportStatus,
    RunBackground,
    Search,
    Tasks,
    Threads,
    absent_power,
)
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.call import Decision, ToolCall
from toolstead.types.content import Content
from toolstead.types.prompt import PromptMessage
from toolstead.types.result import ToolResult
from toolstead.types.tool import NO_HINTS, Annotations, Audience, JSONSchema

if TYPE_CHECKING:
    from toolstead.types.run import Invoking, Run
    from toolstead.types.thread import Role
    from toolstead.types.verdict import Verdict


@dataclass(slots=True, kw_only=True, eq=False)
class PluginContext:
    """What a plugin is given: one for its whole life, the same for its tools, hooks, `start` and `stop`.

    Attributes:
        name: The plugin's name.
        settings: Its settings as they are now: of the plugin's own class where it has one, else a mapping.
            Read them when you need them; they may change while the plugin runs.
        logger: A logger named after the plugin.
        store: Its own key-value space in the database.
        invoker: Invokes agents: `invoke`, `prewarm`.
        threads: Conversations: `history`, `send`, `broadcast`.
        files: The files that the agents of a thread tree share: `read`, `list`, `log`, `write`, `edit`, `delete`.
        tasks: Delegated work: `start`, `status`, `cancel`, `checkin`.
        http: The guarded HTTP client.
        search: Searches the web, where a provider is configured.
        call_tool: Calls any tool, with validation, gates, limits and log.
        run_background: Begins work that outlives a call; it ends with the plugin.
        report_status: Reports that the plugin is `degraded`, or `running` again.
    """

    name: str
    settings: Any = field(default_factory=dict[str, Any])
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("toolstead.plugin"))
    store: KeyValues = field(default_factory=lambda: absent_power("store"))
    invoker: Agents = field(default_factory=lambda: absent_power("invoker"))
    threads: Threads = field(default_factory=lambda: absent_power("threads"))
    files: Files = field(default_factory=lambda: absent_power("files"))
    tasks: Tasks = field(default_factory=lambda: absent_power("tasks"))
    http: Http = field(default_factory=lambda: absent_power("http"))
    search: Search = field(default_factory=lambda: absent_power("search"))
    call_tool: CallPluginTool = field(default_factory=lambda: absent_power("call_tool"))
    run_background: RunBackground = field(default_factory=lambda: absent_power("run_background"))
    report_status: ReportStatus = field(default_factory=lambda: absent_power("report_status"))


Answer = str | ToolResult | Content | Mapping[str, Any] | list[Any] | tuple[Any, ...] | int | float | bool
"""What a handler may return: text, a whole result, a piece of content, a list with some of them, or a JSON value."""

Handler = Callable[[PluginContext, dict[str, Any], ToolMeta], Coroutine[Any, Any, Answer]]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: what a model reads, and what runs when it calls.

    A struct, because files bring thousands: 0.6 µs each instead of 5 as a frozen dataclass.

    Attributes:
        name: Letters, digits, `_` and `-`, at most 64.
        description: What it does, for the model.
        handler: `async (ctx, input, meta) -> str | ToolResult | JSON`; gets validated input.
        schema: JSON Schema of the input; absent means any object.
        parameters: The simple form instead: name → type, description, required.
        output_schema: JSON Schema of the structured answer, enforced on every call.
        annotations: Hints for the caller: read-only, destructive, idempotent, open-world.
        timeout: Seconds; the settings' `tools.timeout` by default.
        max_output: Bytes shown to a caller; the settings' `tools.max_output` by default.
        progress: Declares that it reports progress.
        interactive: Declares that it talks to its caller.
        spawns: Declares that it starts agents; a run that may start none does not see it.
        audience: Who may see and call it: `everyone`; `delegators`, that is agents, and clients that may delegate; only
            agents (`runs`); or only agents that work on a delegated task (`tasks`).
        title: A name for people.
    """

    name: str
    description: str
    handler: Handler
    schema: JSONSchema | None = None
    parameters: Mapping[str, Any] | None = None
    output_schema: JSONSchema | None = None
    annotations: Annotations = NO_HINTS
    timeout: float | None = None
    max_output: int | None = None
    progress: bool = False
    interactive: bool = False
    spawns: bool = False
    audience: Audience = "everyone"
    title: str | None = None


Complete = Callable[[PluginContext, str, Mapping[str, str]], Awaitable[Sequence[str]]]
"""`async (ctx, text, given)`: what a client may fill in that begins with this text; what is filled in already."""


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a prompt; its value is text.

    Attributes:
        name: Letters, digits, `_`, `-` and `.`, at most 64.
        description: What it is, for people.
        required: Whether the prompt needs it.
        title: A name for people.
        values: Values to offer to people; others are allowed.
        complete: Finds such values instead.
    """

    name: str
    description: str = ""
    required: bool = False
    title: str | None = None
    values: Sequence[str] = ()
    complete: Complete | None = None


Filled = str | Content | PromptMessage | Sequence[str | Content | PromptMessage]
"""What a prompt may return: text, one piece of content, a message, or some of them; what has no role is the user's."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that people choose in an MCP client, often as a slash command.

    Attributes:
        name: Letters, digits, `_` and `-`; with the plugin's at most 64.
        handler: `async (ctx, arguments) -> text or messages`; gets every argument that was given.
        description: What it is for, for people.
        title: A name for people.
        arguments: What it asks for.
        timeout: Seconds that it may take.
    """

    name: str
    handler: Callable[[PluginContext, dict[str, str]], Awaitable[Filled]]
    description: str = ""
    title: str | None = None
    arguments: Sequence[PromptArgument] = ()
    timeout: float = 30


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that MCP clients can read by its address.

    Attributes:
        uri: Its address, such as `notes://today`. With `{name}` in it, it stands for all addresses that fit; a
            variable is a part of the address without `/`.
        name: What it is called.
        read: `async (ctx, variables) -> text or bytes`; gets the variables of the address. `ToolError` says what
            is wrong, for people.
        description: What it is, for people and models.
        title: A name for people.
        mime_type: Its media type, such as `text/markdown`.
        complete: Finds values of variables, by their names.
        timeout: Seconds that a read may take.
    """

    uri: str
    name: str
    read: Callable[[PluginContext, Mapping[str, str]], Awaitable[str | bytes]]
    description: str = ""
    title: str | None = None
    mime_type: str | None = None
    complete: Mapping[str, Complete] = msgspec.field(default_factory=dict[str, Complete])
    timeout: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of a plugin. Every hook is optional, async, and awaited in order.

    The order is that of the plugins' names, first-party ones first, but for `before` and `after`. A hook that
    raises, returns an invalid answer or exceeds its time limit is named in the log, in a `plugin.status` event and
    in `/api/plugins`, and the rest goes on; after five failures in a row it is cut off until the plugin is
    enabled again. What then happens in its place is the failure rule of each:

    - **chain** (`on_before_invoke`): the last good prompt is kept.
    - **gate** (`on_before_tool`): the call is refused, also when the gate is cut off. Gates fail closed.
    - **review** (`on_task_complete`): counts as unknown, never as accepted.
    - **notify** (all others): nothing. Observers fail open.

    Attributes:
        on_message: `(thread_id, role, content)`: a message was stored, before it is answered.
        on_before_invoke: `(thread_id, prompt, invocation) -> str`: the prompt for the model. Each plugin gets what
            the one before returned. The session is held; `invocation.session` is `warm`, `resumed` or `cold`.
            Called again, with the original prompt, when the turn is retried on a new session.
        on_after_invoke: `(thread_id, run)`: a run ended, however; its answer and its end are stored.
        on_task_create: `(thread_id, task_id)`: work was delegated; it has not begun.
        on_task_complete: `(thread_id, task_id, result) -> Verdict | None`: an attempt finished. Accept, reject
            with feedback (or raise `Rejected(feedback)`), or None for no opinion.
        on_task_failed: `(thread_id, task_id, error)`: it ended otherwise.
        on_broadcast: `(event, data)`: a broadcast: a run's end (`completed`, `error`, `cancelled`), or what
            another plugin broadcasts. A plugin does not receive its own.
        on_before_tool: `(call) -> Allow | Deny | Rewrite | Ask | None`: before a tool runs, with validated
            arguments. A rewrite is validated again; `Ask` waits for a person; None is no opinion.
        on_after_tool: `(call, result)`: a tool answered, or failed; its result is decided.
        on_settings_change: `(settings)`: the plugin's own settings changed; `ctx.settings` has them already.
        before: Plugins whose hooks come after this one's; unknown names have no effect.
        after: Plugins whose hooks come before this one's.
        timeout: Seconds that each hook may take; by default 10, and 600 for `on_task_complete`.
    """

    on_message: Callable[[str, Role, str], Awaitable[None]] | None = None
    on_before_invoke: Callable[[str, str, Invoking], Awaitable[str]] | None = None
    on_after_invoke: Callable[[str, Run], Awaitable[None]] | None = None
    on_task_create: Callable[[str, str], Awaitable[None]] | None = None
    on_task_complete: Callable[[str, str, str], Awaitable[Verdict | None]] | None = None
    on_task_failed: Callable[[str, str, str], Awaitable[None]] | None = None
    on_broadcast: Callable[[str, Mapping[str, Any]], Awaitable[None]] | None = None
    on_before_tool: Callable[[ToolCall], Awaitable[Decision]] | None = None
    on_after_tool: Callable[[ToolCall, ToolResult], Awaitable[None]] | None = None
    on_settings_change: Callable[[Any], Awaitable[None]] | None = None
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    timeout: float | None = None


HOOKS: Mapping[str, tuple[str, ...]] = {
    "on_message": ("thread_id", "role", "content"),
    "on_before_invoke": ("thread_id", "prompt", "invocation"),
    "on_after_invoke": ("thread_id", "run"),
    "on_task_create": ("thread_id", "task_id"),
    "on_task_complete": ("thread_id", "task_id", "result"),
    "on_task_failed": ("thread_id", "task_id", "error"),
    "on_broadcast": ("event", "data"),
    "on_before_tool": ("call",),
    "on_after_tool": ("call", "result"),
    "on_settings_change": ("settings",),
}
"""Every hook, and what it is called with."""

Register = Callable[[PluginContext], Awaitable[Hooks]]
Step = Callable[[PluginContext], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin: `plugin = Plugin(name="shouty", version="1.0.0", tools=[shout])`.

    Attributes:
        name: Letters, digits, `_` and `-`, at most 32; its tools are called `<name>__<tool>`.
        version: For people.
        register: `async (ctx) -> Hooks`: returns its hooks, `Hooks()` for none; None is refused, since a forgotten
            `return` gives it. Nothing is running yet.
        start: `async (ctx)`: opens what it needs. One that raises, or takes longer than 30 seconds, leaves
            this plugin `failed` and the others running.
        stop: `async (ctx)`: closes it. Called once after every `start` that was begun, also on SIGTERM; it has
            10 seconds. Calls of its tools are waited for first.
        settings: The class of its settings: a dataclass, a msgspec Struct or a pydantic model, every field with
            a default. Keys that it does not know are refused. Without a class any table will do.
        tools: What models can call.
        prompts: What people can choose in MCP clients; a prompt is called `<name>__<prompt>`.
        resources: What MCP clients can read.
        instructions: How to use the tools, for the models of MCP clients; at most 4,000 characters.
    """

    name: str
    version: str = "0"
    register: Register | None = None
    start: Step | None = None
    stop: Step | None = None
    settings: type | None = None
    tools: Sequence[Tool] = ()
    prompts: Sequence[Prompt] = ()
    resources: Sequence[Resource] = ()
    instructions: str = ""
