"""One run of the command: its common options, the stead they lead to, its process and the end of it.

The process ends soon, whatever still runs in it, and logs what it did not wait for: a task that ignores being
cancelled and a thread in a call that never returns would hold up Python's own way out for ever, and a client that
started a server and exited would leave it behind.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.concurrency.suspended_coroutine import keep_forever
from toolstead.concurrency.termination import set_watch, take_signals
from toolstead.errors import PythonFileError, ToolsteadError

if TYPE_CHECKING:
    from toolstead.app.layers import LoadedSettings
    from toolstead.app.places import Places
    from toolstead.app.plugin_defaults import PluginDefaults
    from toolstead.app.stead import Toolstead
    from toolstead.console.cli.log_lines import LogFormat

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that tasks have to end after they were cancelled, and threads after everything else has ended."""

COLLECT_AFTER = 20_000
"""Allocations minus deallocations before a collection; Python's default is reached within a few requests."""

_A_MOMENT = 0.5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The common options of the command line."""

    project: Path | None = None
    overrides: tuple[str, ...] = ()
    verbose: int = 0
    profile: str | None = None
    """Of `toolstead mcp` alone: the profile whose tools are served."""
    log_format: LogFormat | None = None
    """Of servers alone: how lines of the log look; None for the terse lines of one command."""
    file: Path | None = None
    """Of servers alone: the Python file whose tools are served, in place of all others."""

    def find_places(self) -> Places:
        """Where this project, the user's folder and the data are."""
        from toolstead.app.places import find_places

        return find_places(explicit=self.project)

    def load(self) -> LoadedSettings:
        """The settings in effect."""
        from toolstead.app.layers import settings_for
        from toolstead.app.trust.approved import ProjectTrust

        places = self.find_places()
        trust = ProjectTrust(places)
        trust.refresh_approval()
        return settings_for(places, overrides=self.overrides, approved_config=trust.approved_config())

    def find_plugin_defaults(self) -> PluginDefaults:
        """What may be set for the plugins of this project."""
        from toolstead.app.plugin_defaults import PluginDefaults
        from toolstead.app.trust.approved import ProjectTrust

        places = self.find_places()
        return PluginDefaults(places, ProjectTrust(places))

    def make_stead(
        self, *, watch: bool = False, tools_dir: Path | None = None, follow: bool = False, ask: bool = True
    ) -> Toolstead:
        """A stead for this project; open it with `async with`. Only what serves need watch for changes.

        Where a person sits at the terminal, they are asked once about what the project brings.
        """
        from toolstead.app.stead import Toolstead

        if self.file is not None:
            stead = self._make_stead_of_file(self.file, watch=watch)
            if self.verbose:
                stead.log_calls()
            return stead
        if ask and not follow and sys.stdin.isatty() and sys.stderr.isatty():
            from toolstead.app.trust.approved import ProjectTrust
            from toolstead.console.cli.approving import offer_approval

            offer_approval(ProjectTrust(self.find_places()))
        for override in self.overrides:
            if override.startswith("plugins."):
                self._mention_plugin(override)
        stead = Toolstead(
            self.project, tools_dir=tools_dir, overrides=self.overrides, watch=watch, follow=follow, takes_over=watch
        )
        if self.verbose:
            stead.log_calls()
        return stead

    def _mention_plugin(self, override: str) -> None:
        """Name the nearest where no plugin here is called as `--set` has it; it may be installed elsewhere."""
        from toolstead.app.toml_text import split_key

        found = split_key(override)
        if found is not None and len(found[0]) > 1 and (slip := self.find_plugin_defaults().find_name(found[0][1])):
            print(f"note: --set {override.partition('=')[0]}: {slip}", file=sys.stderr)

    def mention_tables(self) -> None:
        """Name each `[plugins.NAME]` of the settings that no plugin here is called, with the nearest one."""
        if not (tables := self.load().settings.plugins):
            return
        known = self.find_plugin_defaults()
        for name in tables:
            if slip := known.find_name(name):
                print(f"note: [plugins.{name}] in the settings: {slip}", file=sys.stderr)

    def _make_stead_of_file(self, path: Path, *, watch: bool) -> Toolstead:
        """A stead with the tools of a Python file alone; or the file's own, with its tools.

        Raises:
            PythonFileError: The file cannot be served.
        """
        from toolstead.app.python_file import PythonFile
        from toolstead.app.stead import Toolstead

        file = PythonFile(path, Toolstead)
        if file.stead is None:
            return Toolstead(
                self.project,
                name=file.path.stem,
                builtin=False,
                user_tools=False,
                project_tools=False,
                installed_plugins=False,
                file=file,
                overrides=self.overrides,
                watch=watch,
                takes_over=False,
            )
        if self.project is not None or self.overrides:
            raise PythonFileError(f"{path} has a Toolstead of its own, which decides: leave out --project and --set")
        stead: Toolstead = file.stead
        if missing := [plugin.name for plugin in file.plugins if plugin not in stead.own_plugins]:
            names = ", ".join(map(repr, missing))
            raise PythonFileError(f"{path} does not give {names} to its Toolstead: write Toolstead(plugins=[…])")
        stead.registry.register(*(tool for tool in file.tools if stead.registry.get(tool.name) is not tool))
        return stead

    def run(
        self,
        main: Coroutine[Any, Any, _T],
        *,
        level: int = logging.WARNING,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        owns_output: bool = True,
    ) -> _T:
        """Run to the end, with the log at the level that `-v` asks for.

        Args:
            main: What to run.
            level: The log's level without `-v`.
            loop_factory: Makes the event loop; asyncio's own unless given.
            owns_output: What is printed by other code than the command's goes to stderr.
        """
        chosen = {0: level, 1: logging.INFO}.get(self.verbose, logging.DEBUG)
        logging.getLogger("toolstead").setLevel(chosen)
        if self.log_format is not None or self.verbose:
            from toolstead.console.cli.log_lines import set_log_lines

            set_log_lines(self.log_format or "text")
        # Every command reports that a project's own tools are skipped.
        logging.getLogger("toolstead.trust").setLevel(min(chosen, logging.WARNING))
        if not owns_output:
            return run_to_the_end(_until_terminated(main), loop_factory)
        from toolstead.console.cli.own_output import claim_output

        with claim_output():
            return run_to_the_end(_until_terminated(main), loop_factory)

    def run_server(
        self,
        main: Coroutine[Any, Any, _T],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> _T:
        """Run a server. Nothing is collected until `collect_seldom`: a start makes many objects, and hardly a cycle."""
        gc.disable()
        try:
            return self.run(main, loop_factory=loop_factory, owns_output=False)
        except ToolsteadError as error:
            if self.log_format != "json":
                raise
            logger.critical("%s", error)  # a program that reads the log gets JSON alone
            raise SystemExit(2) from error
        finally:
            gc.enable()


def collect_seldom() -> None:
    """Collect seldom: every request that is answered meanwhile waits for it.

    What the start made lives as long as the server does, so the collector never walks it again. Tools that a reload
    replaces are freed as always unless they are in a cycle, and then only those of the start are kept.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    gc.enable()


async def _until_terminated(main: Coroutine[Any, Any, _T]) -> _T:
    """Let SIGTERM end the command as Ctrl-C does: whatever it opened is closed first. Servers take over from here.

    Raises:
        SystemExit: It came; the status is that of the signal.
    """
    this = cast("asyncio.Task[Any]", asyncio.current_task())
    signals: list[int] = []

    def end_work() -> None:
        signals.append(signal.SIGTERM)
        this.cancel()

    try:
        with take_signals(end_work, (signal.SIGTERM,)):
            return await main
    except asyncio.CancelledError:
        if not signals:
            raise
        set_watch()
        raise SystemExit(128 + signal.SIGTERM) from None


def run_to_the_end(
    main: Coroutine[Any, Any, _T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> _T:
    """Run a coroutine, then end the tasks it left: `asyncio.run` with a bounded wait."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    loop = runner.get_loop()
    try:
        return runner.run(main)
    finally:
        try:
            loop.run_until_complete(_end_rest(asyncio.all_tasks(loop)))
        finally:  # also when the wait itself is interrupted
            for task in asyncio.all_tasks(loop):
                keep_forever(task)
            loop.close()
            asyncio.set_event_loop(None)


def leave_process(status: int) -> None:
    """Exit with this status as Python does, but without waiting for a thread that does not end."""
    soon = time.monotonic() + _A_MOMENT
    for thread in _waiting_threads():
        thread.join(max(0.0, soon - time.monotonic()))
    if _waiting_threads():  # perhaps only idle workers, which Python ends now
        threading.Thread(target=_end_for_sure, args=(status,), daemon=True).start()
    sys.exit(status)


def _waiting_threads() -> list[threading.Thread]:
    """Those that Python waits for."""
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]


async def _end_rest(tasks: set[asyncio.Task[Any]]) -> None:
    loop = asyncio.get_running_loop()
    await cancel_tasks(tasks, grace=PATIENCE, describe=repr)
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            report = {"message": "a task failed during shutdown", "exception": error, "task": task}
            loop.call_exception_handler(report)
    closing = loop.create_task(loop.shutdown_asyncgens())
    await asyncio.wait((closing,), timeout=PATIENCE)
    if not closing.done():
        logger.warning("an asynchronous generator does not end; the process ends without it")


def _end_for_sure(status: int) -> None:
    time.sleep(PATIENCE)
    names = ", ".join(thread.name for thread in _waiting_threads())
    logger.warning("a thread does not end (%s); the process ends without it", names)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
