"""One conversation with a model API: implements the session port with the agent loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn, instructions_of
from toolstead.kernel.activation import Activation, Budget, Limits
from toolstead.kernel.conversation import Conversation
from toolstead.kernel.loop import converse
from toolstead.kernel.model import Model
from toolstead.types.call import Caller
from toolstead.types.tool import ToolInfo

Offered = Callable[[SessionSpec], Sequence[ToolInfo]]
"""The tools that an agent is offered now; the same object until they change."""

Connect = Callable[[str], Awaitable[Model]]
"""The model of a full name, the same object every time. Raises RuntimeFailureError."""

MakeBudget = Callable[[Caller], Budget]
"""What the turn of this caller may spend."""


class KernelSession:
    """Runs turns of the kernel, with the whole conversation in memory."""

    def __init__(
        self,
        spec: SessionSpec,
        conversation: Conversation,
        *,
        model: Model,
        connect: Connect,
        offered: Offered,
        limits: Limits,
        make_budget: MakeBudget,
        resumed: bool,
    ) -> None:
        self._spec = spec
        self._conversation = conversation
        self._model = model
        self._connect = connect
        self._offered = offered
        self._limits = limits
        self._make_budget = make_budget
        self._resumed = resumed
        self._running: asyncio.Timeout | None = None
        self._closed = False

    @property
    def id(self) -> str | None:
        """The conversation's id; None before the first message."""
        return self._conversation.id if self._conversation.messages else None

    @property
    def is_resumed(self) -> bool:
        """Whether it was opened with an earlier conversation in it."""
        return self._resumed

    @property
    def is_usable(self) -> bool:
        """Until it is closed: a model that failed may answer the next time."""
        return not self._closed

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt."""
        conversation, spec = self._conversation, self._spec
        if conversation.busy or self._closed:
            raise RuntimeFailureError(f"this session {'is closed' if self._closed else 'runs a turn already'}")
        activation = Activation(
            model=self._model,
            offer=partial(self._offered, spec),
            call_tool=turn.call_tool,
            tell=turn.tell,
            budget=self._make_budget(turn.caller),
            instructions=instructions_of(spec),
            limits=self._limits,
        )
        conversation.add_user_text(turn.prompt)
        conversation.busy = True
        self._running = end = asyncio.timeout(None)
        try:
            async with end:
                conclusion = await converse(conversation, activation)
        except TimeoutError:
            if end.expired():
                raise RuntimeFailureError("this session was closed while it ran a turn") from None
            raise
        finally:
            self._running = None
            conversation.busy = False
            conversation.take_steered()  # what came too late for this turn is sent with the next
        return Answer(text=conclusion.text, usage=conclusion.usage)

    async def steer(self, text: str) -> bool:
        """Give the running turn another message; the model reads it with its next request."""
        if self._running is None:
            return False
        self._conversation.steered.append(text)
        return True

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Become a session of another specification: every request is made anew, so any will do."""
        if spec.model != self._spec.model:
            self._model = await self._connect(spec.model)
            self._conversation.refused.clear()  # another API may take what this one did not
        self._spec = spec
        return True

    async def close(self) -> None:
        """End it; a turn that runs is interrupted, and fails."""
        self._closed = True
        running, self._running = self._running, None
        if running is not None:
            running.reschedule(asyncio.get_running_loop().time())
