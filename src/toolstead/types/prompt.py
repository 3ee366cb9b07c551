"""A prompt that a client fetches: the messages that it is filled in to."""

from __future__ import annotations

from typing import Literal

from toolstead.types.content import Content
from toolstead.types.sent import SentStruct

PromptRole = Literal["user", "assistant"]


class PromptMessage(SentStruct, frozen=True, kw_only=True):
    """One message of a filled-in prompt.

    Attributes:
        content: What is said.
        role: Who says it.
    """

    content: Content
    role: PromptRole = "user"
