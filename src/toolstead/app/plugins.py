"""The plugins of a stead: which exist, which are enabled, their settings, and their tools as a source for the registry.

What a plugin is set to comes from the settings files, and above them from the database, of which `state.json` holds
a copy that every process watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from toolstead.app.masks import merge_tables, show_plugin, unmask_settings
from toolstead.app.plugin_places import is_switched_on
from toolstead.app.plugin_powers import Parts, create_context
from toolstead.app.remembered_gates import RememberedGates
from toolstead.concurrency.owned_tasks import OwnedTasks, finish_despite_cancellation
from toolstead.errors import DefinitionError, NotFoundError, StateError, StorageError
from toolstead.plugins.host import PluginHost, PluginTool, PluginView, Wanted
from toolstead.plugins.plugin_instance import SETTINGS_STAY
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.sources import Offers, SourceChanges
from toolstead.types.plugin_row import PluginRow
from toolstead.types.tool import Problem, Provenance

if TYPE_CHECKING:
    from toolstead.app.plugin_places import PluginPlaces
    from toolstead.app.settings import Settings
    from toolstead.app.state import State, Switches
    from toolstead.orchestrator.store import Store
    from toolstead.plugins.contract import Plugin, PluginContext
    from toolstead.plugins.discovery import Discovered
    from toolstead.plugins.health import Health
    from toolstead.types.vfs import FileLimits

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
        refresh: Callable[[], Awaitable[object]],
        on_settings: Callable[[], object] = lambda: None,
        on_client_parts: Callable[[], object] = lambda: None,
        builtin: bool = True,
    ) -> None:
        """Find nothing yet.

        Args:
            found: Where plugins are.
            settings: The current settings.
            switches: Where what was set is mirrored.
            parts: What the plugins' powers are made of.
            refresh: Awaited when their tools changed.
            on_settings: Called when what they are set to may have changed.
            on_client_parts: Called when their prompts, resources or instructions changed.
            builtin: Whether those that come with us may be switched on.
        """
        self._found = found
        self._settings = settings
        self._switches = switches
        self._parts = parts
        self._builtin = builtin
        self._refresh = refresh
        self._on_settings = on_settings
        self._gates = RememberedGates(switches)
        self._rows: Mapping[str, PluginRow] = {}
        self._all: list[Discovered] = []
        self._store: Store | None = None
        self._changing = asyncio.Lock()
        self._tasks = OwnedTasks()
        self._host = PluginHost(
            make_context=lambda name, first_party: create_context(name, parts, first_party=first_party),
            runner=parts.hooks,
            on_status=self._emit_status,
            on_tools=self._tools_changed,
            on_client_parts=on_client_parts,
        )
        self.find_closed_gates = self._host.find_closed_gates
        self.list_prompts = self._host.list_prompts
        self.list_resources = self._host.list_resources
        self.list_instructions = self._host.list_instructions
        self.source = PluginTools(self._host, lambda: found.problems)

    async def rescan(self) -> None:
        """Find plugins again, and start and stop them as they are set."""
        async with self._changing:
            await self._apply_state()

    async def close(self) -> None:
        """Stop them all, the last one first."""
        await self._tasks.end_all()
        await self._host.close()

    def start_with(self, state: State) -> None:
        """Start with the settings of the switches."""
        self._rows = state.plugins
        self._gates.take_state(state)

    def take_state(self, state: State) -> None:
        """Apply a change that was made here or in another process."""
        self._gates.take_state(state)
        if state.plugins != self._rows:
            self._start_task(self._take_now(), "toolstead-plugin-switches")
        if not all(map(self._gates.had_gate, self._host.find_lost_gates())):  # a person did without one elsewhere
            self._start_task(self.rescan(), "toolstead-plugin-gates")

    def follow_store(self, store: Store, *, shared: bool) -> None:
        """Use the settings of the database, which is open now; poll it if other machines share it."""
        self._store = store
        self._start_task(self._follow_now(store, shared=shared), "toolstead-plugin-settings")

    def show_plugins(self) -> list[dict[str, Any]]:
        """Every plugin as interfaces show it, its secrets masked."""
        return [show_plugin(view) for view in self._host.list_plugins()]

    def explain_stopped(self, tool: str) -> str | None:
        """Why a tool is not here: its plugin is switched off, or failed. None where no such plugin would bring it."""
        view = self._host.find_stopped(tool)
        if view is None:
            return None
        if view.enabled:
            return f"{tool} would be a tool of the plugin {view.name}, which failed: {view.error}"
        return f"{tool} belongs to the plugin {view.name}, which is switched off: toolstead plugins enable {view.name}"

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

    def read_file_limits(self) -> FileLimits:
        """How much shared files may take, as `[plugins.vfs]` says, whether that plugin runs or not.

        Raises:
            PluginError: The settings do not fit.
        """
        from toolstead.plugins.contract import Plugin
        from toolstead.plugins.settings import read_settings
        from toolstead.types.vfs import FileLimits

        settings = self._find_plugin("vfs").settings
        if isinstance(settings, FileLimits):
            return settings
        return read_settings(Plugin(name="vfs", settings=FileLimits), settings)

    def find_settings(self, name: str) -> Mapping[str, Any]:
        """What a plugin is set to, by the files and above them by the database."""
        return self._settings_table(name, self._rows.get(name, PluginRow()).settings)

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
            if enabled is False:  # last: a process that still runs it would remember its gate again
                await self._gates.forget_gate(name)
            if enabled:
                await self._host.restart_plugin(name)  # without the gate that it lost, if it did
                await self._note_gates()
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
            await self._gates.forget_gate(name)
            if any(view.name == name and view.state == "failed" for view in self._host.list_plugins()):
                await self._host.restart_plugin(name, forget=True)
            await self._apply_state()  # a gate that works is remembered again
            view = next((view for view in self._host.list_plugins() if view.name == name), None)
            return show_plugin(view) if view is not None else {"name": name, "enabled": False, "state": "disabled"}

    async def _take_now(self) -> None:
        async with self._changing:
            if self._store is not None:  # a process that has it open reads it, and corrects a file that differs
                await self._mirror_store(self._store)
                return
            # The current state: a change of ours may have come in between.
            await self._apply_rows(self._switches.read().plugins)

    async def _follow_now(self, store: Store, *, shared: bool) -> None:
        while True:
            try:
                async with self._changing:
                    await self._mirror_store(store)
            except (StorageError, StateError) as error:
                level = error.log_level if isinstance(error, StorageError) else logging.WARNING
                logger.log(level, "the plugin settings could not be read from the database: %s", error)
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
        try:
            if rows != self._switches.read().plugins:
                look = partial(_read_rows, store, asyncio.get_running_loop())
                rows = await asyncio.to_thread(self._switches.mirror_plugins, look)
        except StateError as error:
            await self._apply_rows(rows)
            raise StateError(
                f"{error} (it is stored and applies in this process; other running processes read it later)"
            ) from error
        await self._apply_rows(rows)

    async def _apply_rows(self, rows: Mapping[str, PluginRow]) -> None:
        if rows != self._rows:
            self._rows = rows
            await self._apply_state()

    async def _apply_state(self) -> None:
        found = self._all = self._found.discover_plugins()
        await self._host.apply_plugins([self._wanted_plugin(one) for one in found])
        await self._note_gates()
        self._on_settings()
        if self._found.problems:
            await self._tools_changed()

    async def _note_gates(self) -> None:
        await self._gates.note_gates(self._host.find_gates(), self._all)

    def _wanted_plugin(self, found: Discovered) -> Wanted:
        row = self._rows.get(found.name, PluginRow())
        table = self._settings().plugins.get(found.name, {})
        enabled = is_switched_on(found.name, row.enabled, table, is_first_party=found.first_party)
        if found.first_party and not self._builtin:
            enabled = False
        if found.first_party and found.name == "plan" and not self._settings().tools.include_plan_tool:
            enabled = False
        if found.first_party and found.name == "agents" and not self._settings().multi_agent.agents:
            found = _without_delegating(found)
        return Wanted(
            discovered=found,
            enabled=enabled,
            settings=self._settings_table(found.name, row.settings),
            had_gate=self._gates.had_gate(found),
            is_unknown=self._gates.is_unknown(found),
        )

    def _settings_table(self, name: str, stored: Mapping[str, Any] | None) -> dict[str, Any]:
        table = {key: value for key, value in self._settings().plugins.get(name, {}).items() if key != "enabled"}
        return merge_tables(table, stored or {})

    def _emit_status(self, health: Health) -> None:
        error = {"error": health.error} if health.error else {}
        self._parts.log.emit("plugin.status", {"name": health.plugin, "state": health.state, **error})

    async def _tools_changed(self) -> None:
        if self.source.is_loaded:
            await self._refresh()

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.start(work, name=name).add_done_callback(_log_failure)


def _without_delegating(found: Discovered) -> Discovered:
    """The `agents` plugin where nobody is named to delegate to: `delegate_agent` is not registered at all."""

    def load() -> Plugin:
        plugin: Plugin = found.load()
        return replace(plugin, tools=[tool for tool in plugin.tools if tool.name != "delegate_agent"])

    return structs.replace(found, load=load, version_key=f"{found.version_key} without delegate_agent")


def _log_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, StorageError | StateError):
        logger.warning("a change of plugins could not be applied: %s", error)
    elif error is not None:
        logger.error("a change of plugins could not be applied", exc_info=error)


def _read_rows(store: Store, loop: asyncio.AbstractEventLoop) -> Mapping[str, PluginRow]:
    """Read what is set, in a worker thread."""
    asked = asyncio.run_coroutine_threadsafe(store.list_plugins(), loop)
    try:
        return asked.result(LOOK_LIMIT)
    except TimeoutError:
        asked.cancel()
        raise StorageError(f"the database did not return plugin settings within {LOOK_LIMIT:g} seconds") from None


class PluginTools:
    """Offers the tools of plugins; what is wrong with a tool, or with a plugin, is a problem.

    Attributes:
        is_loaded: Whether the registry has asked for the tools; before that it needs no notice of a change.
    """

    name = "plugins"

    def __init__(self, host: PluginHost, find_problems: Callable[[], Iterable[Problem]]) -> None:
        """Offer what a host runs; `find_problems` says which plugins could not be read."""
        self.is_loaded = False
        self._host = host
        self._find_problems = find_problems
        self._defined: dict[int, tuple[PluginTool, RegisteredTool | Problem]] = {}

    async def load(self) -> Offers:
        """The tools of the plugins that run."""
        self.is_loaded = True
        self._define_tools()
        return Offers(tools=self._list_tools(), problems=self._list_problems())

    async def refresh(self, paths: Collection[Path] | None = None) -> SourceChanges:
        """The changes since the last load; no file is involved."""
        before = dict.fromkeys(self._list_tools())
        self._define_tools()
        after = dict.fromkeys(self._list_tools())
        return SourceChanges(
            gone=[tool for tool in before if tool not in after],
            fresh=[tool for tool in after if tool not in before],
            problems=self._list_problems(),
        )

    def _define_tools(self) -> None:
        before, self._defined = self._defined, {}
        for offered in self._host.list_tools():
            self._defined[id(offered)] = before.get(id(offered)) or (offered, _define_tool(offered))

    def _list_tools(self) -> list[RegisteredTool]:
        return [defined for _, defined in self._defined.values() if isinstance(defined, RegisteredTool)]

    def _list_problems(self) -> list[Problem]:
        bad = [defined for _, defined in self._defined.values() if isinstance(defined, Problem)]
        failed = [
            Problem(source=view.origin, message=f"plugin {view.name!r}: {view.error}")
            for view in self._host.list_plugins()
            if view.error and (view.state == "failed" or view.error.endswith(SETTINGS_STAY))
        ]
        return [*bad, *self._find_problems(), *failed]


def _define_tool(offered: PluginTool) -> RegisteredTool | Problem:
    provenance = Provenance(
        source="builtin" if offered.bare else "plugin",
        origin=offered.origin,
        plugin_name=None if offered.bare else offered.plugin,
    )
    try:
        return define_tool(offered.tool, provenance, offered.context)
    except DefinitionError as error:
        logger.warning("plugin %r (%s): %s", offered.plugin, offered.origin, error)
        return Problem(
            source=offered.origin,
            tool_name=error.tool,
            message=f"plugin {offered.plugin!r}: {error.field}: {error.reason}",
        )
