"""The kernel as a runtime: our own agent loop over any model API, in this process.

Conversations are kept in memory, the latest ones, so that a session that was closed can be resumed; one that another
process held is recalled from what is stored of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Answer, Offered, SessionSpec, Turn, instructions_of, name_turn_limit
from toolstead.kernel.activation import Activation, Limits, Spending
from toolstead.kernel.conversation import Conversation, Message
from toolstead.kernel.loop import converse
from toolstead.kernel.model import Model

MOST_KEPT = 256
"""Conversations that can be resumed; those that were opened longest ago are forgotten first."""

Connect = Callable[[str], Awaitable[Model]]
"""The model of a full name, the same object every time. Raises RuntimeFailureError."""
Recall = Callable[[str], Awaitable[list[Message]]]
"""The stored conversation of a thread. Raises SessionLostError where it is not stored whole."""


@dataclass(eq=False, kw_only=True)
class KernelRuntime:
    """Opens sessions on model APIs.

    Attributes:
        connect: Gives the model of a full name.
        resolve: Gives the full name of what was asked for, or of the usual model for an empty name.
        offered: The tools of an agent.
        limits: Of one activation; the agent may set other turns, and the turn lower budgets.
        recall: Gives conversations that are not kept here; None where nothing is stored.
    """

    name = "kernel"
    owns_process = False
    """A session is a list of messages."""

    connect: Connect
    resolve: Callable[[str], str]
    offered: Offered
    limits: Limits = field(default_factory=Limits)
    recall: Recall | None = None
    _kept: dict[str, Conversation] = field(default_factory=dict[str, Conversation], init=False)

    def resolve_model(self, model: str) -> str:
        """The full name of the model that answers."""
        return self.resolve(model)

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> KernelSession:
        """Open a session.

        Raises:
            SessionLostError: `resume` is neither kept here nor stored whole.
            RuntimeFailureError: There is no such model, or no key for it.
        """
        model = await self.connect(self.resolve(spec.model))
        found = self._kept.pop(resume, None) if resume is not None else None
        conversation = found or Conversation(secrets.token_hex(8))
        if resume is not None and found is None:
            # It gets another id: the process that held it may still have it as it was then.
            conversation.messages.extend(await self._recall(resume, thread_id))
        conversation.refused.clear()  # it may be another model's now
        self._kept[conversation.id] = conversation
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return KernelSession(self, spec, conversation, model, is_resumed=resume is not None)

    async def _recall(self, id: str, thread_id: str) -> list[Message]:
        if self.recall is None:
            raise SessionLostError(f"the kernel does not have the conversation {id!r} any more")
        return await self.recall(thread_id)


@dataclass(eq=False)
class KernelSession:
    """Runs turns of the kernel, with the whole conversation in memory.

    Attributes:
        is_resumed: Whether it was opened with an earlier conversation in it.
    """

    _runtime: KernelRuntime
    _spec: SessionSpec
    _conversation: Conversation
    _model: Model
    is_resumed: bool
    _running: asyncio.Timeout | None = None
    _closed: bool = False

    @property
    def id(self) -> str | None:
        """The conversation's id; None before the first message."""
        return self._conversation.id if self._conversation.messages else None

    @property
    def is_usable(self) -> bool:
        """Until it is closed: a model that failed may answer the next time."""
        return not self._closed

    async def run(self, turn: Turn) -> Answer:
        """Answer a prompt."""
        conversation, limits = self._conversation, self._limit_activation(turn)
        if conversation.busy or self._closed:
            raise RuntimeFailureError(f"this session {'is closed' if self._closed else 'runs a turn already'}")
        conversation.busy = True
        self._running = end = asyncio.timeout(None)
        try:
            async with end:
                # Again, for its key may be another now.
                self._model = await self._runtime.connect(self._runtime.resolve(self._spec.model))
                conversation.add_user_text(turn.prompt)
                return await converse(conversation, self._create_activation(turn, limits))
        except TimeoutError:
            if end.expired():
                raise RuntimeFailureError("this session was closed while it ran a turn") from None
            raise
        finally:
            self._running = None
            conversation.busy = False
            conversation.take_steered()  # what came too late for this turn is sent with the next

    def _create_activation(self, turn: Turn, limits: Limits) -> Activation:
        return Activation(
            model=self._model,
            offer=partial(self._runtime.offered, self._spec),
            call_tool=turn.call_tool,
            tell=turn.tell,
            budget=Spending(limits, turn.budget),
            instructions=instructions_of(self._spec),
            limits=limits,
            result_schema=msgspec.json.decode(schema) if (schema := self._spec.result_schema) else None,
            recorder=turn.recorder,
        )

    def _limit_activation(self, turn: Turn) -> Limits:
        limits, own = self._runtime.limits, turn.limits
        return msgspec.structs.replace(
            limits,
            turns=limits.turns if self._spec.max_turns is None else self._spec.max_turns,
            turns_from=name_turn_limit(self._spec, self._runtime.name),
            tokens=limits.tokens if own.tokens is None else min(limits.tokens, own.tokens),
            cost=limits.cost if own.cost is None else min(limits.cost, own.cost),
        )

    async def steer(self, text: str) -> bool:
        """Give the running turn another message; the model reads it with its next request."""
        if self._running is None:
            return False
        self._conversation.steered.append(text)
        return True

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Become a session of another specification: every request is made anew, so any will do."""
        if spec.model != self._spec.model:
            self._model = await self._runtime.connect(self._runtime.resolve(spec.model))
            self._conversation.refused.clear()  # another API may take what this one did not
        self._spec = spec
        return True

    async def close(self) -> None:
        """End it; a turn that runs is interrupted, and fails."""
        self._closed = True
        running, self._running = self._running, None
        if running is not None:
            running.reschedule(asyncio.get_running_loop().time())
