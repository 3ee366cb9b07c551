"""What all sessions of one scripted runtime share: the script, how far it was played, what was heard."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from toolstead.adapters.scripted.conversations import ScriptedConversation, ScriptedConversations
from toolstead.adapters.scripted.script import Script, ScriptedTurn
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec
from toolstead.types.run import Warmth

_MOST_RECEIVED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Something the model was told.

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


class ScriptState:
    """Where a script is played.

    Attributes:
        script: What is played.
        conversations: Those of all threads.
        received: What models were told, oldest first.
        opened: How many sessions were opened.
        closed: How many of them are closed.
    """

    def __init__(self, script: Script, conversations: ScriptedConversations) -> None:
        self.script = script
        self.conversations = conversations
        self.received: deque[Received] = deque(maxlen=_MOST_RECEIVED)
        self.opened = 0
        self.closed = 0
        self._played: dict[str, int] = {}
        self._losses: Counter[int] = Counter()

    def enter_conversation(self, thread_id: str, found: ScriptedConversation | None) -> ScriptedConversation:
        """Go on with a conversation, or begin one; its thread goes on where it was."""
        self.opened += 1
        if found is None:
            return self.conversations.begin_conversation(thread_id, self._played.get(thread_id, 0))
        self._played[thread_id] = max(self._played.get(thread_id, 0), found.played)
        return found

    def choose_turn(self, conversation: ScriptedConversation, thread_id: str, text: str) -> ScriptedTurn:
        """The turn that answers; from now on it counts as played.

        Raises:
            RuntimeFailureError: The script has none.
        """
        turn, played = self.script.choose_turn(text, self._played.get(thread_id, 0), self._losses)
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
