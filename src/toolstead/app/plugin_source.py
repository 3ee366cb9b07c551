"""The tools of the plugins that run, as a source for the registry; each tool is checked once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.errors import DefinitionError
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.sources import Offers, SourceChanges
from toolstead.types.tool import Problem, Provenance

if TYPE_CHECKING:
    from toolstead.plugins.host import PluginHost, PluginTool

logger = logging.getLogger(__name__)


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
        before = {id(tool): tool for tool in self._list_tools()}
        self._define_tools()
        after = {id(tool): tool for tool in self._list_tools()}
        return SourceChanges(
            gone=[tool for key, tool in before.items() if key not in after],
            fresh=[tool for key, tool in after.items() if key not in before],
            problems=self._list_problems(),
        )

    def _define_tools(self) -> None:
        before, self._defined = self._defined, {}
        for offered in self._host.list_tools():
            known = before.get(id(offered))
            self._defined[id(offered)] = known if known is not None else (offered, _define_tool(offered))

    def _list_tools(self) -> list[RegisteredTool]:
        return [defined for _, defined in self._defined.values() if isinstance(defined, RegisteredTool)]

    def _list_problems(self) -> list[Problem]:
        bad = [defined for _, defined in self._defined.values() if isinstance(defined, Problem)]
        failed = [
            Problem(source=view.origin, message=f"plugin {view.name!r}: {view.error}")
            for view in self._host.list_plugins()
            if view.state == "failed" and view.error
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
        message = f"plugin {offered.plugin!r}: {error.field}: {error.reason}"
        return Problem(source=offered.origin, tool_name=error.tool, message=message)
