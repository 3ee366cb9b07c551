"""Which reply a request gets: a function of the conversation in it, of the script, and of the faults played so far.

Clients repeat requests and hold several conversations at once, so no state is kept for them: the script is played over
the conversation that a request contains, from its first user text to its last, and what comes next is the reply. A user
text is answered by the turn that `Script.choose_turn` names. A turn with calls is two replies: its calls, and, once
their results are in the conversation, what it says, or the turn that continues it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from toolstead.adapters.scripted.api_dialect import ApiCall, ApiRefusal, ApiRequest, OfferedTool, Reply
from toolstead.adapters.scripted.script import FaultKind, Script, ScriptedFault, ScriptedTurn
from toolstead.types.run import NOTHING_USED

_OUR_CALL = re.compile(r"(call|half)_(\d+_\d+)_\d+")
_IN_REPLY = ("broken", "half_json", "empty", "stall")
"""Faults of a reply; every other fault is an error instead of one."""
_CUT_OFF = "This is as far as the answer comes."
"""The text of a turn that breaks off and has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedResponse:
    """What happens to one request.

    Attributes:
        answer: The reply, or why there is none.
        delay: Seconds of silence before the first byte.
        hang: Seconds of silence before the last one.
        fault: `broken`: the stream is dropped in its middle; `stall`: it goes silent there for ever.
    """

    answer: Reply | ApiRefusal
    delay: float = 0.0
    hang: float = 0.0
    fault: FaultKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One reply of a turn.

    Attributes:
        does: Calls its tools, says its text (or fails), or repeats the last result.
        first: It is the turn's first one.
        last: It is the turn's last one.
    """

    turn: ScriptedTurn
    does: Literal["call", "say", "repeat"]
    first: bool
    last: bool


@dataclass(slots=True, kw_only=True)
class _ScriptPlace:
    """Where a conversation stands.

    Attributes:
        prompts: How many user texts there were.
        prompt: The last of them.
        turn: What answers it.
        replies: How many replies the model has given to it.
        steps: How many of them count; half a call does not.
        result: The text of the last result since.
    """

    prompts: int = 0
    prompt: str = ""
    turn: ScriptedTurn | None = None
    replies: int = 0
    steps: int = 0
    result: str | None = None


class ScriptPlayer:
    """Plays a script for all requests to a server."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._faults: Counter[int] = Counter()

    def choose_response(self, request: ApiRequest, *, size: int, number: int) -> ScriptedResponse:
        """What a request of so many bytes gets; a fault that it gets counts."""
        place = self._find_place(request, size)
        if not place.prompts:
            return ScriptedResponse(answer=_invalid("there is no user text in this conversation"))
        if place.turn is None:
            return ScriptedResponse(answer=_invalid(self._script.unanswered_text(place.prompt)))
        steps = self._list_steps(place.turn)
        step = steps[min(place.steps, len(steps) - 1)]
        turn = step.turn
        delay = turn.delay if step.first else 0.0
        fault = turn.fault if self._fault_occurs(turn, request, size, first=step.first) else None
        if fault is not None:
            self._faults[turn.number] += 1
            if fault.kind not in _IN_REPLY:
                return ScriptedResponse(answer=_refuse_with(fault, request), delay=delay)
        elif step.does == "say" and turn.fail is not None:
            return ScriptedResponse(answer=_invalid(turn.fail), delay=delay + turn.hang)
        kind = fault.kind if fault is not None else None
        reply = _build_reply(step, place, request, kind, size=size, number=number)
        return ScriptedResponse(answer=reply, delay=delay, hang=turn.hang if step.last else 0.0, fault=kind)

    def _find_place(self, request: ApiRequest, size: int) -> _ScriptPlace:
        """Play the script over the conversation."""
        passed = {
            turn.number
            for turn in self._script.turns
            if turn.is_silent
            and (turn.lose or turn.fault is not None)
            and not self._fault_occurs(turn, request, size, first=True)
        }
        place, played, replying = _ScriptPlace(), 0, False
        seen: set[str] = set()
        for message in request.messages:
            if message.role == "user":
                turn, played = self._script.choose_turn(message.text, played, without=passed)
                place = _ScriptPlace(prompts=place.prompts + 1, prompt=message.text, turn=turn)
            elif message.role == "tool":
                place.result = message.text
            elif not message.text and not message.calls:
                continue  # an empty answer is none
            else:
                ours = [found for found in map(_OUR_CALL.fullmatch, message.calls) if found is not None]
                keys = {found[2] for found in ours}
                if not replying and not keys & seen:  # an API may send one reply in several items
                    place.replies += 1
                    place.steps += not any(found[1] == "half" for found in ours)
                seen |= keys
            replying = message.role == "model"
        return place

    def _list_steps(self, turn: ScriptedTurn) -> list[_Step]:
        """The replies of a turn and of those that continue it."""
        steps: list[_Step] = []
        while True:
            following = self._script.following_turn(turn)
            if turn.call:
                steps.append(_Step(turn=turn, does="call", first=True, last=following is not None))
            if following is None:
                does = "repeat" if turn.goes_on else "say"
                return [*steps, _Step(turn=turn, does=does, first=not turn.call, last=True)]
            turn = following

    def _fault_occurs(self, turn: ScriptedTurn, request: ApiRequest, size: int, *, first: bool) -> bool:
        """Whether a turn's fault is played for this request."""
        fault = turn.fault
        if fault is None:
            return False
        if fault.tool is not None:
            return request.find_tool(fault.tool) is not None
        if fault.over is not None:
            return size > fault.over
        return first and self._faults[turn.number] < fault.times


