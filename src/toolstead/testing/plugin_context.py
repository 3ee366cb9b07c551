"""A plugin in a test: a context whose powers work in memory, and one tool or hook run as a stead would.

What the plugin did with its powers can be read from the context.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from toolstead.app.plugin_files import PluginFiles
from toolstead.app.plugin_powers import Parts, PluginAgents, PluginCalls, PluginHttp, PluginStore, PluginThreads
from toolstead.errors import PluginError, Rejected, UnavailableError
from toolstead.orchestrator.request import RunRequest
from toolstead.orchestrator.shared_files import SharedFiles
from toolstead.plugins.background import BackgroundTasks
from toolstead.plugins.contract import HOOKS, Hooks, Plugin, PluginContext, Tool
from toolstead.plugins.definition import check_hooks, check_plugin
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked, HookRunner
from toolstead.plugins.names import qualify_name
from toolstead.plugins.ports import HttpAnswer, absent_power
from toolstead.plugins.settings import read_settings
from toolstead.testing.fake_tasks import FakeTasks
from toolstead.testing.plugin_parts import (
    FakeConversations,
    FakeNetwork,
    MemoryStore,
    MessageLike,
    RecordingLog,
    SentRequest,
)
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.event import Event
from toolstead.types.result import ToolResult
from toolstead.types.run import RunError
from toolstead.types.thread import Message
from toolstead.types.vfs import FileLimits

Listener = Callable[[str, Mapping[str, Any]], Awaitable[None]]


@dataclass(slots=True, kw_only=True, eq=False)
class FakeContext(PluginContext):
    """A `PluginContext` that remembers what was done with it.

    `async with fake_context(plugin) as ctx` registers and starts the plugin, and in the end cancels its background
    work and stops it, as a stead does. Without `async with` nothing of the plugin is run until you do.

    Attributes:
        sent: What it put into threads with `threads.send`; a message with `wake` is the user's, others the system's.
        broadcasts: The events that it broadcast.
        invoked: What it asked agents.
        requests: What it sent over HTTP.
        statuses: Its states, each with the reason, in the order in which people would have seen them.
        events: All that happened: calls, their results, broadcasts.
        hooks: Its hooks, once it is registered.
        dispatcher: Calls the tools that `call_tool` reaches: the plugin's own and those that were given.
    """

    plugin: Plugin
    sent: list[Message]
    broadcasts: list[Event]
    invoked: list[RunRequest]
    requests: list[SentRequest]
    statuses: list[tuple[str, str | None]]
    events: list[Event]
    hooks: Hooks
    dispatcher: Dispatcher
    background: BackgroundTasks

    async def register(self) -> Hooks:
        """Register the plugin's hooks.

        Raises:
            PluginError: What it gave back are no hooks.
        """
        if self.plugin.register is not None:
            self.hooks = check_hooks(self.name, await self.plugin.register(self))
        return self.hooks

    async def wait_for_background(self) -> None:
        """Wait until all background work has ended."""
        await self.background.wait_until_done()

    async def __aenter__(self) -> Self:
        await self.register()
        if self.plugin.start is not None:
            try:
                await self.plugin.start(self)
            except BaseException:
                await self._wind_up()  # a start that was begun gets its stop
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wind_up()

    async def _wind_up(self) -> None:
        await self.background.end_all()
        if self.plugin.stop is not None:
            await self.plugin.stop(self)


def fake_context(
    plugin: Plugin | str,
    *,
    settings: Mapping[str, Any] | None = None,
    history: Mapping[str, Sequence[MessageLike]] | None = None,
    answers: Mapping[str, str | RunError] | None = None,
    results: Mapping[str, str] | None = None,
    agents: Sequence[str] | None = None,
    pages: Mapping[str, HttpAnswer | str | Exception] | None = None,
    tools: Sequence[Tool] = (),
    on_broadcast: Listener | None = None,
) -> FakeContext:
    """A context for tests of a plugin.

    Args:
        plugin: The plugin, or only its name.
        settings: The table of its settings, as in `[plugins.<name>]`.
        history: The threads there are, each with its messages: texts of the user, or `("assistant", "…")`.
        answers: What agents answer: the first whose key, a regular expression, is found in the prompt. A `RunError`
            is a run that failed, and so is a prompt that nothing is given for.
        results: What delegated tasks end with: the first whose key, a regular expression, is found in the prompt; a
            task that nothing is given for fails. `ctx.tasks.tasks` has them all.
        agents: Whom `ctx.tasks` may delegate to; any name unless given.
        pages: What the internet answers, by address: text, an `HttpAnswer`, or an error to raise.
        tools: What `call_tool` can call besides the plugin's own tools, which it calls `<plugin>__<tool>`.
        on_broadcast: Stands for the other plugins: called with each broadcast of this one.

    Raises:
        PluginError: The plugin's definition, or its settings, are wrong.
        DefinitionError: One of the tools is.
    """
    plugin = Plugin(name=plugin) if isinstance(plugin, str) else plugin
    check_plugin(plugin, plugin.name)
    name, log, statuses = plugin.name, RecordingLog(), list[tuple[str, str | None]]()
    store, network = MemoryStore(history or {}), FakeNetwork(pages or {})
    conversations = FakeConversations(store, answers or {})
    health = Health(name, lambda health: statuses.append((health.state, health.error)))
    health.set_state("running")
    statuses.clear()
    background = BackgroundTasks(name, health)
    others = HookRunner()
    others.set_hooks(
        [Hooked(plugin="the other plugins", hooks=Hooks(on_broadcast=on_broadcast), health=Health("others"))]
    )
    registry = Registry(context_for=lambda owner: context if owner == name else PluginContext(name=owner))
    dispatcher = Dispatcher(registry, events=log, cwd=Path.cwd())
    parts = _build_parts(
        store=store,
        conversations=conversations,
        network=network,
        log=log,
        dispatcher=dispatcher,
        others=others,
        read_limits=lambda: context.settings if isinstance(context.settings, FileLimits) else FileLimits(),
    )
    context = FakeContext(
        name=name,
        settings=read_settings(plugin, settings or {}),
        logger=logging.getLogger(f"toolstead.plugin.{name}"),
        store=PluginStore(name, parts),
        invoker=PluginAgents(parts),
        threads=PluginThreads(name, parts, first_party=False),
        files=PluginFiles(name, parts.open_files),
        tasks=FakeTasks(results or {}, agents),
        http=PluginHttp(parts),
        search=absent_power("search", "no search provider is configured"),
        call_tool=PluginCalls(name, parts),
        run_background=background,
        report_status=health.report_status,
        plugin=plugin,
        sent=conversations.sent,
        broadcasts=log.broadcasts,
        invoked=conversations.invoked,
        requests=network.requests,
        statuses=statuses,
        events=log.events,
        hooks=Hooks(),
        dispatcher=dispatcher,
        background=background,
    )
    own = [msgspec.structs.replace(tool, name=qualify_name(name, tool.name)) for tool in plugin.tools]
    registry.register(*own, plugin_name=name)
    registry.register(*tools)
    return context


def _build_parts(
    *,
    store: Any,
    conversations: Any,
    network: Any,
    log: Any,
    dispatcher: Dispatcher,
    others: HookRunner,
    read_limits: Callable[[], FileLimits],
) -> Parts:
    """The doubles in the places of what they double; the contract suite sees that they fit."""

    async def open_store() -> Any:
        return store

    async def open_conversations() -> Any:
        return conversations

    async def open_files() -> SharedFiles:
        return SharedFiles(store, read_limits)

    async def open_delegation() -> Any:
        raise UnavailableError("ctx.tasks", "a test gives a double of its own")

    return Parts(
        open_store=open_store,
        conversations=open_conversations,
        open_files=open_files,
        open_delegation=open_delegation,
        dispatcher=lambda: dispatcher,
        log=log,
        hooks=others,
        http=lambda: (network, network.allowed),
    )


async def call_tool(
    plugin: Plugin,
    name: str,
    input: Mapping[str, Any] | None = None,
    *,
    context: FakeContext | None = None,
    thread_id: str = "default",
    run_id: str | None = None,
    task_id: str | None = None,
) -> ToolResult:
    """Call one of a plugin's tools: validated, with its deadline, and every failure is a result.

    Args:
        plugin: Whose tool it is.
        name: The tool's own name, without the plugin's.
        input: Its arguments.
        context: Made with `fake_context(plugin)`; a new one unless given.
        thread_id: What `meta.thread_id` says.
        run_id: What `meta.run_id` says; with it the caller is an agent at work, `main`, which may delegate.
        task_id: What `meta.task_id` says; with it the call is of a run, `run_1` unless one is given.

    Raises:
        UnknownToolError: It has no such tool.
    """
    context = _make_context(plugin, context)
    run_id = run_id or (None if task_id is None else "run_1")
    agent_id = None if run_id is None else "main"
    caller = Caller(thread_id=thread_id, run_id=run_id, agent_id=agent_id, task_id=task_id)
    return await context.dispatcher.call(qualify_name(plugin.name, name), input, caller)


async def run_hook(plugin: Plugin, hook: str, *given: Any, context: FakeContext | None = None) -> Any:
    """Run one of a plugin's hooks, within its time, and give its answer.

    In a stead a failing hook is logged and skipped; here its error is raised, so that a test sees it.

    Args:
        plugin: Whose hook it is; it is registered first unless its context is already.
        hook: Its name, such as `on_before_invoke`.
        given: What it is called with.
        context: Made with `fake_context(plugin)`; a new one unless given.

    Returns:
        What a stead would go on with: the prompt, the decision, the verdict (a raised `Rejected` is one), or None.

    Raises:
        ValueError: There is no such hook, the plugin does not have it, or it takes other arguments.
        PluginError: It answered nonsense, or not in time.
        Exception: Whatever it raised itself.
    """
    context = _make_context(plugin, context)
    if hook not in HOOKS:
        raise ValueError(f"there is no hook {hook!r}; there are {', '.join(HOOKS)}")
    if len(given) != len(HOOKS[hook]):
        raise ValueError(f"{hook} is called with ({', '.join(HOOKS[hook])}), and {len(given)} were given")
    hooks = context.hooks if context.hooks != Hooks() else await context.register()
    function = getattr(hooks, hook)
    if function is None:
        raise ValueError(f"plugin {plugin.name!r} has no {hook}")
    raised: list[Exception] = []

    async def note_answer(*arguments: Any) -> Any:
        try:
            return await function(*arguments)
        except Exception as error:
            raised.append(error)
            raise

    health, runner = Health(plugin.name), HookRunner()
    alone: dict[str, Any] = {hook: note_answer, "timeout": hooks.timeout}
    runner.set_hooks([Hooked(plugin=plugin.name, hooks=Hooks(**alone), health=health)])
    answer = await _run(runner, hook, plugin.name, given)
    if raised and not (hook == "on_task_complete" and isinstance(raised[0], Rejected)):
        raise raised[0]
    if health.error is not None:
        raise PluginError(plugin=plugin.name, field=hook, reason=health.error.removeprefix(f"{hook}: "))
    return answer


async def _run(runner: HookRunner, hook: str, plugin: str, given: tuple[Any, ...]) -> Any:
    match hook:
        case "on_before_tool":
            return await runner.list_gates()[0](*given)
        case "on_after_tool":
            await runner.list_observers()[0](*given)
            return None
        case "on_task_complete":
            return (await runner.on_task_complete(*given))[0].verdict
        case "on_settings_change":
            return await runner.on_settings_change(plugin, *given)
        case _:
            return await getattr(runner, hook)(*given)


def _make_context(plugin: Plugin, context: FakeContext | None) -> FakeContext:
    if context is None:
        return fake_context(plugin)
    if context.plugin is not plugin:
        raise ValueError(f"this context was made for another plugin; make it with fake_context({plugin.name}'s plugin)")
    return context
