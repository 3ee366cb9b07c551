"""How a runtime shows to its model what we gave it: read from captured requests, in our own words.

Each runtime spells, orders and wraps things in its own way; a promise is the same for all of them. What differs is
said here and in the stage of each program, so that a test need not ask which runtime it is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.e2e import captured
from toolstead.testing import Captured


class View:
    """The kernel's: everything as it is.

    Attributes:
        own: The tools that the runtime offers besides ours.
        interrupted: What the model may read in place of the result of a call that was interrupted.
        reloads_within_a_turn: Whether a turn that runs is offered what a reload brings, or only the next one.
        knows_prices: Whether a run says what it cost.
    """

    own: frozenset[str] = frozenset()
    interrupted: tuple[str, ...] = ("interrupted",)
    reloads_within_a_turn = True
    knows_prices = True

    def spelled(self, name: str) -> str:
        """The name of one of our tools, as the model reads it."""
        return name

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Names of our tools in the order in which they are offered."""
        return list(names)

    def offered(self, request: Captured) -> dict[str, dict[str, Any]]:
        """Our tools: the name of each, as the model reads it → the schema that arrived."""
        return captured.tools_of(request)

    def own_in(self, request: Captured) -> set[str]:
        """The tools of the runtime's own."""
        return set()

    def results(self, request: Captured) -> list[str]:
        """The texts of all results, in the order of the calls."""
        return captured.results_of(request)

    def spoken(self, request: Captured) -> list[str]:
        """What was said in the name of the user, in order."""
        return captured.user_texts(request)

    def instructions(self, request: Captured) -> str:
        """What the model is told before anybody speaks."""
        return captured.instructions_of(request)

    def plain(self, text: str | None) -> str:
        """An answer that repeats a result, without what the runtime wrote around that."""
        return text or ""

    def called(self, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What was told of some calls, in the model's order."""
        return list(events)

    def call_ids(self, request: Captured) -> list[str]:
        """The ids of all calls of the model, in order."""
        return captured.call_ids(request)

    def used(self, events: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Tokens in and out, from what was told of them in one turn."""
        return sum(data["inputTokens"] for data in events), sum(data["outputTokens"] for data in events)
