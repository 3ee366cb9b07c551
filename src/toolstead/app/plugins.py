"""The plugins of a stead: which exist, which are enabled, and their settings.

What a plugin is set to comes from the settings files, and above them from the database, of which `state.json` holds
a copy that every process watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolstead.app.plugin_powers import create_context
from toolstead.app.plugin_settings import merge_tables, show_plugin, unmask_settings
from toolstead.app.plugin_source import PluginTools
from toolstead.concurrency.owned_tasks import finish_despite_cancellation
from toolstead.errors import NotFoundError, StateError, StorageError
from toolstead.orchestrator.store import PluginRow
from toolstead.plugins.host import PluginHost, PluginView, Wanted

if TYPE_CHECKING:
    from toolstead.app.plugin_places import PluginPlaces
    from toolstead.app.plugin_powers import Parts
    from toolstead.app.settings import Settings
    from toolstead.app.state import State, Switches
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.store import Store
    from toolstead.plugins.contract import PluginContext
    from toolstead.plugins.discovery import Discovered
    from toolstead.plugins.health import Health
    from toolstead.plugins.hook_runner import HookRunner

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often to poll a database that other machines share for their changes."""

MOST_ATTEMPTS = 200
"""How often to retry a change because another process changed the same plugin meanwhile."""

LOOK_LIMIT = 5.0
"""Seconds that reading the plugin settings may take, while others wait to write the switches."""


