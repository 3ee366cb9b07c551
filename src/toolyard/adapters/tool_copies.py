"""Tools as somebody else is told of them: each copy made once, and the log says once what differs in it.

The canonical schema stays what arguments are validated against; whoever would refuse it, or drop a part of it, gets a
copy. Above: the adapters that show tools to models, each with its own way to make a copy. Below: the words.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from toolyard.types.tool import ToolInfo

logger = logging.getLogger(__name__)

MOST_SETS = 64
MOST_TOOLS = 4096

Copy = TypeVar("Copy")
Make = Callable[[ToolInfo], tuple[Copy, tuple[str, ...]]]
"""Makes the copy of a tool, and says what differs from the original."""


class ToolCopies(Generic[Copy]):
    """The copies for one reader, kept as long as they are asked for."""

    def __init__(self, make: Make[Copy], reader: str) -> None:
        """Make copies for a reader.

        Args:
            make: Makes one.
            reader: Whom they go to, for the log.
        """
        self._make = make
        self._reader = reader
        # By identity, with the object itself beside its copy, so that no other one can have the same identity.
        self._sets: OrderedDict[int, tuple[Sequence[ToolInfo], list[Copy]]] = OrderedDict()
        self._tools: OrderedDict[int, tuple[ToolInfo, Copy]] = OrderedDict()
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    def of(self, tools: Sequence[ToolInfo]) -> list[Copy]:
        """The copies of some tools, in their order; the same list for the same sequence."""
        kept = self._sets.get(id(tools))
        if kept is not None:
            self._sets.move_to_end(id(tools))
            return kept[1]
        made = [self._one(tool) for tool in tools]
        self._sets[id(tools)] = (tools, made)
        if len(self._sets) > MOST_SETS:
            self._sets.popitem(last=False)
        return made

    def _one(self, tool: ToolInfo) -> Copy:
        kept = self._tools.get(id(tool))
        if kept is not None:
            self._tools.move_to_end(id(tool))
            return kept[1]
        made, changes = self._make(tool)
        if changes:
            self._tell(tool.name, changes)
        self._tools[id(tool)] = (tool, made)
        if len(self._tools) > MOST_TOOLS:
            self._tools.popitem(last=False)
        return made

    def _tell(self, name: str, changes: tuple[str, ...]) -> None:
        if (name, changes) in self._told:
            return
        if len(self._told) >= MOST_TOOLS:
            self._told.clear()
        self._told.add((name, changes))
        logger.info("the schema of %r goes to %s adapted: %s", name, self._reader, "; ".join(changes))
