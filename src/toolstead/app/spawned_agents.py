"""The spawned agents that a stead knows: those that models gave as markdown, until their tasks have ended.

Nothing of this is stored: a task keeps its markdown, and any process makes the same agent of it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolstead.app.agent_parts import AgentParts
    from toolstead.types.agent import Agent

MOST_SPAWNED = 1_000

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class SpawnedAgent:
    """One of them.

    Attributes:
        name: The name that it runs under.
        task_id: The task that it works on.
        parent: The agent that gave it, by the name that it runs under.
        digest: What changes when the markdown does.
        root: The agent of a file that it is below, at whatever depth.
        given: What its markdown says, after that of each spawned agent above it, from the top.
        parts: What was made of it.
    """

    name: str
    task_id: str
    parent: str
    digest: bytes
    root: str
    given: tuple[Agent, ...]
    parts: AgentParts


class SpawnedAgents:
    """Keeps them: one for each task, and of very many the last ones."""

    def __init__(self) -> None:
        self._by_task: dict[str, SpawnedAgent] = {}
        self._by_name: dict[str, SpawnedAgent] = {}

    def __iter__(self) -> Iterator[SpawnedAgent]:
        return iter(self._by_name.values())

    def find_name(self, name: str) -> SpawnedAgent | None:
        """The one that runs under a name."""
        return self._by_name.get(name)

    def find_same(self, task_id: str, parent: str, digest: bytes) -> SpawnedAgent | None:
        """The one that was made of just this."""
        found = self._by_task.get(task_id)
        return found if found is not None and (found.parent, found.digest) == (parent, digest) else None

    def add(self, spawned: SpawnedAgent) -> list[SpawnedAgent]:
        """Keep one; those that it takes the place of are returned."""
        gone = [one for one in (self._by_task.get(spawned.task_id), self._by_name.get(spawned.name)) if one is not None]
        for one in gone:
            self.remove(one)
        if len(self._by_name) >= MOST_SPAWNED:
            oldest = next(iter(self))
            logger.warning("more than %s spawned agents: %s is forgotten, and sees no tools", MOST_SPAWNED, oldest.name)
            self.remove(oldest)
            gone.append(oldest)
        self._by_task[spawned.task_id] = self._by_name[spawned.name] = spawned
        return gone

    def remove(self, spawned: SpawnedAgent) -> None:
        """Forget one."""
        self._by_task.pop(spawned.task_id, None)
        self._by_name.pop(spawned.name, None)


def digest_markdown(markdown: str) -> bytes:
    """What changes when a markdown does."""
    return blake2b(markdown.encode("utf-8", "surrogatepass"), digest_size=16).digest()
