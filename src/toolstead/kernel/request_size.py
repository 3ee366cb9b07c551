"""How large the next request of a conversation is, for a budget that reserves before each request.

The model says how many tokens it read the last time; what came since is counted by its bytes. A first request is
counted by its bytes alone.
"""

from __future__ import annotations

import msgspec

from toolstead.kernel.activation import Activation
from toolstead.kernel.conversation import Conversation, Message, ModelReply, ToolAnswer, UserMessage
from toolstead.types.content import Text
from toolstead.types.run import Usage

BYTES_PER_TOKEN = 2
"""English has about four, code and JSON about three; rather too many tokens than too few."""
TOKENS_OF_IMAGE = 2_000
TOKENS_OF_MESSAGE = 16
"""What surrounds each message."""


class ConversationSize:
    """Estimates the next request of one activation."""

    def __init__(self, activation: Activation, conversation: Conversation) -> None:
        self._activation, self._conversation = activation, conversation
        self._known = self._counted = 0

    def note_usage(self, usage: Usage) -> None:
        """Take what the model says about the request that it answered; its reply is the next message."""
        self._known = usage.input_tokens + usage.output_tokens
        self._counted = len(self._conversation.messages) + 1 if self._known else 0

    def estimate_tokens(self) -> int:
        """Tokens that the model will read."""
        messages = self._conversation.messages
        if 0 < self._counted <= len(messages):
            return self._known + sum(map(_count_tokens, messages[self._counted :]))
        tools = sum(
            len(msgspec.json.encode(tool.input_schema)) + len(tool.description.encode("utf-8", "replace"))
            for tool in self._activation.offer()
        )
        fixed = len(self._activation.instructions.encode("utf-8", "replace")) + tools
        return fixed // BYTES_PER_TOKEN + sum(map(_count_tokens, messages))

    def estimate_cost(self, tokens: int) -> tuple[float, float]:
        """USD for reading so many tokens, and for each one that is written."""
        return self._activation.model.estimate_cost(tokens)


def _count_tokens(message: Message) -> int:
    match message:
        case UserMessage(text=text):
            size = _count_bytes(text)
        case ModelReply(text=text, calls=calls):
            size = _count_bytes(text) + sum(len(msgspec.json.encode(call.input)) + len(call.text) for call in calls)
        case ToolAnswer(content=content):
            texts = [part.text for part in content if isinstance(part, Text)]
            others = len(content) - len(texts)
            size = sum(map(_count_bytes, texts)) + others * TOKENS_OF_IMAGE * BYTES_PER_TOKEN
    return TOKENS_OF_MESSAGE + size // BYTES_PER_TOKEN


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
