"""One plugin while it is in the host: loaded, registered, started, in use, ended.

A failure affects this plugin alone: it becomes `failed`, with the step and the reason.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from toolstead.concurrency.suspended_coroutine import DeadlineError, SuspendedCoroutine, start_coroutine
from toolstead.errors import PluginError
from toolstead.plugins.background import BackgroundTasks
from toolstead.plugins.calls_under_way import CallsUnderWay
from toolstead.plugins.contract import HOOKS, Hooks, Plugin, PluginContext, Prompt, Resource, Tool
from toolstead.plugins.definition import check_hooks, check_plugin, load_definition
from toolstead.plugins.discovery import Discovered
from toolstead.plugins.health import Health, State, describe_crash
from toolstead.plugins.hook_runner import Hooked
from toolstead.plugins.names import qualify_name
from toolstead.plugins.settings import read_settings
from toolstead.types.call import Deny, ToolCall
from toolstead.types.sent import SentStruct

logger = logging.getLogger(__name__)

SETTINGS_STAY = "the previous settings stay"
"""Ends the error of a plugin whose new settings do not fit."""

LOST_GATE = "it had this gate when it last ran, and has it no more"
"""Begins the error of a plugin whose gate went; it stays closed until a person confirms that."""

REGISTER_SECONDS = 10.0
START_SECONDS = 30.0
STOP_SECONDS = 10.0
CALLS_SECONDS = 10.0
"""How long calls of a plugin's tools are waited for before it is stopped."""

MakeContext = Callable[[str, bool], PluginContext]
"""Makes a plugin's context: its name, whether it is a first-party one."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it should be.

    Attributes:
        discovered: Where it comes from.
        enabled: Whether it should run.
        settings: The table of its settings.
        had_gate: Whether it had a gate when it was last registered, in whatever process.
        is_unknown: Whether it was never registered, so that it may have a gate.
    """

    discovered: Discovered
    enabled: bool = True
    settings: Mapping[str, Any] = {}
    had_gate: bool = False
    is_unknown: bool = False


class PluginTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a plugin that is in use, ready to be registered.

    Attributes:
        plugin: Whose it is.
        tool: The tool, under the name that models call it.
        bare: Whether it counts as built in.
        origin: Where the plugin comes from.
        context: What its handler gets.
    """

    plugin: str
    tool: Tool
    bare: bool
    origin: str
    context: PluginContext


class PluginPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a plugin that is in use.

    Attributes:
        prompt: The prompt, under the name that clients call it.
        origin: Where the plugin comes from.
        context: What its functions get.
    """

    prompt: Prompt
    origin: str
    context: PluginContext


class PluginResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a plugin that is in use.

    Attributes:
        resource: The resource.
        origin: Where the plugin comes from.
        context: What its functions get.
    """

    resource: Resource
    origin: str
    context: PluginContext


class PluginView(SentStruct, frozen=True, kw_only=True):
    """A plugin, as it is now.

    Attributes:
        name: Its name.
        version: Its version, if known.
        enabled: Whether it is switched on.
        state: `degraded`: it runs, but part of it failed; `failed`: nothing of it runs.
        error: Why it is degraded or failed.
        origin: The module or file it came from.
        tools: The tools it brings, by their names.
        hooks: The hooks it registered.
        settings: Its settings, of its own class or a table; clients see a table with secrets masked.
        settings_schema: JSON Schema of its settings, where its code is loaded and has a class for them.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"error", "settings_schema"})

    name: str
    version: str
    enabled: bool
    state: State
    error: str | None = None
    origin: str
    tools: tuple[str, ...]
    hooks: tuple[str, ...]
    settings: Annotated[Any, msgspec.Meta(extra_json_schema={"type": "object"})]
    settings_schema: Mapping[str, Any] | None = None


