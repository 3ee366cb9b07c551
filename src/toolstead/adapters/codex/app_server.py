"""The `codex app-server` process: JSON-RPC on its stdin and stdout, one process for all threads.

Its notifications go to the listener of the thread that they name; its requests are refused. It starts with the first
session and ends with the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import mcp_types

from toolstead.adapters.codex.program import CodexProgram
from toolstead.errors import RuntimeFailureError
from toolstead.processes.piped import PipedProcess
from toolstead.types.content import whole_text
from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

_LINE = 64 * 1024 * 1024
"""Bytes of one message; a longer one ends the process."""
_ANSWER = 30.0
"""Seconds that it may take to answer a request."""
_LEAVE = 2.0
"""Seconds that it gets to exit after its stdin is closed, and again after SIGTERM."""
_MOST_ERRORS, _LONGEST_ERROR = 3, 300
"""Lines of its stderr that are shown when it does not start, and how much of each."""
_METHOD_NOT_FOUND = -32601
_CLIENT = "toolstead"
_REFUSALS: Mapping[str, Mapping[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None, "_meta": None},
}
"""Refusals of requests to leave the sandbox: our gates were already called by a hook."""


class ProcessGoneError(Exception):
    """The process has ended, or was never started."""


class RefusedByCodexError(Exception):
    """It answered a request with an error."""


class ThreadOwner(Protocol):
    """The exclusive owner of a Codex thread: a session. It receives the notifications, and has the tools."""

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Receive a notification. Must not block."""
        ...

    def on_process_end(self) -> None:
        """The process has ended."""
        ...

    async def give_up(self) -> None:
        """Release the thread to another session.

        Raises:
            RuntimeFailureError: It is in use.
        """
        ...

    def list_tools(self) -> Sequence[mcp_types.Tool]:
        """The tools of this thread."""
        ...

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None) -> ToolResult:
        """Call one of them."""
        ...

    async def answer_hook(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a hook that Codex calls before or after a built-in tool."""
        ...


class AppServer:
    """One process, and the connection to it.

    Attributes:
        listeners: Who receives the notifications about a thread, by the thread's id.
    """

    def __init__(self, process: PipedProcess) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.listeners: dict[str, ThreadOwner] = {}
        self._gone = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, program: CodexProgram, *, version: str) -> AppServer:
        """Start it and initialize the connection.

        Raises:
            RuntimeFailureError: It cannot be started, or does not answer.
        """
        try:
            process = PipedProcess(program.command, cwd=program.folder, env=program.environ, longest_line=_LINE)
        except OSError as error:
            raise RuntimeFailureError(f"Codex cannot be started: {error}") from error
        server = cls(process)
        client = {"name": _CLIENT, "title": "Toolstead", "version": version}
        try:
            await server.send_request(
                "initialize",
                {"clientInfo": client, "capabilities": {"experimentalApi": True, "requestAttestation": False}},
            )
            server._send({"method": "initialized"})
        except (ProcessGoneError, RefusedByCodexError, TimeoutError) as error:
            await server.close()
            errors = " ".join(line[:_LONGEST_ERROR] for line in process.read_last_lines()[-_MOST_ERRORS:])
            why = errors or error or "it does not answer"
            raise RuntimeFailureError(f"Codex does not start: {why}") from error
        except BaseException:
            await server.kill()
            raise
        return server

    @property
    def is_alive(self) -> bool:
        """Whether it is running and its stdin is open; a closed stdin may be the first sign of its end."""
        return not self._gone and self._process.child.returncode is None and self._process.stdin.is_open

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.child.pid

    async def send_request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = _ANSWER
    ) -> Mapping[str, Any]:
        """Send a request and wait for the answer.

        Raises:
            ProcessGoneError: It has ended.
            RefusedByCodexError: It answered with an error.
            TimeoutError: It did not answer in time.
        """
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout):
                return await answer
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Close its stdin, which ends it; force its end if it does not."""
        try:
            await self._process.end_process(_LEAVE, terminate=True)
        finally:
            await self._stop_reading()

    async def kill(self) -> None:
        """Kill it and its child processes."""
        try:
            await self._process.kill()
        finally:
            await self._stop_reading()

    async def _stop_reading(self) -> None:
        self._note_end()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _send(self, message: Mapping[str, Any]) -> None:
        if not self.is_alive:
            raise ProcessGoneError("the Codex process has ended")
        # A lone surrogate is not JSON to it: such a message is never answered.
        self._process.stdin.write(whole_text(json.dumps(message, ensure_ascii=False)).encode() + b"\n")
        if not self._process.stdin.is_open:  # its reading end is closed
            raise ProcessGoneError("the Codex process has closed its stdin")

    async def _read(self) -> None:
        try:
            while line := await self._process.stdout.readline():
                self._take_message(json.loads(line))
        except ValueError as error:  # a line that is too long, or not JSON
            logger.warning("the Codex process sent an unreadable message and is ended: %s", error)
            self._process.signal_groups(signal.SIGKILL)
        finally:
            self._note_end()

    def _take_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - a broken wire, like a line that is no JSON
        fields = cast("dict[str, Any]", message)
        method: Any = fields.get("method")
        if method is None:
            self._take_answer(fields)
            return
        params: Mapping[str, Any] = fields.get("params") or {}
        if "id" in fields:
            self._refuse_request(fields["id"], str(method))
            return
        listener = self.listeners.get(str(params.get("threadId")))
        if listener is not None:
            listener.on_notification(str(method), params)
        elif method in ("configWarning", "warning", "deprecationNotice"):
            logger.debug("codex: %s", params.get("summary") or params.get("message"))

    def _take_answer(self, fields: Mapping[str, Any]) -> None:
        answer = self._waiting.get(fields.get("id") or 0)
        if answer is None or answer.done():
            return
        if (error := fields.get("error")) is not None:
            answer.set_exception(RefusedByCodexError(str(error.get("message", error))))
        else:
            answer.set_result(fields.get("result") or {})

    def _refuse_request(self, number: Any, method: str) -> None:
        """Refuse a request, so that it does not wait for an answer."""
        logger.warning("Codex requested %s, which is not granted here", method)
        error = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not granted here"}
        answer = {"result": _REFUSALS[method]} if method in _REFUSALS else {"error": error}
        with contextlib.suppress(ProcessGoneError):
            self._send({"id": number, **answer})

    def _note_end(self) -> None:
        """Notify all listeners and pending requests, once, that it has ended."""
        if self._gone:
            return
        self._gone = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ProcessGoneError("the Codex process has ended"))
                answer.exception()  # the waiting caller raises it; without one, it is dropped
        for listener in list(self.listeners.values()):
            listener.on_process_end()
