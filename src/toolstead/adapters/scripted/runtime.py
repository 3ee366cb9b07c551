"""The scripted runtime: implements the runtime port and the session port by playing a script.

Everything a runtime can do to its caller happens here on demand: answers in pieces, tool calls,
silence, failures, lost conversations, ids that change.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolstead.adapters.scripted.script import Script, ScriptedTurn, split_text
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.adapters.scripted.script_state import Received, ScriptedConversation, ScriptState
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, explain_turn_limit, fingerprint
from toolstead.types.result import ToolResult
from toolstead.types.run import NOTHING_USED, Warmth

_MOST_TURNS = 100
"""Turns of one answer; a script that goes on longer is a mistake."""


class ScriptedRuntime:
    """A runtime that plays a script; see `toolstead.adapters.scripted.script` for which turn answers what.

    Attributes:
        name: `scripted`.
        owns_process: As it was given.
    """

    name = "scripted"

    def __init__(
        self,
        script: Script | str,
        *,
        resumes: bool = True,
        folder: str | Path | None = None,
        owns_process: bool = False,
    ) -> None:
        """Make a runtime.

        Args:
            script: From `load_script`, or as YAML text.
            resumes: False makes it a runtime that resumes nothing and begins every session empty.
            folder: Where conversations are kept, so that another process can resume them.
            owns_process: Whether the pool counts its sessions, as if each were a process.

        Raises:
            ScriptError: The text is no script.
        """
        played = parse_script(script) if isinstance(script, str) else script
        self._state = ScriptState(played, Path(folder) if folder is not None else None)
        self._resumes = resumes
        self.owns_process = owns_process

    def resolve_model(self, model: str) -> str:
        """Any name will do: the script answers."""
        return model

    @property
    def received(self) -> list[Received]:
        """What models received, oldest first; the last 10,000."""
        return list(self._state.received)

    @property
    def opened(self) -> int:
        """How many sessions were opened."""
        return self._state.opened

    @property
    def closed(self) -> int:
        """How many of them are closed."""
        return self._state.closed

    def conversation(self, session_id: str) -> list[tuple[str, str]]:
        """What is in a conversation, as role and text; empty when it is unknown."""
        found = self._state.find_conversation(session_id)
        return list(found.texts) if found is not None else []

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> ScriptedSession:
        """Open a session.

        Raises:
            SessionLostError: `resume` is unknown here.
        """
        resume = resume if self._resumes else None
        conversation = self._state.open_conversation(thread_id, resume)
        return ScriptedSession(self._state, spec, thread_id, conversation, resumed=resume is not None)


class ScriptedSession:
    """Plays the turns that answer its prompts.

    A message that comes while a turn runs (`steer`) ends the turn's silence (`delay`, `hang`); the
    turn does what is left of it, and then the message is answered like any other. The last text
    of the model is the answer.

    Attributes:
        is_resumed: Whether it was opened with an earlier conversation in it.
        is_usable: False when it failed, lost its conversation or is closed.
    """

    def __init__(
        self,
        state: ScriptState,
        spec: SessionSpec,
        thread_id: str,
        conversation: ScriptedConversation,
        *,
        resumed: bool,
    ) -> None:
        self.is_resumed = resumed
        self.is_usable = True
        self._state = state
        self._spec = spec
        self._thread_id = thread_id
        self._conversation = conversation
        self._ran = False
        self._running = False
        self._closed = False
        self._steered: deque[str] = deque()
        self._interruption = asyncio.Event()

    @property
    def id(self) -> str | None:
        """The conversation's id; another one after a turn with `rotate`."""
        return self._conversation.id

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt with what the script says."""
        if self._running:
            raise RuntimeFailureError("this scripted session runs a turn already")
        self._refuse_when_closed()
        self._note_received(turn.prompt, steered=False)
        self._ran = self._running = True
        try:
            return await self._answer_turn(turn)
        except (RuntimeFailureError, SessionLostError):
            self.is_usable = False
            raise
        finally:
            self._running = False
            self._steered.clear()

    async def steer(self, text: str) -> bool:
        """Give the running turn another message."""
        if not self._running or not self.is_usable:
            return False
        self._note_received(text, steered=True)
        self._steered.append(text)
        self._interruption.set()
        return True

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Another model is taken as it is; everything else needs a new session."""
        if fingerprint(replace(spec, model=self._spec.model)) != fingerprint(self._spec):
            return False
        self._spec = spec
        return True

    async def close(self) -> None:
        """End it; a turn in silence fails at once."""
        if not self._closed:
            self._closed = True
            self.is_usable = False
            self._state.closed += 1
            self._interruption.set()

    async def _answer_turn(self, turn: Turn) -> Answer:
        """Play turns until one is an answer and no other message has come."""
        usage, text, prompt = NOTHING_USED, "", turn.prompt
        following: ScriptedTurn | None = None
        result: str | None = None
        for _ in range(_MOST_TURNS if self._spec.max_turns is None else self._spec.max_turns):
            playing = following or self._state.choose_turn(self._conversation, self._thread_id, prompt)
            result, reply = await self._play_turn(playing, turn, prompt, result)
            text = reply if reply is not None else text
            usage += playing.usage
            following = self._state.script.following_turn(playing)
            if following is not None:
                continue
            if playing.goes_on and result is not None:
                text = result
                self._send_text(result, turn)
            if not self._steered:
                return Answer(text=text, usage=usage)
            prompt, result = self._steered.popleft(), None
        if self._spec.max_turns is not None:
            raise explain_turn_limit(self._spec, "scripted", self._spec.max_turns)
        raise RuntimeFailureError(f"{self._state.script.source}: more than {_MOST_TURNS} turns for one answer")

    async def _play_turn(
        self, playing: ScriptedTurn, turn: Turn, prompt: str, result: str | None
    ) -> tuple[str | None, str | None]:
        """Play one turn of the script; gives the last result and the text of the model."""
        await self._be_silent(playing.delay)
        if playing.fault is not None:
            raise RuntimeFailureError(
                f"{self._state.script.source}: turn {playing.number + 1}: the fault {playing.fault.kind!r} is one of a "
                "model API; play the script with scripted_models, or use `fail` here"
            )
        if playing.call:
            result = (await self._call_tools(playing, turn))[-1].text
            self._refuse_when_closed()
        reply = None
        if playing.say is not None:
            reply = playing.render_text(prompt=prompt, result=result)
            self._send_text(reply, turn)
        if playing.usage is not NOTHING_USED:
            turn.tell("usage", playing.usage.to_json())
        await self._be_silent(playing.hang)
        if playing.lose and self._state.loses_session(playing):
            self._state.forget_conversation(self._conversation.id)
            raise SessionLostError("the script says that the conversation is lost")
        if playing.fail is not None:
            raise RuntimeFailureError(playing.fail)
        self._state.keep_conversation(self._conversation, rotate=playing.rotate)
        return result, reply

    async def _call_tools(self, playing: ScriptedTurn, turn: Turn) -> list[ToolResult]:
        """Call a turn's tools, several side by side."""
        if len(playing.call) == 1:
            return [await turn.call_tool(playing.call[0].tool, playing.call[0].input)]
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(_call_tool(turn, call.tool, call.input)) for call in playing.call]
        return [call.result() for call in calls]

    def _send_text(self, text: str, turn: Turn) -> None:
        for piece in split_text(text):
            turn.tell("message.delta", {"text": piece})
        self._conversation.texts.append(("assistant", text))

    def _note_received(self, text: str, *, steered: bool) -> None:
        warmth: Warmth = "warm" if self._ran else "resumed" if self.is_resumed else "cold"
        self._state.received.append(
            Received(
                thread_id=self._thread_id,
                prompt=text,
                warmth=warmth,
                session_id=self._conversation.id,
                spec=self._spec,
                steered=steered,
            )
        )
        self._conversation.texts.append(("user", text))

    async def _be_silent(self, seconds: float) -> None:
        """Do nothing for so long, or until a message comes."""
        if not seconds or self._steered:
            return
        self._interruption.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._interruption.wait()
        self._refuse_when_closed()

    def _refuse_when_closed(self) -> None:
        if not self.is_usable:
            raise RuntimeFailureError("this scripted session is closed, or has failed before")


async def _call_tool(turn: Turn, tool: str, input: Mapping[str, Any]) -> ToolResult:
    return await turn.call_tool(tool, input)
