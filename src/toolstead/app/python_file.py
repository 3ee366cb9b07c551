"""A Python file that is served by its name: `toolstead mcp my_tools.py`.

What stands at its top level is offered: tools, lists of them, plugins, or a `Toolstead` of its own. While a stead is
open the file is polled, and run again when it changed; one that became bad keeps its last good tools, as stale ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import linecache
import logging
import re
import sys
import types
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
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
        self._read: tuple[Tool, ...] | None = None
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
        if self._read is not self.tools:
            self._read = self.tools
            self._registered = list(self._define_tools())
        tools = [tool.as_stale() for tool in self._registered] if self._problems else self._registered
        return Offers(tools=tools, problems=[*self._problems, *self._bad_tools])

    def _define_tools(self) -> Iterator[RegisteredTool]:
        self._bad_tools: list[Problem] = []
        provenance = Provenance(source="plugin", origin=str(self.path), plugin_name=self.path.stem)
        context = self.context_for(self.path.stem)
        for tool in self.tools:
            try:
                yield define_tool(tool, provenance, context)
            except DefinitionError as error:
                logger.warning("%s: %s", self._shown, error)
                self._bad_tools.append(
                    Problem(source=str(self.path), tool_name=error.tool, message=f"{error.field}: {error.reason}")
                )

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
            found = [value for name, value in vars(self._execute(content)).items() if not name.startswith("_")]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.debug("%s failed", self._shown, exc_info=error)
            reason = describe_crash(error, str(self.path))
            if isinstance(error, ToolsteadError):  # its text is a sentence of ours
                reason = reason.removeprefix(f"{type(error).__name__}: ")
            raise PythonFileError(f"{self._shown} cannot be served: {reason}") from error
        self._take(found)

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
        with contextlib.redirect_stdout(sys.stderr):
            exec(code, module.__dict__)  # noqa: S102 - the user names the file to be run
        return module

    def _take(self, found: Collection[Any]) -> None:
        """Take over what stands at the top level, each thing once."""
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


def _list_tools(value: Any) -> list[Tool]:
    """A tool, or the tools of a list or tuple that has nothing else in it."""
    if isinstance(value, Tool):
        return [value]
    if isinstance(value, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return list(items) if all(isinstance(item, Tool) for item in items) else []
    return []


def _distinct(values: list[Any]) -> list[Any]:
    """Each object once, under whatever names it stands there."""
    return list({id(value): value for value in values}.values())
