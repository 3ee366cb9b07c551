"""Which reply a request gets: a function of the conversation in it, of the script, and of the faults played so far.

Clients repeat requests and hold several conversations at once, so nothing is remembered of any of
them: the script is played over the conversation that a request brings along, from its first user
text to its last, and what comes next is the reply. A user text is answered by the turn that
`Script.choose` names. A turn with calls is two replies: its calls, and, once their results are in
the conversation, what it says, or the turn that continues it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from toolstead.adapters.scripted.api_dialect import (
    ApiCall,
    ApiRequest,
    Grievance,
    OfferedTool,
    RefusalKind,
    RepliedLine,
    Reply,
    Returned,
    ToldLine,
)
from toolstead.adapters.scripted.script import Script, ScriptedFault, ScriptedTurn
from toolstead.types.run import NOTHING_USED

_OURS = re.compile(r"(call|half)_(\d+_\d+)_\d+")
_REFUSALS: dict[str, RefusalKind] = {
    "overloaded": "overloaded",
    "rate_limit": "rate_limit",
    "server_error": "server_error",
    "schema": "schema",
    "overflow": "overflow",
    "bad_key": "bad_key",
    "no_model": "no_model",
}
_CUT_OFF = "This is as far as the answer comes."
"""What is said by a turn that breaks off and has no words of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What happens to one request.

    Attributes:
        reply: What is answered; None for a refusal.
        refusal: Why there is no answer.
        delay: Seconds of silence before the first byte.
        hang: Seconds of silence before the last one.
        cut: The stream is dropped in its middle, or goes silent there for ever.
    """

    reply: Reply | None = None
    refusal: Grievance | None = None
    delay: float = 0.0
    hang: float = 0.0
    cut: Literal["broken", "stall"] | None = None


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
        told: How many user texts there were.
        prompt: The last of them.
        turn: What answers it.
        replies: How many replies the model has given to it.
        steps: How many of them count; half a call does not.
        result: The text of the last result since.
    """

    told: int = 0
    prompt: str = ""
    turn: ScriptedTurn | None = None
    replies: int = 0
    steps: int = 0
    result: str | None = None


class Performer:
    """Plays a script for whoever asks."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._faults: Counter[int] = Counter()

    def choose_performance(self, request: ApiRequest, *, size: int, number: int) -> Performance:
        """What a request of so many bytes gets; a fault that it gets counts."""
        place = self._find_place(request, size)
        if not place.told:
            return _refuse_request("invalid", "there is no user text in this conversation", request)
        if place.turn is None:
            return _refuse_request("invalid", self._script.unanswered_text(place.prompt), request)
        steps = self._list_steps(place.turn)
        step = steps[min(place.steps, len(steps) - 1)]
        turn = step.turn
        delay = turn.delay if step.first else 0.0
        fault = turn.fault if self._fault_occurs(turn, request, size, first=step.first) else None
        if fault is not None:
            self._faults[turn.number] += 1
        if fault is not None and fault.kind in _REFUSALS:
            refusal = Grievance(kind=_REFUSALS[fault.kind], request=request, fault=fault)
            return Performance(refusal=refusal, delay=delay)
        if step.does == "say" and turn.fail is not None and fault is None:
            return Performance(
                refusal=Grievance(kind="invalid", text=turn.fail, request=request), delay=delay + turn.hang
            )
        reply = _build_reply(step, place, request, fault, size=size, number=number)
        cut = fault.kind if fault is not None and fault.kind in ("broken", "stall") else None
        return Performance(reply=reply, delay=delay, hang=turn.hang if step.last else 0.0, cut=cut)

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
        for line in request.lines:
            match line:
                case ToldLine(text=text):
                    turn, played = self._script.choose_turn(text, played, {}, without=passed)
                    place = _ScriptPlace(told=place.told + 1, prompt=text, turn=turn)
                    replying = False
                case Returned(text=text):
                    place.result = text
                    replying = False
                case RepliedLine(text=text, calls=calls):
                    if not text and not calls:
                        continue  # an empty answer is none
                    ours = [found for found in map(_OURS.fullmatch, calls) if found is not None]
                    keys = {found[2] for found in ours}
                    if not replying and not keys & seen:  # an API may tell one reply in several items
                        place.replies += 1
                        place.steps += not any(found[1] == "half" for found in ours)
                    seen |= keys
                    replying = True
        return place

    def _list_steps(self, turn: ScriptedTurn) -> list[_Step]:
        """The replies of a turn and of those that continue it."""
        steps: list[_Step] = []
        while True:
            following = self._script.following_turn(turn)
            ends = turn.goes_on and following is not None
            if turn.call:
                steps.append(_Step(turn=turn, does="call", first=True, last=ends))
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
    step: _Step, place: _ScriptPlace, request: ApiRequest, fault: ScriptedFault | None, *, size: int, number: int
) -> Reply:
    """What a step answers."""
    turn, kind = step.turn, fault.kind if fault is not None else None
    text, calls = "", tuple[ApiCall, ...]()
    if kind != "empty":
        match step.does:
            case "call":
                calls = _build_calls(turn, place, request, half=kind == "half_json")
            case "say":
                text = turn.render_text(prompt=place.prompt, result=place.result)
            case "repeat":
                text = place.result or ""
        if kind in ("broken", "stall") and not text and not calls:
            text = _CUT_OFF
    written = len(text) + sum(len(call.arguments) for call in calls)
    input_tokens, output_tokens = max(1, size // 4), max(1, written // 4)
    if turn.usage is not NOTHING_USED:  # told once for each turn, as the runtime does
        used = turn.usage if step.last else NOTHING_USED
        input_tokens, output_tokens = used.input_tokens, used.output_tokens
    return Reply(number=number, text=text, calls=calls, input_tokens=input_tokens, output_tokens=output_tokens)


def _build_calls(turn: ScriptedTurn, place: _ScriptPlace, request: ApiRequest, *, half: bool) -> tuple[ApiCall, ...]:
    """A turn's calls; their ids tell the reply they belong to, and whether they arrived whole."""
    prefix = f"{'half' if half else 'call'}_{place.told}_{place.replies + 1}"
    return tuple(
        ApiCall(
            id=f"{prefix}_{index}",
            tool=request.find_tool(call.tool) or OfferedTool(name=call.tool),
            input=call.input,
            half=half,
        )
        for index, call in enumerate(turn.call)
    )


def _refuse_request(kind: RefusalKind, text: str, request: ApiRequest) -> Performance:
    return Performance(refusal=Grievance(kind=kind, text=text, request=request))
