"""Which conversation a person means, by its id or as the last one of the project; and who answers in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolstead.app.client import SteadClient
from toolstead.console.cli.columns import fit_text
from toolstead.errors import ServeError, ThreadChoiceError
from toolstead.nearest_names import suggest

KIND = "thread_"
"""What our own ids begin with; it may be left out."""
SHORTEST = 4
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
            if len(given) >= SHORTEST and len(prefix) > len(KIND):
                found[thread["id"]] = thread
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        lines = "".join(f"\n  {describe_thread(thread)}" for thread in list(found.values())[:_MOST_NAMED])
        more = "\n  …" if len(found) > _MOST_NAMED else ""
        raise ThreadChoiceError(f"{given!r} is the beginning of several threads; give more of one:{lines}{more}")
    if 0 < len(given.removeprefix(KIND)) < SHORTEST:
        raise ThreadChoiceError(
            f"no thread {given!r}; the beginning of an id needs at least {SHORTEST} characters:"
            " `toolstead threads list` shows them"
        )
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


def shorten_id(id: str, others: Sequence[str], kind: str = KIND) -> str:
    """As much of one of our ids of a kind as tells it from others; any other id whole."""
    if not id.startswith(kind):
        return id
    for length in range(len(kind) + _USUAL, len(id)):
        if sum(other.startswith(id[:length]) for other in others) <= 1:
            return id[len(kind) : length]
    return id


def describe_thread(thread: dict[str, Any]) -> str:
    """A thread on a line: its id and its title."""
    return f"{thread['id']}  {fit_text(thread['title'] or '(no title)', _TITLE)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """Who would answer the next message.

    Attributes:
        agent: The agent.
        runtime: What drives the model; None when nothing can.
        model: The model; empty where the runtime has its own choice.
        why: Why this model or this runtime; or what is missing. Empty where a setting names it.
        agent_why: Why this agent.
        wanted: What is named of agent, model and runtime, as asking says it.
    """

    agent: str
    runtime: str | None
    model: str
    why: str
    agent_why: str
    wanted: Mapping[str, str]


async def find_answerer(client: SteadClient, options: Mapping[str, Any], thread_id: str | None) -> Answerer:
    """Who answers: what the options name comes first, then the conversation, the agent's file, and the settings."""
    listed = await client.list_threads(1, prefix=thread_id) if thread_id else []
    thread: Mapping[str, Any] = listed[0] if listed else {}
    try:
        agents = {agent["name"]: agent for agent in await client.list_agents()}
    except ServeError:  # a token of a profile may not read them
        agents = {}
    here, usual = "this conversation's", await client.describe_state()
    named = options["agent"] or thread.get("agent") or ""
    agent = named or str(usual.get("agent") or "main")
    agent_why = ("named here" if options["agent"] else f"{here} agent") if named else "runtime.agent"
    own = agents.get(agent, {})
    ways = (
        (options["model"], "named here"),
        (thread.get("model"), f"{here} model"),
        (own.get("model"), f"the model of agent {agent}"),
    )
    model, why = next((way for way in ways if way[0]), ("", ""))
    state = await client.describe_state(model) if model else usual
    runtime = options["runtime"] or thread.get("runtime") or own.get("runtime")
    wanted = {
        "agent": named,
        "model": options["model"] or thread.get("model") or "",
        "runtime": options["runtime"] or thread.get("runtime") or "",
    }
    if runtime:
        shown = model or (str(state.get("model") or "") if runtime == "kernel" else "")
        return Answerer(agent=agent, runtime=runtime, model=shown, why=why, agent_why=agent_why, wanted=wanted)
    reason = str(state.get("runtimeReason") or "")
    if state.get("runtime") is not None:
        reason = why or reason
    return Answerer(
        agent=agent,
        runtime=state.get("runtime"),
        model=str(state.get("model") or model),
        why=reason,
        agent_why=agent_why,
        wanted=wanted,
    )
