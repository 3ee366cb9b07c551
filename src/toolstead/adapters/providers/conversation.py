"""Conversion of a kernel conversation to pydantic-ai messages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, UserMessage
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text


def translate_messages(messages: Iterable[Message], *, images: Container[str]) -> list[ModelMessage]:
    """The messages of a request.

    Everything between two replies becomes one message, results before user messages: APIs refuse a result
    that does not directly follow its call.

    Args:
        messages: The messages so far.
        images: The image media types that the model accepts.
    """
    done: list[ModelMessage] = []
    results: list[ToolReturnPart] = []
    prompts: list[UserPromptPart] = []
    for message in messages:
        match message:
            case UserMessage(text=text):
                prompts.append(UserPromptPart(content=text))
            case ToolAnswer():
                results.append(
                    ToolReturnPart(
                        tool_name=message.call.name,
                        content=_translate_content(message.content, images=images),
                        tool_call_id=message.call.id,
                        outcome="failed" if message.is_error else "success",
                    )
                )
            case ModelReply():
                if not message.text and not message.calls:
                    continue  # APIs refuse an answer without content
                if results or prompts:
                    done.append(ModelRequest(parts=[*results, *prompts]))
                    results, prompts = [], []
                done.append(_translate_reply(message))
    if results or prompts:
        done.append(ModelRequest(parts=[*results, *prompts]))
    return done


def _translate_reply(message: ModelReply) -> ModelResponse:
    """The API's original reply, with signed thinking; rebuilt if it came from another API."""
    if isinstance(message.kept, ModelResponse):
        return message.kept
    parts: list[TextPart | ToolCallPart] = [TextPart(content=message.text)] if message.text else []
    parts += [
        ToolCallPart(
            tool_name=call.name, args=dict(call.input) if call.input is not None else call.text, tool_call_id=call.id
        )
        for call in message.calls
    ]
    return ModelResponse(parts=parts)


def _translate_content(parts: Sequence[Content], *, images: Container[str]) -> str | list[str | BinaryContent]:
    """Text as text, images as images if the model accepts them, everything else as a description."""
    shown = [
        BinaryContent(data=part.data, media_type=part.mime_type)
        if isinstance(part, Image) and part.mime_type in images
        else _in_words(part)
        for part in parts
    ]
    texts = [part for part in shown if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(shown) else shown


def _in_words(part: Content) -> str:
    match part:
        case Text(text=text):
            return text
        case Image(data=data, mime_type=kind):
            return f"[an image, {kind}, {len(data)} bytes: this model cannot look at it]"
        case Audio(data=data, mime_type=kind):
            return f"[a sound, {kind}, {len(data)} bytes: not shown]"
        case ResourceLink(uri=uri, name=name, description=description):
            return f"[a link to {name}: {uri}{f' ({description})' if description else ''}]"
        case EmbeddedResource(uri=uri, content=str(text)):
            return f"[{uri}]\n{text}"
        case EmbeddedResource(uri=uri, content=content, mime_type=kind):
            return f"[{uri}, {kind or 'binary'}, {len(content)} bytes: not shown]"
