"""Where tools come from: a source is a small protocol, and a list of them feeds the registry."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from toolstead.plugins.contract import PluginContext, Tool
from toolstead.tools.definition import RegisteredTool
from toolstead.types.tool import Problem, Provenance


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a source offers to the registry."""

    tool: Tool
    provenance: Provenance
    context: PluginContext


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a source has right now, and what it quarantined.

    A source may hand over tools that it has checked and compiled itself; the same object again
    means that nothing changed, and costs nothing.
    """

    tools: Sequence[Offer | RegisteredTool] = ()
    problems: Sequence[Problem] = ()


class ToolSource(Protocol):
    """A source of tools. Loading never raises for one bad tool: it reports it and goes on."""

    @property
    def name(self) -> str:
        """A name that is unique among the sources."""
        ...

    async def load(self) -> Offers:
        """Read the tools anew."""
        ...


class SourceChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What changed in a source since the last look, and everything it now quarantines."""

    gone: Sequence[RegisteredTool] = ()
    fresh: Sequence[RegisteredTool] = ()
    problems: Sequence[Problem] = ()


class RefreshingSource(ToolSource, Protocol):
    """A source that can report what changed, at less cost than loading everything again."""

    async def refresh(self, paths: Collection[Path] | None = None) -> SourceChanges:
        """Report what changed since the last look.

        Args:
            paths: A hint: only these files may have changed. None when unknown, or when the source has no files.
        """
        ...


class FixedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source whose tools were decided when the process started: the built-in ones."""

    name: str
    offers: Sequence[Offer]

    async def load(self) -> Offers:
        """The same tools, always."""
        return Offers(tools=self.offers)
