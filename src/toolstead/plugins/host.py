"""The host: runs the plugins that are wanted, and isolates the failures of each.

Every step is taken for all plugins in order before the next one: load, register, start; then hooks are set, then
tools appear. At the end it goes the other way round. A gate is never open by accident: from the moment it is known
until its plugin is in use, and after its plugin failed, it refuses everything.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from toolstead.concurrency.owned_tasks import finish_despite_cancellation
from toolstead.errors import NotFoundError
from toolstead.plugins.discovery import Discovered
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import HookRunner
from toolstead.plugins.plugin_instance import (
    MakeContext,
    PluginInstance,
    PluginPrompt,
    PluginResource,
    PluginTool,
    PluginView,
    Wanted,
)

__all__ = ["PluginHost", "PluginPrompt", "PluginResource", "PluginTool", "PluginView", "Wanted"]

logger = logging.getLogger(__name__)

_code_of = operator.attrgetter("name", "origin", "version_key", "first_party", "bare")
"""Identifies the code of a discovered plugin."""


class PluginHost:
    """Holds all plugins. One for each stead."""

    def __init__(
        self,
        *,
        make_context: MakeContext,
        runner: HookRunner,
        on_status: Callable[[Health], None],
        on_tools: Callable[[], Awaitable[None]],
        on_client_parts: Callable[[], object] = lambda: None,
    ) -> None:
        """A host without plugins.

        Args:
            make_context: Makes the context of a plugin; settings, background work and status are filled in here.
            runner: Gets the hooks of those in use.
            on_status: Called whenever a plugin's state or error changes. Must not raise.
            on_tools: Awaited whenever `list_tools()` changes.
            on_client_parts: Called whenever the prompts, resources or instructions change. Must not raise.
        """
        self._make_context = make_context
        self._runner = runner
        self._on_status = on_status
        self._on_tools = on_tools
        self._on_client_parts = on_client_parts
        self._instances: list[PluginInstance] = []
        self._refused: list[PluginInstance] = []
        self._started: list[PluginInstance] = []
        self._lock = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._closed = False

    async def apply_plugins(self, wanted: Sequence[Wanted]) -> None:
        """Apply the wanted state. Unchanged plugins stay as they are; one that failed is retried when it changed.

        Args:
            wanted: All plugins there are, in the order of registration. Of two with one name the holder keeps it,
                else the first has it.

        Raises:
            RuntimeError: The host is closed.
            asyncio.CancelledError: The caller was cancelled; what had been begun is stopped.
        """
        async with self._lock:
            self._check_open()
            before = {instance.name: instance for instance in self._instances}
            holders = _name_holders(wanted, before)
            self._refused = [
                self._refused_plugin(one, holder)
                for one in wanted
                if (holder := holders[one.discovered.name]) is not one
            ]
            arranged = [
                (self._next_instance(one, before.get(one.discovered.name)), one)
                for one in wanted
                if holders[one.discovered.name] is one
            ]
            self._instances = [instance for instance, _ in arranged]
            new = [one for one in self._instances if one.enabled and one not in before.values()]
            ending = [instance for instance in before.values() if instance not in self._instances]
            try:
                await finish_despite_cancellation(self._end_plugins(ending))
                for instance in self._instances:
                    if not instance.enabled:
                        instance.health.set_state("disabled")
                for instance, one in arranged:
                    if instance.change_settings(one.settings):
                        await self._runner.on_settings_change(instance.name, instance.settings)
                await self._start_plugins(new)
            except BaseException:
                for instance in new:  # those that it did not come to
                    instance.note_interrupted()
                raise

    def check_settings(self, name: str, table: Mapping[str, Any]) -> None:
        """Check whether settings fit; the code of a plugin that is not loaded is loaded for it, and not used.

        Raises:
            NotFoundError: There is no such plugin.
            PluginError: They do not fit, or the plugin cannot be loaded.
        """
        self._find_plugin(name).check_settings(table)

    def find_gates(self) -> dict[tuple[str, str], bool]:
        """Whether each plugin that was registered here has a gate, by its name and origin."""
        return {
            (instance.name, instance.discovered.origin): has_gate
            for instance in self._instances
            if (has_gate := instance.registered_gate) is not None
        }

    def find_lost_gates(self) -> list[Discovered]:
        """The plugins that had a gate and came without one, which nobody has confirmed."""
        return [instance.discovered for instance in self._instances if instance.lost_gate]

    def find_closed_gates(self) -> list[str]:
        """The plugins that failed and deny every call, by their names."""
        return [instance.name for instance in (*self._instances, *self._refused) if instance.denies_calls]

    async def restart_plugin(self, name: str, *, forget: bool = False) -> None:
        """Restart a plugin that is degraded or failed, and clear its failures. A healthy one is left alone.

        One that failed because its gate went is started without it: it is a person who restarts a plugin.

        Args:
            name: The plugin.
            forget: Forget that it had a gate, too: only what it registers now counts.

        Raises:
            NotFoundError: There is no such plugin.
        """
        async with self._lock:
            self._check_open()
            instance = self._find_plugin(name)
            if instance.enabled and instance.health.state in ("degraded", "failed"):
                is_unknown = instance.is_unknown or (forget and instance.has_gate)
                wanted = Wanted(discovered=instance.discovered, settings=instance.table, is_unknown=is_unknown)
                before = None if forget or instance.lost_gate else instance
                again = PluginInstance(wanted, self._on_status, before)
                self._instances[self._instances.index(instance)] = again
                await finish_despite_cancellation(self._end_plugins([instance]))
                await self._start_plugins([again])

    def list_plugins(self) -> list[PluginView]:
        """All of them, failed and disabled ones too, in the order wanted; those whose name was taken come last."""
        return [instance.show() for instance in (*self._instances, *self._refused)]

    def find_stopped(self, tool: str) -> PluginView | None:
        """The plugin that would bring a tool of this name, if it is switched off or failed."""
        stopped = (one for one in self._instances if not one.enabled or one.has_failed)
        return next((one.show() for one in stopped if one.names_tool(tool)), None)

    def list_tools(self) -> list[PluginTool]:
        """The tools of all that are in use, in the order wanted."""
        return [tool for instance in self._instances for tool in instance.tools]

    def list_prompts(self) -> list[PluginPrompt]:
        """The prompts of all that are in use, in the order wanted."""
        return [prompt for instance in self._instances for prompt in instance.prompts]

    def list_resources(self) -> list[PluginResource]:
        """The resources of all that are in use, in the order wanted."""
        return [resource for instance in self._instances for resource in instance.resources]

    def list_instructions(self) -> list[tuple[str, str]]:
        """The instructions of all that are in use, in the order wanted, each behind its plugin's name."""
        return [(instance.name, text) for instance in self._instances if (text := instance.instructions)]

    async def close(self) -> None:
        """Stop all in reverse order, also when the caller is cancelled meanwhile; what is being started is given up.

        Gates stay, closed: nothing passes while everything ends.
        """
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
        await finish_despite_cancellation(self._close())

    async def _close(self) -> None:
        async with self._lock:
            await self._end_plugins(self._instances)

    def _find_plugin(self, name: str) -> PluginInstance:
        for instance in self._instances:
            if instance.name == name:
                return instance
        raise NotFoundError("plugin", name)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the plugin host is closed; open a new stead")

    def _next_instance(self, one: Wanted, before: PluginInstance | None) -> PluginInstance:
        """The one there is, unless it is to be another; one that failed gets another try when something changed."""
        if before is not None and before.enabled == one.enabled and _same_code(before, one):
            is_confirmed = before.lost_gate and not one.had_gate  # in another process
            again = before.has_failed and (before.interrupted or is_confirmed or dict(one.settings) != before.table)
            if not again:
                return before
            if is_confirmed:
                return PluginInstance(one, self._on_status)
        return PluginInstance(one, self._on_status, before)

    def _refused_plugin(self, one: Wanted, holder: Wanted) -> PluginInstance:
        """A second plugin of one name. The status of that name is the holder's, so this one's is not reported."""
        for known in self._refused:
            if _same_code(known, one) and known.has_gate == (one.enabled and one.had_gate):
                return known
        instance = PluginInstance(structs.replace(one, is_unknown=False))  # its namesake is there, and may be its copy
        instance.note_failure(
            "name", f"{one.discovered.name!r} is already held by {holder.discovered.origin}; rename one of them"
        )
        return instance

    async def _start_plugins(self, new: Sequence[PluginInstance]) -> None:
        """Take new ones through their steps, in a task that `close` can cancel alone."""
        if not new:
            self._set_hooks()  # the order may be another
            return
        self._starting = asyncio.create_task(self._take_steps(new))
        try:
            await self._starting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
        finally:
            self._starting = None

    async def _take_steps(self, new: Sequence[PluginInstance]) -> None:
        try:
            for instance in new:
                instance.load(self._make_context)
            for instance in new:
                if not instance.has_failed:
                    await instance.register()
            self._set_hooks()
            for instance in new:
                if not instance.has_failed:
                    self._started.append(instance)
                    await instance.start()
        except BaseException:
            for instance in new:
                instance.note_interrupted()
            await finish_despite_cancellation(self._end_plugins(new))
            raise
        for instance in new:
            instance.go_live()
        self._set_hooks()
        if any(instance.serves_clients for instance in new):
            self._on_client_parts()
        if any(instance.tools for instance in new):
            await self._notify_tools()

    async def _end_plugins(self, ending: Sequence[PluginInstance]) -> None:
        """Tools first, then hooks, then each of them from the last that was started to the first."""
        had_tools = any(instance.tools for instance in ending)
        served_clients = any(instance.serves_clients for instance in ending)
        for instance in ending:
            instance.live = False
        if served_clients:
            self._on_client_parts()
        if had_tools:
            await self._notify_tools()
        self._set_hooks()
        last_first = [instance for instance in reversed(self._started) if instance in ending]
        self._started = [instance for instance in self._started if instance not in ending]
        for instance in (*last_first, *(instance for instance in ending if instance not in last_first)):
            await instance.end_plugin()

    def _set_hooks(self) -> None:
        everyone = (*self._instances, *self._refused)  # a refused one may have had a gate, which is closed then
        hooked = [found for instance in everyone if (found := instance.active_hooks()) is not None]
        for problem in self._runner.set_hooks(hooked):
            logger.warning("the order of hooks: %s", problem)

    async def _notify_tools(self) -> None:
        try:
            await self._on_tools()
        except Exception:  # plugins are still stopped and started
            logger.exception("the listener for changes of plugin tools failed")


def _name_holders(wanted: Sequence[Wanted], before: Mapping[str, PluginInstance]) -> dict[str, Wanted]:
    """The holder of each name: the current one if it is still wanted, else the first."""
    current = {(name, instance.discovered.origin) for name, instance in before.items()}
    holders: dict[str, Wanted] = {}
    for one in sorted(wanted, key=lambda one: (one.discovered.name, one.discovered.origin) not in current):
        holders.setdefault(one.discovered.name, one)
    return holders


def _same_code(instance: PluginInstance, one: Wanted) -> bool:
    return _code_of(instance.discovered) == _code_of(one.discovered)
