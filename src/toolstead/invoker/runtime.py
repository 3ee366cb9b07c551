"""The runtime port: what drives a model. Adapters implement it; the pool and the invoker use it.

A runtime opens sessions. A session is one warm connection to a model with its conversation in it;
it runs one turn at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import msgspec

from toolstead.errors import LimitError
from toolstead.kernel.recording import UNRECORDED, Recorder
from toolstead.types.call import Caller, CallTurnTool, Tell
from toolstead.types.result import Failure, ToolResult
from toolstead.types.run import Answer, Usage
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
        permissions: Tools of the runtime's own that the agent may use, besides those of the settings.
        own_allowed: Lists of names or patterns, each of which must name one of the runtime's own tools.
        own_blocked: Names or patterns of those that are not.
        may_spawn: Whether tools that start agents are among the offered ones.
        has_task: Whether it works on a delegated task: then tools that report to whoever delegated are too.
        profile: The profile that narrows what it is offered; None for no profile.
        result_schema: JSON Schema that the answer must fit, as JSON; given to model APIs that can enforce it.
        max_turns: Requests to the model that one turn may make, as the agent's file says; None for the settings'.
    """

    agent: str
    model: str
    cwd: Path
    tools: tuple[str, ...] = ()
    instructions: str = ""
    permissions: tuple[str, ...] = ()
    own_allowed: tuple[tuple[str, ...], ...] = ()
    own_blocked: tuple[str, ...] = ()
    may_spawn: bool = True
    has_task: bool = False
    profile: str | None = None
    max_turns: int | None = None
    result_schema: str = ""

    def permitted_tools(self, configured: Sequence[str]) -> tuple[str, ...]:
        """The runtime's own tools that the agent may use, of those that the settings configure and its file names."""
        named = dict.fromkeys((*configured, *self.permissions))
        return tuple(
            name
            for name in named
            if all(_fits_any(name, patterns) for patterns in self.own_allowed) and not _fits_any(name, self.own_blocked)
        )


def _fits_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where one turn is stopped; None leaves a limit to the runtime.

    Attributes:
        tokens: In and out together.
        cost: In USD.
    """

    tokens: int | None = None
    cost: float | None = None

    def find_excess(self, used: Usage) -> LimitError | None:
        """The error of a turn that has used up its tokens or its money; None as long as it has not."""
        if self.tokens is not None and used.input_tokens + used.output_tokens >= self.tokens:
            spent = f"{used.input_tokens:,} tokens in and {used.output_tokens:,} out were used"
            return LimitError(f"stopped: {spent}, limits.token_budget is {self.tokens:,}", limit="tokens")
        if self.cost is not None and used.cost >= self.cost:
            return LimitError(
                f"stopped: ${used.cost:.4f} was spent, limits.cost_budget is ${self.cost:.2f}", limit="cost"
            )
        return None


NO_LIMITS = TurnLimits()


def name_turn_limit(spec: SessionSpec, runtime: str) -> str:
    """What sets how many requests a turn may make: the agent's file, or the settings of the runtime."""
    return f"runtime.{runtime}.max_turns" if spec.max_turns is None else f"max_turns of the agent {spec.agent!r}"


def explain_turn_limit(spec: SessionSpec, runtime: str, turns: int) -> LimitError:
    """The error of a turn that made as many requests as it may."""
    source = name_turn_limit(spec, runtime)
    return LimitError(f"stopped after {turns} turns without a final answer; {source} allows no more", limit="turns")


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
        sorted({tuple(sorted(set(patterns))) for patterns in spec.own_allowed}),
        sorted(set(spec.own_blocked)),
        spec.may_spawn,
        spec.has_task,
        spec.profile,
        spec.max_turns,
        spec.result_schema,
    ]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def instructions_of(spec: SessionSpec) -> str:
    """The agent's own instructions, else the built-in ones, which are the same on every runtime."""
    return spec.instructions if spec.instructions.strip() else built_in_instructions(spec.cwd)


def built_in_instructions(cwd: Path) -> str:
    """What an agent without instructions of its own is given."""
    return _BUILT_IN.format(cwd=cwd)


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


class SharedBudget(Protocol):
    """What a run may use of a budget that it shares with other runs."""

    @property
    def is_shared(self) -> bool:
        """Whether others use it too; else the turn's own limits suffice."""
        ...

    async def reserve(self, *, least: int, most: int, base_cost: float, token_cost: float) -> int:
        """Reserve tokens for one request: at least so many, which cost so much, and each further one so much.

        Raises:
            LimitError: There is not enough left.
        """
        ...

    def release(self) -> None:
        """The request has ended; what it used was reported as a `usage` event."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a session.

    Attributes:
        prompt: What is sent to the model.
        caller: On whose behalf: thread, run, agent, depth.
        tell: Takes `message.delta`, `thinking`, `usage` and the like.
        call_tool: Calls our tools.
        own: Gates and logs the runtime's own tools.
        limits: Where it is stopped.
        budget: What the whole tree of runs shares; a runtime that makes the requests itself reserves there.
        recorder: Records requests to a model, where the runtime makes them itself; else the turn is recorded as one.
    """

    prompt: str
    caller: Caller
    tell: Tell
    call_tool: CallTurnTool
    own: OwnTools = field(default_factory=OwnTools)
    limits: TurnLimits = NO_LIMITS
    budget: SharedBudget | None = None
    recorder: Recorder = UNRECORDED


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
        """`kernel`, `claude`, `codex` or `scripted`."""
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
