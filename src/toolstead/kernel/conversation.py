"""A conversation with a model: its messages so far, and those that the user sent meanwhile.

It is whole at any time: a call that was begun has an answer, also when it was interrupted, because no
model API takes a history with a hole in it. Messages are structs, because every turn makes a few: 0.2 µs each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolstead.types.content import Content, whole_text
from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.tool import ToolInfo

EMPTY = "[an empty message]"


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call that the model wants.

    Attributes:
        id: The model's own id of it.
        name: The tool, as the model wrote it.
        input: Its arguments; None when what the model wrote is no JSON object.
        text: What the model wrote, then.
    """

    id: str
    name: str
    input: Mapping[str, Any] | None
    text: str = ""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user, or one sent on the user's behalf."""

    text: str


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the model: text, calls, or both.

    Attributes:
        text: All of its text to the user.
        calls: What it wants to be called, in order.
        usage: What the request used.
        cut: Whether the model reached its limit of output in the middle of it.
        finish: Why it ended, in the API's own word; empty where the API gives none.
        cached_tokens: Those of its input that a cache had; 0 where the API does not say.
        adapted: What was changed in the schemas of tools for this API, by the tool's name.
        kept: What the provider wants to see again with it, such as signed thinking; no other code reads it.
    """

    text: str
    calls: tuple[ToolUse, ...] = ()
    usage: Usage = NOTHING_USED
    cut: bool = False
    finish: str = ""
    cached_tokens: int = 0
    adapted: Mapping[str, Sequence[str]] = {}
    kept: Any = None


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered to a call."""

    call: ToolUse
    content: Sequence[Content]
    is_error: bool = False


Message = UserMessage | ModelReply | ToolAnswer


@dataclass(eq=False, slots=True)
class Conversation:
    """The messages that every request sends to a model.

    Attributes:
        id: With which it is found again.
        messages: Oldest first; only the loop adds to it.
        steered: What the user sent while the model was at work; it goes out with the next request.
        busy: Whether a turn runs; two at once would tear it apart.
        refused: Tools whose schema the model's API does not take, by name. A changed tool is offered again.
    """

    id: str
    messages: list[Message] = field(default_factory=list[Message])
    steered: deque[str] = field(default_factory=deque[str])
    busy: bool = False
    refused: dict[str, ToolInfo] = field(default_factory=dict[str, ToolInfo])

    def add_user_text(self, text: str) -> None:
        """Add a message of the user; no API takes an empty one, so that gets a placeholder."""
        self.messages.append(UserMessage(text=whole_text(text) if text.strip() else EMPTY))

    def take_steered(self) -> None:
        """Append what the user sent meanwhile."""
        while self.steered:
            self.add_user_text(self.steered.popleft())
