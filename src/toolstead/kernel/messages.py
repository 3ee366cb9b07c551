"""The messages of a conversation with a model: from the user, the model and tools.

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
    """A message of the user, or one sent on the user's behalf."""

    text: str


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the model: text, calls, or both.

    Attributes:
        text: All of its text to the user.
        calls: What it wants to be called, in order.
        usage: What the request used.
        cut: Whether the model reached its limit of output in the middle of it.
        kept: What the provider wants to see again with it, such as signed thinking; no other code reads it.
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
