"""The least an agent can be: ask, validate, call, keep what was said, until there is nothing to call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema_rs

from benchmarks import agent_work as work

Message = tuple[str, Any]


async def answer(messages: list[Message]) -> Message:
    """The scripted model."""
    await work.pause()
    done, last = (len(messages) - 1) // 2, messages[-1][1]
    arguments = work.next_call(done, last)
    return ("said", work.last_sentence(last)) if arguments is None else ("called", arguments)


@asynccontextmanager
async def agent() -> AsyncGenerator[work.Run]:
    is_valid = jsonschema_rs.validator_for(work.ADD_SCHEMA).is_valid

    async def run() -> str:
        messages: list[Message] = [("user", work.PROMPT)]
        while True:
            reply = await answer(messages)
            messages.append(reply)
            kind, value = reply
            if kind == "said":
                return value
            result = str(await work.add(**value)) if is_valid(value) else "invalid arguments"
            messages.append(("tool", result))

    yield run


if __name__ == "__main__":
    asyncio.run(work.measure(agent))
