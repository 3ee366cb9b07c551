"""`Toolstead`: one registry, one dispatcher, one event log, and the doors to them.

The CLI, the servers and the tests stand on this object. It is the wiring: the only place that
knows every part.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from toolstead.adapters.importing import imported
from toolstead.app.conversations import Conversations
from toolstead.app.database import Database
from toolstead.app.kept_results import KeptResults
from toolstead.app.keys import Keys
from toolstead.app.layers import settings_for
from toolstead.app.offered_tools import OfferedTools
from toolstead.app.places import find_places
from toolstead.app.plugin_places import PluginPlaces
from toolstead.app.plugin_powers import Parts
from toolstead.app.plugins import Plugins
from toolstead.app.registry_view import RegistryView
from toolstead.app.server_file import Address, ServerFile
from toolstead.app.state import State, Switches, SwitchWatcher
from toolstead.app.tool_files import ToolFiles
from toolstead.app.trust.approved import ProjectTrust
from toolstead.app.trust.watcher import TrustWatcher, approve_changes
from toolstead.app.version import VERSION
from toolstead.app.watching import FolderWatcher
from toolstead.errors import SettingsError, ToolError, ToolsteadError, UnknownToolError
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog, EventStream
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.builtin import builtin_offers
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry, Swap
from toolstead.tools.sources import FixedSource
from toolstead.tools.visibility import Visibility
from toolstead.types.call import ANONYMOUS, Caller

if TYPE_CHECKING:
    from toolstead.adapters.mcp.lane.calls import Lane
    from toolstead.adapters.mcp.server import ToolsteadServer
    from toolstead.app.effective import LoadedSettings
    from toolstead.invoker.runtime import Runtime
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.plugins.contract import Plugin
    from toolstead.schema.compiled import Documents
    from toolstead.tools.gates import Gate
    from toolstead.tools.sources.loaded_file import LoadedFile
    from toolstead.types.event import Event
    from toolstead.types.result import ToolResult
    from toolstead.types.run import Run
    from toolstead.types.tool import Problem

logger = logging.getLogger(__name__)

QUIET_SECONDS = 1.0
"""How long after its first answer a server on stdio opens the database: a client asks a few things at once at start."""


class Toolstead:
    """A stead of tools: `async with Toolstead() as stead: await stead.call("git-status")`."""

    def __init__(
        self,
        project: str | Path | None = None,
        *,
        tools_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        schemas: Documents | None = None,
        gates: Sequence[Gate] = (),
        plugins: Sequence[Plugin] = (),
        installed_plugins: bool = True,
        runtimes: Sequence[Runtime] = (),
        environ: Mapping[str, str] | None = None,
        watch: bool = True,
        follow: bool = False,
    ) -> None:
        """Decide where things are and what the settings say; nothing is opened yet.

        Args:
            project: The project's folder; else the nearest one upward with `.toolstead` or `.git`.
            tools_dir: The folder of JSON tool files, instead of `TOOLSTEAD_TOOLS_DIR` and the user's own.
            settings: Settings as nested mappings, above the environment.
            overrides: Settings as `section.key=value`, above everything.
            schemas: Documents by address that tools' `$ref`s may name.
            gates: Asked before every call, in order, and before those of plugins.
            plugins: Plugins of the program's own, besides those that are installed or lie in `plugins/`.
            installed_plugins: Load plugins that installed packages offer.
            runtimes: Runtimes of the program's own, such as a loop that it has already.
            environ: Instead of the process's environment.
            watch: Take in changes of tool files and switches while the stead is open.
            follow: Approve what the project brings, and every change of it while the stead is open: for
                authors of tools. Otherwise only what `toolstead trust` approved counts.

        Raises:
            SettingsError: A setting is unknown or has a bad value.
        """
        environ = os.environ if environ is None else environ
        self.places = find_places(explicit=Path(project) if project is not None else None, environ=environ)
        self._trust = ProjectTrust(self.places)
        self._follow = follow
        if follow:
            approve_changes(self._trust)
        self._trust.look()
        self._load_settings = partial(settings_for, self.places, environ=environ, overrides=overrides, given=settings)
        self._config = self._trust.config()
        self.loaded = self._load_settings(approved_config=self._config)
        tools = self.loaded.settings.tools
        self._switches = Switches(self.places.data)
        self._events = EventLog()
        self._watch = watch
        self._files = ToolFiles(
            self.places,
            self._trust,
            tools,
            environ=environ,
            tools_dir=Path(tools_dir) if tools_dir is not None else None,
            schemas=schemas,
        )
        self._database = Database(self.places, environ=environ, log=self._events)
        self._kept = KeptResults(self._database.open)
        self._approvals = Approvals(open_store=self._database.open, log=self._events, problems_of=self._problems_of)
        self._builtin = builtin_offers(self.places.project, environ, self.places.data)
        self._hooks = HookRunner(on_set=self._set_hooks)
        self.plugins = Plugins(
            PluginPlaces(self.places, self._trust, given=plugins, installed=installed_plugins),
            settings=lambda: self.loaded.settings,
            switches=self._switches,
            parts=Parts(
                open_store=self._database.open,
                conversations=self.conversations,
                dispatcher=lambda: self._dispatcher,
                log=self._events,
                broadcast=self._hooks.on_broadcast,
                http=self._files.http,
            ),
            runner=self._hooks,
            log=self._events,
            refresh=lambda source: self._registry.refresh(source, ()),
        )
        self._registry = Registry(
            [FixedSource(name="builtin", offers=self._builtin), self.plugins, *self._files.sources],
            visibility=Visibility(allowed=tools.allowed, blocked=tools.blocked),
            documents=schemas,
            prepare=self.plugins.rescan,
            context_for=self.plugins.context_for,
        )
        self._dispatcher = Dispatcher(
            self._registry,
            events=self._events,
            cwd=self.places.project,
            timeout=tools.timeout,
            max_output=tools.max_output,
            gates=gates,
            keep=self._kept,
            approve=self._approvals.ask,
        )
        self._conversations = Conversations(
            self.places,
            self._database,
            log=self._events,
            call_tool=self._dispatcher.call,
            own_tools=self._dispatcher,
            offered=OfferedTools(self._registry),
            keys=Keys(environ),
            runtimes=runtimes,
            pinned=lambda: self._trust.pinned,
            hooks=self._hooks,
            recover=self._approvals.recover,
        )
        self._database.on_open(lambda store: self.plugins.follow(store, shared=self._database.is_shared))
        self._open: AsyncExitStack | None = None
        self.registry = RegistryView(self._registry, self._create_server)

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ToolsteadError("this stead is open already; make another for another `async with`")
        async with AsyncExitStack() as stack:
            stack.callback(self._events.close)
            stack.callback(self._registry.subscribe(self._tell_change))
            state = self._switches.read()
            self._registry.switch(state.disabled_tools)
            self.plugins.start_with(state)
            stack.push_async_callback(self._files.aclose)
            stack.push_async_callback(self._database.close)
            stack.push_async_callback(self._approvals.close)
            stack.push_async_callback(self._hooks.close)
            stack.push_async_callback(self.plugins.close)
            stack.push_async_callback(self._conversations.close)
            stack.push_async_callback(self._kept.settled)
            await self._registry.reload()
            if self._watch:
                users = self._files.users
                await stack.enter_async_context(SwitchWatcher(self._switches, self._take_state))
                await stack.enter_async_context(FolderWatcher(users.folders, users, self._refresh))
                await stack.enter_async_context(TrustWatcher(self._trust, self._take_trust, follow=self._follow))
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._open = self._open, None
        if stack is not None:
            await stack.aclose()

    def call(
        self, name: str, input: Mapping[str, Any] | None = None, *, thread_id: str | None = None
    ) -> Awaitable[ToolResult]:
        """Call a tool: `await stead.call("file-reader", {"path": "README.md"})`.

        Raises:
            UnknownToolError: No such tool, or it is blocked; every other failure is a result.
        """
        if self._open is None:
            self._check_open()
        return self._dispatcher.call(name, input, Caller(thread_id=thread_id) if thread_id else ANONYMOUS)

    async def invoke(
        self,
        prompt: str,
        *,
        thread_id: str | None = None,
        model: str | None = None,
        session_id: str | None = None,
        timeout: float | None = None,
        on_message: Callable[[Event], object] | None = None,
        agent: str | None = None,
        runtime: str | None = None,
    ) -> Run:
        """Ask an agent, and wait for the end of its run: `(await stead.invoke("hello", thread_id="t1")).result`.

        Args:
            prompt: What it is asked; word for word, no command is ever looked for in it.
            thread_id: The conversation it belongs to; a new one unless said.
            model: Instead of the thread's and the settings'.
            session_id: A conversation of the runtime's own to go on with.
            timeout: Seconds after which it is ended; the settings' `limits.run_timeout` unless said.
            on_message: Called with every event of the run, as it happens.
            agent: Instead of the thread's and the settings'.
            runtime: Instead of the thread's and the settings'.

        Raises:
            StorageError: The database cannot be opened or written.
            RuntimeFailureError: No such runtime can be had; every other failure is in the run's `error`.
        """
        from toolstead.orchestrator.orchestrator import watched_run
        from toolstead.orchestrator.request import RunRequest

        orchestrator = await self.conversations()
        request = RunRequest(
            prompt=prompt,
            thread_id=thread_id,
            session_id=session_id,
            agent=agent or "",
            model=model or "",
            runtime=runtime or "",
            timeout=timeout,
        )
        return await watched_run(orchestrator, self._events, request, on_message)

    async def conversations(self) -> Orchestrator:
        """Threads and runs; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        self._check_open()
        return await self._conversations.open(self.loaded.settings)

    async def kept_result(self, handle: str) -> dict[str, Any]:
        """The whole of an answer that was shown in part, as JSON, by the handle that came with it.

        Raises:
            NotFoundError: No such result; they expire.
            StorageError: The database cannot be read.
        """
        return await self._kept.read(handle)

    def read_tool_files(self, paths: Sequence[Path] = ()) -> list[LoadedFile]:
        """Read tool files or folders of them, without registering anything; without paths, the folders in use."""
        taken = {offer.tool.name: f"builtin {offer.provenance.origin}" for offer in self._builtin}
        return self._files.read_aside(paths, taken)

    def tool_files(self) -> list[LoadedFile]:
        """The tool files that were read, with their examples."""
        return self._files.loaded()

    def preview(self, name: str, input: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool from a file would run for these arguments; nothing is executed.

        Raises:
            UnknownToolError: No such tool.
            ToolError: It is no tool from a file, or the arguments do not fit.
        """
        registered = self._registry.current.find(name)
        handler: Any = registered.tool.handler
        if not hasattr(handler, "preview"):
            raise ToolError(f"{name} is written in Python; only tools from files can be shown before they run")
        schema = registered.input
        filled = schema.defaults.fill(input) if schema.defaults is not None else dict(input)
        if problems := schema.problems(filled):
            raise ToolError(f"Invalid arguments for {name}:\n" + "\n".join(problems))
        shown: dict[str, Any] = handler.preview(filled)
        return shown

    def knows(self, name: str) -> bool:
        """Whether a tool of this name exists here, be it blocked or switched off."""
        return name in self._registry.current.held

    def unknown_tool(self, name: str) -> UnknownToolError:
        """The error for a name that cannot be called here: why, or which names look like it."""
        return self._registry.current.unknown(name)

    @property
    def waiting(self) -> tuple[Problem, ...]:
        """What the project brings that nobody approved yet."""
        return self._trust.waiting

    def events(self, types: Collection[str] | None = None) -> EventStream:
        """Events from now on: `with stead.events() as stream: async for event in stream: …`."""
        return self._events.stream(types)

    async def serve_stdio(self, *, lane: bool = True) -> None:
        """Be an MCP server on this process's stdin and stdout until the client leaves.

        Args:
            lane: Answer plain messages without the SDK; without it the SDK answers everything.
        """
        from toolstead.adapters.mcp.stdio import serve_stdio

        self._check_open()
        async with AsyncExitStack() as opening:
            settings = self.loaded.settings

            def answered() -> None:
                """The first answer is out: now the database may be opened, behind those that follow."""
                opening.push_async_callback(self._conversations.open_early(settings, after=QUIET_SECONDS))

            await serve_stdio(
                partial(self._create_server, "default"),
                lane=self._create_lane() if lane else None,
                max_message=settings.server.max_body,
                on_answer=answered,
            )

    async def serve_http(
        self,
        *,
        host: str | None = None,
        port: int | None = None,
        on_ready: Callable[[Address], None] = lambda _: None,
        stop: asyncio.Event | None = None,
        lane: bool = True,
    ) -> None:
        """Serve REST and MCP over HTTP until a signal, or until `stop` is set.

        Args:
            host: Instead of the settings' `server.host`.
            port: Instead of the settings' `server.port`; 0 picks a free one.
            on_ready: Told the address, and the token made for it, once the port is open.
            stop: Ends the server when set; without it SIGTERM and SIGINT do.
            lane: Answer plain MCP messages without the SDK; without it the SDK answers everything.

        Raises:
            ServeError: The port is taken, or the bind needs a token.
        """
        imported("toolstead.adapters.mcp.http")
        from toolstead.adapters.http.options import ServerOptions
        from toolstead.adapters.http.server import serve
        from toolstead.adapters.mcp.http import McpEndpoint
        from toolstead.adapters.rest.app import create_app

        self._check_open()
        server = self.loaded.settings.server
        options = ServerOptions(
            host=host if host is not None else server.host,
            port=port if port is not None else server.port,
            token=secrets.token_urlsafe(32) if server.token == "auto" else server.token,
            allowed_hosts=server.allowed_hosts,
            allowed_origins=server.allowed_origins,
            max_body=server.max_body,
        )
        endpoint = McpEndpoint(
            self._create_server("default"), max_body=server.max_body, lane=self._create_lane() if lane else None
        )
        app = create_app(
            registry=self._registry,
            dispatcher=self._dispatcher,
            options=options,
            version=VERSION,
            mcp=endpoint.app,
            conversations=self.conversations,
            project=self.places.project,
            results=self._kept.read,
            state=self.state,
            plugins=self.plugins,
            approvals=self._approvals,
        )
        made = options.token if server.token == "auto" else None
        async with AsyncExitStack() as announcing:

            def ready(url: str) -> None:
                entry = ServerFile(self.places.data).announced(self.places.project, url, options.private_token)
                announcing.enter_context(entry)
                announcing.push_async_callback(self._conversations.open_early(self.loaded.settings))
                on_ready(Address(url=url, new_token=made))

            await serve(app, options, lifespan=endpoint.running(), on_ready=ready, stop=stop)

    def _set_hooks(self) -> None:
        """Other plugins run now: who is asked before a call, and told after it, are others too."""
        self._dispatcher.set_hooks(self._hooks.gates(), self._hooks.observers())

    def _take_state(self, state: State) -> None:
        self._registry.switch(state.disabled_tools)
        self.plugins.take(state)

    def _problems_of(self, name: str, input: Mapping[str, Any]) -> list[str]:
        """Why arguments that a person wrote do not fit; defaults are filled in later, as for any call."""
        registered = self._registry.current.tools.get(name)
        if registered is None:
            return []
        defaults = registered.input.defaults
        return registered.input.problems(input if defaults is None else defaults.fill(input))

    def state(self) -> Mapping[str, Any]:
        """The runtime and the sessions, as health tells them; the database stays as closed as it is."""
        return self._conversations.state(self.loaded.settings)

    def _create_server(self, thread_id: str, *, tells_changes: bool = True) -> ToolsteadServer:
        imported("toolstead.adapters.mcp.server")
        from toolstead.adapters.mcp.server import create_server

        return create_server(
            registry=self._registry,
            dispatcher=self._dispatcher,
            version=VERSION,
            thread_id=thread_id,
            tells_changes=tells_changes,
        )

    def _create_lane(self) -> Lane:
        from toolstead.adapters.mcp.lane.calls import Lane

        return Lane(registry=self._registry, dispatcher=self._dispatcher, version=VERSION)

    async def _refresh(self, paths: Collection[Path]) -> None:
        await self._registry.refresh(self._files.users, paths)

    async def _take_trust(self) -> None:
        """Take in what the user approved or revoked, and what waits for that."""
        await asyncio.to_thread(self._trust.look)
        config = self._trust.config()
        if config != self._config:
            try:
                self._apply(self._load_settings(approved_config=config))
                self._config = config
            except SettingsError as error:
                logger.warning("the settings stay as they were, but for what the project allowed: %s", error)
                self._files.apply(msgspec.structs.replace(self.loaded.settings.tools, allowed_hosts=(), proxy=""))
        await self._registry.reload()
        tools = self.loaded.settings.tools
        self._registry.restrict(allowed=tools.allowed, blocked=tools.blocked)  # last: nothing shows with old handlers

    def _apply(self, loaded: LoadedSettings) -> None:
        before, self.loaded = self.loaded.settings, loaded
        tools = loaded.settings.tools
        self._files.apply(tools)
        self._dispatcher.set_limits(timeout=tools.timeout, max_output=tools.max_output)
        if loaded.settings.server != before.server:
            logger.warning("the [server] settings of %s changed; they count after a restart", self.places.project)

    def _tell_change(self, swap: Swap) -> None:
        self._events.emit(
            "tools.changed",
            {
                "generation": swap.generation.number,
                **swap.changes.to_json(),
                "errors": [problem.to_json() for problem in swap.problems],
            },
        )

    def _check_open(self) -> None:
        if self._open is None:
            raise ToolsteadError("this stead is not open; use it inside `async with Toolstead(…) as stead:`")
