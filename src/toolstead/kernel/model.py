"""The model port: one request to a model API, streamed. Adapters implement it; the loop uses it.

A model knows nothing of loops, retries or budgets: it translates, sends one request, and returns the reply.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from toolstead.kernel.conversation import Message, ModelReply
from toolstead.types.tool import JSONSchema, ToolInfo


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked.

    Attributes:
        instructions: Who it is and what it should do; may be empty.
        messages: The conversation. It grows after the request, so a model must not keep it; nor change it.
        tools: What it may call, with their canonical schemas. The same object until they change.
        max_tokens: The limit of its output; None for the model's own.
        result_schema: What its last answer must fit, for an API that can enforce it; None when any text will do.
    """

    instructions: str
    messages: Sequence[Message]
    tools: Sequence[ToolInfo] = ()
    max_tokens: int | None = None
    result_schema: JSONSchema | None = None


class ModelDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of an answer on its way."""

    text: str
    kind: Literal["text", "thinking"] = "text"


class Model(Protocol):
    """One model of one API. Safe for any number of requests at once."""

    @property
    def name(self) -> str:
        """`provider:name`, such as `anthropic:claude-sonnet-4-6`."""
        ...

    def estimate_cost(self, input_tokens: int) -> tuple[float, float]:
        """USD for reading so many tokens, and for each token that is written; 0 where the price is not known."""
        ...

    def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Ask once: pieces as they come, then the whole reply as the last item.

        Closing the generator early ends the request.

        Raises:
            ModelError: There is no whole reply; its `fault` says why.
        """
        ...
