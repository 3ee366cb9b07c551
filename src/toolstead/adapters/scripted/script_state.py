"""What all sessions of one scripted runtime share: the script, how far it was played, and the conversations.

Conversations are in memory, and in a folder when another process is to resume them.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from toolstead.adapters.scripted.script import Script, ScriptedTurn
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import SessionSpec
from toolstead.types.run import Warmth

_MOST_RECEIVED = 10_000
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A text that was sent to the model.

    Attributes:
        thread_id: Where.
        prompt: The whole text, with what hooks put around the message.
        warmth: What the session was when the text came: it had run a turn, was resumed, or empty.
        session_id: The conversation's id at that moment.
        spec: What the session was built with.
        steered: It came while a turn was running.
    """

    thread_id: str
    prompt: str
    warmth: Warmth
    session_id: str
    spec: SessionSpec
    steered: bool = False


class ScriptedConversation(msgspec.Struct, kw_only=True, rename="camel"):
    """The texts that a scripted model received and answered.

    Attributes:
        id: With which it can be resumed; a kept one has it in its file's name.
        thread_id: Where it takes place.
        played: How many turns without `when` its thread has used up.
        texts: Role and text, in order.
    """

    id: str = ""
    thread_id: str
    played: int
    texts: list[tuple[str, str]] = msgspec.field(default_factory=list[tuple[str, str]], name="said")


class ScriptState:
    """Where a script is played.

    Attributes:
        script: What is played.
        received: What models received, oldest first.
        opened: How many sessions were opened.
        closed: How many of them are closed.
    """

    def __init__(self, script: Script, folder: Path | None) -> None:
        self.script = script
        self.received: deque[Received] = deque(maxlen=_MOST_RECEIVED)
        self.opened = 0
        self.closed = 0
        self._folder = folder
        self._conversations: dict[str, ScriptedConversation] = {}
        self._played: dict[str, int] = {}
        self._losses: Counter[int] = Counter()

    def open_conversation(self, thread_id: str, resume: str | None) -> ScriptedConversation:
        """Continue a conversation, or begin one; its thread continues where it was.

        Raises:
            SessionLostError: There is none to continue.
        """
        played = self._played.get(thread_id, 0)
        if resume is None:
            conversation = ScriptedConversation(thread_id=thread_id, played=played)
            self._assign_id(conversation)
        else:
            found = self.find_conversation(resume)
            if found is None:
                raise SessionLostError(f"the scripted runtime has no conversation {resume!r}")
            conversation = found
            self._played[thread_id] = max(played, conversation.played)
        self.opened += 1
        return conversation

    def find_conversation(self, id: str) -> ScriptedConversation | None:
        """The one with this id, from the folder too; None when there is none."""
        if self._folder is not None and _ID.fullmatch(id):
            with suppress(OSError, ValueError, msgspec.MsgspecError):  # gone, or no conversation of ours: it is lost
                data = (self._folder / f"{id}.json").read_bytes()  # another process may have continued it
                kept = msgspec.json.decode(data, type=ScriptedConversation)
                self._conversations[id] = msgspec.structs.replace(kept, id=id)
        return self._conversations.get(id)

    def keep_conversation(self, conversation: ScriptedConversation, *, rotate: bool) -> None:
        """Write it down, where there is a folder; with another id if it is to rotate."""
        if rotate:
            self.forget_conversation(conversation.id)
            self._assign_id(conversation)
        if self._folder is None:
            return
        kept = {"threadId": conversation.thread_id, "played": conversation.played, "said": conversation.texts}
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{conversation.id}.{secrets.token_hex(4)}.tmp"
        unfinished.write_bytes(msgspec.json.encode(kept))
        unfinished.replace(self._folder / f"{conversation.id}.json")  # a reader sees the old content or the new

    def forget_conversation(self, id: str) -> None:
        """Lose it."""
        self._conversations.pop(id, None)
        if self._folder is not None:
            (self._folder / f"{id}.json").unlink(missing_ok=True)

    def choose_turn(self, conversation: ScriptedConversation, thread_id: str, text: str) -> ScriptedTurn:
        """The turn that answers; from now on it counts as played.

        Raises:
            RuntimeFailureError: The script has none.
        """
        lost = {
            turn.number for turn in self.script.turns if turn.is_silent and 0 < turn.lose <= self._losses[turn.number]
        }
        turn, played = self.script.choose_turn(text, self._played.get(thread_id, 0), without=lost)
        if turn is None:
            raise RuntimeFailureError(self.script.unanswered_text(text))
        self._played[thread_id] = conversation.played = played
        return turn

    def loses_session(self, turn: ScriptedTurn) -> bool:
        """Whether the session is lost in this turn now; it counts."""
        if self._losses[turn.number] >= turn.lose:
            return False
        self._losses[turn.number] += 1
        return True

    def _assign_id(self, conversation: ScriptedConversation) -> None:
        conversation.id = secrets.token_hex(8)
        self._conversations[conversation.id] = conversation
