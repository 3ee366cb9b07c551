"""Where tools come from: a source is a small protocol, and a list of them feeds the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from toolyard.plugins.contract import PluginContext, Tool
from toolyard.types.tool import Problem, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool that a source offers to the registry."""

    tool: Tool
    provenance: Provenance
    context: PluginContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Everything a source has right now, and what it had to set aside."""

    tools: Sequence[Offer] = ()
    problems: Sequence[Problem] = field(default=())


class ToolSource(Protocol):
    """A source of tools. Loading never raises for one bad tool: it reports it and goes on."""

    @property
    def name(self) -> str:
        """A name that is unique among the sources."""
        ...

    async def load(self) -> Offers:
        """Read the tools anew."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSource:
    """A source whose tools were decided when the process started: the built-in ones."""

    name: str
    offers: Sequence[Offer]

    async def load(self) -> Offers:
        """The same tools, always."""
        return Offers(tools=self.offers)
