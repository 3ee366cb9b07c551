"""The runtime port: what drives a model. Adapters implement it; the pool and the invoker use it.

A runtime opens sessions. A session is one warm connection to a model with its conversation in it;
it runs one turn at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from toolstead.types.call import Caller, CallTurnTool, Tell
from toolstead.types.result import Failure, ToolResult
from toolstead.types.run import Answer
from toolstead.types.tool import ToolInfo

_BUILT_IN = """\
You work for the user in the folder {cwd}. Use your tools where they help: look instead of guessing, and say what you
found. When a tool fails, read its error and do what it says would be right; do not repeat a call that failed.
When you are done, answer in plain words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """What a session is built with. Two equal ones can share a session; see `fingerprint`.

    Attributes:
        agent: The agent's name.
        model: The model's name, empty for the runtime's own choice.
        cwd: The folder it works in.
        tools: The names of the tools it is offered.
        instructions: The agent's instructions.
        permissions: What else the runtime may do, such as using its own tools.
    """

    agent: str
    model: str
    cwd: Path
    tools: tuple[str, ...] = ()
    instructions: str = ""
    permissions: tuple[str, ...] = ()


Offered = Callable[[SessionSpec], Sequence[ToolInfo]]
"""The tools that an agent is offered now; the same object until they change."""


@lru_cache(maxsize=512)
def fingerprint(spec: SessionSpec) -> str:
    """A short text that is the same for two specifications when one session can serve both.

    The order of tools and permissions means nothing, so it makes no difference.
    """
    parts = [
        spec.agent,
        spec.model,
        str(spec.cwd),
        sorted(set(spec.tools)),
        spec.instructions,
        sorted(set(spec.permissions)),
    ]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def instructions_of(spec: SessionSpec) -> str:
    """The agent's own instructions, else the built-in ones, which are the same on every runtime."""
    return spec.instructions or _BUILT_IN.format(cwd=spec.cwd)


class OwnTools:
    """Gates and logs the tools that a runtime brings itself. This one has no gate, and refuses every tool."""

    async def ask_gates(
        self, name: str, input: Mapping[str, Any], *, call_id: str, parent_call_id: str | None = None
    ) -> Mapping[str, Any] | ToolResult:
        """Before one is used: the arguments to use it with, or the refusal, which the model is to read."""
        return ToolResult.error(f"{name} was refused: there is no gate to check it here", Failure.REFUSED)

    async def report_result(
        self,
        name: str,
        input: Mapping[str, Any],
        result: ToolResult,
        *,
        call_id: str,
        parent_call_id: str | None = None,
    ) -> None:
        """After one was used, or refused: what came of it. Once for each that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a session.

    Attributes:
        prompt: What is sent to the model.
        caller: On whose behalf: thread, run, agent, depth.
        tell: Takes `message.delta`, `thinking`, `usage` and the like.
        call_tool: Calls our tools.
        own: Gates and logs the runtime's own tools.
    """

    prompt: str
    caller: Caller
    tell: Tell
    call_tool: CallTurnTool
    own: OwnTools = field(default_factory=OwnTools)


class Session(Protocol):
    """One warm connection. It runs one turn at a time; cancelling `run` interrupts the model."""

    @property
    def id(self) -> str | None:
        """The runtime's own id of the conversation; it may change after a turn.

        None as long as there is nothing to resume: no turn has begun, or it left no trace.
        """
        ...

    @property
    def is_resumed(self) -> bool:
        """Whether it was opened with an earlier conversation in it."""
        ...

    @property
    def is_usable(self) -> bool:
        """Whether it can run another turn; a dead process cannot."""
        ...

    async def run(self, turn: Turn) -> Answer:
        """Run a turn to its end.

        Raises:
            SessionLostError: The conversation is gone; a new session may do.
            RuntimeFailureError: The model or its runtime failed; the text says why.
        """
        ...

    async def steer(self, text: str) -> bool:
        """Give the running turn another message; False when it takes none now."""
        ...

    async def adapt_to(self, spec: SessionSpec) -> bool:
        """Become a session of another specification; False when only a new one can."""
        ...

    async def close(self) -> None:
        """End it, and whatever it started. Safe to call twice."""
        ...


class Runtime(Protocol):
    """Opens sessions of one kind."""

    @property
    def name(self) -> str:
        """`kernel`, `claude`, `codex`, `scripted` or `demo`."""
        ...

    @property
    def owns_process(self) -> bool:
        """Whether a session owns a process; the pool counts those."""
        ...

    def resolve_model(self, model: str) -> str:
        """The full name of the model that answers when this one is asked for; an empty name asks for the usual one.

        Raises:
            RuntimeFailureError: There is no such model; the text says what to use instead.
        """
        ...

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> Session:
        """Open a session, with the conversation `resume` in it where the runtime can.

        Raises:
            SessionLostError: `resume` names a conversation the runtime does not have any more.
            RuntimeFailureError: No session is available; the text says why and what to do.
        """
        ...
