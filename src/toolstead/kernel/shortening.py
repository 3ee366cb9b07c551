"""Making a conversation shorter when a model cannot take all of it: the oldest tool results first.

What was cut says so where it was cut, so that the model can call the tool again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.types.content import Content, EmbeddedResource, ResourceLink, Text

LONG = 600
"""Characters above which something is worth shortening."""
LEFT = 200
"""Characters that are left of it."""
_THIS = "this was shortened, because the conversation grew too long"


def shorten_messages(messages: list[Message]) -> str | None:
    """Cut about half of what can be cut, oldest first; tool results before messages.

    The user's last message is never cut. Each call cuts something, so repeating it ends.

    Returns:
        What was done, in words; None when nothing is left to cut.
    """
    last = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)
    for kind, what in ((ToolAnswer, "tool results"), (UserMessage | ModelReply, "earlier messages")):
        sizes = [
            (at, sum(_piece_sizes(message)))
            for at, message in enumerate(messages)
            if isinstance(message, kind) and at != last and max(_piece_sizes(message)) > LONG
        ]
        if sizes:
            return _cut_messages(messages, sizes, what)
    return None


def _cut_messages(messages: list[Message], sizes: Sequence[tuple[int, int]], what: str) -> str:
    before, goal, gone, count = sum(size for _, size in sizes), sum(size for _, size in sizes) / 2, 0, 0
    for at, size in sizes:
        if gone >= goal:
            break
        messages[at] = _shorten_message(messages[at])
        gone += size - sum(_piece_sizes(messages[at]))
        count += 1
    return f"the {count} oldest of {len(sizes)} long {what} were shortened, {gone:,} of {before:,} characters cut"


def _shorten_message(message: Message) -> Message:
    match message:
        case UserMessage(text=text):
            return UserMessage(text=_keep_ends(text, _THIS))
        case ModelReply(text=text):
            cut = _keep_ends(text, _THIS) if len(text) > LONG else text
            return structs.replace(message, text=cut, calls=tuple(map(_shorter_call, message.calls)), kept=None)
        case ToolAnswer(call=call, content=content):
            text = "\n".join(_part_words(part) for part in content)
            what = f"this answer of {call.name[:64]}"  # a model may call what has a name of any length
            note = f"{what} was shortened, because the conversation grew too long; call it again"
            return structs.replace(message, content=(Text(_keep_ends(text, note)),))


def _shorter_call(call: ToolUse) -> ToolUse:
    """Its arguments with their long values cut; as one text when there are too many of them."""
    if _size_of_call(call) <= LONG:
        return call
    if call.input is None:
        return structs.replace(call, text=_keep_ends(call.text, _THIS))
    cut: dict[str, object] = {}
    for name, value in call.input.items():
        text = value if isinstance(value, str) else _to_json(value)
        cut[name] = _keep_ends(text, _THIS) if len(text) > LEFT else value
    shorter = structs.replace(call, input=cut)
    if _size_of_call(shorter) > LONG:
        shorter = structs.replace(call, input={"shortened": _keep_ends(_to_json(call.input), _THIS)})
    return shorter


def _keep_ends(text: str, note: str) -> str:
    if len(text) <= LEFT:  # what was large cannot be shown in words
        return f"{text}\n[toolstead: {note}]"
    half = LEFT // 2
    return f"{text[:half]}\n[toolstead: {len(text) - LEFT:,} characters left out: {note}]\n{text[-half:]}"


def _piece_sizes(message: Message) -> list[int]:
    """The characters of each piece that is shortened by itself; once that is done, none is longer than `LONG`."""
    match message:
        case UserMessage(text=text):
            return [len(text)]
        case ModelReply(text=text, calls=calls):
            return [len(text), *map(_size_of_call, calls)]
        case ToolAnswer(content=content):
            return [sum(map(_size_of, content))]


def _size_of_call(call: ToolUse) -> int:
    return len(call.text) if call.input is None else len(_to_json(call.input))


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _size_of(part: Content) -> int:
    match part:
        case Text(text=text):
            return len(text)
        case ResourceLink(uri=uri):
            return len(uri)
        case EmbeddedResource(content=content):
            return len(content)
        case _:
            return len(part.data)


def _part_words(part: Content) -> str:
    match part:
        case Text(text=text):
            return text
        case ResourceLink(uri=uri):
            return uri
        case EmbeddedResource(uri=uri, content=content):
            return content if isinstance(content, str) else f"[{uri}]"
        case _:
            return f"[{part.mime_type}, {len(part.data):,} bytes]"
