"""The recorder port: what takes down each request to a model and what came of it. `invoker` implements it."""

from __future__ import annotations

from typing import Protocol

from toolstead.kernel.conversation import ModelReply
from toolstead.kernel.model import ModelRequest
from toolstead.types.run import Usage


class Recorder(Protocol):
    """Takes down requests, one at a time. Neither method may raise or block: a run never fails because of it."""

    def begin_request(self, model: str, request: ModelRequest) -> None:
        """A request is about to be sent.

        Its conversation grows from here on. What is in it by now changes only after a request that failed.
        """
        ...

    def end_request(self, reply: ModelReply | None, usage: Usage, error: BaseException | None) -> None:
        """The request that began was answered, or failed, or was interrupted; where none began there is nothing to do.

        Args:
            reply: The reply, as the model gave it.
            usage: What was counted for it.
            error: Where there is no reply, why. Beside a reply it means nothing.
        """
        ...


class NoRecorder:
    """Takes down nothing."""

    def begin_request(self, model: str, request: ModelRequest) -> None:
        """A request is about to be sent."""

    def end_request(self, reply: ModelReply | None, usage: Usage, error: BaseException | None) -> None:
        """It has ended."""


UNRECORDED = NoRecorder()
