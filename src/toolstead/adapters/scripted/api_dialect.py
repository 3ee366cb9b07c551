"""What the scripted model APIs have in common: a request in our words, a reply, and what each API has to offer.

One module for each API implements `Dialect`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from toolstead.adapters.scripted.script import ScriptedFault

ApiName = Literal["anthropic", "openai", "openai-chat", "gemini"]
RefusalKind = Literal[
    "overloaded",
    "rate_limit",
    "server_error",
    "schema",
    "overflow",
    "bad_key",
    "no_model",
    "invalid",
    "unknown",
    "too_large",
]

_CONTEXT = re.compile(
    r"\s*(?:<(system-reminder|environment_context|user_instructions)>.*</\1>|# AGENTS\.md instructions\b.*)\s*",
    re.DOTALL,
)
"""What coding agents put beside the words of a person, in the name of that person."""


class MalformedError(ValueError):
    """A request that the API it was sent to would refuse; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLine:
    """A user text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepliedLine:
    """What the model answered before, or a part of it.

    Attributes:
        text: What it said.
        calls: The ids of its calls; empty where the client left an id out.
    """

    text: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a tool returned."""

    text: str


Line = ToldLine | RepliedLine | Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool that a request offers to the model.

    Attributes:
        name: Under which the model calls it.
        namespace: In which it stands, where the API has namespaces.
        place: Its index among the tools of the request, or of its group.
        group: The index of its group, where the API has groups.
        is_free: Its argument is one free text, no JSON object.
    """

    name: str
    place: int = 0
    group: int = 0
    namespace: str | None = None
    is_free: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names a script may use for it, the whole one first."""
        return (self.name,) if self.namespace is None else (f"{self.namespace}__{self.name}", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request in our words.

    Attributes:
        model: Which model was asked for.
        lines: The conversation, without what a system prompt says.
        tools: What is offered, in order.
        streams: Whether the answer is to be streamed.
        extra: What only the API's own module understands.
    """

    model: str
    lines: tuple[Line, ...]
    tools: tuple[OfferedTool, ...] = ()
    streams: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def find_tool(self, name: str) -> OfferedTool | None:
        """The tool a script means: the one of this name, or the only one that a client spelled otherwise.

        Clients prefix names (`mcp__x__name`), and some write `_` for `-`.
        """
        for tool in self.tools:
            if name in tool.names:
                return tool
        meant = name.replace("-", "_")
        known = [(tool, one.replace("-", "_")) for tool in self.tools for one in tool.names]
        found = {id(tool): tool for tool, one in known if one == meant or one.endswith(f"__{meant}")}
        return next(iter(found.values())) if len(found) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A tool call of a reply."""

    id: str
    tool: OfferedTool
    input: Mapping[str, Any]
    half: bool = False

    @property
    def arguments(self) -> str:
        """The input as JSON; cut in the middle when only half of it arrives."""
        whole = json.dumps(self.input, ensure_ascii=False)
        return whole[: len(whole) // 2] if self.half else whole

    @property
    def pieces(self) -> list[str]:
        """The arguments in a few pieces, two at least where there are two characters."""
        text = self.arguments
        size = max(1, -(-len(text) // 3))
        return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model answers.

    Attributes:
        number: Which request it answers; ids are made from it.
        text: What it says.
        calls: What it calls.
    """

    number: int
    text: str = ""
    calls: tuple[ApiCall, ...] = ()
    input_tokens: int = 1
    output_tokens: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error as the API words it."""

    status: int
    body: Mapping[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A part of an answer's body; `delta` says that it carries a piece of the text or of the arguments."""

    data: bytes
    delta: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grievance:
    """What a refusal is about.

    Attributes:
        kind: Which error.
        text: Its words, where the API leaves them open.
        request: What is refused, as far as it was understood.
        fault: What the script says about it.
        key: The key that came with the request.
    """

    kind: RefusalKind
    text: str = ""
    request: ApiRequest = field(default_factory=lambda: ApiRequest(model="", lines=()))
    fault: ScriptedFault | None = None
    key: str = ""

    @property
    def retry_after(self) -> int | float:
        """Seconds to wait, as a whole number where it is one."""
        seconds = self.fault.retry_after if self.fault is not None and self.fault.retry_after is not None else 1.0
        return int(seconds) if seconds == int(seconds) else seconds

    @property
    def tool(self) -> OfferedTool:
        """The tool whose schema is refused."""
        named = self.fault.tool if self.fault is not None else None
        found = self.request.find_tool(named) if named is not None else next(iter(self.request.tools), None)
        return found or OfferedTool(name=named or "tool")


class Dialect(Protocol):
    """How one API writes what it is told and what it answers."""

    name: ApiName

    def read(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> ApiRequest:
        """Understand a request.

        Args:
            body: What was posted.
            extra: What the address said: `model` and `streams`, for an API that says it there.

        Raises:
            MalformedError: The API would refuse it.
        """
        ...

    def stream_reply(self, request: ApiRequest, reply: Reply) -> Iterable[Frame]:
        """The answer as a stream."""
        ...

    def whole_reply(self, request: ApiRequest, reply: Reply) -> Mapping[str, Any]:
        """The answer in one piece."""
        ...

    def render_refusal(self, grievance: Grievance) -> Refusal:
        """An error in the API's own shape."""
        ...


def as_object(value: object) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """A JSON array; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(value: object) -> str:
    """A JSON string; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def require_objects(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects that must be there.

    Raises:
        MalformedError: It is not.
    """
    value = body.get(name)
    if not isinstance(value, list) or not value:
        raise MalformedError(f"{name}: a list with at least one object is required")
    for place, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            raise MalformedError(f"{name}.{place}: an object is required")
    return cast("list[dict[str, Any]]", value)


def content_texts(content: object) -> list[str]:
    """The texts of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in map(as_object, as_array(content)) if isinstance(part.get("text"), str)]


def user_lines(parts: list[str]) -> list[ToldLine]:
    """A user message as a line; none when it holds nothing but what an agent put there."""
    spoken = [part for part in parts if not _CONTEXT.fullmatch(part)]
    return [ToldLine(text="\n".join(spoken))] if spoken or not parts else []


def build_event(data: Mapping[str, Any], *, name: str | None = None, delta: bool = False, end: str = "\n") -> Frame:
    """A server-sent event."""
    head = f"event: {name}{end}" if name is not None else ""
    return Frame(data=f"{head}data: ".encode() + encode_json(data) + f"{end}{end}".encode(), delta=delta)


def encode_json(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8; a half character, which JSON can hold and UTF-8 cannot, is replaced."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