def _build_reply(
    step: _Step, place: _ScriptPlace, request: ApiRequest, fault: FaultKind | None, *, size: int, number: int
) -> Reply:
    """What a step answers."""
    turn = step.turn
    text, calls = "", tuple[ApiCall, ...]()
    if fault != "empty":
        match step.does:
            case "call":
                calls = _build_calls(turn, place, request, half=fault == "half_json")
            case "say":
                text = turn.render_text(prompt=place.prompt, result=place.result)
            case "repeat":
                text = place.result or ""
        if fault in ("broken", "stall") and not text and not calls:
            text = _CUT_OFF
    written = len(text) + sum(len(call.arguments) for call in calls)
    input_tokens, output_tokens = max(1, size // 4), max(1, written // 4)
    if turn.usage is not NOTHING_USED:  # reported once for each turn, as the runtime does
        used = turn.usage if step.last else NOTHING_USED
        input_tokens, output_tokens = used.input_tokens, used.output_tokens
    return Reply(
        request=request,
        number=number,
        text=text,
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def _build_calls(turn: ScriptedTurn, place: _ScriptPlace, request: ApiRequest, *, half: bool) -> tuple[ApiCall, ...]:
    """A turn's calls; their ids contain the reply they belong to, and whether they arrived whole."""
    prefix = f"{'half' if half else 'call'}_{place.prompts}_{place.replies + 1}"
    return tuple(
        ApiCall(
            id=f"{prefix}_{index}",
            tool=request.find_tool(call.tool) or OfferedTool(name=call.tool),
            input=call.input,
            half=half,
        )
        for index, call in enumerate(turn.call)
    )


def _invalid(text: str) -> ApiRefusal:
    return ApiRefusal(kind="invalid", words={"text": text})


def _refuse_with(fault: ScriptedFault, request: ApiRequest) -> ApiRefusal:
    """The refusal that a fault is; a schema is refused of the tool that the script names, or of the first."""
    seconds = 1.0 if fault.retry_after is None else fault.retry_after
    offered = request.find_tool(fault.tool) if fault.tool is not None else next(iter(request.tools), None)
    words = {
        "model": request.model,
        "seconds": int(seconds) if seconds == int(seconds) else seconds,
        "tool": offered or OfferedTool(name=fault.tool or "tool"),
    }
    return ApiRefusal(kind=fault.kind, words=words)
