"""A Python file that is served by its name: `toolstead mcp my_tools.py`.

What stands at its top level is offered: tools, lists of them, plugins, or a `Toolstead` of its own. While a stead is
open the file is polled, and run again when it changed; one that became bad keeps its last good tools, as stale ones;
so does a single tool of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import linecache
import logging
import re
import sys
import traceback
import types
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from toolstead.app.watching import POLL_SECONDS, PollingWatcher, read_stamp
from toolstead.errors import DefinitionError, PythonFileError, ToolsteadError
from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.health import describe_crash
from toolstead.schema.visible import escape_unseen
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.sources import Offers
from toolstead.types.tool import Problem, Provenance

logger = logging.getLogger(__name__)

LARGEST = 8 * 1024 * 1024
_STARTS_A_LOOP = re.compile(
    r"cannot be called from a running event loop|another loop is running|Already running asyncio"
)
_numbers = itertools.count(1)


class PythonFile:
    """A file, and what it offers; a source of tools for the registry.

    Attributes:
        path: Where it is.
        tools: Its tools; those of its plugins are not among them.
        plugins: Its plugins.
        stead: Its own stead, if it has one.
    """

    name = "python file"

    def __init__(self, path: Path, stead: type) -> None:
        """Run the file, with its folder at the end of `sys.path`; what it prints goes to stderr.

        Args:
            path: The file.
            stead: The class of what counts as a stead of its own.

        Raises:
            PythonFileError: It cannot be read, it fails, or there is nothing in it to offer.
        """
        self.path = path.expanduser().absolute()
        self._stead = stead
        self._shown = escape_unseen(str(path))
        self._content = b""
        self._problems: tuple[Problem, ...] = ()
        self._registered: list[RegisteredTool] = []
        self._bad_tools: list[Problem] = []
        self.context_for: Callable[[str], PluginContext] = lambda name: PluginContext(name=name)
        self._run(self._read_content())

    async def look_again(self) -> None:
        """Run the file again if it changed. One that fails keeps what it offered; the reason is a problem."""
        try:
            content = await asyncio.to_thread(self._read_content)
            if content != self._content:
                await asyncio.to_thread(self._run, content)
                self._problems = ()
        except PythonFileError as error:
            if not self._problems or self._problems[0].message != str(error):
                logger.warning("%s; its last good tools stay", error)
            self._problems = (Problem(source=str(self.path), message=str(error)),)

    async def load(self) -> Offers:
        """The tools as they are now."""
        if self._registered:
            context = self.context_for(self.path.stem)
            for tool in self._registered:
                tool.context = context
        tools = [tool.as_stale() for tool in self._registered] if self._problems else self._registered
        return Offers(tools=tools, problems=[*self._problems, *self._bad_tools])

    def _define_tools(self, tools: Collection[Tool]) -> tuple[list[RegisteredTool], list[Problem]]:
        """Check each tool. In the place of a bad one stands its last good version, if there was one."""
        provenance = Provenance(source="plugin", origin=str(self.path), plugin_name=self.path.stem)
        context = PluginContext(name=self.path.stem)  # `load` gives them the real one
        before = {tool.info.name: tool for tool in self._registered}
        defined: dict[str, RegisteredTool] = {}
        lines: dict[str, int | None] = {}
        problems: list[Problem] = []
        for tool in tools:
            line = self._find_line(tool)
            try:
                registered = define_tool(tool, provenance, context)
                if tool.name in lines:
                    first = f" (the first is at line {lines[tool.name]})" if lines[tool.name] else ""
                    raise DefinitionError(
                        tool=tool.name, field="name", reason=f"a second tool is called {tool.name!r}{first}"
                    )
                defined[tool.name] = registered
                lines[tool.name] = line
            except DefinitionError as error:
                message = f"{error.field}: {error.reason}"
                problems.append(Problem(source=str(self.path), tool_name=error.tool, message=message, line=line))
                if error.tool in before and error.tool not in defined:
                    defined[error.tool] = before[error.tool].as_stale()
        return list(defined.values()), problems

    def _report_bad_tools(self, problems: Collection[Problem]) -> None:
        """Log what is wrong with single tools, unless the version before had the same fault."""
        known = {(problem.tool_name, problem.message) for problem in self._bad_tools}
        kept = {tool.info.name for tool in self._registered if tool.info.stale}
        for problem in problems:
            if (problem.tool_name, problem.message) not in known:
                line = f":{problem.line}" if problem.line else ""
                end = "; its last good version stays" if problem.tool_name in kept else "; it is not offered"
                logger.warning("%s%s: tool %r: %s%s", self._shown, line, problem.tool_name, problem.message, end)

    def _find_line(self, tool: Tool) -> int | None:
        """The line of a tool's function, where that stands in this file."""
        code = getattr(inspect.unwrap(tool.handler), "__code__", None)
        return code.co_firstlineno if code is not None and code.co_filename == str(self.path) else None

    def _read_content(self) -> bytes:
        try:
            if not self.path.is_file():
                what = "is no file" if self.path.exists() else "does not exist"
                raise PythonFileError(f"{self._shown} {what}; name a Python file, such as my_tools.py")
            if self.path.stat().st_size > LARGEST:
                raise PythonFileError(f"{self._shown} is larger than {LARGEST:,} bytes")
            return self.path.read_bytes()
        except OSError as error:
            raise PythonFileError(f"{self._shown} cannot be read: {error.strerror or error}") from error

    def _run(self, content: bytes) -> None:
        self._content = content
        try:
            module = self._execute(content)
            found = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.debug("%s failed", self._shown, exc_info=error)
            raise PythonFileError(f"{self._shown} cannot be served: {self._explain_failure(error)}") from error
        self._take(found)

    def _explain_failure(self, error: BaseException) -> str:
        """Why the file could not be run, and what to do where we know it."""
        reason = describe_crash(error, str(self.path))
        if isinstance(error, ToolsteadError):  # its text is a sentence of ours
            return reason.removeprefix(f"{type(error).__name__}: ")
        if isinstance(error, ModuleNotFoundError):
            return _explain_missing_module(error, reason)
        if isinstance(error, RuntimeError) and _STARTS_A_LOOP.search(reason):
            _close_coroutines(error.__traceback__)
            return (
                f"{self.path.name} starts a server or loop itself when it is imported{_find_place(reason)}: put that "
                'under `if __name__ == "__main__":`'
            )
        return reason

    def _execute(self, content: bytes) -> types.ModuleType:
        """Run the content in a new module.

        It is in `sys.modules`, where dataclasses and pickle look for it. The one from before stays there: its tools
        may be in calls.
        """
        shown = str(self.path)
        lines = content.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[shown] = (len(content), None, lines, shown)
        code = compile(content, shown, "exec", dont_inherit=True)
        module = types.ModuleType(f"{re.sub(r'[^0-9A-Za-z_]', '_', self.path.stem)}_{next(_numbers)}")
        module.__file__ = shown
        sys.modules[module.__name__] = module
        if (folder := str(self.path.parent)) not in sys.path:
            sys.path.append(folder)  # not first, as for a script: it must not hide what we import later
        with contextlib.redirect_stdout(sys.stderr), _refuse_loops():
            exec(code, module.__dict__)  # noqa: S102 - the user names the file to be run
        return module

    def _take(self, named: Mapping[str, Any]) -> None:
        """Take over what stands at the top level, each thing once."""
        found = list(named.values())
        for name, value in named.items():
            if (plain := _find_plain_function(name, value)) is not None:
                raise PythonFileError(
                    f"{self._shown} cannot be served: the list {name!r} has the plain function {plain!r} in it; put "
                    "@tool above its `def`"
                )
        steads = _distinct([value for value in found if isinstance(value, self._stead)])
        if len(steads) > 1:
            raise PythonFileError(f"{self._shown} has {len(steads)} Toolstead objects; keep one at the top level")
        plugins = _distinct([value for value in found if isinstance(value, Plugin)])
        of_plugins = {id(tool) for plugin in plugins for tool in plugin.tools}
        tools = _distinct([tool for value in found for tool in _list_tools(value)])
        own = [tool for tool in tools if id(tool) not in of_plugins]
        if not (steads or plugins or own):
            raise PythonFileError(
                f"{self._shown} has no tools: put @tool above a function, or make a Tool(…), a Plugin(…) or a "
                "Toolstead(…) at the top level"
            )
        registered, bad = ([], []) if steads else self._define_tools(own)
        if not (steads or plugins or registered):
            place = f" ({escape_unseen(str(self.path))}:{bad[0].line})" if bad[0].line else ""
            raise PythonFileError(f"{self._shown} cannot be served: tool {bad[0].tool_name!r}: {bad[0].message}{place}")
        self._registered = registered
        self._report_bad_tools(bad)
        self._bad_tools = bad
        self.tools, self.plugins = tuple(own), tuple(plugins)
        self.stead: Any = steads[0] if steads else None


