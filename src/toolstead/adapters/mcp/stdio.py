"""MCP over stdio: stdout is the wire, and nothing else can write to it.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr, so what tools print
goes to stderr and children have no stdin. Lines are bounded. The SDK's own stdio transport reads
in a worker thread that a signal cannot end, and buffers lines of any length; hence this one.

One connection owns both descriptors. The fast path answers what it can; the first message that it cannot
answer imports the SDK in the background, and from then on both write to stdout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from toolstead.adapters.importing import import_module
from toolstead.adapters.mcp.descriptors import Lines, TooLongError, Wire, claim_descriptors
from toolstead.adapters.mcp.fast_path.calls import FastPath
from toolstead.adapters.mcp.fast_path.sdk_queue import SdkQueue
from toolstead.adapters.mcp.fast_path.stdio import StdioFastPath

if TYPE_CHECKING:
    from toolstead.adapters.mcp.server import ToolsteadServer

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds to wait for the next answer after the client closed stdin."""
START_PATIENCE = 30.0
"""Seconds to wait for the import of the SDK after the client closed stdin."""
_SDK_SIDE = "toolstead.adapters.mcp.sdk_side"


async def serve_stdio(
    create_server: Callable[..., ToolsteadServer],
    *,
    fast_path: FastPath | None,
    max_message: int,
    on_answer: Callable[[], object],
) -> None:
    """Serve one client on this process's stdin and stdout until it closes stdin.

    Args:
        create_server: Creates the SDK's server when a message needs it. Its argument `tells_changes` is whether the
            server notifies handshake clients that the tools changed; otherwise the fast path does.
        fast_path: Answers what it can; without one the SDK answers everything.
        max_message: Bytes a message may have.
        on_answer: Called once, when the first answer was written.

    Raises:
        ServeError: stdin or stdout is closed.
    """
    async with claim_descriptors() as claimed:
        await StdioConnection(create_server, fast_path, claimed, max_message=max_message, on_answer=on_answer).run()


class StdioConnection:
    """Routes one client's messages to the fast path or the SDK, and the answers back."""

    def __init__(
        self,
        create_server: Callable[..., ToolsteadServer],
        fast_path: FastPath | None,
        descriptors: tuple[int, int],
        *,
        max_message: int,
        on_answer: Callable[[], object] = lambda: None,
    ) -> None:
        """Connect the parts; `run` begins to read from the first descriptor. The second one is written to."""
        wire_in, wire_out = descriptors
        self._create_server = create_server
        self._on_answer: Callable[[], object] | None = on_answer
        self._lines = lines = Lines(wire_in, max_message, self._take_line, self._input_ended)
        self._wire = Wire(
            wire_out,
            full=lambda: lines.pause_reading("the client does not read"),
            free=lambda: lines.go_on("the client does not read"),
            lost=self._note_gone,
        )
        self._sdk = SdkQueue(self._serve_sdk, lines)
        self._fast_path = (
            None
            if fast_path is None
            else StdioFastPath(fast_path, self._write_line, self._wire.wait_until_taken, self._sdk)
        )
        self._moved = asyncio.Event()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[None] | None = None
        self._loading = False

    async def run(self) -> None:
        """Serve until the client closes stdin or disconnects."""
        try:
            async with self._wire, self._lines:
                await self._over
        finally:
            await self._close()

    def _take_line(self, line: bytes | TooLongError) -> None:
        if isinstance(line, TooLongError) or self._fast_path is None or not self._fast_path.take_line(line):
            self._sdk.put_line(line)

    def _write_line(self, line: bytes) -> None:
        self._wire.write(line)
        self._moved.set()
        if self._on_answer is not None:
            on_answer, self._on_answer = self._on_answer, None
            on_answer()

    def _input_ended(self) -> None:
        if self._fast_path is not None:
            self._fast_path.end_input()
        self._ending = asyncio.get_running_loop().create_task(self._end_input(), name="toolstead-stdio-end")

    async def _end_input(self) -> None:
        """Answer pending requests before closing: a script closes stdin right after its last request."""
        with suppress(TimeoutError):
            while self._sdk.unanswered or (self._fast_path is not None and self._fast_path.is_busy):
                self._moved.clear()
                async with asyncio.timeout(START_PATIENCE if self._loading else GRACE):
                    await self._moved.wait()
        if self._fast_path is not None:
            self._fast_path.give_up()
        await self._sdk.end_input()
        await self._wire.wait_until_empty(GRACE)
        self._finish_conversation()

    def _note_gone(self, error: Exception | None) -> None:
        logger.warning("stdio: the client disconnected: %s", error)
        self._finish_conversation()

    def _finish_conversation(self, error: BaseException | None = None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    async def _close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        if self._fast_path is not None:
            await self._fast_path.close()
        await self._sdk.close()

    async def _serve_sdk(self, queue: SdkQueue) -> None:
        """Run the SDK's side, from its import to the end of the connection."""
        self._loading = True
        try:
            module = await asyncio.to_thread(import_module, _SDK_SIDE)
            self._loading = False
            self._moved.set()
            server = self._create_server(tells_changes=self._fast_path is None)
            await module.SdkSide(server, queue, self._write_for_sdk, self._fast_path).run()
        except Exception as error:  # noqa: BLE001 - ends the connection, which raises it
            self._finish_conversation(error)
        else:
            if self._ending is None:
                self._finish_conversation()

    async def _write_for_sdk(self, line: bytes, *, is_answer: bool) -> None:
        """Write a line, and wait while the write buffer is full; after the end of input, only answers.

        Raises:
            OSError: The client closed its end.
        """
        if self._ending is not None and not is_answer:
            logger.debug("stdio: left out a notification after the end of input: %s", line[:200])
            return
        self._write_line(line)
        await self._wire.wait_until_taken()
