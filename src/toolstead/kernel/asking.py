"""Gets one reply from a model: retries where that may help, and shortens a conversation that is too long.

Every wait, every shortening and every tool that is left out is in the log.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Sequence
from contextlib import aclosing

from toolstead.errors import ModelError
from toolstead.kernel.activation import Activation
from toolstead.kernel.conversation import Conversation, ModelReply
from toolstead.kernel.model import ModelRequest
from toolstead.kernel.receiving import clean_reply
from toolstead.kernel.request_size import ConversationSize
from toolstead.kernel.shortening import shorten_messages
from toolstead.types.content import whole_text
from toolstead.types.event import THINKING, RetryNotice
from toolstead.types.run import NOTHING_USED
from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

PASSING = frozenset({"busy", "rate", "server", "network", "unreachable"})
"""Faults that a retry may solve."""
ABSENT_ATTEMPTS = 2
"""Tries where nothing listens on this machine: a longer wait does not start a server."""
MOST_EMPTY = 3
"""Empty replies in a row before the request fails."""


class Asking:
    """Asks a model for the next reply of a conversation.

    Attributes:
        used: What all its requests used.
    """

    def __init__(self, activation: Activation, conversation: Conversation) -> None:
        self._activation = activation
        self._conversation = conversation
        self.used = NOTHING_USED
        self._offered: Sequence[ToolInfo] = ()
        self._tools: Sequence[ToolInfo] = ()
        self._attempt = 1
        self._began = 0.0
        self._size = ConversationSize(activation, conversation)

    async def next_reply(self) -> ModelReply:
        """The next reply, with text or calls.

        Raises:
            ModelError: The model gives none.
        """
        self._attempt, empty = 1, 0
        self._began = asyncio.get_running_loop().time()
        while True:
            try:
                reply = await self._ask_within_budget()
            except ModelError as error:
                await self._mend_request(error)
                continue
            name = self._activation.model.name
            reply = clean_reply(reply, self._activation.limits, model=name)
            if reply.calls or reply.text.strip():
                return reply
            empty += 1
            self._note_empty(reply, empty)

    def _note_empty(self, reply: ModelReply, times: int) -> None:
        """Show that an empty answer is asked again, or give up."""
        finish = f" (finish_reason {whole_text(reply.finish)[:100]})" if reply.finish else ""
        why = f"{self._activation.model.name} answered with nothing{finish}"
        if times == MOST_EMPTY:
            raise ModelError(f"{why}, {MOST_EMPTY} times; try another model, or ask for less", fault="rejected")
        logger.warning("%s; asking again", why)
        self._attempt += 1
        notice = RetryNotice(reason=why, attempt=times + 1, attempts=MOST_EMPTY, seconds=0.0)
        self._activation.tell(THINKING, notice.to_event())

    async def _ask_within_budget(self) -> ModelReply:
        """One request: reserved before, settled after, however it ends."""
        activation, usage, reply = self._activation, NOTHING_USED, None
        most_output = await activation.budget.reserve(self._size)
        try:
            reply = await self._ask_once(most_output)
            usage = reply.usage
            self._size.note_usage(usage)
            return reply
        finally:
            counted = activation.budget.settle(usage)
            activation.recorder.end_request(reply, counted, sys.exception())
            if usage is not NOTHING_USED:
                self.used += counted
                activation.tell("usage", counted.to_json())

    async def _ask_once(self, most_output: int | None) -> ModelReply:
        """Send one request, and emit the text as it comes; an interrupted answer keeps what it has."""
        activation, tell, attempt = self._activation, self._activation.tell, self._attempt
        request = ModelRequest(
            instructions=activation.instructions,
            messages=self._conversation.messages,
            tools=self._offered_tools(),
            max_tokens=most_output,
            result_schema=activation.result_schema,
        )
        activation.recorder.begin_request(activation.model.name, request)
        name, limits, stall = activation.model.name, activation.limits, activation.limits.stall
        loop, written, size, reply = asyncio.get_running_loop(), "", 0, None
        deadline = asyncio.timeout(stall)
        try:
            async with deadline, aclosing(activation.model.stream_reply(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        reply = piece
                        break
                    deadline.reschedule(loop.time() + stall)
                    text = whole_text(piece.text)
                    size += len(text) + 1  # an endless answer of empty pieces is one too
                    if size > limits.reply:
                        raise ModelError(f"{name} sent more than {size - 1:,} characters", fault="rejected")
                    data = {"text": text} if attempt == 1 else {"text": text, "attempt": attempt}
                    if piece.kind == "text":
                        written += text
                        tell("message.delta", data)
                    else:
                        tell(THINKING, data)
        except TimeoutError:
            if reply is None:
                why = f"sent nothing for {stall:g} seconds" if deadline.expired() else "took too long"
                raise ModelError(f"{name} {why}", fault="network") from None
            logger.warning("%s answered, but the request could not be closed for %g seconds", name, stall)
        except asyncio.CancelledError:
            if written.strip():
                self._conversation.messages.append(ModelReply(text=written))
            raise
        if reply is None:
            raise ModelError(f"{name} ended its answer too early", fault="network")
        return reply

    async def _mend_request(self, error: ModelError) -> None:
        """Change the request so that a retry may succeed, or raise the error."""
        name, conversation = self._activation.model.name, self._conversation
        if error.fault == "overflow":
            done = shorten_messages(conversation.messages)
            if done is None:
                raise ModelError(
                    f"the conversation is too long for {name} ({error}), "
                    "and nothing in it is left to shorten; begin a new thread",
                    fault="overflow",
                )
            logger.warning("the conversation is too long for %s: %s", name, done)
        elif error.fault == "schema" and (tool := self._find_tool(error.tool)) is not None:
            conversation.refused[tool.name] = tool
            logger.warning("%s rejects the schema of %r, so the tool is left out: %s", name, tool.name, error)
        elif error.fault in PASSING and self._attempt < self._most_attempts(error):
            await self._wait(error)
            self._attempt += 1
        else:
            seconds = asyncio.get_running_loop().time() - self._began
            tries = f"; {self._attempt} tries in {seconds:.0f} s" if self._attempt > 1 else ""
            raise ModelError(f"{error}{tries}", fault=error.fault, retry_after=error.retry_after) from error

    def _most_attempts(self, error: ModelError) -> int:
        most = self._activation.limits.attempts
        return min(most, ABSENT_ATTEMPTS) if error.fault == "unreachable" else most

    async def _wait(self, error: ModelError) -> None:
        limits, most = self._activation.limits, self._most_attempts(error)
        wait = error.retry_after
        if wait is None or not wait >= 0:  # an API may say anything, NaN too
            wait = min(limits.first_wait * 2 ** (self._attempt - 1), limits.longest_wait) * random.uniform(0.5, 1)  # noqa: S311 - no secret
        elif wait > limits.longest_wait:
            raise ModelError(
                f"{error}; it asks to wait {wait:g} seconds, and the longest wait is {limits.longest_wait:g}",
                fault=error.fault,
                retry_after=wait,
            ) from error
        logger.warning("%s; try %s of %s in %.1f seconds", error, self._attempt + 1, most, wait)
        retry = RetryNotice(reason=str(error), attempt=self._attempt + 1, attempts=most, seconds=wait)
        self._activation.tell(THINKING, retry.to_event())
        await asyncio.sleep(wait)

    def _offered_tools(self) -> Sequence[ToolInfo]:
        """The current tools without those that the API refuses; the same object until they change."""
        tools, refused = self._activation.offer(), self._conversation.refused
        if not refused:
            return tools
        if tools is not self._offered or any(refused.get(tool.name) is tool for tool in self._tools):
            self._offered = tools
            self._tools = [tool for tool in tools if refused.get(tool.name) is not tool]
        return self._tools

    def _find_tool(self, name: str | None) -> ToolInfo | None:
        return next((tool for tool in self._offered_tools() if tool.name == name), None)
