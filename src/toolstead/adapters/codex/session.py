"""One Codex thread: implements the session port.

A thread is attached to the process with its specification and the current tools. When the tools change, it is
re-attached before its next turn; its conversation is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types

from toolstead.adapters.codex.app_server import AppServer, ProcessGoneError, RefusedByCodexError
from toolstead.adapters.codex.own_tools import HOOKS, SERVER, hook_refusal
from toolstead.adapters.codex.program import SHELL
from toolstead.adapters.codex.running_turn import INTERRUPT, RunningTurn
from toolstead.adapters.codex.station import Station, Stations
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Answer, Offered, SessionSpec, Turn, fingerprint, instructions_of
from toolstead.types.result import Failure, ToolResult

logger = logging.getLogger(__name__)

_ATTACH = 60.0
_LEAVE = 2.0


class CodexSession:
    """A thread, and its running turn.

    Attributes:
        is_resumed: Whether it was opened with an earlier conversation in it.
    """

    def __init__(
        self,
        station: Station,
        stations: Stations,
        spec: SessionSpec,
        *,
        offered: Offered,
        copies: ToolCopies[mcp_types.Tool],
        own: tuple[str, ...],
        hooked: bool,
        max_turns: int,
    ) -> None:
        """Create a session for a thread that is not attached yet.

        Args:
            station: The process and the endpoint.
            stations: Where the session leaves the station.
            spec: What it is built with.
            offered: The tools of an agent.
            copies: The tools as sent to Codex.
            own: Built-in tools of Codex that the settings permit.
            hooked: Whether Codex calls our hook for its built-in tools; not in the user's own home, where the same
                setting would enable hooks that the user has not trusted.
            max_turns: Model requests allowed for one prompt.
        """
        self._station = station
        self._stations = stations
        self._own = own
        self._spec = spec
        self._permitted = spec.permitted_tools(own)
        self._offered = offered
        self._copies = copies
        self._hooked = hooked
        self._max_turns = max_turns
        self._tools: Sequence[mcp_types.Tool] = ()
        self._thread = ""
        self._token = ""
        self.is_resumed = self._ran = self._attached = self._broken = self._closed = False
        self._changing = asyncio.Lock()
        self._running: RunningTurn | None = None
        self._unloaded = asyncio.Event()

    @property
    def id(self) -> str | None:
        """Codex's id of the thread; None while it has no messages."""
        return self._thread if self._ran or self.is_resumed else None

    @property
    def is_usable(self) -> bool:
        """False when it is closed, its process has died, or it could not be re-attached."""
        return not (self._closed or self._broken) and self._station.server.is_alive

    async def attach_thread(self, resume: str | None) -> None:
        """Start or resume a thread.

        Raises:
            SessionLostError: Codex no longer has the conversation.
            RuntimeFailureError: Codex does not answer, or refuses; or another session is using the conversation.
        """
        async with self._changing:
            await self._attach_now(resume)

    async def _attach_now(self, resume: str | None) -> None:
        endpoint, spec = self._station.endpoint, self._spec
        if resume is not None:
            await self._station.claim_thread(resume, self)
            self._thread = resume
        self._tools = self._copies.copies_of(self._offered(spec))
        token = endpoint.issue_token(self)
        old, self._token = self._token, token
        endpoint.revoke_token(old)
        shell = self._may_run_commands
        params = _settings_of(spec, endpoint.server_settings(token), hooked=self._hooked, shell=shell)
        if resume is None:
            await self._open("thread/start", params | _surroundings_for(shell=shell), None)
            return
        params |= {"threadId": resume, "excludeTurns": True}
        await self._open("thread/resume", params, resume)
        if not endpoint.was_used(token):
            # Still loaded, as after an interrupted opening: Codex ignores the new settings and keeps the old ones, with
            # a token that is no longer valid.
            await self._detach_thread()
            await self._open("thread/resume", params, resume)
        if not endpoint.was_used(token):
            raise RuntimeFailureError(f"Codex does not unload the conversation {resume!r}, so it cannot be resumed")
        self.is_resumed = True

    @property
    def _may_run_commands(self) -> bool:
        return "shell" in self._permitted

    async def _open(self, method: str, params: Mapping[str, Any], resume: str | None) -> None:
        """Have Codex load the thread; a caller that is cancelled meanwhile still knows its id, and can unload it."""
        opening = asyncio.create_task(self._station.server.send_request(method, params, timeout=_ATTACH))
        try:
            self._note_opened(await asyncio.shield(opening))
        except asyncio.CancelledError:
            with contextlib.suppress(RefusedByCodexError, ProcessGoneError, TimeoutError):
                async with asyncio.timeout(INTERRUPT):
                    self._note_opened(await asyncio.shield(opening))
            raise
        except RefusedByCodexError as error:
            self._station.release_thread(self._thread, self)
            if resume is not None:
                raise SessionLostError(f"Codex cannot resume the conversation {resume!r}: {error}") from error
            raise RuntimeFailureError(f"Codex: {error}") from error
        except ProcessGoneError as error:
            raise RuntimeFailureError(f"Codex ended while a session was opened: {error}") from error
        except TimeoutError as error:
            raise RuntimeFailureError(f"Codex did not open a session within {_ATTACH:g} seconds") from error

    def _note_opened(self, answer: Mapping[str, Any]) -> None:
        self._thread = str(answer["thread"]["id"])
        self._attached = True
        self._station.owners[self._thread] = self
        self._station.server.listeners[self._thread] = self

    async def give_up(self) -> None:
        """Release the conversation to another session; it is claimed again before the next turn here.

        Raises:
            RuntimeFailureError: A turn runs in it, or it is being attached.
        """
        if self._running is not None or (self._changing.locked() and not self._closed):
            raise RuntimeFailureError(
                f"the conversation {self._thread!r} of Codex is in use by another thread: try again when that one has"
                " ended, or leave the session's id out"
            )
        async with self._changing:
            self._station.endpoint.revoke_token(self._token)
            await self._detach_thread()

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt."""
        self._check_free()
        playing = self._running = RunningTurn(turn, self._spec, max_turns=self._max_turns)
        starting: asyncio.Task[None] | None = None
        try:
            await self._offer_now()
            items = _input_items(turn.prompt)
            while True:
                starting = asyncio.create_task(self._start(playing, items))
                await asyncio.shield(starting)
                if not self._station.server.is_alive:
                    self.on_process_end()
                if (answer := await asyncio.shield(playing.ending)) is not None:
                    return answer
                playing.go_on()
                items = []
        except asyncio.CancelledError:
            # In a task of its own: before Python 3.11.3, a time limit inside a cancelled task raises CancelledError.
            await asyncio.create_task(playing.interrupt_turn(self._current_place, starting))
            raise
        except RefusedByCodexError as error:
            raise RuntimeFailureError(f"Codex: {error}") from error
        except ProcessGoneError as error:
            raise SessionLostError(str(error)) from error
        except TimeoutError as error:
            self._broken = True
            raise RuntimeFailureError("Codex did not begin the turn in time") from error
        finally:
            if not playing.over.is_set() and starting is not None:
                await playing.interrupt_turn(self._current_place, starting)
            if playing.own.was_used:
                await self._end_commands()
            await playing.wait_for_calls()
            playing.over.set()
            self._running = None

    async def steer(self, text: str) -> bool:
        """Give the running turn another message."""
        playing = self._running
        if playing is None or playing.id is None or playing.has_ended:
            return False
        playing.steered = True
        params = {"threadId": self._thread, "expectedTurnId": playing.id, "input": _input_items(text)}
        try:
            await self._station.server.send_request("turn/steer", params)
        except (RefusedByCodexError, ProcessGoneError, TimeoutError) as error:
            logger.debug("Codex accepts no message now: %s", error)
            return False
        return True

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Apply another specification: the thread is re-attached, its conversation is kept."""
        if sorted(spec.permitted_tools(self._own)) != sorted(self._permitted):
            return False  # their permission is decided when a session is opened
        if fingerprint(spec) != fingerprint(self._spec):
            self._spec = spec
            await self._attach_anew()
        return self.is_usable

    async def close(self) -> None:
        """End it; with the last session the program ends too."""
        if self._closed:
            return
        self._closed = True
        playing = self._running
        try:
            if playing is not None:
                playing.fail_turn(RuntimeFailureError("this session was closed while it ran a turn"))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(INTERRUPT + _LEAVE):
                        await playing.over.wait()
            self._station.endpoint.revoke_token(self._token)
            async with self._changing:
                await self._detach_thread()
        finally:
            self._station.release_thread(self._thread, self)
            await self._stations.leave_station(self._station)

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Process a notification about this thread."""
        playing = self._running
        if method == "thread/closed":
            self._unloaded.set()
        if playing is not None:
            playing.on_notification(method, params)

    def on_process_end(self) -> None:
        """The process has ended."""
        self._unloaded.set()
        playing = self._running
        if playing is not None and playing.id is not None:  # else it is begun again in another process
            playing.fail_turn(SessionLostError("the Codex process ended in the middle of the turn"))
            playing.over.set()

    def list_tools(self) -> Sequence[mcp_types.Tool]:
        """The tools that the thread is attached with."""
        return self._tools

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None) -> ToolResult:
        """Call one of our tools for the turn that runs."""
        playing = self._running
        if playing is None:
            return ToolResult.error(f"{name} was not called: no turn is running", Failure.CANCELLED)
        return await playing.call(name, input, call_id=call_id)

    async def answer_hook(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Handle a hook before or after a built-in tool."""
        playing = self._running
        if playing is None or (playing.has_ended and payload.get("event") != "PostToolUse"):
            return hook_refusal(str(payload.get("name")), "no turn is running")
        return await playing.own.on_hook(payload)

    def _check_free(self) -> None:
        if self._running is not None:
            raise RuntimeFailureError("this session runs a turn already")
        if self._closed:
            raise RuntimeFailureError("this session is closed")
        if self._broken:
            raise SessionLostError("this session could not be re-attached to Codex")

    async def _end_commands(self) -> None:
        """End the background processes of its commands: Codex leaves them running, even after an interrupt."""
        params = {"threadId": self._thread}
        try:
            await self._station.server.send_request("thread/backgroundTerminals/clean", params, timeout=_LEAVE)
        except (RefusedByCodexError, TimeoutError) as error:
            logger.warning("background processes of Codex's commands could not be ended: %s", error or "no answer")
        except ProcessGoneError:
            pass  # they ended with it

    def _current_place(self) -> tuple[AppServer, str]:
        return self._station.server, self._thread

    async def _start(self, playing: RunningTurn, items: Sequence[Mapping[str, Any]]) -> None:
        """Begin a turn; in a new process if the old one has died."""
        try:
            answer = await self._send_start(items)
        except ProcessGoneError:
            if playing.unwanted:
                raise
            await self._move_thread()
            if playing.unwanted:
                raise
            answer = await self._send_start(items)
        playing.begin_turn(str(answer["turn"]["id"]))

    async def _send_start(self, items: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        surroundings = _surroundings_for(shell=self._may_run_commands)
        params: dict[str, Any] = {"threadId": self._thread, "input": items, **surroundings}
        answer = await self._station.server.send_request("turn/start", params)
        self._ran = True
        return answer

    async def _move_thread(self) -> None:
        """Resume the thread in a running process."""
        before, dead = self.id, self._station
        dead.endpoint.revoke_token(self._token)
        station = await self._stations.enter_station()
        if self._closed:  # closed meanwhile: the new station would never be left
            await self._stations.leave_station(station)
            raise ProcessGoneError("the session was closed")
        self._station, self._attached = station, False
        await self._stations.leave_station(dead)
        await self.attach_thread(before)

    async def _offer_now(self) -> None:
        """Ensure that the thread is attached, with the current tools."""
        if not self._station.server.is_alive:
            return  # it is attached when the turn is begun, in another process
        if not self._attached or self._copies.copies_of(self._offered(self._spec)) != self._tools:
            await self._attach_anew()

    async def _attach_anew(self) -> None:
        before = self.id
        try:
            async with self._changing:
                await self._detach_thread()
                await self._attach_now(before)
        except BaseException:
            self._broken = True
            raise

    async def _detach_thread(self) -> None:
        """Have Codex unload the thread, if this session owns it."""
        server, thread = self._station.server, self._thread
        if not self._attached:
            return
        self._unloaded.clear()
        with contextlib.suppress(ProcessGoneError, RefusedByCodexError, TimeoutError):
            async with asyncio.timeout(_LEAVE):
                await server.send_request("thread/unsubscribe", {"threadId": thread})
                await self._unloaded.wait()  # before that it cannot be resumed
        self._attached = False
        self._station.release_thread(thread, self)
        server.listeners.pop(thread, None)


def _settings_of(spec: SessionSpec, endpoint: Mapping[str, Any], *, hooked: bool, shell: bool) -> dict[str, Any]:
    """The parameters of a thread, to start or resume it; `endpoint` says how our MCP server is reached."""
    settings: dict[str, Any] = {
        "cwd": str(spec.cwd),
        # Not "untrusted", which asks about every command: an approved one that fails in the sandbox is run again
        # without it. The hooks call our gates, and no command leaves the sandbox.
        "approvalPolicy": "never",
        "sandbox": "read-only",
        "config": {
            # By dotted names: a whole table would replace the settings from the command line.
            f"mcp_servers.{SERVER}": endpoint,
            **{f"features.{name}": shell for name in SHELL},
            "features.hooks": hooked,
            **({"hooks": HOOKS, "bypass_hook_trust": True} if hooked else {}),
        },
        # Codex's own instructions mention tools that are missing, unless it may run commands.
        "developerInstructions" if shell else "baseInstructions": instructions_of(spec),
    }
    model = spec.model.removeprefix("openai:")
    return settings | ({"model": model} if model else {})


def _surroundings_for(*, shell: bool) -> dict[str, Any]:
    """No environment, unless it may run commands. A resumed thread loses this setting, so each turn sends it."""
    return {} if shell else {"environments": []}


def _input_items(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]
