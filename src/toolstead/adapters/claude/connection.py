"""One connection to the program through the SDK: what it can be told, and what it says.

The SDK raises bare exceptions for much of what can happen; here they become one error that says why.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, Message

from toolstead.adapters.claude.launch import Launch
from toolstead.adapters.claude.names import SERVER
from toolstead.adapters.claude.process import ClaudeProcess
from toolstead.types.content import whole_text

logger = logging.getLogger(__name__)

_A_DAY = 86_400.0
"""Seconds that a hook of ours may take: a person may have to decide."""

_BLANK_TO_IT = "\ufeff"
"""A byte order mark, which counts as a space in JavaScript."""

_T = TypeVar("_T")
Hook = Callable[[Any, str | None, Any], Awaitable[Any]]


class BrokenError(Exception):
    """The program cannot be spoken to; the text says why."""


class ClaudeConnection:
    """Speaks with one program."""

    def __init__(self, launch: Launch, *, server: Any, before_own: Hook, after_batch: Hook) -> None:
        """Prepare to start it.

        Args:
            launch: What to start.
            server: Our tools.
            before_own: Asked before a tool is used.
            after_batch: Called when all calls of a reply are done, before the model is asked again.
        """
        self._process = ClaudeProcess(launch)
        hooks: dict[Any, list[HookMatcher]] = {
            "PreToolUse": [HookMatcher(hooks=[before_own], timeout=_A_DAY, on_failure="block")],
            "PostToolBatch": [HookMatcher(hooks=[after_batch], timeout=_A_DAY)],
        }
        options = ClaudeAgentOptions(
            mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}},
            hooks=hooks,
            skills=[],
            verbatim_prompts=True,  # no `/command` and no `@file` in what somebody wrote
            # The launch names the prompt; this says that a conversation does not keep its first one, nor its tools.
            system_prompt={"type": "custom", "prompt": "", "snapshot": False},
            env=dict(launch.environment),
        )
        self._client = ClaudeSDKClient(options, transport=self._process)

    @property
    def is_alive(self) -> bool:
        """Whether the program runs."""
        return self._process.is_alive

    @property
    def pid(self) -> int | None:
        """The program's number."""
        return self._process.pid

    async def open(self) -> None:
        """Start the program, and wait until it listens."""
        await _raise_foreseen(self._client.connect())

    @staticmethod
    def new_id() -> str:
        """An id for a message; the program repeats it when it takes the message up."""
        return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))

    async def send_message(self, id: str, text: str) -> None:
        """Give it a message."""

        async def message_stream() -> AsyncIterator[dict[str, Any]]:
            spoken = {"role": "user", "content": _message_text(text)}
            yield {"type": "user", "message": spoken, "parent_tool_use_id": None, "uuid": id}

        await _raise_foreseen(self._client.query(message_stream()))

    async def interrupt_turn(self) -> None:
        """Have it stop what it does."""
        await _raise_foreseen(self._client.interrupt())

    async def list_tools_again(self) -> None:
        """Have it ask for our tools again; no call may be running."""
        await _raise_foreseen(self._client.toggle_mcp_server(SERVER, enabled=False))
        await _raise_foreseen(self._client.toggle_mcp_server(SERVER, enabled=True))

    async def use_model(self, name: str) -> None:
        """Have it ask another model from now on; an empty name means its own choice."""
        await _raise_foreseen(self._client.set_model(name or None))

    async def read_messages(self) -> AsyncIterator[Message]:
        """What it says, until it ends."""
        try:
            async for message in self._client.receive_messages():
                yield message
        except Exception as error:
            raise _broken_error(error) from error

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def close(self) -> None:
        """End it and all that it started."""
        try:
            await _raise_foreseen(self._client.disconnect())
        except BrokenError as error:
            logger.warning("claude %s was not left properly: %s", self.pid, error)
        finally:
            await self._process.close()


def _message_text(text: str) -> str:
    """A message as it is given. A blank one would be passed over without a word; an empty one is told as empty."""
    return whole_text(text) if text.replace(_BLANK_TO_IT, "").strip() else ""


async def _raise_foreseen(work: Awaitable[_T]) -> _T:
    try:
        return await work
    except asyncio.CancelledError:
        raise
    except Exception as error:
        raise _broken_error(error) from error


def _broken_error(error: Exception) -> BrokenError:
    return BrokenError(str(error).strip() or type(error).__name__)
