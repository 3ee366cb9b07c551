"""Work that is to be delegated, as a call asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from toolstead.delegation.run_context import RunContext
from toolstead.types.call import Caller


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is to be delegated.

    Attributes:
        agent: Who is to do it.
        prompt: What is to be done.
        context: What else the sub-agent should know: `hints` and anything else.
        cwd: The folder to work in, relative to the project.
        model: Instead of the agent's own.
        runtime: Instead of the agent's own.
        max_attempts: Attempts, the first included.
        definition: The markdown of an agent that the call defines.
        thread_id: A conversation of an earlier task that goes on.
        seconds: How long it may take; the agent's own limit unless given, and never longer.
        task_id: The id that the task gets; a new one unless given.
        is_capped: Whether it counts against the slots of its agent.
    """

    agent: str
    prompt: str
    context: Mapping[str, Any] | None = None
    cwd: str | None = None
    model: str = ""
    runtime: str = ""
    max_attempts: int = 5
    definition: str = ""
    thread_id: str | None = None
    seconds: float | None = None
    task_id: str | None = None
    is_capped: bool = True


def name_order(order: Order, context: RunContext, caller: Caller, number: int) -> str:
    """Equal for two calls that mean the same task: the same order at the same place of the same turn."""
    # The name of an agent that the call defines has the task's id in it, which another process would not repeat.
    agent = "" if order.definition else order.agent
    about = [agent, order.prompt, order.context, order.cwd, order.model, order.definition, order.thread_id]
    digest = blake2b(msgspec.json.encode(about, order="sorted"), digest_size=16).hexdigest()
    call_id = None if caller.call_id is None else f"{caller.call_id}.{number}"
    place = context.run.id if context.claim is None else f"{context.claim.task_id}.{context.turn}"
    return f"{place}.{digest}.{context.number_call(digest, call_id)}"
