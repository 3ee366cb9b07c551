"""The host: runs the plugins that are wanted, and isolates the failures of each.

Every step is taken for all plugins in order before the next one: load, register, start; then hooks are set, then
tools appear. At the end it goes the other way round. A gate is never open by accident: from the moment it is known
until its plugin is in use, and after its plugin failed, it refuses everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolstead.concurrency.owned_tasks import finish_despite_cancellation
from toolstead.errors import NotFoundError, PluginError
from toolstead.plugins.discovery import Discovered
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import HookRunner
from toolstead.plugins.plugin_instance import MakeContext, PluginInstance, PluginTool
from toolstead.plugins.settings import read_settings
from toolstead.plugins.view import PluginView, view_of

__all__ = ["Discovered", "PluginHost", "PluginTool", "PluginView", "Wanted"]

logger = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it should be.

    Attributes:
        discovered: Where it comes from.
        enabled: Whether it should run.
        settings: The table of its settings.
    """

    discovered: Discovered
    enabled: bool = True
    settings: Mapping[str, Any] = {}


async def _tell_nobody() -> None:
    """Do nothing."""


def _note_nothing(_: Health) -> None:
    """Do nothing."""


class PluginHost:
    """Holds all plugins. One for each stead."""

    def __init__(
        self,
        *,
        make_context: MakeContext,
        runner: HookRunner,
        on_status: Callable[[Health], None] = _note_nothing,
        on_tools: Callable[[], Awaitable[None]] = _tell_nobody,
    ) -> None:
        """A host without plugins.

        Args:
            make_context: Makes the context of a plugin; settings, background work and status are filled in here.
            runner: Gets the hooks of those in use.
            on_status: Called whenever a plugin's state or error changes. Must not raise.
            on_tools: Awaited whenever `tools()` changes.
        """
        self._make_context = make_context
        self._runner = runner
        self._on_status = on_status
        self._on_tools = on_tools
        self._instances: list[PluginInstance] = []
        self._refused: list[PluginInstance] = []
        self._begun: list[PluginInstance] = []
        self._lock = asyncio.Lock()
        self._bringing: asyncio.Task[None] | None = None
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
            self._instances, new, changed = self._arrange_plugins(wanted, before)
            going = [instance for instance in before.values() if instance not in self._instances]
            try:
                await finish_despite_cancellation(self._end_plugins(going))
                self._tell_disabled()
                await self._change_all(changed)
                await self._bring_in(new)
            except BaseException:
                for instance in new:  # those that it did not come to
                    instance.note_interrupted()
                raise

    def check_settings(self, name: str, table: Mapping[str, Any]) -> None:
        """Check whether settings fit; a plugin that was never loaded accepts any.

        Raises:
            NotFoundError: There is no such plugin.
            PluginError: They do not fit.
        """
        instance = self._find_plugin(name)
        if instance.plugin is not None:
            read_settings(instance.plugin, table)

    async def restart_plugin(self, name: str) -> None:
        """Restart a plugin that is degraded or failed, and clear its failures. A healthy one is left alone.

        Raises:
            NotFoundError: There is no such plugin.
        """
        async with self._lock:
            self._check_open()
            instance = self._find_plugin(name)
            if instance.enabled and instance.health.state in ("degraded", "failed"):
                again = self._instance_of(Wanted(discovered=instance.discovered, settings=instance.table), instance)
                self._instances[self._instances.index(instance)] = again
                await finish_despite_cancellation(self._end_plugins([instance]))
                await self._bring_in([again])

    def list_plugins(self) -> list[PluginView]:
        """All of them, failed and disabled ones too, in the order wanted; those whose name was taken come last."""
        return [view_of(instance) for instance in (*self._instances, *self._refused)]

    def list_tools(self) -> list[PluginTool]:
        """The tools of all that are in use, in the order wanted."""
        return [tool for instance in self._instances for tool in instance.tools]

    async def close(self) -> None:
        """Stop all in reverse order, also when the caller is cancelled meanwhile; what is being started is given up.

        Gates stay, closed: nothing passes while everything ends.
        """
        self._closed = True
        if self._bringing is not None:
            self._bringing.cancel()
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

    def _arrange_plugins(
        self, wanted: Sequence[Wanted], before: Mapping[str, PluginInstance]
    ) -> tuple[list[PluginInstance], list[PluginInstance], list[tuple[PluginInstance, Mapping[str, Any]]]]:
        """The next plugins in order, those of them that are new and enabled, and those whose settings change."""
        holders = _name_holders(wanted, before)
        instances: list[PluginInstance] = []
        new: list[PluginInstance] = []
        changed: list[tuple[PluginInstance, Mapping[str, Any]]] = []
        refused: list[PluginInstance] = []
        for one in wanted:
            name = one.discovered.name
            instance = before.get(name)
            if holders[name] is not one:
                refused.append(self._refused_plugin(one, holders[name]))
            elif instance is None or not _stays_same(instance, one):
                made = self._instance_of(one, instance)
                instances.append(made)
                new += [made] if one.enabled else []
            else:
                instances.append(instance)
                if instance.live and dict(one.settings) != instance.table:
                    changed.append((instance, one.settings))
                elif not instance.enabled:
                    instance.table = dict(one.settings)
        self._refused = refused
        return instances, new, changed

    def _instance_of(self, one: Wanted, before: PluginInstance | None) -> PluginInstance:
        return PluginInstance(
            one.discovered, one.settings, enabled=one.enabled, on_status=self._on_status, before=before
        )

    def _refused_plugin(self, one: Wanted, holder: Wanted) -> PluginInstance:
        """A second plugin of one name. The status of that name is the holder's, so this one's is not reported."""
        for known in self._refused:
            if _same_code(known, one):
                return known
        instance = PluginInstance(one.discovered, one.settings, enabled=one.enabled, on_status=_note_nothing)
        instance.refuse_plugin(
            "name", f"{one.discovered.name!r} is already held by {holder.discovered.origin}; rename one of them"
        )
        return instance

    def _tell_disabled(self) -> None:
        for instance in self._instances:
            if not instance.enabled and instance.health.state != "disabled":
                instance.health.set_state("disabled")

    async def _change_all(self, changed: Sequence[tuple[PluginInstance, Mapping[str, Any]]]) -> None:
        for instance, table in changed:
            try:
                await self._change_settings(instance, table)
            except PluginError as error:
                instance.refuse_settings(table, error)

    async def _change_settings(self, instance: PluginInstance, table: Mapping[str, Any]) -> None:
        settings = instance.change_settings(table)
        await self._runner.on_settings_change(instance.name, settings)

    async def _bring_in(self, new: Sequence[PluginInstance]) -> None:
        """Take new ones through their steps, in a task that `close` can cancel alone."""
        if not new:
            self._set_hooks()  # the order may be another
            return
        self._bringing = asyncio.create_task(self._take_in(new))
        try:
            await self._bringing
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
        finally:
            self._bringing = None

    async def _take_in(self, new: Sequence[PluginInstance]) -> None:
        try:
            for instance in new:
                instance.load(self._make_context)
            for instance in new:
                await instance.register()
            self._set_hooks()
            for instance in new:
                if not instance.has_failed:
                    self._begun.append(instance)
                    await instance.start()
        except BaseException:
            for instance in new:
                instance.note_interrupted()
            await finish_despite_cancellation(self._end_plugins(new))
            raise
        for instance in new:
            instance.go_live()
        self._set_hooks()
        if any(instance.tools for instance in new):
            await self._tell_tools()

    async def _end_plugins(self, going: Sequence[PluginInstance]) -> None:
        """Tools first, then hooks, then each of them from the last that was started to the first."""
        had_tools = any(instance.tools for instance in going)
        for instance in going:
            instance.live = False
        if had_tools:
            await self._tell_tools()
        self._set_hooks()
        last_first = [instance for instance in reversed(self._begun) if instance in going]
        self._begun = [instance for instance in self._begun if instance not in going]
        for instance in (*last_first, *(instance for instance in going if instance not in last_first)):
            await instance.end_plugin()

    def _set_hooks(self) -> None:
        hooked = [found for instance in self._instances if (found := instance.active_hooks()) is not None]
        for problem in self._runner.set_hooks(hooked):
            logger.warning("the order of hooks: %s", problem)

    async def _tell_tools(self) -> None:
        try:
            await self._on_tools()
        except Exception:  # plugins are still stopped and started
            logger.exception("the listener for changes of plugin tools failed")


def _name_holders(wanted: Sequence[Wanted], before: Mapping[str, PluginInstance]) -> dict[str, Wanted]:
    """The holder of each name: the current one if it is still wanted, else the first."""
    holders: dict[str, Wanted] = {}
    for one in wanted:
        name = one.discovered.name
        instance = before.get(name)
        is_holder = instance is not None and instance.discovered.origin == one.discovered.origin
        held = holders.get(name)
        if held is None or (
            is_holder and instance is not None and held.discovered.origin != instance.discovered.origin
        ):
            holders[name] = one
    return holders


def _stays_same(instance: PluginInstance, one: Wanted) -> bool:
    again = instance.has_failed and (instance.interrupted or dict(one.settings) != instance.table)
    return instance.enabled == one.enabled and _same_code(instance, one) and not again


def _same_code(instance: PluginInstance, one: Wanted) -> bool:
    old, new = instance.discovered, one.discovered
    return (old.name, old.origin, old.version_key, old.first_party, old.bare) == (
        new.name,
        new.origin,
        new.version_key,
        new.first_party,
        new.bare,
    )
