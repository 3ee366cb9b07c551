"""Running one piece of a plugin in a test: a tool, or a hook, as a stead would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.errors import PluginError, Rejected
from toolstead.plugins.contract import HOOKS, Hooks, Plugin
from toolstead.plugins.definition import qualify_name
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked, HookRunner
from toolstead.testing.plugin_context import FakeContext, fake_context
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult


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
        run_id: What `meta.run_id` says.
        task_id: What `meta.task_id` says.

    Raises:
        UnknownToolError: It has no such tool.
    """
    context = _make_context(plugin, context)
    caller = Caller(thread_id=thread_id, run_id=run_id, task_id=task_id)
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
