"""One plugin while it is in the host: loaded, registered, started, in use, ended.

A failure affects this plugin alone: it becomes `failed`, with the step and the reason.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from toolstead.errors import PluginError
from toolstead.plugins.background import BackgroundTasks
from toolstead.plugins.calls import CallsUnderWay
from toolstead.plugins.contract import Hooks, Plugin, PluginContext, Tool
from toolstead.plugins.crash import describe_crash
from toolstead.plugins.definition import check_hooks, check_plugin, qualify_name
from toolstead.plugins.discovery import Discovered
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked
from toolstead.plugins.settings import read_settings
from toolstead.plugins.step import take_step
from toolstead.types.call import Deny, ToolCall

logger = logging.getLogger(__name__)

REGISTER_SECONDS = 10.0
START_SECONDS = 30.0
STOP_SECONDS = 10.0
CALLS_SECONDS = 10.0
"""How long calls of a plugin's tools are waited for before it is stopped."""

MakeContext = Callable[[str, Health, bool], PluginContext]
"""Makes a plugin's context: its name, its health, whether it is a first-party one."""


class PluginTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a plugin that is in use, ready to be registered.

    Attributes:
        plugin: Whose it is.
        name: What models call it.
        tool: The tool, under that name.
        bare: Whether it counts as built in.
        origin: Where the plugin comes from.
        context: What its handler gets.
    """

    plugin: str
    name: str
    tool: Tool
    bare: bool
    origin: str
    context: PluginContext


class PluginInstance:
    """One plugin, from its request to its removal.

    Attributes:
        discovered: Where it comes from.
        enabled: Whether it is wanted running.
        table: Its settings as they were last given.
        health: Its health.
        plugin: Its definition, once it was loaded and found good.
        version: Its version, if known.
        context: What it is given, once it is loaded.
        hooks: What it registered.
        live: Whether its tools and hooks are in use.
        interrupted: Its start was cancelled with the caller's; it deserves another try.
    """

    def __init__(
        self,
        discovered: Discovered,
        table: Mapping[str, Any],
        *,
        enabled: bool,
        on_status: Callable[[Health], None],
        before: PluginInstance | None = None,
    ) -> None:
        """Make a plugin that is not loaded yet.

        Args:
            discovered: Where it comes from.
            table: Its settings.
            enabled: Whether it is wanted running.
            on_status: Called on every change of its health.
            before: The plugin of this name before it. Where that one had a gate, this one's is closed from now on
                until it is in use, so that nothing slips through meanwhile.
        """
        self.discovered = discovered
        self.enabled = enabled
        self.table = dict(table)
        self.health = Health(discovered.name, on_status)
        self.plugin: Plugin | None = None
        self.version = before.version if before is not None else ""
        self.context: PluginContext | None = None
        self.hooks = Hooks()
        self.live = False
        self.interrupted = False
        self._has_gate = enabled and before is not None and before.has_gate
        self._tools: tuple[PluginTool, ...] = ()
        self._calls = CallsUnderWay(discovered.name)
        self._background = BackgroundTasks(discovered.name, self.health)
        self._start_begun = False
        self._settings_refused = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.discovered.name

    @property
    def has_failed(self) -> bool:
        """Whether it failed."""
        return self.health.state == "failed"

    @property
    def has_gate(self) -> bool:
        """Whether calls have to pass it: its gate, or that of the plugin before as long as its own is not known."""
        return self._has_gate or self.hooks.on_before_tool is not None

    @property
    def tools(self) -> tuple[PluginTool, ...]:
        """Its tools, while it is in use."""
        return self._tools if self.live else ()

    def active_hooks(self) -> Hooked | None:
        """Its hooks while it is in use; while it is not, a gate that it has is there and closed."""
        if self.live:
            return Hooked(plugin=self.name, hooks=self.hooks, health=self.health)
        if not (self.enabled and self.has_gate):
            return None

        async def deny_call(_: ToolCall) -> Deny:
            why = self.health.error if self.has_failed else "it is not running at this moment"
            return Deny(f"plugin {self.name!r} has to check it first and cannot: {why}")

        hooks = Hooks(on_before_tool=deny_call, before=self.hooks.before, after=self.hooks.after)
        return Hooked(plugin=self.name, hooks=hooks, health=self.health)

    def load(self, make_context: MakeContext) -> None:
        """Run its code, check what it is, read its settings."""
        found = self.discovered
        try:
            plugin = check_plugin(found.load(), found.name, bare=found.bare)
            self.plugin, self.version = plugin, plugin.version
            settings = read_settings(plugin, self.table)
            context = make_context(found.name, self.health, found.first_party)
        except PluginError as error:
            self._note_failure(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # importing runs anything; sys.exit() ends only the plugin
            logger.info("plugin %r cannot be loaded", found.name, exc_info=True)  # the line below names file and line
            self._note_failure(PluginError(plugin=found.name, field="load", reason=describe_crash(error, found.origin)))
        else:
            context.settings = settings
            context.run_background = self._background
            context.report_status = self.health.report_status
            self.context = context

    async def register(self) -> None:
        """Call `register` and check the hooks it returns."""
        if self.plugin is None or self.context is None or self.has_failed:
            return
        try:
            if self.plugin.register is not None:
                self.hooks = check_hooks(
                    self.name, await self._run_step("register", self.plugin.register, self.context, REGISTER_SECONDS)
                )
        except PluginError as error:
            self._note_failure(error)
            await self._wind_up()
        else:
            self._has_gate = False
            self._tools = tuple(self._qualify_tool(tool, self.plugin, self.context) for tool in self.plugin.tools)

    async def start(self) -> None:
        """Call `start`; if it fails, stop the plugin at once."""
        if self.plugin is None or self.context is None or self.has_failed:
            return
        self._start_begun = True
        try:
            if self.plugin.start is not None:
                await self._run_step("start", self.plugin.start, self.context, START_SECONDS)
        except PluginError as error:
            self._note_failure(error)
            await self._wind_up()

    def go_live(self) -> None:
        """Put its tools and hooks to use, unless it failed."""
        if not self.has_failed:
            self.live = True
            self.health.set_state("running")

    def note_interrupted(self) -> None:
        """Mark it as interrupted: its start was cancelled, or would have come after one that was."""
        if not self.has_failed and not self.live:
            self.interrupted = True
            self._note_failure(PluginError(plugin=self.name, field="start", reason="it was interrupted"))

    def refuse_plugin(self, field: str, reason: str) -> None:
        """Mark it as failed without loading it."""
        self._note_failure(PluginError(plugin=self.name, field=field, reason=reason))

    def change_settings(self, table: Mapping[str, Any]) -> Any:
        """Give it other settings while it runs.

        Raises:
            PluginError: They do not fit; the old ones stay.
        """
        assert self.plugin is not None  # noqa: S101 - only what is in use is asked
        assert self.context is not None  # noqa: S101 - as above
        settings = read_settings(self.plugin, table)
        self.table = dict(table)
        self.context.settings = settings
        if self._settings_refused:
            self._settings_refused = False
            self.health.report_status("running")
        return settings

    def refuse_settings(self, table: Mapping[str, Any], error: PluginError) -> None:
        """Keep the old settings because the new ones do not fit; log it and report `degraded`."""
        self.table = dict(table)
        self._settings_refused = True
        logger.error("%s; the previous settings stay", error)
        self.health.report_status("degraded", f"{error.field}: {error.reason}; the previous settings stay")

    async def end_plugin(self) -> None:
        """Wait for calls of its tools, end its background work, stop it. Its tools and hooks are gone already."""
        self._calls.close()
        if left := await self._calls.wait_until_done(CALLS_SECONDS):
            logger.warning("plugin %r is stopped while %s calls of its tools go on", self.name, left)
        await self._wind_up()
        self.discovered.unload()
        self.plugin = None

    async def _wind_up(self) -> None:
        await self._background.end_all()
        if self._start_begun and self.plugin is not None and self.context is not None:
            self._start_begun = False
            if self.plugin.stop is not None:
                with contextlib.suppress(PluginError):  # the log has it, and there is nothing left that could fail
                    await self._run_step("stop", self.plugin.stop, self.context, STOP_SECONDS)

    async def _run_step(
        self, field: str, function: Callable[[PluginContext], Any], ctx: PluginContext, most: float
    ) -> Any:
        return await take_step(function, ctx, field=field, origin=self.discovered.origin, seconds=most)

    def _note_failure(self, error: PluginError) -> None:
        logger.error("plugin %r is not in use: %s: %s", self.name, error.field, error.reason)
        self.health.note_failure(f"{error.field}: {error.reason}")
        if self.plugin is None:
            self.discovered.unload()

    def _qualify_tool(self, tool: Tool, plugin: Plugin, context: PluginContext) -> PluginTool:
        """The tool under its full name; calls are counted where something would be stopped under them."""
        name = qualify_name(self.name, tool.name, bare=self.discovered.bare)
        handler = tool.handler
        if plugin.register is not None or plugin.start is not None or plugin.stop is not None:
            handler = self._calls.count_calls(handler)
        return PluginTool(
            plugin=self.name,
            name=name,
            tool=msgspec.structs.replace(tool, name=name, handler=handler),
            bare=self.discovered.bare,
            origin=self.discovered.origin,
            context=context,
        )
