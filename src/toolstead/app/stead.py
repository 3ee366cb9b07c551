"""`Toolstead`: the public object. The CLI, the servers and programs use it; `wiring` builds its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from toolstead.app import serving
from toolstead.app.registry_view import RegistryView
from toolstead.app.server_identity import identify_server
from toolstead.app.tool_origins import ToolOrigins
from toolstead.app.wiring import Wiring
from toolstead.tools.gates import check_gates
from toolstead.types.call import ANONYMOUS, Caller
from toolstead.types.client_parts import SERVER_NAME

if TYPE_CHECKING:
    from toolstead.app.agents import SteadAgents
    from toolstead.app.delegating import DelegationParts
    from toolstead.app.layers import LoadedSettings
    from toolstead.app.python_file import PythonFile
    from toolstead.app.server_file import ServerAddress
    from toolstead.invoker.runtime import Runtime
    from toolstead.orchestrator.approvals import Approvals
    from toolstead.orchestrator.feed import EventReader
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.orchestrator.shared_files import SharedFiles
    from toolstead.plugins.contract import Plugin
    from toolstead.plugins.tool_meta import Progress
    from toolstead.schema.compiled import Documents
    from toolstead.tools.gates import Gate
    from toolstead.tools.sources.json_files import LoadedFile
    from toolstead.types.agent import Agent, EffectiveValue, Finding
    from toolstead.types.event import Event
    from toolstead.types.result import ToolResult
    from toolstead.types.run import Run
    from toolstead.types.tool import Problem


class Toolstead:
    """A stead of tools: `async with Toolstead() as stead: await stead.call("git-status")`.

    Attributes:
        places: Where the project, the user's folder and the data are.
        own_plugins: The plugins that the program brings.
        registry: The tools: listed, described, registered, reloaded.
        plugins: The plugins: which there are, how they are set, and how to change that.
    """

    def __init__(
        self,
        project: str | Path | None = None,
        *,
        tools_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        name: str = SERVER_NAME,
        instructions: str = "",
        builtin: bool = True,
        user_tools: bool = True,
        project_tools: bool = True,
        overrides: Sequence[str] = (),
        schemas: Documents | None = None,
        gates: Sequence[Gate] = (),
        plugins: Sequence[Plugin] = (),
        installed_plugins: bool = True,
        file: PythonFile | None = None,
        runtimes: Sequence[Runtime] = (),
        environ: Mapping[str, str] | None = None,
        watch: bool = True,
        follow: bool = False,
        takes_over: bool = True,
    ) -> None:
        """Find the folders and load the settings; open nothing yet.

        Args:
            project: The project's folder; else the nearest one upward with `.toolstead` or `.git`.
            tools_dir: The folder of JSON tool files, instead of `TOOLSTEAD_TOOLS_DIR` and the user's own.
            settings: Settings as nested mappings, above the environment.
            name: What MCP clients see as the server's name; with another than the usual one, the title, icon and
                instructions of the settings' files are not used.
            instructions: How to use the tools, for the models of MCP clients; `mcp.instructions` of the settings.
            builtin: Offer the built-in tools, and the plugins that come with Toolstead.
            user_tools: Offer the tools, plugins, agents and prompts of the user's folder, and the tools of
                `TOOLSTEAD_TOOLS_DIR`. `config.toml` counts in any case.
            project_tools: Take in what the project brings and `toolstead trust` approved: its tools, plugins,
                agents, prompts and `config.toml`.
            overrides: Settings as `section.key=value`, above everything.
            schemas: Documents by address that tools' `$ref`s may name.
            gates: Asked before every call, in order, and before those of plugins.
            plugins: Plugins of the program's own, besides those that are installed or lie in `plugins/`.
            installed_plugins: Load plugins that installed packages offer.
            file: A Python file whose tools and plugins are offered, as `toolstead mcp FILE.py` does.
            runtimes: Runtimes of the program's own, such as a loop that it has already.
            environ: Instead of the process's environment.
            watch: Take in changes of tool files and switches while the stead is open.
            follow: Approve what the project brings, and every change of it while the stead is open: for
                authors of tools. Otherwise only what `toolstead trust` approved counts.
            takes_over: Take up delegated tasks of this project that no process works on.

        Raises:
            SettingsError: A setting is unknown or has a bad value, or a gate cannot be called.
        """
        check_gates(gates)
        self._parts = Wiring(
            project=Path(project) if project is not None else None,
            tools_dir=Path(tools_dir) if tools_dir is not None else None,
            settings=identify_server(settings or {}, name, instructions),
            overrides=overrides,
            schemas=schemas,
            gates=gates,
            name=name,
            origins=ToolOrigins(
                builtin=builtin,
                user_tools=user_tools,
                project_tools=project_tools,
                installed_plugins=installed_plugins,
                plugins=plugins,
                file=file,
            ),
            runtimes=runtimes,
            environ=environ,
            watch=watch,
            follow=follow,
            takes_over=takes_over,
        )
        self.places = self._parts.places
        self.own_plugins = tuple(plugins)
        self.plugins = self._parts.plugins
        self.registry = RegistryView(self._parts)
        self._call = self._parts.dispatcher.call

    async def __aenter__(self) -> Self:
        await self._parts.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._parts.close()

    @property
    def loaded(self) -> LoadedSettings:
        """The settings in effect, and where each one comes from."""
        return self._parts.loaded

    def call(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        on_progress: Progress | None = None,
    ) -> Awaitable[ToolResult]:
        """Call a tool: `await stead.call("file-reader", {"path": "README.md"})`.

        Args:
            name: Its name.
            input: Its arguments.
            thread_id: The thread that the call belongs to.
            on_progress: Awaited with how far the tool is, of how much, and a message.

        Raises:
            UnknownToolError: No such tool, or it is blocked; every other failure is a result.
        """
        if not self._parts.is_open:
            self._parts.check_open()
        caller = Caller(thread_id=thread_id) if thread_id else ANONYMOUS
        return self._call(name, input, caller, progress=on_progress)

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
            prompt: Sent word for word; never read as a command.
            thread_id: The conversation it belongs to; a new one unless given.
            model: Instead of the thread's and the settings'.
            session_id: A conversation of the runtime's own to go on with.
            timeout: Seconds after which it is ended; the settings' `limits.run_timeout` unless given.
            on_message: Called with every event of the run, as it happens.
            agent: Instead of the thread's and the settings'.
            runtime: Instead of the thread's and the settings'.

        Raises:
            StorageError: The database cannot be opened or written.
            RuntimeFailureError: The runtime is unavailable; every other failure is in the run's `error`.
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
        return await watched_run(orchestrator, self._parts.events, request, on_message)

    async def conversations(self) -> Orchestrator:
        """Threads and runs; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        self._parts.check_open()
        return await self._parts.open_conversations()

    async def delegation(self) -> DelegationParts:
        """Delegated work; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        self._parts.check_open()
        return await self._parts.open_delegation()

    @property
    def approvals(self) -> Approvals:
        """The calls that wait for a person: `pending_approvals` lists them, `decide_approval` allows or denies one."""
        return self._parts.approvals

    async def agents(self) -> SteadAgents:
        """The agents; the first call reads their files."""
        return await self._parts.open_agents()

    def explain_agent(self, agent: Agent) -> list[EffectiveValue]:
        """Every value that an agent runs with, and where it comes from."""
        from toolstead.app.agent_configs import explain_agent

        state = self._parts.describe_state(agent.model)
        return explain_agent(agent, self._parts.loaded, state["runtime"], state["runtimeReason"])

    async def shared_files(self) -> SharedFiles:
        """The files that the agents of a thread tree share; the first call opens the database.

        Raises:
            StorageError: It cannot be opened.
        """
        return await self._parts.open_files()

    async def kept_result(self, handle: str) -> dict[str, Any]:
        """The whole result behind a handle or its address (`toolstead://results/…`), as JSON.

        Raises:
            NotFoundError: No such result; they expire.
            StorageError: The database cannot be read.
        """
        return await self._parts.kept.read(handle)

    def check_prompt_files(self) -> tuple[Finding, ...]:
        """What is wrong with the markdown files of prompts, of the user and of the project as it was approved."""
        from toolstead.app.prompt_files import PromptFiles

        files = PromptFiles(self._parts.places, self._parts.trust)
        files.read(logs=False)
        return files.findings

    def read_tool_files(self, paths: Sequence[Path] = ()) -> list[LoadedFile]:
        """Read tool files or folders of them, without registering anything; without paths, the usual folders."""
        taken = {offer.tool.name: f"builtin {offer.provenance.origin}" for offer in self._parts.builtin}
        return self._parts.files.read_aside(paths, taken)

    def tool_files(self) -> list[LoadedFile]:
        """The tool files that were read, with their examples."""
        return self._parts.files.loaded_files()

    @property
    def wide_root(self) -> str:
        """Why no files are read below the project's root: it is `/`, or holds the home folder. Empty where they are."""
        return self._parts.wide_root

    @property
    def waiting(self) -> tuple[Problem, ...]:
        """What the project brings that is not approved yet."""
        return self._parts.trust.waiting

    def events(self, types: Collection[str] | None = None) -> EventReader:
        """Events from now on: `with stead.events() as stream: async for event in stream: …`."""
        return self._parts.events.open_stream(types)

    async def serve_stdio(self, *, fast_path: bool = True, profile: str | None = None) -> None:
        """Serve MCP on this process's stdin and stdout until the client leaves.

        Args:
            fast_path: Answer plain messages without the SDK; without it the SDK answers everything.
            profile: Offer only the tools of this profile.

        Raises:
            UnknownProfileError: The settings have no such profile.
        """
        self._parts.check_open()
        await serving.serve_stdio(self._parts, fast_path=fast_path, profile=profile)

    async def serve_http(
        self,
        *,
        host: str | None = None,
        port: int | None = None,
        on_ready: Callable[[ServerAddress], None] | None = None,
        stop: asyncio.Event | None = None,
        fast_path: bool = True,
    ) -> None:
        """Serve REST and MCP over HTTP until a signal, or until `stop` is set.

        Args:
            host: Instead of the settings' `server.host`.
            port: Instead of the settings' `server.port`; 0 picks a free one.
            on_ready: Called with the address and the token made for it, once the port is open; without it, one line
                on stderr names both.
            stop: Ends the server when set; without it SIGTERM and SIGINT do.
            fast_path: Answer plain MCP messages without the SDK; without it the SDK answers everything.

        Raises:
            ServeError: The bind needs a token, or the port is taken (`PortTakenError`). Where nothing catches
                it, Python shows the sentence alone, without a traceback.
        """
        self._parts.check_open()
        await serving.serve_http(self._parts, host=host, port=port, on_ready=on_ready, stop=stop, fast_path=fast_path)

    def log_calls(self) -> None:
        """Write a line for every call of a tool into the log, from now on."""
        from toolstead.tools.call_records import log_call

        self._parts.dispatcher.names_clients = True
        self._parts.dispatcher.add_recorder(log_call)

    def state(self, model: str = "") -> Mapping[str, Any]:
        """The runtime and the sessions, as health reports them; does not open the database.

        Args:
            model: The model that is wanted, instead of the settings' one.
        """
        return self._parts.describe_state(model)
