"""A conversation of the kernel as its stored steps have it, so that another process goes on with it.

The last request of a run has all messages before it, with the calls and what the tools answered; its reply comes after
them. Where that is not stored whole, the caller begins anew, with the thread's messages as a quotation.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from toolstead.errors import SessionLostError
from toolstead.invoker.step_requests import RequestReader
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.orchestrator.store import Store
from toolstead.types.content import Content, Image, Text
from toolstead.types.run import Run
from toolstead.types.step import RunStep

logger = logging.getLogger(__name__)

_MOST_RUNS = 50
"""Runs among which the last one that ended is looked for; those before it wait."""
_TOGETHER = 50
_UNKNOWN = (Text("what came of this call is not known any more: another process made it, and ended"),)


async def recall_messages(store: Store, thread_id: str) -> list[Message]:
    """The conversation of a thread up to its last run that has ended.

    Raises:
        SessionLostError: It is not stored whole; the text says why.
    """
    runs = await store.list_runs(thread_id=thread_id, limit=_MOST_RUNS)
    run = next((one for one in runs if one.has_ended and one.started_at is not None), None)
    if run is None or run.runtime != "kernel":
        raise SessionLostError("its thread has no earlier run of the kernel")
    reader, after, step = RequestReader(), 0, None
    while stored := await store.list_steps(run.id, after=after, limit=_TOGETHER):
        for one in stored:
            after, step = one.number, reader.read_step(one)
    if step is None:
        raise SessionLostError(f"the steps of {run.id} are not stored, or not any more")
    messages = _read_messages(run, step)
    logger.info("thread %s: the conversation goes on with %d stored messages", thread_id, len(messages))
    return messages


def _read_messages(run: Run, step: RunStep) -> list[Message]:
    stored, reply = step.request.get("messages"), step.reply
    if step.kind != "model" or not stored or None in stored or "incomplete" in step.request:
        raise SessionLostError(f"the steps of {run.id} were too large to be stored whole")
    is_answered = reply is not None and "leftOut" not in reply and not reply["calls"]
    if run.status == "completed" and not (is_answered and reply and (run.result or "").startswith(reply["text"])):
        raise SessionLostError(f"the last steps of {run.id} are not stored")
    if reply is not None and "leftOut" not in reply:
        stored = [*stored, {"role": "assistant", **reply}]
    messages: list[Message] = []
    open_calls: dict[str, ToolUse] = {}
    try:
        for one in stored:
            if one["role"] != "tool":
                messages += _close_calls(open_calls)
            messages.append(_read_message(one, open_calls))
    except (KeyError, TypeError, AttributeError) as error:
        raise SessionLostError(f"the steps of {run.id} cannot be read: {error!r}") from error
    return [*messages, *_close_calls(open_calls)]


def _read_message(stored: Mapping[str, Any], open_calls: dict[str, ToolUse]) -> Message:
    match stored["role"]:
        case "user":
            return UserMessage(text=stored["text"])
        case "assistant":
            calls = tuple(
                ToolUse(id=call["id"], name=call["name"], input=call["input"], text=call.get("text", ""))
                for call in stored["calls"]
            )
            open_calls.update((call.id, call) for call in calls)
            return ModelReply(text=stored["text"], calls=calls, cut=bool(stored.get("cut")))
        case _:
            call = open_calls.pop(stored["callId"])
            content = [_read_part(part) for part in stored["content"]]
            return ToolAnswer(call=call, content=content, is_error=stored["isError"])


def _close_calls(open_calls: dict[str, ToolUse]) -> Sequence[Message]:
    """An answer to each call without one: no API takes a history with a hole in it."""
    answers = [ToolAnswer(call=call, content=_UNKNOWN, is_error=True) for call in open_calls.values()]
    open_calls.clear()
    return answers


def _read_part(part: Mapping[str, Any]) -> Content:
    """A text or an image as it was; of anything else, that it was there."""
    match part:
        case {"type": "text", "text": str() as text}:
            return Text(text)
        case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
            try:
                return Image(data=base64.b64decode(data, validate=True), mime_type=kind)
            except binascii.Error:  # it was too large to be stored
                return Text(f"[an image, {kind}: not kept]")
        case _:
            return Text(f"[{part.get('type', 'something')}: not kept]")
