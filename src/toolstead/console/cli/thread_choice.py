"""Which conversation a person means: by its id, by the beginning of it, or the last one of the project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolstead.app.client import SteadClient
from toolstead.console.cli.columns import fit_text
from toolstead.errors import ThreadChoiceError
from toolstead.nearest_names import suggest

KIND = "thread_"
"""What our own ids begin with; it may be left out."""
_SHORTEST = 4
"""Characters that the beginning of an id needs: fewer are a slip more often than a choice."""
_USUAL = 13
"""Digits of an id that say when it was made, which is hardly ever the same."""
_MOST_NAMED = 5
_MOST_COMPARED = 200
_TITLE = 40


async def find_thread(client: SteadClient, given: str) -> dict[str, Any]:
    """The conversation of an id, or the one whose id begins so.

    Raises:
        ThreadChoiceError: There is none, or there are several.
    """
    found: dict[str, dict[str, Any]] = {}
    for prefix in (given, f"{KIND}{given}"):
        for thread in await client.list_threads(_MOST_NAMED + 1, prefix=prefix) if given else ():
            if thread["id"] == prefix:
                return thread
            if len(given) >= _SHORTEST and len(prefix) > len(KIND):
                found[thread["id"]] = thread
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        lines = "".join(f"\n  {describe_thread(thread)}" for thread in list(found.values())[:_MOST_NAMED])
        more = "\n  …" if len(found) > _MOST_NAMED else ""
        raise ThreadChoiceError(f"{given!r} is the beginning of several threads; give more of one:{lines}{more}")
    known = [thread["id"] for thread in await client.list_threads(_MOST_COMPARED, own=True)]
    hint = suggest(
        given,
        [*known, *(one.removeprefix(KIND) for one in known)],
        otherwise="`toolstead threads list` shows those of this project",
    )
    raise ThreadChoiceError(f"no thread {given!r}; {hint}")


async def find_last_thread(client: SteadClient) -> dict[str, Any]:
    """The conversation of this project that was used last.

    Raises:
        ThreadChoiceError: There is none yet.
    """
    found = await client.list_threads(1, own=True, roots=True)
    if not found:
        raise ThreadChoiceError("there is no conversation of this project yet; `toolstead ask` begins one")
    return found[0]


def shorten_id(id: str, others: Sequence[str]) -> str:
    """As much of one of our ids as tells it from others; any other id whole."""
    if not id.startswith(KIND):
        return id
    for length in range(len(KIND) + _USUAL, len(id)):
        if sum(other.startswith(id[:length]) for other in others) <= 1:
            return id[len(KIND) : length]
    return id


def describe_thread(thread: dict[str, Any]) -> str:
    """A thread on a line: its id and its title."""
    return f"{thread['id']}  {fit_text(thread['title'] or '(no title)', _TITLE)}"