class FileWatcher(PollingWatcher):
    """Polls a file while open, and reports a change once the file has been the same for two looks."""

    def __init__(self, path: Path, on_change: Callable[[], Awaitable[object]]) -> None:
        super().__init__(path.name, POLL_SECONDS)
        self._path = path
        self._on_change = on_change
        self._before = self._taken = read_stamp(path)

    async def check(self) -> None:
        """Check once."""
        stamp = await asyncio.to_thread(read_stamp, self._path)
        is_settled, self._before = stamp == self._before, stamp
        if is_settled and stamp != self._taken:
            self._taken = stamp
            await self._on_change()


@contextlib.contextmanager
def _refuse_loops() -> Generator[None]:
    """Let `asyncio.run` fail in this thread, as it does on the event loop: a reload would never end with a server."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - as event loops do
        yield
        return
    loop = asyncio.new_event_loop()
    asyncio._set_running_loop(loop)  # noqa: SLF001 - as event loops do; it is of this thread alone
    try:
        yield
    finally:
        asyncio._set_running_loop(None)  # noqa: SLF001 - as above
        loop.close()


def _explain_missing_module(error: ModuleNotFoundError, reason: str) -> str:
    """What to do where a file imports what this environment does not have."""
    from toolstead.adapters.installing import project_install_command

    module = error.name or ""
    package = module.partition(".")[0]
    if package == "fastmcp" or module.startswith("mcp.server."):
        return (
            f"ModuleNotFoundError: {module}{_find_place(reason)}: Toolstead takes the place of FastMCP: write `from "
            "toolstead import tool`, put @tool above each function, and leave out `FastMCP(…)` and its `run()`"
        )
    environment = f"{reason}; this toolstead runs in the environment {sys.prefix}"
    if package != module and find_spec(package) is not None:
        return f"{environment}, whose {package!r} has no such module"
    return (
        f"{environment}, which has no such module: install toolstead in the environment of your project "
        f"(`{project_install_command()}`), and run the `toolstead` in its bin folder"
    )


def _find_place(reason: str) -> str:
    """The place with which `describe_crash` ends, with its brackets."""
    return reason[reason.rfind(" (") :] if reason.endswith(")") else ""


def _close_coroutines(trace: TracebackType | None) -> None:
    """Close the coroutines of a failed `asyncio.run(main())`, which would be reported as never awaited."""
    for frame, _ in traceback.walk_tb(trace):
        for value in frame.f_locals.values():
            if inspect.iscoroutine(value):
                value.close()


def _list_tools(value: Any) -> list[Tool]:
    """A tool, or the tools of a list or tuple that has nothing else in it."""
    if isinstance(value, Tool):
        return [value]
    if isinstance(value, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return list(items) if all(isinstance(item, Tool) for item in items) else []
    return []


def _find_plain_function(name: str, value: Any) -> str | None:
    """The first function without `@tool` in a list of tools: one with a tool in it, or one that is called so."""
    if not isinstance(value, list | tuple):
        return None
    items = cast("list[Any] | tuple[Any, ...]", value)
    functions = [item.__name__ for item in items if inspect.isfunction(item)]
    is_meant = name == "tools" or any(isinstance(item, Tool) for item in items)
    return functions[0] if functions and is_meant else None


def _distinct(values: list[Any]) -> list[Any]:
    """Each object once, under whatever names it stands there."""
    return list({id(value): value for value in values}.values())