class PluginInstance:
    """One plugin, from its request to its removal.

    Attributes:
        discovered: Where it comes from.
        enabled: Whether it is wanted running.
        table: Its settings as they were last given.
        health: Its health.
        plugin: Its definition, once it was loaded and found good.
        version: Its version, if known.
        hooks: What it registered.
        live: Whether its tools and hooks are in use.
        interrupted: Its start was cancelled with the caller's; it deserves another try.
        lost_gate: It failed because it had a gate before and has none now, which a person has to confirm.
    """

    def __init__(
        self,
        wanted: Wanted,
        on_status: Callable[[Health], None] = lambda _: None,
        before: PluginInstance | None = None,
    ) -> None:
        """Make a plugin that is not loaded yet.

        Args:
            wanted: Which, and how it should be.
            on_status: Called on every change of its health.
            before: The plugin of this name before it. Where that one had a gate, or this one had when it was last
                registered, it is closed from now on until this one is in use, so that nothing slips through.
        """
        self.discovered = wanted.discovered
        self.enabled = wanted.enabled
        self.table = dict(wanted.settings)
        self.health = Health(self.name, on_status)
        self.plugin: Plugin | None = None
        self.hooks = Hooks()
        self.live = False
        self.interrupted = False
        self.lost_gate = False
        self.version = before.version if before is not None else ""
        self._context: PluginContext | None = None
        self._has_gate = wanted.enabled and (wanted.had_gate or (before is not None and before.has_gate))
        self._knows_hooks = False
        self.is_unknown = wanted.is_unknown
        self._tools: tuple[PluginTool, ...] = ()
        self._prompts: tuple[PluginPrompt, ...] = ()
        self._resources: tuple[PluginResource, ...] = ()
        self._calls = CallsUnderWay(self.name)
        self._background = BackgroundTasks(self.name, self.health)
        self._stop_due = False
        self._settings_refused = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.discovered.name

    @property
    def settings(self) -> Any:
        """Its settings, of its own class once it is loaded."""
        return self.table if self._context is None else self._context.settings

    @property
    def has_failed(self) -> bool:
        """Whether it failed."""
        return self.health.state == "failed"

    @property
    def has_gate(self) -> bool:
        """Whether calls have to pass it: its gate, or that of the plugin before as long as its own is not known."""
        return self._has_gate or self.hooks.on_before_tool is not None

    @property
    def denies_calls(self) -> bool:
        """Whether it failed, and calls have to pass it: it has a gate, or may have one."""
        return self.enabled and self.has_failed and (self.has_gate or self._may_have_gate)

    @property
    def _may_have_gate(self) -> bool:
        """Whether nothing is known of its hooks, from here or from before."""
        return self.is_unknown and not self._knows_hooks

    @property
    def registered_gate(self) -> bool | None:
        """Whether it registered a gate; None where it did not get as far as that."""
        return self.hooks.on_before_tool is not None if self._knows_hooks else None

    @property
    def tools(self) -> tuple[PluginTool, ...]:
        """Its tools, while it is in use."""
        return self._tools if self.live else ()

    @property
    def prompts(self) -> tuple[PluginPrompt, ...]:
        """Its prompts, while it is in use."""
        return self._prompts if self.live else ()

    @property
    def resources(self) -> tuple[PluginResource, ...]:
        """Its resources, while it is in use."""
        return self._resources if self.live else ()

    @property
    def instructions(self) -> str:
        """What it says to the models of clients, while it is in use."""
        return self.plugin.instructions if self.live and self.plugin is not None else ""

    @property
    def serves_clients(self) -> bool:
        """Whether it has something in use that MCP clients see besides tools."""
        return bool(self.prompts or self.resources or self.instructions)

    def show(self) -> PluginView:
        """How it is at this moment."""
        return PluginView(
            name=self.name,
            version=self.version,
            enabled=self.enabled,
            state=self.health.state,
            error=self.health.error,
            origin=self.discovered.origin,
            tools=tuple(offered.tool.name for offered in self.tools),
            hooks=tuple(hook for hook in HOOKS if getattr(self.hooks, hook) is not None) if self.live else (),
            settings=self.settings,
        )

    def names_tool(self, name: str) -> bool:
        """Whether a tool of this name would be this plugin's. Runs no code of others, so of those only the prefix."""
        if not self.discovered.bare:
            return name.startswith(qualify_name(self.name, ""))
        return any(tool.name == name for tool in self.discovered.load().tools)

    def active_hooks(self) -> Hooked | None:
        """Its hooks while it is in use; while it is not, a gate that it has is there and closed."""
        if self.live:
            return Hooked(plugin=self.name, hooks=self.hooks, health=self.health)
        if not (self.enabled and self.has_gate) and not self.denies_calls:
            return None

        async def deny_call(_: ToolCall) -> Deny:
            # Who calls is not shown the plugin's file, nor how to do without it: that is in the log.
            why = (
                "it is not in use; the log of the server says why" if self.has_failed else "it is starting or stopping"
            )
            return Deny(f"plugin {self.name!r} has to check it first and cannot: {why}")

        hooks = Hooks(on_before_tool=deny_call, before=self.hooks.before, after=self.hooks.after)
        return Hooked(plugin=self.name, hooks=hooks, health=self.health)

    def load(self, make_context: MakeContext) -> None:
        """Run its code, check what it is, read its settings."""
        found = self.discovered
        try:
            loaded = found.load()
            if isinstance(loaded, Plugin) and loaded.register is None:
                self.is_unknown = False  # it has no hooks, whatever else is wrong with it
            plugin = self.plugin = check_plugin(loaded, found.name, bare=found.bare)
            self.version = plugin.version
            if plugin.register is None:
                self._note_hooks(Hooks())
            settings = read_settings(plugin, self.table)
            context = make_context(found.name, found.first_party)
        except PluginError as error:
            self.note_failure(error.field, error.reason)
        except KeyboardInterrupt:
            found.unload()
            raise
        except BaseException as error:  # importing runs anything; sys.exit() ends only the plugin
            logger.info("plugin %r cannot be loaded", found.name, exc_info=True)  # the line below names file and line
            self.note_failure("load", describe_crash(error, found.origin))
        else:
            context.settings = settings
            context.run_background = self._background
            context.report_status = self.health.report_status
            self._context = context
            self._tools = tuple(self._qualify_tool(tool, plugin, context) for tool in plugin.tools)
            self._prompts = tuple(self._qualify_prompt(prompt, plugin, context) for prompt in plugin.prompts)
            self._resources = tuple(self._count_reads(resource, plugin, context) for resource in plugin.resources)

    def check_settings(self, table: Mapping[str, Any]) -> None:
        """Check whether settings fit; where it is not loaded, its code is run for that.

        Raises:
            PluginError: They do not fit, or it cannot be loaded.
        """
        read_settings(self.plugin or load_definition(self.discovered), table)

    async def register(self) -> None:
        """Call `register` and check the hooks it returns."""
        if self._knows_hooks:  # it has no `register`
            return
        try:
            self._note_hooks(check_hooks(self.name, await self._take_step("register", REGISTER_SECONDS)))
        except PluginError as error:
            self.note_failure(error.field, error.reason)
            await self._stop_plugin()

    def _note_hooks(self, hooks: Hooks) -> None:
        """Its own hooks are known: whether there was a gate before does not matter any more.

        Raises:
            PluginError: There was one, and there is none now: by a mistake, as long as no person says otherwise.
        """
        if self._has_gate and hooks.on_before_tool is None:
            self.lost_gate = True
            raise PluginError(
                plugin=self.name,
                field="on_before_tool",
                reason=f"{LOST_GATE}; bring it back, or do without it: toolstead plugins enable {self.name}",
            )
        self.hooks, self._knows_hooks, self._has_gate = hooks, True, False

    async def start(self) -> None:
        """Call `start`; if it fails, stop the plugin at once."""
        self._stop_due = True
        try:
            await self._take_step("start", START_SECONDS)
        except PluginError as error:
            self.note_failure(error.field, error.reason)
            await self._stop_plugin()

    def go_live(self) -> None:
        """Put its tools and hooks to use, unless it failed."""
        if not self.has_failed:
            self.live = True
            self.health.set_state("running")

    def note_interrupted(self) -> None:
        """Mark it as interrupted: its start was cancelled, or would have come after one that was."""
        if not self.has_failed and not self.live:
            self.interrupted = True
            self.note_failure("start", "it was interrupted")

    def note_failure(self, field: str, reason: str) -> None:
        """Mark it as failed: nothing of it is used."""
        effect, remedy = "", f"`toolstead plugins disable {self.name}`"
        if self.has_gate:
            until = "that is done" if self.lost_gate else f"it works again or is disabled ({remedy})"
            effect = f"; its gate denies every call until {until}"
        elif self.enabled and self._may_have_gate:
            effect = (
                "; it may have a gate (`on_before_tool`), so it denies every call until it works or is disabled"
                f" ({remedy})"
            )
        elif self.enabled and not self._knows_hooks and not self.discovered.first_party:
            effect = "; if it has a gate (`on_before_tool`), that gate checks nothing"
        logger.error("plugin %r is not in use: %s: %s%s", self.name, field, reason, effect)
        self.health.set_state("failed", f"{field}: {reason}")
        if self.plugin is None:
            self.discovered.unload()

    def change_settings(self, table: Mapping[str, Any]) -> bool:
        """Keep other settings, and give them to a plugin that is in use; whether it got any.

        If they do not fit, it keeps its old ones; that is logged and reported as `degraded`.
        """
        if dict(table) == self.table:
            return False
        self.table = dict(table)
        if not self.live or self.plugin is None or self._context is None:
            return False
        try:
            self._context.settings = read_settings(self.plugin, table)
        except PluginError as error:
            self._settings_refused = True
            logger.error("%s; %s", error, SETTINGS_STAY)  # noqa: TRY400 - a traceback would show the values
            self.health.report_status("degraded", f"{error.field}: {error.reason}; {SETTINGS_STAY}")
            return False
        if self._settings_refused:
            self._settings_refused = False
            self.health.report_status("running")
        return True

    async def end_plugin(self) -> None:
        """Wait for calls of its tools, end its background work, stop it. Its tools and hooks are gone already."""
        if left := await self._calls.close(CALLS_SECONDS):
            logger.warning("plugin %r is stopped while %s calls of its tools go on", self.name, left)
        await self._stop_plugin()
        self.discovered.unload()
        self.plugin = None

    async def _stop_plugin(self) -> None:
        await self._background.end_all()
        if self._stop_due:
            self._stop_due = False
            with contextlib.suppress(PluginError):  # the log has it, and there is nothing left that could fail
                await self._take_step("stop", STOP_SECONDS)

    async def _take_step(self, field: str, seconds: float) -> Any:
        """Call `register`, `start` or `stop`, where the plugin has it, and wait for what it answers.

        Args:
            field: Which of them.
            seconds: How long it may take; what ignores its cancellation then is abandoned.

        Raises:
            PluginError: It raised, `sys.exit()` included, did not end in time, or returned nothing to await.
            asyncio.CancelledError: The caller was cancelled; so was the step.
        """
        function = getattr(self.plugin, field)
        if function is None:
            return None
        error: BaseException | None = None
        try:
            answer = function(self._context)
            if not inspect.isawaitable(answer):
                raise TypeError(f"it returned {type(answer).__name__}, which cannot be awaited")
            answer = start_coroutine(answer)
        except BaseException as raised:  # noqa: BLE001 - reported below; cancellation comes only at an await
            answer, error = None, raised
        if type(answer) is SuspendedCoroutine:
            answer, error = await answer.finish_strictly(seconds)
        if error is None:
            return answer
        if isinstance(error, KeyboardInterrupt):
            raise error
        is_late = isinstance(error, DeadlineError)
        reason = str(error) if is_late else describe_crash(error, self.discovered.origin)
        cause = error.__cause__ if is_late else error
        if field == "stop":  # of the others `note_failure` reports it
            logger.error("plugin %r: stop failed: %s", self.name, reason)
        logger.info("plugin %r: where %s failed", self.name, field, exc_info=cause)
        raise PluginError(plugin=self.name, field=field, reason=reason) from None

    def _qualify_tool(self, tool: Tool, plugin: Plugin, context: PluginContext) -> PluginTool:
        """The tool under its full name; calls are counted where something would be stopped under them."""
        name = qualify_name(self.name, tool.name, bare=self.discovered.bare)
        handler = self._calls.count_calls(tool.handler) if _has_steps(plugin) else tool.handler
        return PluginTool(
            plugin=self.name,
            tool=msgspec.structs.replace(tool, name=name, handler=handler),
            bare=self.discovered.bare,
            origin=self.discovered.origin,
            context=context,
        )

    def _qualify_prompt(self, prompt: Prompt, plugin: Plugin, context: PluginContext) -> PluginPrompt:
        name = qualify_name(self.name, prompt.name, bare=self.discovered.bare)
        handler = self._calls.count_calls(prompt.handler) if _has_steps(plugin) else prompt.handler
        named = msgspec.structs.replace(prompt, name=name, handler=handler)
        return PluginPrompt(prompt=named, origin=self.discovered.origin, context=context)

    def _count_reads(self, resource: Resource, plugin: Plugin, context: PluginContext) -> PluginResource:
        read = self._calls.count_calls(resource.read) if _has_steps(plugin) else resource.read
        counted = msgspec.structs.replace(resource, read=read)
        return PluginResource(resource=counted, origin=self.discovered.origin, context=context)


def _has_steps(plugin: Plugin) -> bool:
    """Whether something would be stopped under the calls of its handlers."""
    return plugin.register is not None or plugin.start is not None or plugin.stop is not None
