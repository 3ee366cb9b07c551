"""The running program: JSON-RPC on its stdin and stdout, one process for all threads.

What it tells is handed to whoever listens to the thread that it names; what it asks for is refused. It is started
with the first session and ended with the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import signal
from collections.abc import Mapping
from typing import Any, Protocol, cast

from toolstead.adapters.codex.program import CodexProgram
from toolstead.errors import RuntimeFailureError
from toolstead.processes.piped import PipedProcess
from toolstead.types.content import whole_text

logger = logging.getLogger(__name__)

_LINE = 64 * 1024 * 1024
"""Bytes of one message; a longer one ends the process."""
_ANSWER = 30.0
"""Seconds that it may take to answer a request."""
_LEAVE = 2.0
"""Seconds that it gets to end by itself, and again after SIGTERM."""
_COMPLAINTS, _LONGEST_COMPLAINT = 3, 300
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
"""How a request is refused that would lead out of the sandbox: our gates are asked before, by a hook."""


class ProcessGoneError(Exception):
    """The process has ended, or never began."""


class RefusedByCodexError(Exception):
    """It answered a request with an error."""


class Listener(Protocol):
    """Whoever takes what is said about one thread."""

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Something happened. Never blocks."""
        ...

    def on_process_end(self) -> None:
        """The process has ended."""
        ...


class AppServer:
    """One process, and the conversation with it."""

    def __init__(self, process: PipedProcess) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, Listener] = {}
        self._gone = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, program: CodexProgram, *, version: str) -> AppServer:
        """Start it, and shake hands.

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
            words = " ".join(line[:_LONGEST_COMPLAINT] for line in process.read_last_lines()[-_COMPLAINTS:])
            why = words or error or "it does not answer"
            raise RuntimeFailureError(f"Codex does not start: {why}") from error
        except BaseException:
            await server.kill()
            raise
        return server

    @property
    def is_alive(self) -> bool:
        """Whether it can still be talked to; that it cannot may show at its input before it does anywhere else."""
        return not self._gone and self._process.child.returncode is None and self._process.stdin.is_open

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.child.pid

    def add_listener(self, thread_id: str, listener: Listener) -> None:
        """Hand on what is said about a thread."""
        self._listeners[thread_id] = listener

    def remove_listener(self, thread_id: str) -> None:
        """Nobody listens to a thread any more."""
        self._listeners.pop(thread_id, None)

    async def send_request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = _ANSWER
    ) -> Mapping[str, Any]:
        """Ask it for something.

        Raises:
            GoneError: It has ended.
            RefusedByCodexError: It says no, and why.
            TimeoutError: It does not answer.
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
        """Let it end: it does when its stdin ends; else it is made to."""
        try:
            await self._process.end_process(_LEAVE, terminate=True)
        finally:
            await self._stop_reading()

    async def kill(self) -> None:
        """End it and whatever it started, now."""
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
        # Half a character would not be JSON to it: such a message is never answered.
        self._process.stdin.write(whole_text(json.dumps(message, ensure_ascii=False)).encode() + b"\n")
        if not self._process.stdin.is_open:  # nobody reads it any more
            raise ProcessGoneError("the Codex process does not listen any more")

    async def _read(self) -> None:
        try:
            while line := await self._process.stdout.readline():
                self._take_message(json.loads(line))
        except ValueError as error:  # a line that is too long, or no JSON
            logger.warning("the Codex process says something that cannot be read, and is ended: %s", error)
            self._process.signal_groups(signal.SIGKILL)
        finally:
            self._note_end()

    def _take_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 - a broken wire, like a line that is no JSON
        said = cast("dict[str, Any]", message)
        method: Any = said.get("method")
        if method is None:
            self._take_answer(said)
            return
        params: Mapping[str, Any] = said.get("params") or {}
        if "id" in said:
            self._refuse_request(said["id"], str(method))
            return
        listener = self._listeners.get(str(params.get("threadId")))
        if listener is not None:
            listener.on_notification(str(method), params)
        elif method in ("configWarning", "warning", "deprecationNotice"):
            logger.debug("codex: %s", params.get("summary") or params.get("message"))

    def _take_answer(self, said: Mapping[str, Any]) -> None:
        answer = self._waiting.get(said.get("id") or 0)
        if answer is None or answer.done():
            return
        if (error := said.get("error")) is not None:
            answer.set_exception(RefusedByCodexError(str(error.get("message", error))))
        else:
            answer.set_result(said.get("result") or {})

    def _refuse_request(self, number: Any, method: str) -> None:
        """Answer what it asks for: with a no, always, so that it does not wait."""
        logger.warning("Codex asked for %s, which is not granted here", method)
        answer: dict[str, Any] = {"id": number}
        if method in _REFUSALS:
            answer["result"] = _REFUSALS[method]
        else:
            answer["error"] = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not granted here"}
        with contextlib.suppress(ProcessGoneError):
            self._send(answer)

    def _note_end(self) -> None:
        """Tell everybody that it has ended, once."""
        if self._gone:
            return
        self._gone = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ProcessGoneError("the Codex process has ended"))
                answer.exception()  # whoever waits raises it; where nobody does any more, nothing is left to say
        for listener in list(self._listeners.values()):
            listener.on_process_end()
