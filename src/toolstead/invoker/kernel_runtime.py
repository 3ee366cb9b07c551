"""The kernel as a runtime: our own agent loop over any model API, in this process.

Conversations are kept in memory, the latest ones, so that a session that was closed can be resumed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from toolstead.errors import SessionLostError
from toolstead.invoker.kernel_session import Connect, KernelSession, MakeBudget, Offered
from toolstead.invoker.runtime import SessionSpec
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import Conversation
from toolstead.kernel.spending import Spending

MOST_KEPT = 256
"""Conversations that can be resumed; those that were opened longest ago are forgotten first."""


class KernelRuntime:
    """Opens sessions on model APIs."""

    def __init__(
        self,
        *,
        connect: Connect,
        resolve: Callable[[str], str],
        offered: Offered,
        limits: Limits | None = None,
        make_budget: MakeBudget | None = None,
    ) -> None:
        """Make a runtime.

        Args:
            connect: Gives the model of a full name.
            resolve: Gives the full name of what was asked for, or of the usual model for an empty name.
            offered: The tools of an agent.
            limits: Of one activation.
            make_budget: Makes the budget of a turn; by default each turn has its own, from the limits.
        """
        self._connect = connect
        self._resolve = resolve
        self._offered = offered
        self._limits = limits or Limits()
        self._make_budget: MakeBudget = make_budget or (lambda _: Spending(self._limits))
        self._kept: dict[str, Conversation] = {}

    @property
    def name(self) -> str:
        """`kernel`."""
        return "kernel"

    @property
    def owns_process(self) -> bool:
        """False: a session is a list of messages."""
        return False

    def resolve_model(self, model: str) -> str:
        """The full name of the model that answers."""
        return self._resolve(model)

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> KernelSession:
        """Open a session.

        Raises:
            SessionLostError: `resume` is not kept here, or not any more.
            RuntimeFailureError: There is no such model, or no key for it.
        """
        model = await self._connect(self._resolve(spec.model))
        found = self._kept.pop(resume, None) if resume is not None else None
        if resume is not None and found is None:
            raise SessionLostError(f"the kernel does not have the conversation {resume!r} any more")
        conversation = found or Conversation(secrets.token_hex(8))
        conversation.refused.clear()  # it may be another model's now
        self._kept[conversation.id] = conversation
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return KernelSession(
            spec,
            conversation,
            model=model,
            connect=lambda name: self._connect(self._resolve(name)),
            offered=self._offered,
            limits=self._limits,
            make_budget=self._make_budget,
            resumed=found is not None,
        )
