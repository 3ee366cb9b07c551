"""What is said in a conversation with a model: by the user, by the model, by tools.

Structs, because every turn makes a few: 0.2 µs each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolstead.types.content import Content
from toolstead.types.run import NOTHING_USED, Usage


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said, or somebody on the user's behalf."""

    text: str


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said: text, calls, or both.

    Attributes:
        text: Everything it said to the user.
        calls: What it wants to be called, in order.
        usage: What the request used.
        cut: Whether the model reached its limit of output in the middle of it.
        kept: What the provider wants to see again with it, such as signed thinking; nobody else looks at it.
    """

    text: str
    calls: tuple[ToolUse, ...] = ()
    usage: Usage = NOTHING_USED
    cut: bool = False
    kept: Any = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered to a call."""

    call: ToolUse
    content: Sequence[Content]
    is_error: bool = False


Message = Said | ModelReply | Answered
