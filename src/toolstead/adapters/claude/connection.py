"""One connection to the program through the SDK: requests to it, and its messages.

The SDK raises bare exceptions in many cases; here they become one error with the reason.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, Message

from toolstead.adapters.claude.launch import SERVER, Launch
from toolstead.adapters.claude.process import ClaudeProcess
from toolstead.types.content import whole_text

logger = logging.getLogger(__name__)

_A_DAY = 86_400.0
"""Seconds that our hooks may take: a person may have to decide."""

_BLANK_TO_IT = "\ufeff"
"""A byte order mark, which counts as a space in JavaScript."""

Hook = Callable[[Any, str | None, Any], Awaitable[Any]]


class BrokenError(Exception):
    """The connection to the program failed; the text says why."""


class ClaudeConnection:
    """A connection to one program.

    Attributes:
        process: The program.
    """

    def __init__(self, launch: Launch, *, server: Any, before_own: Hook, after_batch: Hook) -> None:
        """Prepare to start it.

        Args:
            launch: What to start.
            server: Our tools.
            before_own: Called before a tool is used.
            after_batch: Called when all calls of a reply are done, before the next model request.
        """
        self.process = ClaudeProcess(launch)
        hooks: dict[Any, list[HookMatcher]] = {
            "PreToolUse": [HookMatcher(hooks=[before_own], timeout=_A_DAY, on_failure="block")],
            "PostToolBatch": [HookMatcher(hooks=[after_batch], timeout=_A_DAY)],
        }
        options = ClaudeAgentOptions(
            mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}},
            hooks=hooks,
            skills=[],
            verbatim_prompts=True,  # `/command` and `@file` in a prompt are plain text
            # The launch names the prompt; with this a resumed conversation does not keep its first prompt and tools.
            system_prompt={"type": "custom", "prompt": "", "snapshot": False},
            env=dict(launch.environment),
        )
        self._client = ClaudeSDKClient(options, transport=self.process)

    async def open(self) -> None:
        """Start the program, and wait until it listens."""
        await _wrap_errors(self._client.connect())

    @staticmethod
    def new_id() -> str:
        """An id for a message; the program repeats it when it processes the message."""
        return str(uuid.uuid4())

    async def send_message(self, id: str, text: str) -> None:
        """Send it a message."""

        async def message_stream() -> AsyncIterator[dict[str, Any]]:
            message = {"role": "user", "content": _message_text(text)}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": id}

        await _wrap_errors(self._client.query(message_stream()))

    async def interrupt_turn(self) -> None:
        """Interrupt it."""
        await _wrap_errors(self._client.interrupt())

    async def list_tools_again(self) -> None:
        """Make the program list our tools again; no call may be running."""
        await _wrap_errors(self._client.toggle_mcp_server(SERVER, enabled=False))
        await _wrap_errors(self._client.toggle_mcp_server(SERVER, enabled=True))

    async def use_model(self, name: str) -> None:
        """Switch the model; an empty name means the program's default."""
        await _wrap_errors(self._client.set_model(name or None))

    async def read_messages(self) -> AsyncIterator[Message]:
        """Yield its messages until it ends."""
        try:
            async for message in self._client.receive_messages():
                yield message
        except Exception as error:
            raise _broken_error(error) from error

    async def close(self) -> None:
        """End it and its child processes."""
        try:
            await _wrap_errors(self._client.disconnect())
        except BrokenError as error:
            logger.warning("claude %s was not closed cleanly: %s", self.process.pid, error)
        finally:
            await self.process.close()


def _message_text(text: str) -> str:
    """Prepare a message. The program silently ignores blank ones, so an empty one is marked as empty."""
    return whole_text(text) if text.replace(_BLANK_TO_IT, "").strip() else ""


async def _wrap_errors(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception as error:
        raise _broken_error(error) from error


def _broken_error(error: Exception) -> BrokenError:
    return BrokenError(str(error).strip() or type(error).__name__)