class Plugins:
    """Finds, switches and sets plugins.

    Attributes:
        source: Their tools, for the registry.
    """

    def __init__(
        self,
        found: PluginPlaces,
        *,
        settings: Callable[[], Settings],
        switches: Switches,
        parts: Parts,
        runner: HookRunner,
        log: EventLog,
        refresh: Callable[[], Awaitable[object]],
    ) -> None:
        """Find nothing yet.

        Args:
            found: Where plugins are.
            settings: The current settings.
            switches: Where what was set is mirrored.
            parts: What the plugins' powers are made of.
            runner: Calls their hooks.
            log: Takes the events about their state.
            refresh: Awaited when their tools changed.
        """
        self._found = found
        self._settings = settings
        self._switches = switches
        self._parts = parts
        self._log = log
        self._refresh = refresh
        self._rows: Mapping[str, PluginRow] = {}
        self._store: Store | None = None
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._host = PluginHost(
            make_context=lambda name, first_party: create_context(name, parts, first_party=first_party),
            runner=runner,
            on_status=self._emit_status,
            on_tools=self._tools_changed,
        )
        self.source = PluginTools(self._host, lambda: found.problems)

    async def rescan(self) -> None:
        """Find plugins again, and start and stop them as they are set."""
        async with self._changing:
            await self._apply_state()

    async def close(self) -> None:
        """Stop them all, the last one first."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._host.close()

    def start_with(self, state: State) -> None:
        """Start with the settings of the switches."""
        self._rows = state.plugins

    def take_state(self, state: State) -> None:
        """Apply a change that was made here or in another process."""
        if state.plugins != self._rows:
            self._own_task(self._take_now(), "toolstead-plugin-switches")

    def follow_store(self, store: Store, *, shared: bool) -> None:
        """Use the settings of the database, which is open now; poll it if other machines share it."""
        self._store = store
        self._own_task(self._follow_now(store, shared=shared), "toolstead-plugin-settings")

    def show_plugins(self) -> list[dict[str, Any]]:
        """Every plugin as interfaces show it, its secrets masked."""
        return [show_plugin(view) for view in self._host.list_plugins()]

    async def change_plugin(
        self, name: str, *, enabled: bool | None = None, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, or set some of its settings, here and in every process; null takes one back.

        Raises:
            NotFoundError: No such plugin.
            PluginError: The settings do not fit; nothing changed.
            StorageError: It cannot be kept.
            StateError: The other processes cannot be notified.
        """
        return await finish_despite_cancellation(self._change_now(name, enabled, settings))

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Forget what was set, so that the settings files count again.

        Raises:
            NotFoundError: No such plugin, and nothing was set for one.
            StorageError: It cannot be kept.
            StateError: The other processes cannot be notified.
        """
        return await finish_despite_cancellation(self._reset_now(name))

    def context_for(self, name: str) -> PluginContext:
        """What a tool that the program registers itself is given."""
        return create_context(name, self._parts, first_party=False)

    def _find_plugin(self, name: str) -> PluginView:
        view = next((view for view in self._host.list_plugins() if view.name == name), None)
        if view is None:
            raise NotFoundError("plugin", name)
        return view

    async def _change_now(self, name: str, enabled: bool | None, settings: Mapping[str, Any] | None) -> dict[str, Any]:
        async with self._changing:
            view = self._find_plugin(name)
            sent = None if settings is None else unmask_settings(view, settings)
            self._switches.read()  # a change that other processes cannot be notified of is not begun
            store = await self._parts.open_store()
            for _ in range(MOST_ATTEMPTS):
                before = (await store.list_plugins()).get(name, PluginRow())
                if await store.replace_plugin(name, before, self._changed_row(name, before, enabled, sent)):
                    break
            else:
                raise StorageError(f"other processes keep changing plugin {name!r}; try again")
            await self._mirror_store(store)
            if enabled:
                await self._host.restart_plugin(name)
            return show_plugin(self._find_plugin(name))

    def _changed_row(
        self, name: str, before: PluginRow, enabled: bool | None, settings: Mapping[str, Any] | None
    ) -> PluginRow:
        """What is set after a change, if it fits."""
        table = before.settings
        if settings is not None:
            table = merge_tables(before.settings or {}, settings)
            self._host.check_settings(name, self._settings_table(name, table))
        return PluginRow(enabled=before.enabled if enabled is None else enabled, settings=table)

    async def _reset_now(self, name: str) -> dict[str, Any]:
        async with self._changing:
            self._switches.read()
            store = await self._parts.open_store()
            if not await store.reset_plugin(name):
                self._find_plugin(name)
            await self._mirror_store(store)
            view = next((view for view in self._host.list_plugins() if view.name == name), None)
            return show_plugin(view) if view is not None else {"name": name, "enabled": False, "state": "disabled"}

    async def _take_now(self) -> None:
        async with self._changing:
            if self._store is not None:  # a process that has it open reads it, and corrects a file that differs
                await self._mirror_store(self._store)
                return
            rows = self._switches.read().plugins  # the current state: a change of ours may have come in between
            if rows != self._rows:
                self._rows = rows
                await self._apply_state()

    async def _follow_now(self, store: Store, *, shared: bool) -> None:
        while True:
            try:
                async with self._changing:
                    await self._mirror_store(store)
            except (StorageError, StateError) as error:
                logger.warning("the plugin settings could not be read from the database: %s", error)
            if not shared:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _mirror_store(self, store: Store) -> None:
        """Notify the other processes of a stored change, and apply it here.

        Raises:
            StorageError: It does not answer.
            StateError: They cannot be notified; the change applies here.
        """
        rows = await store.list_plugins()
        untold: StateError | None = None
        try:
            if rows != self._switches.read().plugins:
                look = _store_reader(store, asyncio.get_running_loop())
                rows = await asyncio.to_thread(self._switches.mirror_plugins, look)
        except StateError as error:
            untold = error
        if rows != self._rows:
            self._rows = rows
            await self._apply_state()
        if untold is not None:
            where = "it is stored and applies in this process; other running processes read it later"
            raise StateError(f"{untold} ({where})") from untold

    async def _apply_state(self) -> None:
        await self._host.apply_plugins([self._wanted_plugin(found) for found in self._found.discover_plugins()])
        if self._found.problems:
            await self._tools_changed()

    def _wanted_plugin(self, found: Discovered) -> Wanted:
        row = self._rows.get(found.name, PluginRow())
        said = self._settings().plugins.get(found.name, {})
        enabled = row.enabled if row.enabled is not None else said.get("enabled", True)
        if found.first_party and found.name == "plan" and not self._settings().tools.include_plan_tool:
            enabled = False
        return Wanted(discovered=found, enabled=enabled, settings=self._settings_table(found.name, row.settings))

    def _settings_table(self, name: str, stored: Mapping[str, Any] | None) -> dict[str, Any]:
        said = {key: value for key, value in self._settings().plugins.get(name, {}).items() if key != "enabled"}
        return merge_tables(said, stored or {})

    def _emit_status(self, health: Health) -> None:
        data = {"name": health.plugin, "state": health.state}
        self._log.emit("plugin.status", {**data, **({"error": health.error} if health.error else {})})

    async def _tools_changed(self) -> None:
        if self.source.is_loaded:
            await self._refresh()

    def _own_task(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StorageError | StateError):
            logger.warning("a change of plugins could not be applied: %s", error)
        elif error is not None:
            logger.error("a change of plugins could not be applied", exc_info=error)


def _store_reader(store: Store, loop: asyncio.AbstractEventLoop) -> Callable[[], Mapping[str, PluginRow]]:
    """Reads what is set, for a worker thread."""

    def read_rows() -> Mapping[str, PluginRow]:
        asked = asyncio.run_coroutine_threadsafe(_read_plugins(store), loop)
        try:
            return asked.result(LOOK_LIMIT)
        except TimeoutError:
            asked.cancel()
            raise StorageError(f"the database did not return plugin settings within {LOOK_LIMIT:g} seconds") from None

    return read_rows


async def _read_plugins(store: Store) -> Mapping[str, PluginRow]:
    return await store.list_plugins()
