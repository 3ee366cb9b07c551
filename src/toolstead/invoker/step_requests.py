"""How the requests of a run are stored: each only with what is new in it; and how they are put together again.

A conversation grows by a few messages from one request to the next, and every request sends all of it. So a step has

    "from": 4, "messages": […]      the first 4 messages of the step before, then these
    {"replyOf": 3}                  a message: the reply of step 3
    "sameAs": 1                     instructions, tools and the schema of the answer as in step 1, but for what is here
    null                            a message that was left out, because there were too many (`step_bounds`)

and what is missing of `maxTokens` and of a reply has its usual value: null, no text, no calls, not cut; `adapted` is as
in the step before.

After a conversation was shortened its earlier messages are others, and the next step has all of them (`"from": 0`).
What a provider wants to see again of a reply besides its text and calls, such as signed thinking, is not stored.

What is written are structs, which are encoded in one go: as dicts, a step took 3.2 µs instead of 2.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, structs

from toolstead.invoker.runtime import instructions_of
from toolstead.invoker.step_bounds import is_deep, make_plain
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, UserMessage
from toolstead.kernel.model import ModelRequest
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, Text
from toolstead.types.run import RunError, Usage
from toolstead.types.step import RecordedStep, RunStep

if TYPE_CHECKING:
    from toolstead.invoker.lease import Lease

MOST_BINARY = 128_000
"""Bytes of an image or the like that are stored; of a larger one only its size."""
INCOMPLETE = "some steps before this one could not be stored; what is known only from them is null"

EndedRequest = tuple[tuple[str, ModelRequest, int, float, float], float, ModelReply | None, Usage, RunError | None]
"""The model, the request, how many messages it had, and when it was sent by either clock; when it ended by the second;
the reply, what it used, and why there is no reply."""

_HEAD = ("instructions", "tools", "resultSchema")
_NO_HEAD: Mapping[str, Any] = {}
_PLAIN = frozenset({str, int, float, bool, type(None)})
_OF_STEP = frozenset({"cut", "cachedTokens", "adapted"})
_NO_REPLY: Mapping[str, Any] = {"text": "", "calls": [], "cut": False}


class SentUserMessage(msgspec.Struct, tag_field="role", tag="user", gc=False):
    """A message of the user in a stored request."""

    text: str


class SentReply(msgspec.Struct, tag_field="role", tag="assistant", gc=False):
    """An earlier reply in a stored request."""

    text: str
    calls: Sequence[Any]


class SentToolAnswer(msgspec.Struct, tag_field="role", tag="tool", rename="camel", gc=False):
    """What a tool answered, in a stored request."""

    call_id: str
    name: str
    content: Sequence[Any]
    is_error: bool


class WrittenRequest(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A request as its step has it."""

    start: int = msgspec.field(name="from")
    messages: list[Any]
    max_tokens: int | None = None
    same_as: int | None = None
    instructions: Any = UNSET
    tools: Any = UNSET
    result_schema: Any = UNSET


class WrittenReply(msgspec.Struct, omit_defaults=True, gc=False, rename="camel"):
    """A reply as its step has it; what only its step says is in none of the messages after it."""

    text: str = ""
    calls: Sequence[Any] = ()
    cut: bool = False
    cached_tokens: int = 0
    adapted: Mapping[str, Sequence[str]] = {}


class RequestWriter:
    """Writes the requests of one run, one after another."""

    __slots__ = ("_adapted", "_head", "_head_of", "_reply", "_reply_of", "_sent")

    def __init__(self) -> None:
        self._sent: list[Message] = []
        self._adapted: Mapping[str, Sequence[str]] = {}
        self._reply: ModelReply | None = None
        self._reply_of: dict[str, int] = {}
        self._head: Sequence[Any] = (UNSET, UNSET, UNSET)
        self._head_of: int | None = None

    def write_requests(self, first: int, ended: Iterable[EndedRequest]) -> list[RecordedStep]:
        """Requests of the kernel as steps, numbered from the first. What that one sent has not changed since."""
        steps: list[RecordedStep] = []
        same: Sequence[Message] | None = None
        for number, ((model, request, count, now, began), end, reply, usage, error) in enumerate(ended, first):
            messages, start, marker = request.messages, len(self._sent), self._reply_of
            if messages is not same and messages[:start] != self._sent:
                start, self._sent = 0, []
            same, new, known = messages, messages[start:count], self._reply
            self._sent += new
            written = WrittenRequest(
                start,
                [marker if message is known else write_message(message) for message in new],
                request.max_tokens,
                self._head_of,
            )
            instructions, tools, schema = self._head
            if (
                request.tools is not tools
                or request.instructions is not instructions
                or request.result_schema is not schema
            ):
                names = self._write_head(number, request.instructions, request.tools, request.result_schema)
                written.instructions, named, written.result_schema = names
                written.tools = UNSET if named is UNSET else [tool.name for tool in request.tools]
            answered = None
            if reply is not None:
                answered = WrittenReply(
                    reply.text, _bound_calls(reply), reply.cut, reply.cached_tokens, self._find_new(reply)
                )
                self._reply, self._reply_of = reply, {"replyOf": number}
            steps.append(
                RecordedStep(
                    number=number,
                    created_at=now,
                    model=model,
                    request=cast("Mapping[str, Any]", written),
                    reply=cast("Mapping[str, Any] | None", answered),
                    usage=usage,
                    duration_ms=(end - began) * 1000,
                    error=error,
                )
            )
        return steps

    def _find_new(self, reply: ModelReply) -> Mapping[str, Sequence[str]]:
        """What was adapted, where that is not as in the step before; nothing at all is never written twice."""
        if reply.adapted is self._adapted or reply.adapted == self._adapted:
            return {}
        self._adapted = reply.adapted
        return reply.adapted

    def write_turn(self, number: int, lease: Lease, prompt: str) -> dict[str, Any]:
        """What a session of another runtime is given, as the step of its turn has it."""
        spec = lease.request.spec
        made: dict[str, Any] = {
            "prompt": prompt,
            "session": lease.warmth,
            "cwd": str(spec.cwd),
            "permissions": spec.permissions,
        }
        if spec.own_allowed or spec.own_blocked:
            made |= {"ownAllowed": spec.own_allowed, "ownBlocked": spec.own_blocked}
        if self._head_of is not None:
            made["sameAs"] = self._head_of
        schema = msgspec.json.decode(spec.result_schema) if spec.result_schema else None
        head = zip(_HEAD, self._write_head(number, instructions_of(spec), spec.tools, schema), strict=True)
        return made | {name: value for name, value in head if value is not UNSET}

    def _write_head(self, number: int, *head: Any) -> list[Any]:
        """What is mostly the same in every request of a run: the parts that changed, UNSET for the others."""
        before, self._head = self._head, head
        changed = [UNSET if new is old or new == old else new for new, old in zip(head, before, strict=True)]
        if any(one is not UNSET for one in changed):
            self._head_of = number
        if changed[2] is None and before[2] is UNSET:
            changed[2] = UNSET  # there never was a schema
        return changed


