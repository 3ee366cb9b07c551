"""A conversation with a model: its messages so far, and those that the user sent meanwhile.

It is whole at any time: a call that was begun has an answer, also when it was interrupted, because no
model API takes a history with a hole in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from toolstead.kernel.messages import Answered, Message, Said
from toolstead.types.content import whole_text
from toolstead.types.tool import ToolInfo

EMPTY = "[an empty message]"


class Conversation:
    """The messages that every request sends to a model.

    Attributes:
        id: With which it is found again.
        messages: Oldest first; only the loop adds to it.
        steered: What the user sent while the model was at work; it goes out with the next request.
        busy: Whether a turn runs; two at once would tear it apart.
        refused: Tools whose schema the model's API does not take, by name. A changed tool is offered again.
    """

    __slots__ = ("busy", "id", "messages", "refused", "steered")

    def __init__(self, id: str, messages: Sequence[Message] = ()) -> None:
        self.id = id
        self.busy = False
        self.messages: list[Message] = list(messages)
        self.steered: deque[str] = deque()
        self.refused: dict[str, ToolInfo] = {}

    def add_user_text(self, text: str) -> None:
        """Add a message of the user; no API takes an empty one, so that gets a placeholder."""
        self.messages.append(Said(text=whole_text(text) if text.strip() else EMPTY))

    def take_steered(self) -> None:
        """Append what the user sent meanwhile."""
        while self.steered:
            self.add_user_text(self.steered.popleft())

    def add_answers(self, answers: Sequence[Answered]) -> None:
        """Add the tools' answers to all calls of one reply."""
        self.messages.extend(answers)
