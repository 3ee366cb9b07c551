"""What two servers said to the same conversation, side by side, and the differences that are meant."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.programs.clients import EVERY_WAY, Door, Era

_OUR_CALL_ID = re.compile(r"call_[0-9a-f]+_[0-9]+|crash_[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """A difference that stays.

    Attributes:
        why: In a line.
        fits: Whether this is it: what the fast path said, and what the SDK said instead.
        ways: Where it is to be found.
    """

    why: str
    fits: Callable[[str, str], bool]
    ways: frozenset[tuple[Door, Era]]


MEANT = (
    Meant(
        why="an answer nested more than 250 deep: the SDK's serializer gives up, the fast path says it",
        fits=lambda fast_path, sdk: (
            "[" * 250 in fast_path and _is_error(sdk, "depth exceeded", "Internal server error")
        ),
        ways=frozenset(EVERY_WAY),
    ),
    Meant(
        why="an answer that neither can say: the SDK repeats Python's own words and code 0, the fast path does not",
        fits=lambda fast_path, sdk: (
            _is_error(fast_path, "Internal server error") and _is_error(sdk, "recursion depth exceeded")
        ),
        ways=frozenset({("stdio", "handshake"), ("http", "handshake")}),
    ),
)
"""Every difference between the fast path and the SDK that is meant. There are no others."""


def _is_error(said: str, *texts: str) -> bool:
    return '"error": {' in said and any(text in said for text in texts)


def message_in(data: bytes) -> Any:
    """A message, which must be JSON as strict readers want it."""

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held = dict(pairs)
        assert len(held) == len(pairs), f"a key twice: {data[:500]!r}"
        return held

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON: {data[:500]!r}")

    return json.loads(data, object_pairs_hook=object_of, parse_constant=refuse)


def normal(message: Any) -> str:
    """A message as text that is equal for equal messages: 1, 1.0 and true differ, the order of keys does not.

    What is made anew by every server is the same here: the ids of calls and crashes, and of the server's own questions.
    """
    if isinstance(message, dict) and "method" in message and "id" in message:
        message = {**message, "id": "of the server"}
    return _OUR_CALL_ID.sub("call_id", json.dumps(message, sort_keys=True))


class Comparison:
    """Compares conversations of one way, and remembers which of the meant differences it has seen."""

    def __init__(self, door: Door, era: Era) -> None:
        self.unmeant: list[str] = []
        """Differences that nobody has explained."""
        self._allowed = {one for one in MEANT if (door, era) in one.ways}
        self._seen: set[Meant] = set()

    def compare(self, title: str, fast_path: Iterable[Any], sdk: Iterable[Any]) -> None:
        """Compare what was said, whatever the order. What answers the same id is compared as a pair."""
        left, right = Counter(map(normal, fast_path)), Counter(map(normal, sdk))
        pairs: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for side, only in enumerate((left - right, right - left)):
            for said in only.elements():
                pairs[_id_in(said)][side].append(said)
        for asked, (only_lane, only_sdk) in pairs.items():
            meant = self._meant(only_lane, only_sdk)
            if meant is not None:
                self._seen.add(meant)
            else:
                shown = [[said[:600] for said in only] for only in (only_lane, only_sdk)]
                self.unmeant.append(f"{title}, id {asked}: the fast path said {shown[0]}, the SDK {shown[1]}")

    def check(self) -> None:
        """Nothing differs but what is meant to."""
        assert not self.unmeant, "\n".join(self.unmeant[:10])

    def check_table(self) -> None:
        """Everything that is meant to differ does."""
        unneeded = [one.why for one in self._allowed - self._seen]
        assert not unneeded, f"these differences are gone, take them out of the table: {unneeded}"

    def _meant(self, only_lane: list[str], only_sdk: list[str]) -> Meant | None:
        if len(only_lane) != len(only_sdk):
            return None
        for one in self._allowed:
            if all(one.fits(fast_path, sdk) for fast_path, sdk in zip(only_lane, only_sdk, strict=True)):
                return one
        return None


def _id_in(said: str) -> str:
    message = json.loads(said)
    return json.dumps(message.get("id")) if isinstance(message, dict) else "none"
