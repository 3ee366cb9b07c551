"""What the scripted model APIs have in common: requests, replies and errors in one form.

One `Dialect` for each API translates them; `anthropic_api`, `openai_apis` and `gemini_api` define theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from toolstead.adapters.scripted.script import FaultKind

ApiName = Literal["anthropic", "openai", "openai-chat", "gemini"]
RefusalKind = FaultKind | Literal["invalid", "unknown", "too_large"]

_CONTEXT = re.compile(
    r"\s*(?:<(system-reminder|environment_context|user_instructions)>.*</\1>|# AGENTS\.md instructions\b.*)\s*",
    re.DOTALL,
)
"""What coding agents add to a user message."""


class MalformedError(ValueError):
    """A request that the API it was sent to would refuse; the text says why."""

    def __init__(self, text: str, kind: RefusalKind = "invalid") -> None:
        super().__init__(text)
        self.kind: RefusalKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiMessage:
    """An entry of a conversation: a user text, a reply of the model or a part of it, or the result of a tool.

    Attributes:
        role: Whose it is.
        text: What it says.
        calls: The ids of a reply's calls; empty where the client left an id out.
    """

    role: Literal["user", "model", "tool"]
    text: str = ""
    calls: tuple[str, ...] = ()


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
    """A request, whatever API it was sent to.

    Attributes:
        model: The model that was requested.
        messages: The conversation, without the system prompt.
        tools: What is offered, in order.
        streams: Whether the answer is to be streamed.
        body: What was posted.
    """

    model: str
    messages: tuple[ApiMessage, ...]
    tools: tuple[OfferedTool, ...]
    streams: bool
    body: Mapping[str, Any]

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
        request: What it answers.
        number: The number of the request; ids are made from it.
        text: What it says.
        calls: What it calls.
    """

    request: ApiRequest
    number: int
    text: str = ""
    calls: tuple[ApiCall, ...] = ()
    input_tokens: int = 1
    output_tokens: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A part of an answer's body; `delta` says that it carries a piece of the text or of the arguments."""

    data: bytes
    delta: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRefusal:
    """Why a request gets an error.

    Attributes:
        kind: Which error.
        words: What the error says of this request, by the names that stand in `Dialect.errors`.
    """

    kind: RefusalKind
    words: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one API writes what it receives and what it answers.

    Attributes:
        name: Which API.
        read_items: Finds the conversation in what was posted; raises `MalformedError` for a request that is none.
        read_messages: Reads one item of it.
        read_tools: Finds the tools that are offered.
        build_reply: Writes a reply in one piece.
        stream_reply: Writes it as a stream; it gets the reply in one piece, too.
        errors: For each kind of refusal its status and its body, in which `{name}` stands for a word of the refusal:
            `text`, `model`, `key`, `seconds` to wait, or the `tool` whose schema is refused.
        error_headers: Headers of every error.
    """

    name: ApiName
    read_items: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    read_messages: Callable[[dict[str, Any]], list[ApiMessage]]
    read_tools: Callable[[Mapping[str, Any]], Iterable[OfferedTool]]
    build_reply: Callable[[Reply], dict[str, Any]]
    stream_reply: Callable[[Reply, dict[str, Any]], Iterable[Frame]]
    errors: Mapping[RefusalKind, tuple[int, dict[str, Any]]]
    error_headers: tuple[tuple[bytes, bytes], ...] = ()

    def read_request(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read what was posted.

        Raises:
            MalformedError: The API would refuse it.
        """
        return ApiRequest(
            model=text_of(body.get("model")),
            messages=tuple(message for item in self.read_items(body) for message in self.read_messages(item)),
            tools=tuple(self.read_tools(body)),
            streams=body.get("stream") is True,
            body=body,
        )


def fill_words(value: Any, words: Mapping[str, Any]) -> Any:
    """A JSON value in whose texts `{name}` is replaced by the word of this name."""
    match value:
        case str():
            return value.format_map(words)
        case list():
            return [fill_words(item, words) for item in cast("list[Any]", value)]
        case dict():
            return {name: fill_words(item, words) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def as_object(value: object) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_objects(value: object) -> list[dict[str, Any]]:
    """A JSON array of objects: an empty one for anything else, and in it an empty object for anything else."""
    return [as_object(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []


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
    return [part["text"] for part in as_objects(content) if isinstance(part.get("text"), str)]


def user_messages(texts: list[str], results: Iterable[str] = ()) -> list[ApiMessage]:
    """A user message: its tool results, then its text; no text where there is nothing but what an agent added."""
    returned = [ApiMessage(role="tool", text=text) for text in results]
    written = [text for text in texts if not _CONTEXT.fullmatch(text)]
    if not written and (texts or returned):
        return returned
    return [*returned, ApiMessage(role="user", text="\n".join(written))]


def build_event(data: Mapping[str, Any], *, name: str | None = None, delta: bool = False, end: str = "\n") -> Frame:
    """A server-sent event."""
    head = f"event: {name}{end}" if name is not None else ""
    return Frame(data=f"{head}data: ".encode() + encode_json(data) + f"{end}{end}".encode(), delta=delta)


def encode_json(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8; a half character, which JSON can hold and UTF-8 cannot, is replaced."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
