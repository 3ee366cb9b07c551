"""One conversation with a script: implements the session port."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolstead.adapters.scripted.conversations import ScriptedConversation
from toolstead.adapters.scripted.script import ScriptedTurn, split_text
from toolstead.adapters.scripted.script_state import Received, ScriptState
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, fingerprint
from toolstead.types.result import ToolResult
from toolstead.types.run import NOTHING_USED, Warmth

_MOST_TURNS = 100
"""Turns of one answer; a script that goes on longer is a mistake."""


class ScriptedSession:
    """Plays the turns that answer what it is told.

    A message that comes while a turn runs (`steer`) ends the turn's silence (`delay`, `hang`); the
    turn does what is left of it, and then the message is answered like any other. The last text
    that was said is the answer.
    """

    def __init__(
        self,
        stage: ScriptState,
        spec: SessionSpec,
        thread_id: str,
        conversation: ScriptedConversation,
        *,
        resumed: bool,
    ) -> None:
        self._stage = stage
        self._spec = spec
        self._thread_id = thread_id
        self._conversation = conversation
        self._resumed = resumed
        self._usable = True
        self._ran = False
        self._running = False
        self._closed = False
        self._steered: deque[str] = deque()
        self._silence: asyncio.Future[None] | None = None

    @property
    def id(self) -> str | None:
        """The conversation's id; another one after a turn with `rotate`."""
        return self._conversation.id

    @property
    def is_resumed(self) -> bool:
        """Whether it was opened with an earlier conversation in it."""
        return self._resumed

    @property
    def is_usable(self) -> bool:
        """False when it failed, lost its conversation or is closed."""
        return self._usable

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt with what the script says."""
        if self._running:
            raise RuntimeFailureError("this scripted session runs a turn already")
        self._refuse_when_closed()
        self._hear_text(turn.prompt, steered=False)
        self._ran = self._running = True
        try:
            return await self._answer_turn(turn)
        except (RuntimeFailureError, SessionLostError):
            self._usable = False
            raise
        finally:
            self._running = False
            self._steered.clear()

    async def steer(self, text: str) -> bool:
        """Give the running turn another message."""
        if not self._running or not self._usable:
            return False
        self._hear_text(text, steered=True)
        self._steered.append(text)
        self._break_silence()
        return True

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Another model is taken as it is; everything else needs a new session."""
        if fingerprint(_without_model(spec)) != fingerprint(_without_model(self._spec)):
            return False
        self._spec = spec
        return True

    async def close(self) -> None:
        """End it; a turn in silence fails at once."""
        if not self._closed:
            self._closed = True
            self._usable = False
            self._stage.closed += 1
            self._break_silence()

    async def _answer_turn(self, turn: Turn) -> Answer:
        """Play turns until one is an answer and no other message has come."""
        usage, text, asked = NOTHING_USED, "", turn.prompt
        following: ScriptedTurn | None = None
        result: str | None = None
        for _ in range(_MOST_TURNS):
            playing = following or self._stage.choose_turn(self._conversation, self._thread_id, asked)
            result, said = await self._play_turn(playing, turn, asked, result)
            text = said if said is not None else text
            usage += playing.usage
            following = self._stage.script.following_turn(playing)
            if following is not None:
                continue
            if playing.goes_on and result is not None:
                text = result
                self._say_text(result, turn)
            if not self._steered:
                return Answer(text=text, usage=usage)
            asked, result = self._steered.popleft(), None
        raise RuntimeFailureError(f"{self._stage.script.source}: more than {_MOST_TURNS} turns for one answer")

    async def _play_turn(
        self, playing: ScriptedTurn, turn: Turn, asked: str, result: str | None
    ) -> tuple[str | None, str | None]:
        """Play one turn of the script; gives the last result and what was said."""
        if playing.delay:
            await self._be_silent(playing.delay)
        if playing.fault is not None:
            raise RuntimeFailureError(
                f"{self._stage.script.source}: turn {playing.number + 1}: the fault {playing.fault.kind!r} is one of a "
                "model API; play the script with scripted_models, or use `fail` here"
            )
        if playing.call:
            result = (await self._call(playing, turn))[-1].text
            self._refuse_when_closed()
        said = None
        if playing.say is not None:
            said = playing.render_text(prompt=asked, result=result)
            self._say_text(said, turn)
        if playing.usage is not NOTHING_USED:
            turn.tell("usage", playing.usage.to_json())
        if playing.hang:
            await self._be_silent(playing.hang)
        if playing.lose and self._stage.loses_session(playing):
            self._stage.conversations.forget_conversation(self._conversation.id)
            raise SessionLostError("the script says that the conversation is lost")
        if playing.fail is not None:
            raise RuntimeFailureError(playing.fail)
        if playing.rotate:
            self._stage.conversations.rotate_id(self._conversation)
        self._stage.conversations.keep_conversation(self._conversation)
        return result, said

    async def _call(self, playing: ScriptedTurn, turn: Turn) -> list[ToolResult]:
        """Call a turn's tools, several side by side."""
        if len(playing.call) == 1:
            return [await turn.call_tool(playing.call[0].tool, playing.call[0].input)]
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(_call_tool(turn, call.tool, call.input)) for call in playing.call]
        return [call.result() for call in calls]

    def _say_text(self, text: str, turn: Turn) -> None:
        for piece in split_text(text):
            turn.tell("message.delta", {"text": piece})
        self._conversation.said.append(("assistant", text))

    def _hear_text(self, text: str, *, steered: bool) -> None:
        warmth: Warmth = "warm" if self._ran else "resumed" if self._resumed else "cold"
        self._stage.received.append(
            Received(
                thread_id=self._thread_id,
                prompt=text,
                warmth=warmth,
                session_id=self._conversation.id,
                spec=self._spec,
                steered=steered,
            )
        )
        self._conversation.said.append(("user", text))

    async def _be_silent(self, seconds: float) -> None:
        """Do nothing for so long, or until a message comes."""
        if self._steered:
            return
        loop = asyncio.get_running_loop()
        self._silence = loop.create_future()
        timer = loop.call_later(seconds, self._break_silence)
        try:
            await self._silence
        finally:
            timer.cancel()
            self._silence = None
        self._refuse_when_closed()

    def _break_silence(self) -> None:
        if self._silence is not None and not self._silence.done():
            self._silence.set_result(None)

    def _refuse_when_closed(self) -> None:
        if not self._usable:
            raise RuntimeFailureError("this scripted session is closed, or has failed before")


async def _call_tool(turn: Turn, tool: str, input: Mapping[str, Any]) -> ToolResult:
    return await turn.call_tool(tool, input)


def _without_model(spec: SessionSpec) -> SessionSpec:
    return replace(spec, model="")
