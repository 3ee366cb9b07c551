"""A source of tools that a test decides, and short ways to look at a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.registry import Registry
from toolstead.tools.sources import Offer, Offers
from toolstead.types.tool import Problem, Provenance, Source


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "ok"


def tool(name: str, **fields: Any) -> Tool:
    return Tool(**{"name": name, "description": "A tool.", "handler": handler, **fields})


def offer(name: str, origin: str, source: Source = "plugin", **fields: Any) -> Offer:
    owner = origin.removesuffix(".json") if source == "plugin" else None
    provenance = Provenance(source=source, origin=origin, plugin_name=owner)
    return Offer(tool=tool(name, **fields), provenance=provenance, context=PluginContext(name=origin))


class Shelf:
    """A source whose tools the test decides, and whose reading it can hold up or break."""

    def __init__(self, name: str, *tools: str, source: Source = "plugin") -> None:
        self.name = name
        self.kind: Source = source
        self.error: Exception | None = None
        self.problems: list[Problem] = []
        self.reading = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.reads = 0
        self.put(*tools)

    def put(self, *tools: str | Offer) -> None:
        self.offers = [one if isinstance(one, Offer) else offer(one, self.name, self.kind) for one in tools]

    async def load(self) -> Offers:
        self.reads += 1
        self.reading.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return Offers(tools=list(self.offers), problems=self.problems)


def names(registry: Registry) -> list[str]:
    return list(registry.current.tools)


def holder(registry: Registry, name: str) -> str:
    return registry.current.held[name].info.provenance.origin


def problems(registry: Registry) -> list[tuple[str, str | None, str]]:
    return [(one.source, one.tool_name, one.message) for one in registry.current.problems]


def held_by(who: str) -> str:
    return f"name: the name is already held by {who}; choose another, or remove that one first"


def hidden(registry: Registry) -> Mapping[str, str]:
    return registry.current.hidden
