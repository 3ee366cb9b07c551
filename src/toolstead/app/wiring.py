"""The wiring of a stead: builds its parts, connects them, opens and closes them. Only this module knows them all.

Some parts need each other, so they are connected by callables that are resolved when they are called:

    registry ──prepare, context_for──▸ plugins ──refresh──▸ registry
    hook runner ──on_set──▸ dispatcher ──current──▸ registry
    plugins ──powers──▸ dispatcher, conversations ──call_tool──▸ dispatcher
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.app.client_parts import ClientParts
from toolstead.app.database import KeptResults, OrchestratorOpener, StoreOpener, expire_rows
from toolstead.app.key_file import KeyFile, StoredKeys
from toolstead.app.keys import Keys, KeyWatcher
from toolstead.app.layers import LoadedSettings, list_accesses, reread_plugins, settings_for
from toolstead.app.places import explain_wide_root, find_places
from toolstead.app.plugin_places import PluginPlaces
from toolstead.app.plugin_powers import Parts
from toolstead.app.plugins import Plugins
from toolstead.app.searching import WebSearch
from toolstead.app.state import State, Switches, SwitchWatcher
from toolstead.app.tool_files import ToolFiles
from toolstead.app.trust.approved import ProjectTrust, TrustWatcher, approve_changes
from toolstead.app.watching import BackgroundWatcher, FolderWatcher, PollingWatcher
from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import SettingsError, ToolsteadError
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.builtin import FILE_READER, builtin_offers
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import EVERYTHING, Visibility
from toolstead.tools.registry import Registry, Swap
from toolstead.tools.sources import FixedSource
from toolstead.tools.validation import IDLE, BoundedValidator, fill_defaults

if TYPE_CHECKING:
    from toolstead.app.agents import SteadAgents
    from toolstead.app.delegating import DelegationParts
    from toolstead.app.settings import McpSettings
    from toolstead.app.tool_origins import ToolOrigins
    from toolstead.invoker.runtime import Runtime
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.orchestrator.shared_files import SharedFiles
    from toolstead.schema.compiled import Documents
    from toolstead.tools.gates import Gate

logger = logging.getLogger(__name__)


class Wiring:
    """The parts of one stead. Building them opens nothing."""

    def __init__(
        self,
        *,
        project: Path | None,
        tools_dir: Path | None,
        settings: Mapping[str, Any] | None,
        overrides: Sequence[str],
        schemas: Documents | None,
        gates: Sequence[Gate],
        origins: ToolOrigins,
        name: str,
        runtimes: Sequence[Runtime],
        environ: Mapping[str, str] | None,
        watch: bool,
        follow: bool,
        takes_over: bool,
    ) -> None:
        """Find the folders, load the settings and build the parts; `Toolstead` says what each argument means.

        Raises:
            SettingsError: A setting is unknown or has a bad value.
        """
        environ = os.environ if environ is None else environ
        self.origins = origins
        self.places = replace(find_places(explicit=project, environ=environ), offers_users=origins.user_tools)
        self.trust = ProjectTrust(self.places, is_ignored=not origins.project_tools)
        self.is_open = False
        self._opened = AsyncExitStack()
        self._watch, self._follow, self._takes_over = watch, follow, takes_over
        self._delegation: DelegationParts | None = None
        self._key_file = KeyFile(self.places.data)
        self._keys, self._given_runtimes = Keys(environ, self._key_file), runtimes
        if self._follow:
            approve_changes(self.trust)
        self.trust.refresh_approval()
        self.load_settings = partial(settings_for, self.places, environ=environ, overrides=overrides, given=settings)
        self.approved_config = self.trust.approved_config()
        self.loaded = self.load_settings(approved_config=self.approved_config)
        tools = self.loaded.settings.tools
        self._switches = Switches(self.places.data)
        self.events = EventLog()
        self.files = ToolFiles(self.places, self.trust, tools, environ=environ, tools_dir=tools_dir, schemas=schemas)
        self._database = StoreOpener(
            self.places,
            environ=environ,
            log=self.events,
            on_open=lambda store, shared: self.plugins.follow_store(store, shared=shared),
        )
        self.kept = KeptResults(self._database.open)
        self.approvals = Approvals(open_store=self._database.open, log=self.events, problems_of=self._find_problems)
        self.builtin = builtin_offers(self.places.project, environ, self.places.data) if origins.builtin else ()
        self.wide_root = explain_wide_root(self.places.project, environ) if origins.builtin else ""
        self.hooks = HookRunner(on_set=self._set_hooks)
        self.search = WebSearch(self._keys, lambda: self.plugins.find_settings("web"))
        self.client_parts = ClientParts(
            self.places,
            self.trust,
            plugins=lambda: self.plugins,
            kept=self.kept,
            settings=self._find_client_settings,
            watch=self._open_watcher,
            name=name,
        )
        self.plugins = Plugins(
            PluginPlaces(self.places, self.trust, given=origins.list_plugins, installed=origins.installed_plugins),
            settings=lambda: self.loaded.settings,
            switches=self._switches,
            parts=Parts(
                open_store=self._database.open,
                conversations=self.open_conversations,
                open_files=self.open_files,
                open_delegation=self.open_delegation,
                dispatcher=lambda: self.dispatcher,
                log=self.events,
                hooks=self.hooks,
                http=self.files.http_parts,
                search=self.search,
            ),
            refresh=lambda: self.registry.refresh(self.plugins.source),
            on_settings=self._apply_search,
            on_client_parts=self.client_parts.refresh,
            builtin=origins.builtin,
        )
        if (file := origins.file) is not None:
            file.context_for = self.plugins.context_for
        more = () if file is None else (file,)
        self.registry = Registry(
            [FixedSource(name="builtin", offers=self.builtin), *more, self.plugins.source, *self.files.sources],
            visibility=Visibility(allowed=tools.allowed, blocked=tools.blocked, unavailable=self._find_unavailable()),
            documents=schemas,
            prepare=self._prepare_reload,
            context_for=self.plugins.context_for,
        )
        self._set_profiles()
        self.dispatcher = Dispatcher(
            self.registry,
            events=self.events,
            cwd=self.places.project,
            timeout=tools.timeout,
            max_output=tools.max_output,
            gates=gates,
            keep=self.kept,
            approve=self.approvals.ask_person,
            validator=BoundedValidator(keep_idle=IDLE),
        )
        self._agents: SteadAgents | None = None
        self._reading_agents = asyncio.Lock()
        self.conversations = OrchestratorOpener(self._begin_orchestrator, self._load_keys)

    async def open(self) -> None:
        """Read the tools, start the plugins and watch for changes; `close` ends all of it in reverse."""
        if self.is_open:
            raise ToolsteadError("this stead is open already; make another for another `async with`")
        async with AsyncExitStack() as stack:
            stack.callback(self.events.close)
            stack.callback(self.registry.subscribe(self._publish_swap))
            state = self._switches.read()
            self.registry.apply_switches(state.disabled_tools)
            self.plugins.start_with(state)
            for end in (  # the last one first
                self.files.aclose,
                self.search.aclose,
                self._database.close,
                self.approvals.close,
                self.hooks.close,
                self.plugins.close,
                self.dispatcher.validator.aclose,
                self.kept.wait_until_written,
                self.conversations.close,
            ):
                stack.push_async_callback(end)
            await self.registry.reload()
            await self.client_parts.open()
            if self._watch:
                for watcher in self._list_watchers():
                    await stack.enter_async_context(watcher)
            self._opened = stack.pop_all()
            self.is_open = True
            if self.wide_root:
                logger.warning("%s is switched off: %s", FILE_READER, self.wide_root)

    def _list_watchers(self) -> Iterator[BackgroundWatcher]:
        yield SwitchWatcher(self._switches, self._apply_state)
        users = self.files.users
        yield FolderWatcher(users.folders[0], users, partial(self.registry.refresh, users))
        if not self.trust.is_ignored:
            yield TrustWatcher(self.trust, self.apply_trust, follow=self._follow)
        yield KeyWatcher(self._keys, self._key_file, self._apply_keys)
        if self.origins.file is not None:
            from toolstead.app.python_file import FileWatcher

            yield FileWatcher(self.origins.file.path, self.registry.reload)

    async def close(self) -> None:
        """Refuse further work, then end what `open` began: runs first, which need the rest until they have ended."""
        self.is_open = False
        if self._delegation is not None:
            self._delegation.delegation.begin_close()
        await self._opened.aclose()

    def check_open(self) -> None:
        """Refuse to work outside `async with`.

        Raises:
            ToolsteadError: The stead is not open.
        """
        if not self.is_open:
            raise ToolsteadError("this stead is not open; use it inside `async with Toolstead(…) as stead:`")

    async def open_conversations(self) -> Orchestrator:
        """Threads and runs; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        if self.conversations.orchestrator is None:  # else also while the stead closes, for calls that are running
            self.check_open()
        return await self.conversations.open()

    async def open_delegation(self) -> DelegationParts:
        """Delegated work; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        if self._delegation is None or self.is_open:
            await self.open_conversations()
        if self._delegation is None:
            raise AssertionError("conversations are open, and delegation is not")
        return self._delegation  # also while the stead closes, for calls that are running

    async def open_files(self) -> SharedFiles:
        """The shared files of thread trees; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        from toolstead.orchestrator.shared_files import SharedFiles

        self.check_open()
        return SharedFiles(await self._database.open(), self.plugins.read_file_limits)

    async def open_agents(self) -> SteadAgents:
        """The agents; the first call reads their files, and watches them from then on. Many steads only serve tools."""
        self.check_open()
        return await self._read_agents()

    async def _read_agents(self) -> SteadAgents:
        async with self._reading_agents:
            if self._agents is None:
                await asyncio.to_thread(importlib.import_module, "toolstead.app.agents")  # calls go on meanwhile
                from toolstead.app.agents import AgentWatcher, SteadAgents
                from toolstead.app.prompt_runs import PromptRuns

                agents = SteadAgents(
                    self.places,
                    self.trust,
                    self.registry,
                    settings=lambda: self.loaded.settings,
                    run_child=PromptRuns(self.open_delegation),
                )
                watcher = AgentWatcher(agents) if self._watch else None  # before it reads: no change is missed
                await agents.reload()
                if watcher is not None and self.is_open:  # not where the stead was closed meanwhile
                    await self._opened.enter_async_context(watcher)
                self._agents = agents
            return self._agents

    def check_agent(self, name: str) -> None:
        """Refuse an agent whose view is not known: one that is not there, or whose file was not read yet.

        Raises:
            ToolsteadError: The files were not read yet.
            UnknownAgentError: There is no such agent.
        """
        if self.registry.find_rule(name) is not EVERYTHING:
            return
        if self._agents is None:
            raise ToolsteadError("the agents' files were not read yet; `await stead.agents()` reads them")
        self._agents.read_agent(name)

    def describe_state(self, model: str = "") -> Mapping[str, Any]:
        """The runtime and the sessions, as health reports them; does not open the database.

        The runtime is the one that is chosen for a model, or for the settings' model.
        """
        from toolstead.app.runtimes import choose_ready
        from toolstead.invoker.lease import PoolStats

        current = self.conversations.orchestrator
        stats = current.invoker.pool.stats() if current is not None else PoolStats()
        choice = choose_ready(self.loaded.settings.runtime, self._keys, self._given_runtimes, model)
        return {**choice.to_json(), "agent": self.loaded.settings.runtime.agent, "sessions": asdict(stats)}

    async def _begin_orchestrator(self, stack: AsyncExitStack) -> Orchestrator:
        """Open threads and runs, and what they need; closing the stack ends them."""
        store = await self._database.open()
        self._apply_search()  # the keyring has been asked by now
        for module in ("toolstead.app.agent_configs", "toolstead.app.runtimes", "toolstead.app.delegating"):
            await asyncio.to_thread(importlib.import_module, module)  # calls go on meanwhile
        agents = await self._read_agents()
        from toolstead.app.agent_configs import StoredAgentConfigs
        from toolstead.app.delegating import create_delegation
        from toolstead.app.runtimes import Runtimes
        from toolstead.app.secret_mask import SecretMask
        from toolstead.invoker.invoker import Invoker
        from toolstead.invoker.pool import SessionPool
        from toolstead.orchestrator.orchestrator import Orchestrator
        from toolstead.orchestrator.recalling import recall_messages

        settings, registry = self.loaded.settings, self.registry
        sessions, project = settings.sessions, self.places.project
        runtimes = Runtimes(
            settings.runtime,
            project=project,
            data=self.places.data,
            keys=self._keys,
            offered=lambda spec: (
                registry.find_view(
                    spec.agent, profile=spec.profile, may_spawn=spec.may_spawn, has_task=spec.has_task
                ).infos
            ),
            pinned=self.trust.pinned,
            given=self._given_runtimes,
            recall=partial(recall_messages, store),
        )
        orchestrator = Orchestrator(
            store=store,
            log=self.events,
            invoker=Invoker(SessionPool(ttl=sessions.ttl, most_idle=sessions.max, most_live=sessions.max_live)),
            call_tool=self.dispatcher.call,
            own_tools=self.dispatcher,
            find_mask=SecretMask(self._keys, registry, lambda: self.loaded.settings),
            hooks=self.hooks,
            agents=StoredAgentConfigs(agents, registry, runtimes, settings=lambda: self.loaded.settings, cwd=project),
        )
        await orchestrator.open()
        self._delegation = delegation = create_delegation(
            orchestrator,
            agents,
            hooks=self.hooks,
            settings=lambda: self.loaded.settings,
            project=project,
            find_problems=self.dispatcher.validator.find_problems,
            environ=self._keys.environ,
            pinned=self.trust.pinned,
        )
        await delegation.delegation.open(adopts=self._takes_over)
        await self.approvals.recover_approvals()
        background = OwnedTasks()
        if days := settings.storage.retention_days:
            background.start(expire_rows(store, days), name="toolstead-retention")
        # The last one first.
        for end in (background.end_all, runtimes.aclose, orchestrator.close, delegation.delegation.close):
            stack.push_async_callback(end)
        return orchestrator

    async def _prepare_reload(self) -> None:
        """Before everything is read anew: settings of plugins, a Python file that is served, plugins and agents."""
        if self.is_open:  # else they were just read
            self.loaded = reread_plugins(self.loaded, partial(self.load_settings, approved_config=self.approved_config))
        if self.origins.file is not None:
            await self.origins.file.look_again()
        await self.plugins.rescan()
        if self._agents is not None:
            await self._agents.reload()

    async def _open_watcher(self, watcher: PollingWatcher) -> None:
        """Watch as long as the stead is open."""
        if self._watch and self.is_open:
            await self._opened.enter_async_context(watcher)

    def _load_keys(self) -> None:
        from toolstead.app.runtimes import lacking_keys

        self._keys.load([*lacking_keys(self.loaded.settings.runtime, self._keys), *self.search.lacking_keys()])

    async def _apply_keys(self, stored: StoredKeys) -> None:
        """Apply what `toolstead keys` changed: search now, models with the next run."""
        await asyncio.to_thread(self._keys.load, stored.keyring)
        self.conversations.forget_keys()
        self._apply_search()

    def _apply_search(self) -> None:
        """Hide `web_search` while no provider can be used."""
        self.registry.set_unavailable(self._find_unavailable())

    def _find_client_settings(self) -> McpSettings:
        """What MCP clients are offered; no files where none are read."""
        settings = self.loaded.settings.mcp
        return msgspec.structs.replace(settings, resources=()) if self.wide_root else settings

    def _find_unavailable(self) -> dict[str, str]:
        """The tools that cannot work here, by name with the reason."""
        return {**self.search.hidden_tools(), **({FILE_READER: self.wide_root} if self.wide_root else {})}

    def _set_profiles(self) -> None:
        """Apply the lists of the profiles; those of one that is gone let nothing through."""
        self.registry.set_profiles(
            {
                name: Visibility(
                    allowed=profile.allowed,
                    blocked=profile.blocked,
                    allowed_by=f"profiles.{name}.allowed",
                    blocked_by=f"profiles.{name}.blocked",
                )
                for name, profile in self.loaded.settings.profiles.items()
            }
        )

    def _set_hooks(self) -> None:
        """Replace the gates and observers of calls after the running plugins changed."""
        self.dispatcher.set_hooks(self.hooks.list_gates(), self.hooks.list_observers())

    async def _find_problems(self, name: str, input: Mapping[str, Any]) -> list[str]:
        """Why arguments that a person wrote do not fit; defaults are filled in later, as for any call."""
        registered = self.registry.current.tools.get(name)
        if registered is None:
            return []
        schema = registered.input
        return await self.dispatcher.validator.find_problems(schema, fill_defaults(schema, input))

    def _publish_swap(self, swap: Swap) -> None:
        if swap.changes_profiles:  # the tools are the same
            return
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

    async def apply_trust(self) -> None:
        """Apply what the user approved or revoked, and what waits for that."""
        await asyncio.to_thread(self.trust.refresh_approval)
        config = self.trust.approved_config()
        if config != self.approved_config:
            try:
                self._apply_settings(self.load_settings(approved_config=config))
                self.approved_config = config
            except SettingsError as error:
                logger.warning("the settings are unchanged, except for what the project allowed: %s", error)
                self.files.apply_settings(
                    msgspec.structs.replace(self.loaded.settings.tools, allowed_hosts=(), proxy="")
                )
        await self.registry.reload()
        await self.client_parts.reload()
        tools = self.loaded.settings.tools
        self.registry.restrict(allowed=tools.allowed, blocked=tools.blocked)  # last: nothing shows with old handlers

    def _apply_settings(self, loaded: LoadedSettings) -> None:
        before, self.loaded = self.loaded.settings, loaded
        tools = loaded.settings.tools
        self.files.apply_settings(tools)
        self.dispatcher.set_limits(timeout=tools.timeout, max_output=tools.max_output)
        self._set_profiles()
        if list_accesses(loaded.settings) != list_accesses(before):
            logger.warning("the tokens, scopes or names of [profiles] changed; over HTTP they apply after a restart")
        if loaded.settings.server != before.server:
            logger.warning("the [server] settings of %s changed; they apply after a restart", self.places.project)
