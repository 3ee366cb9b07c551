"""One conversation with Claude Code: implements the session port over one process.

A separate task reads the program's messages and passes them to the running turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mcp_types
from claude_agent_sdk import Message, SystemMessage, UserMessage

from toolstead.adapters.claude.connection import BrokenError, ClaudeConnection
from toolstead.adapters.claude.launch import SPAWNING, Launch, model_name
from toolstead.adapters.claude.own_gate import OwnGate
from toolstead.adapters.claude.tools_server import ToolsServer
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.adapters.claude.usage import ClaudeUsage
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.errors import InvocationError, RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, fingerprint
from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

STOPPING = 4.0
"""Seconds that the program may take to stop a turn; less than the invoker waits for a cancelled turn."""


class ClaudeSession:
    """Runs the turns of one conversation in one process.

    Attributes:
        id: The conversation's id; None as long as there is nothing to resume.
        is_resumed: Whether it was opened with an earlier conversation in it.
    """

    def __init__(
        self,
        launch: Launch,
        spec: SessionSpec,
        *,
        offered: Callable[[SessionSpec], Sequence[ToolInfo]],
        copies: ToolCopies[mcp_types.Tool],
        own: Sequence[str],
        resume: str | None,
        max_turns: int,
    ) -> None:
        self._spec = spec
        self._own = own
        self._max_turns = max_turns
        self.id = resume
        self.is_resumed = resume is not None
        self._progress: TurnProgress | None = None
        self._closing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._tools_checked = False
        self._spending = ClaudeUsage(resumed=self.is_resumed)
        self._tools = ToolsServer(offered=lambda: offered(self._spec), copies=copies, running=lambda: self._progress)
        self._gate = OwnGate(lambda: self._progress)
        self._connection = ClaudeConnection(
            launch, server=self._tools.instance, before_own=self._gate.before_tool, after_batch=self._after_batch
        )
        self._process = self._connection.process

    @property
    def is_usable(self) -> bool:
        """False once it is closed, its process has ended, or it shows the model an outdated tool."""
        return self._is_alive and not self._tools.is_stale

    @property
    def _is_alive(self) -> bool:
        return self._closing is None and self._process.is_alive

    async def open(self) -> None:
        """Start the program.

        Raises:
            BrokenError: It cannot be started, or does not have the conversation.
        """
        try:
            await self._connection.open()
        except BaseException:
            await asyncio.shield(self._close_once())
            raise
        self._reading = asyncio.create_task(self._read_messages(), name=f"toolstead-claude-{self._process.pid}")
        self._reading.add_done_callback(_log_crash)

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt; cancelling it interrupts the model and keeps the session."""
        if self._closing is not None:
            raise RuntimeFailureError("this session is closed")
        if self._progress is not None:
            raise RuntimeFailureError("this session runs a turn already")
        progress = self._progress = TurnProgress(turn, self._spec, self._spending, max_turns=self._max_turns)
        beginning = asyncio.create_task(self._send_text(progress, turn.prompt, is_prompt=True))
        try:
            await asyncio.shield(beginning)
            return await asyncio.shield(progress.end)
        except asyncio.CancelledError:
            await self._stop(progress, beginning)
            raise
        finally:
            if progress.stopping is not None:
                await asyncio.wait((progress.stopping,))
            self._progress = None
            await self._gate.end_turn(progress)

    async def steer(self, text: str) -> bool:
        """Send the running turn another message: the model reads it with the next results, or answers it afterwards."""
        progress = self._progress
        if progress is None or progress.is_over or not self._is_alive:
            return False
        return await self._send_text(progress, text)

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Apply other tools or another model; everything else needs a new session."""
        like_this = replace(
            spec,
            model=self._spec.model,
            tools=self._spec.tools,
            may_spawn=self._spec.may_spawn,
            has_task=self._spec.has_task,
        )
        if fingerprint(like_this) != fingerprint(self._spec) or not self.is_usable:
            return False
        if not spec.may_spawn and not SPAWNING.isdisjoint(self._own):
            return False
        if spec.model != self._spec.model:
            try:
                await self._connection.use_model(model_name(spec.model))
            except BrokenError as error:  # it checks with the API that the model exists
                raise RuntimeFailureError(f"Claude Code does not accept {spec.model}: {error}") from error
        self._spec = spec
        return True

    async def close(self) -> None:
        """End the program and its child processes; a running turn fails."""
        await asyncio.shield(self._close_once())

    def _close_once(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        if self._progress is not None:
            self._progress.end_turn(RuntimeFailureError("this session was closed while it ran a turn"))
        await self._connection.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def _send_text(self, progress: TurnProgress, text: str, *, is_prompt: bool = False) -> bool:
        """Send a message, and before a prompt update the program's list of our tools; a failure ends the turn."""
        message_id = self._connection.new_id()
        progress.unprocessed.add(message_id)
        try:
            if is_prompt and self._tools.is_outdated:
                await self._connection.list_tools_again()
            await self._connection.send_message(message_id, text)
        except BrokenError as error:
            self._process.kill()  # so that a new session can take over
            progress.end_turn(_loss_error(progress, str(error)))
            return False
        return True

    async def _stop(self, progress: TurnProgress, beginning: asyncio.Task[bool] | None = None) -> None:
        """Interrupt the model, again for each queued message that it starts; kill a program that does not react."""
        try:
            async with asyncio.timeout(STOPPING):
                if beginning is not None:
                    await asyncio.wait((beginning,))
                while not progress.is_over:
                    await self._connection.interrupt_turn()
                    await asyncio.wait((progress.end,), timeout=0.5)
        except (TimeoutError, BrokenError) as error:
            logger.warning("claude %s does not stop (%s); killing it", self._process.pid, str(error) or "no reaction")
            self._process.kill()
        except asyncio.CancelledError:
            self._process.kill()
            raise

    async def _read_messages(self) -> None:
        """Pass the program's messages to the running turn, until they end."""
        why = "it ended"
        try:
            async for message in self._connection.read_messages():
                await self._take_message(message)
        except BrokenError as error:
            why = str(error)
        finally:
            if self._closing is None:
                self._process.kill()  # its output is not read now; one that is being closed exits by itself
            if self._progress is not None:
                self._progress.end_turn(_loss_error(self._progress, why))

    async def _take_message(self, message: Message) -> None:
        progress = self._progress
        if isinstance(message, SystemMessage) and message.subtype == "init":
            self._note_begin(message.data)
        if progress is None:
            return
        if isinstance(message, UserMessage):
            await self._gate.after_message(progress, message)
        progress.take_message(message)
        if progress.halt is not None and progress.stopping is None:
            progress.stopping = asyncio.create_task(self._stop(progress))

    def _note_begin(self, data: dict[str, Any]) -> None:
        """The program has begun to answer: now there is something to resume."""
        if isinstance(found := data.get("session_id"), str):
            self.id = found
        if not self._tools_checked:
            self._tools_checked = True
            named: list[str] = data.get("tools") or []
            there = {_tool_name(name) for name in named}
            if missing := [name for name in self._own if _tool_name(name) not in there]:
                logger.warning("runtime.claude.tools: Claude has no tool called %s", ", ".join(missing))

    async def _after_batch(self, input: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Apply a reload to the running turn, between the calls of a reply and the next request.

        Not in a subagent: another one may have a running call.
        """
        if self._tools.is_outdated and "agent_id" not in input:
            with contextlib.suppress(BrokenError):  # the turn is notified anyway
                await self._connection.list_tools_again()
        return {}


def _log_crash(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled() and (error := reading.exception()) is not None:
        logger.error("a message of Claude Code could not be processed; its process was ended", exc_info=error)


def _loss_error(progress: TurnProgress, why: str) -> InvocationError:
    if progress.acted:
        return RuntimeFailureError(
            f"Claude Code ended in the middle of the turn, after tools were used, so it was not retried: {why}"
        )
    return SessionLostError(f"Claude Code ended in the middle of the turn: {why}")


def _tool_name(name: str) -> str:
    """The canonical name of a built-in tool: the one that starts subagents has two."""
    return "Agent" if name == "Task" else name
