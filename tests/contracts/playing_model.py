"""A model in this process that plays a script, for the kernel; a pure function of what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from toolstead.adapters.scripted.script import ScriptedTurn, split_text
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.errors import ModelError
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.invoker.runtime import SessionSpec
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.types.content import Text
from toolstead.types.tool import Provenance, ToolInfo


class PlayingModel:
    """Answers the last thing the user said; a call first, then what is said to its result."""

    def __init__(self, script: str) -> None:
        self.name = "playing:script"
        self._script = parse_script(script)

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        prompt, results = _asked(request.messages)
        turn, _ = self._script.choose_turn(prompt, 0)
        if turn is None:
            raise ModelError(f"no turn answers {prompt!r}", fault="rejected")
        if turn.call and not results:
            yield ModelReply(text="", calls=_calls(turn, len(request.messages)))
            return
        text = turn.render_text(prompt=prompt, result=results[-1] if results else None)
        for piece in split_text(text):
            yield ModelDelta(piece)
        if turn.hang:
            await asyncio.sleep(turn.hang)
        if turn.fail is not None:
            raise ModelError(turn.fail, fault="rejected")
        yield ModelReply(text=text, usage=turn.usage)


def playing_kernel(script: str, *tools: str) -> KernelRuntime:
    """The kernel on that model, with tools of these names."""
    model = PlayingModel(script)
    origin = Provenance(source="builtin", origin="test")
    offered = tuple(
        ToolInfo(name=name, description="", provenance=origin, input_schema={"type": "object"}) for name in tools
    )

    async def connect(name: str) -> PlayingModel:
        return model

    def offer(spec: SessionSpec) -> Sequence[ToolInfo]:
        return offered

    return KernelRuntime(connect=connect, resolve=lambda name: name or "playing:script", offered=offer)


def _asked(messages: Sequence[Message]) -> tuple[str, list[str]]:
    """The last thing the user said, and what tools answered since."""
    prompt, results = "", list[str]()
    for message in messages:
        match message:
            case UserMessage(text=text):
                prompt, results = text, []
            case ToolAnswer(content=content):
                results.append("\n".join(part.text for part in content if isinstance(part, Text)))
            case _:
                pass
    return prompt, results


def _calls(turn: ScriptedTurn, at: int) -> tuple[ToolUse, ...]:
    return tuple(
        ToolUse(id=f"call_{at}_{number}", name=call.tool, input=call.input) for number, call in enumerate(turn.call)
    )