def write_message(message: Message) -> SentUserMessage | SentReply | SentToolAnswer:
    """A message of a conversation as a stored request has it."""
    if isinstance(message, ToolAnswer):
        call, content = message.call, message.content
        if len(content) != 1 or type(content[0]) is not Text:  # most are one text
            content = [_write_part(part) for part in content]
        return SentToolAnswer(call.id, call.name, content, message.is_error)
    if isinstance(message, UserMessage):
        return SentUserMessage(message.text)
    return SentReply(message.text, _bound_calls(message))


def has_nested_input(reply: ModelReply) -> bool:
    """Whether any call of a reply has more than plain values as arguments."""
    for call in reply.calls:
        if call.input:
            for value in call.input.values():
                if type(value) not in _PLAIN:
                    return True
    return False


def _bound_calls(reply: ModelReply) -> Sequence[Any]:
    """The calls of a reply; what is nested too deeply in one is a note."""
    if reply.calls and has_nested_input(reply) and any(is_deep(call.input) for call in reply.calls):
        return make_plain(reply.calls)
    return reply.calls


def _write_part(part: Content) -> Any:
    match part:
        case Image(data=data) | Audio(data=data) if len(data) > MOST_BINARY:
            return {**structs.replace(part, data=b"").to_json(), "data": _tell_size(data)}
        case EmbeddedResource(content=bytes() as data) if len(data) > MOST_BINARY:
            return structs.replace(part, content=_tell_size(data)).to_json()
        case _:
            return part.to_json()


def _tell_size(data: bytes) -> str:
    return f"[toolstead: {len(data):,} bytes left out]"


class RequestReader:
    """Puts requests together again, step by step from the first of a run."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._replies: dict[int, Mapping[str, Any]] = {}
        self._heads: dict[int, Mapping[str, Any]] = {}
        self._adapted: Mapping[str, Any] = {}
        self._number = 0
        self._has_messages = True

    def read_step(self, step: RunStep) -> RunStep:
        """The step with its whole request and reply. Where earlier steps are missing, `incomplete` says so."""
        made, reply = dict(step.request), step.reply
        self._has_messages &= step.number == self._number + 1
        self._number = step.number
        has_head = self._add_head(step.number, made)
        if "from" in made:
            start = cast("int", made.pop("from"))
            self._has_messages |= start == 0
            kept = self._messages[:start]
            kept += [None] * (start - len(kept))
            self._messages = kept + [self._find_message(stored) for stored in made["messages"]]
            made |= {"messages": self._messages, "maxTokens": made.get("maxTokens")}
        if reply is not None:
            if step.kind == "model" and "leftOut" not in reply:
                self._adapted = reply.get("adapted", self._adapted)
                reply = {**_NO_REPLY, **({"adapted": self._adapted} if self._adapted else {}), **reply}
            self._replies[step.number] = reply
        if not self._has_messages or not has_head:
            made["incomplete"] = INCOMPLETE
        return structs.replace(step, request=made, reply=reply)

    def _add_head(self, number: int, made: dict[str, Any]) -> bool:
        """Add what is as in an earlier step; False when that one is missing."""
        given = {name: made[name] for name in _HEAD if name in made}
        origin = made.pop("sameAs", None)
        earlier = _NO_HEAD if origin is None else self._heads.get(origin)
        made |= {**({"instructions": None, "tools": None} if earlier is None else earlier), **given}
        if given and earlier is not None:
            self._heads[number] = {**earlier, **given}
        return earlier is not None

    def _find_message(self, stored: Any) -> Any:
        match stored:
            case {"replyOf": int() as number}:
                reply = self._replies.get(number)
                if reply is None:
                    self._has_messages = False
                    return None
                return {"role": "assistant", **{name: value for name, value in reply.items() if name not in _OF_STEP}}
            case _:
                return stored


def read_requests(steps: Iterable[RunStep]) -> Iterator[RunStep]:
    """The steps of a run with their whole requests; the first one given must be the run's first."""
    return map(RequestReader().read_step, steps)
