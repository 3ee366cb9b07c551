"""The wiring of a stead: builds its parts, connects them, opens and closes them. Only this module knows them all.

Some parts need each other, so they are connected by callables that are resolved when they are called:

    registry ──prepare, context_for──▸ plugins ──refresh──▸ registry
    hook runner ──on_set──▸ dispatcher ──current──▸ registry
    plugins ──powers──▸ dispatcher, conversations ──call_tool──▸ dispatcher
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.app.conversations import ConversationParts, OrchestratorOpener
from toolstead.app.database import StoreOpener
from toolstead.app.kept_results import KeptResults
from toolstead.app.keys import Keys
from toolstead.app.layers import settings_for
from toolstead.app.places import find_places
from toolstead.app.plugin_places import PluginPlaces
from toolstead.app.plugin_powers import Parts
from toolstead.app.plugins import Plugins
from toolstead.app.state import State, Switches, SwitchWatcher
from toolstead.app.tool_files import ToolFiles
from toolstead.app.trust.approved import ProjectTrust
from toolstead.app.trust.watcher import TrustWatcher, approve_changes
from toolstead.app.watching import FolderWatcher
from toolstead.errors import SettingsError, ToolsteadError
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.builtin import builtin_offers
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import Visibility
from toolstead.tools.registry import Registry, Swap
from toolstead.tools.sources import FixedSource

if TYPE_CHECKING:
    from toolstead.app.effective_settings import LoadedSettings
    from toolstead.invoker.runtime import Runtime
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.plugins.contract import Plugin
    from toolstead.schema.compiled import Documents
    from toolstead.tools.gates import Gate

logger = logging.getLogger(__name__)


class SteadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a stead is made with; `Toolstead` says what each one means."""

    project: Path | None = None
    tools_dir: Path | None = None
    settings: Mapping[str, Any] | None = None
    overrides: Sequence[str] = ()
    schemas: Documents | None = None
    gates: Sequence[Gate] = ()
    plugins: Sequence[Plugin] = ()
    installed_plugins: bool = True
    runtimes: Sequence[Runtime] = ()
    environ: Mapping[str, str] | None = None
    watch: bool = True
    follow: bool = False


