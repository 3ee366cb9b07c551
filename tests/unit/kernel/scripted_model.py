"""A model that plays steps, in this process; and the tools and the listener that a kernel needs beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolstead.errors import ModelError, ModelFault
from toolstead.kernel.activation import Activation, Budget, Limits, Spending
from toolstead.kernel.conversation import Conversation, Message, ModelReply, ToolAnswer, ToolUse
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.run import NOTHING_USED, Usage
from toolstead.types.tool import Annotations, Provenance, ToolInfo


@dataclass(frozen=True)
class Hang:
    """Silence, for so many seconds."""

    seconds: float = 1e9


Step = ModelDelta | ModelReply | Exception | Hang | Callable[[], object]
"""What a model does next; a function is called, and what it returns is awaited when that can be."""

MOST_REQUESTS = 1000
"""No test asks more often: a loop that does not end fails, instead of hanging."""

Handler = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class ScriptedModel:
    """Plays one list of steps for each request; the last list again and again."""

    def __init__(self, *plays: Sequence[Step], name: str = "scripted:one") -> None:
        self.name = name
        self.plays = list(plays)
        self.requests: list[ModelRequest] = []
        self.open = 0
        """Requests that are being answered."""
        self.ends: list[str] = []
        """How each request ended for the model: `whole`, or the name of what was thrown into it."""

    def estimate_cost(self, input_tokens: int) -> tuple[float, float]:
        return 0.0, 0.0

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        number = len(self.requests)
        assert number < MOST_REQUESTS, "the model is asked without end"
        self.requests.append(
            ModelRequest(
                instructions=request.instructions,
                messages=list(request.messages),
                tools=request.tools,
                max_tokens=request.max_tokens,
            )
        )
        self.open += 1
        try:
            for step in self.plays[min(number, len(self.plays) - 1)]:
                match step:
                    case Hang(seconds=seconds):
                        await asyncio.sleep(seconds)
                    case Exception():
                        raise step
                    case ModelDelta() | ModelReply():
                        yield step
                    case _:
                        done = step()
                        if isinstance(done, Awaitable):
                            await done
            self.ends.append("whole")
        except BaseException as error:
            self.ends.append(type(error).__name__)
            raise
        finally:
            self.open -= 1


def says(text: str, *, usage: Usage = NOTHING_USED, cut: bool = False) -> list[Step]:
    return [ModelDelta(text), ModelReply(text=text, usage=usage, cut=cut)]


def calls(*wanted: ToolUse, text: str = "", usage: Usage = NOTHING_USED) -> list[Step]:
    return [ModelReply(text=text, calls=wanted, usage=usage)]


def use(name: str, id: str = "c1", **input: Any) -> ToolUse:
    return ToolUse(id=id, name=name, input=input)


def broken(name: str, text: str, id: str = "c1") -> ToolUse:
    return ToolUse(id=id, name=name, input=None, text=text)


def fault(
    kind: ModelFault, text: str = "no", *, retry_after: float | None = None, tool: str | None = None
) -> list[Step]:
    return [ModelError(text, fault=kind, retry_after=retry_after, tool=tool)]


def info(name: str, *, read_only: bool | None = None, description: str = "") -> ToolInfo:
    return ToolInfo(
        name=name,
        description=description,
        provenance=Provenance(source="builtin", origin="test"),
        input_schema={"type": "object"},
        annotations=Annotations(read_only=read_only),
    )


async def echo(input: Mapping[str, Any]) -> ToolResult:
    return ToolResult(content=(Text(f"echo {dict(input)}"),))


async def failing(input: Mapping[str, Any]) -> ToolResult:
    return ToolResult.error("it does not work")


async def hanging(input: Mapping[str, Any]) -> ToolResult:
    await asyncio.sleep(1e9)
    return ToolResult(content=())


@dataclass
class Bench:
    """A conversation with tools around it, and everything that was told."""

    model: ScriptedModel
    tools: dict[str, Handler] = field(default_factory=lambda: {"echo": echo})
    reads: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    called: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    conversation: Conversation = field(default_factory=lambda: Conversation("one"))
    offered: Sequence[ToolInfo] = ()

    def __post_init__(self) -> None:
        self.offered = tuple(info(name, read_only=name in self.reads or None) for name in self.tools)

    async def call_tool(self, name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        self.called.append((name, input, call_id))
        return await self.tools[name](input)

    @property
    def activation(self) -> Activation:
        return Activation(
            model=self.model,
            offer=lambda: self.offered,
            call_tool=self.call_tool,
            tell=lambda kind, data: self.told.append((kind, data)),
            instructions="Be brief.",
            budget=self.budget or Spending(self.limits),
            limits=self.limits,
        )

    def hear(self, text: str = "go") -> Bench:
        self.conversation.add_user_text(text)
        return self

    @property
    def answers(self) -> list[ToolAnswer]:
        return [message for message in self.conversation.messages if isinstance(message, ToolAnswer)]

    def texts(self) -> list[str]:
        """What tools answered, each answer as one text."""
        return ["\n".join(part.text for part in one.content if isinstance(part, Text)) for one in self.answers]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [data for told, data in self.told if told == kind]


def check_whole(messages: Sequence[Message]) -> None:
    """Every call has exactly one answer, right after the reply that wanted it, in the order of the calls."""
    waiting: list[ToolUse] = []
    for message in messages:
        if isinstance(message, ToolAnswer):
            assert waiting, f"an answer that nobody asked for: {message}"
            assert message.call.id == waiting.pop(0).id
            continue
        assert not waiting, f"no answer to {waiting}"
        if isinstance(message, ModelReply):
            waiting = list(message.calls)
            assert len({call.id for call in waiting}) == len(waiting)
    assert not waiting, f"no answer to {waiting}"
