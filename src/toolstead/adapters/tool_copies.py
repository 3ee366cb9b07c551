"""Copies of tools for a reader with other rules: each is made once, and the log names once what differs in it.

Arguments are validated against the canonical schema. A reader that would refuse it, or drop a part of it, gets a copy.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

MOST_SETS = 64
MOST_TOOLS = 4096
"""Tools of which copies are kept, but for those of the set that was asked for last."""

Copy = TypeVar("Copy")
Make = Callable[[ToolInfo], tuple[Copy, tuple[str, ...]]]
"""Makes the copy of a tool, and says what differs from the original."""


@dataclass(slots=True)
class _KeptCopy(Generic[Copy]):
    """A copy, and in how many sets it is."""

    tool: ToolInfo
    copy: Copy
    changes: tuple[str, ...] = ()
    sets: int = 0


@dataclass(slots=True)
class _KeptSet(Generic[Copy]):
    """The copies for a sequence of tools, and what differs in them."""

    tools: Sequence[ToolInfo]
    held: list[_KeptCopy[Copy]]
    made: list[Copy]
    changes: Mapping[str, tuple[str, ...]]


class ToolCopies(Generic[Copy]):
    """The copies for one reader: those of the sets that were asked for last, and no copy of a tool in none of them."""

    def __init__(self, make: Make[Copy], reader: str) -> None:
        """Make copies for a reader.

        Args:
            make: Makes one.
            reader: Whom they go to, for the log.
        """
        self._make = make
        self._reader = reader
        # By identity, with the object itself beside its copy, so that no other one can have the same identity.
        self._sets: OrderedDict[int, _KeptSet[Copy]] = OrderedDict()
        self._tools: dict[int, _KeptCopy[Copy]] = {}
        self._logged: set[tuple[str, tuple[str, ...]]] = set()

    def copies_of(self, tools: Sequence[ToolInfo]) -> list[Copy]:
        """The copies of some tools, in their order; the same list for the same sequence."""
        kept = self._sets.get(id(tools))
        if kept is not None:
            self._sets.move_to_end(id(tools))
            return kept.made
        held = [self._copy_of(tool) for tool in tools]
        for one in held:  # not before all are made: where one cannot be, nothing is kept
            one.sets += 1
            self._tools[id(one.tool)] = one
        made = [one.copy for one in held]
        changes = {one.tool.name: one.changes for one in held if one.changes}
        self._sets[id(tools)] = _KeptSet(tools, held, made, changes)
        while len(self._sets) > MOST_SETS or (len(self._tools) > MOST_TOOLS and len(self._sets) > 1):
            _, dropped = self._sets.popitem(last=False)
            for one in dropped.held:
                one.sets -= 1
                if not one.sets:
                    self._tools.pop(id(one.tool), None)
        return made

    def find_changes(self, tools: Sequence[ToolInfo]) -> Mapping[str, tuple[str, ...]]:
        """What differs in the copies of some tools, by name; of the sequence that `copies_of` was given last."""
        kept = self._sets.get(id(tools))
        return {} if kept is None else kept.changes

    def _copy_of(self, tool: ToolInfo) -> _KeptCopy[Copy]:
        kept = self._tools.get(id(tool))
        if kept is not None:
            return kept
        copy, changes = self._make(tool)
        if changes and (tool.name, changes) not in self._logged:
            if len(self._logged) >= MOST_TOOLS:
                self._logged.clear()
            self._logged.add((tool.name, changes))
            logger.info("the schema of %r goes to %s adapted: %s", tool.name, self._reader, "; ".join(changes))
        return _KeptCopy(tool, copy, changes)