class Wiring:
    """The parts of one stead. Building them opens nothing."""

    def __init__(self, options: SteadOptions) -> None:
        """Find the folders, load the settings and build the parts.

        Raises:
            SettingsError: A setting is unknown or has a bad value.
        """
        environ = os.environ if options.environ is None else options.environ
        self.places = find_places(explicit=options.project, environ=environ)
        self.trust = ProjectTrust(self.places)
        self._is_open = False
        self._watch, self._follow = options.watch, options.follow
        if self._follow:
            approve_changes(self.trust)
        self.trust.refresh_approval()
        self._load_settings = partial(
            settings_for, self.places, environ=environ, overrides=options.overrides, given=options.settings
        )
        self._config = self.trust.approved_config()
        self.loaded = self._load_settings(approved_config=self._config)
        tools = self.loaded.settings.tools
        self._switches = Switches(self.places.data)
        self.events = EventLog()
        self.files = ToolFiles(
            self.places,
            self.trust,
            tools,
            environ=environ,
            tools_dir=options.tools_dir,
            schemas=options.schemas,
        )
        self._database = StoreOpener(self.places, environ=environ, log=self.events)
        self.kept = KeptResults(self._database.open)
        self.approvals = Approvals(open_store=self._database.open, log=self.events, problems_of=self._find_problems)
        self.builtin = builtin_offers(self.places.project, environ, self.places.data)
        self.hooks = HookRunner(on_set=self._set_hooks)
        self.plugins = Plugins(
            PluginPlaces(self.places, self.trust, given=options.plugins, installed=options.installed_plugins),
            settings=lambda: self.loaded.settings,
            switches=self._switches,
            parts=Parts(
                open_store=self._database.open,
                conversations=self.open_conversations,
                dispatcher=lambda: self.dispatcher,
                log=self.events,
                broadcast=self.hooks.on_broadcast,
                http=self.files.http_parts,
            ),
            runner=self.hooks,
            log=self.events,
            refresh=lambda: self.registry.refresh(self.plugins.source),
        )
        self.registry = Registry(
            [FixedSource(name="builtin", offers=self.builtin), self.plugins.source, *self.files.sources],
            visibility=Visibility(allowed=tools.allowed, blocked=tools.blocked),
            documents=options.schemas,
            prepare=self.plugins.rescan,
            context_for=self.plugins.context_for,
        )
        self.dispatcher = Dispatcher(
            self.registry,
            events=self.events,
            cwd=self.places.project,
            timeout=tools.timeout,
            max_output=tools.max_output,
            gates=options.gates,
            keep=self.kept,
            approve=self.approvals.ask_person,
        )
        self.conversations = OrchestratorOpener(
            ConversationParts(
                places=self.places,
                database=self._database,
                log=self.events,
                call_tool=self.dispatcher.call,
                own_tools=self.dispatcher,
                find_view=self.registry.find_view,
                keys=Keys(environ),
                runtimes=options.runtimes,
                pinned=lambda: self.trust.pinned,
                hooks=self.hooks,
                recover=self.approvals.recover_approvals,
            )
        )
        self._database.on_open(lambda store: self.plugins.follow_store(store, shared=self._database.is_shared))

    async def open(self) -> AsyncExitStack:
        """Read the tools, start the plugins and watch for changes; closing the stack ends all of it in reverse."""
        async with AsyncExitStack() as stack:
            stack.callback(self.events.close)
            stack.callback(self.registry.subscribe(self._publish_swap))
            state = self._switches.read()
            self.registry.apply_switches(state.disabled_tools)
            self.plugins.start_with(state)
            stack.push_async_callback(self.files.aclose)
            stack.push_async_callback(self._database.close)
            stack.push_async_callback(self.approvals.close)
            stack.push_async_callback(self.hooks.close)
            stack.push_async_callback(self.plugins.close)
            stack.push_async_callback(self.conversations.close)
            stack.push_async_callback(self.kept.wait_until_written)
            await self.registry.reload()
            if self._watch:
                users = self.files.users
                await stack.enter_async_context(SwitchWatcher(self._switches, self._apply_state))
                await stack.enter_async_context(FolderWatcher(users.folders, users, self._refresh_files))
                await stack.enter_async_context(TrustWatcher(self.trust, self._apply_trust, follow=self._follow))
            self._is_open = True
            stack.callback(setattr, self, "_is_open", False)  # last in, so first of all when it closes
            return stack.pop_all()

    def check_open(self) -> None:
        """Refuse to work outside `async with`.

        Raises:
            ToolsteadError: The stead is not open.
        """
        if not self._is_open:
            raise ToolsteadError("this stead is not open; use it inside `async with Toolstead(…) as stead:`")

    async def open_conversations(self) -> Orchestrator:
        """Threads and runs; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        self.check_open()
        return await self.conversations.open(self.loaded.settings)

    def describe_state(self) -> Mapping[str, Any]:
        """The runtime and the sessions, as health reports them; does not open the database."""
        return self.conversations.state(self.loaded.settings)

    def _set_hooks(self) -> None:
        """Replace the gates and observers of calls after the running plugins changed."""
        self.dispatcher.set_hooks(self.hooks.list_gates(), self.hooks.list_observers())

    def _find_problems(self, name: str, input: Mapping[str, Any]) -> list[str]:
        """Why arguments that a person wrote do not fit; defaults are filled in later, as for any call."""
        registered = self.registry.current.tools.get(name)
        if registered is None:
            return []
        defaults = registered.input.defaults
        return registered.input.describe_problems(input if defaults is None else defaults.fill_object(input))

    def _publish_swap(self, swap: Swap) -> None:
        self.events.emit(
            "tools.changed",
            {
                "generation": swap.generation.number,
                **swap.changes.to_json(),
                "errors": [problem.to_json() for problem in swap.problems],
            },
        )

    def _apply_state(self, state: State) -> None:
        self.registry.apply_switches(state.disabled_tools)
        self.plugins.take_state(state)

    async def _refresh_files(self, paths: Collection[Path]) -> None:
        await self.registry.refresh(self.files.users, paths)

    async def _apply_trust(self) -> None:
        """Apply what the user approved or revoked, and what waits for that."""
        await asyncio.to_thread(self.trust.refresh_approval)
        config = self.trust.approved_config()
        if config != self._config:
            try:
                self._apply_settings(self._load_settings(approved_config=config))
                self._config = config
            except SettingsError as error:
                logger.warning("the settings are unchanged, except for what the project allowed: %s", error)
                self.files.apply_settings(
                    msgspec.structs.replace(self.loaded.settings.tools, allowed_hosts=(), proxy="")
                )
        await self.registry.reload()
        tools = self.loaded.settings.tools
        self.registry.restrict(allowed=tools.allowed, blocked=tools.blocked)  # last: nothing shows with old handlers

    def _apply_settings(self, loaded: LoadedSettings) -> None:
        before, self.loaded = self.loaded.settings, loaded
        tools = loaded.settings.tools
        self.files.apply_settings(tools)
        self.dispatcher.set_limits(timeout=tools.timeout, max_output=tools.max_output)
        if loaded.settings.server != before.server:
            logger.warning("the [server] settings of %s changed; they apply after a restart", self.places.project)
