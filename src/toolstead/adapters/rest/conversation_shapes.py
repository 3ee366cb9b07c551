"""The JSON shapes of threads, runs and events, as JSON Schema; beside `shapes`, which has those of tools."""

from __future__ import annotations

from typing import Any, get_args

from toolstead.adapters.rest.shapes import Shape, count, list_of, object_of, ref, text
from toolstead.types.run import RunStatus
from toolstead.types.thread import Role

LONGEST_NAME = 200


def _closed(shape: Shape) -> Shape:
    return {**shape, "additionalProperties": False}


def _maybe(shape: Shape) -> Shape:
    return {**shape, "type": [shape["type"], "null"]}


def _named(description: str) -> Shape:
    return _maybe({**text(description), "maxLength": LONGEST_NAME})


def _moment(description: str) -> Shape:
    return {"type": "number", "description": f"{description}, in seconds since 1970."}


_CHOICES: dict[str, Shape] = {
    "title": _named("What it is called; nothing unless said."),
    "agent": _named("Which agent answers; the settings' one unless said."),
    "model": _named("Which model; the agent's or the settings' one unless said."),
    "runtime": _named("What drives the model; the settings' one unless said."),
}
_ID: Shape = {**text("A thread's id."), "minLength": 1, "maxLength": LONGEST_NAME}
_USAGE = object_of(
    "What it used.",
    {
        "inputTokens": count("Tokens that were read."),
        "outputTokens": count("Tokens that were written."),
        "cost": {"type": "number", "minimum": 0, "description": "In USD."},
    },
)
_THREAD: dict[str, Shape] = {
    "id": text("Its id."),
    "title": text("What it is called."),
    "agent": text("Which agent answers; empty for the settings' one."),
    "runtime": text("What drives the model; empty for the settings' one."),
    "model": text("Which model; empty for the settings' one."),
    "createdAt": _moment("When it began"),
}
_PARENT: dict[str, Shape] = {"parentThreadId": text("The thread that delegated this one's task.")}


def _enum(kind: Any, description: str) -> Shape:
    return {"type": "string", "enum": list(get_args(kind)), "description": description}


CONVERSATION_SHAPES: dict[str, Shape] = {
    "ThreadRequest": _closed(object_of("A new thread. Everything may be left out.", {}, _CHOICES)),
    "ThreadChange": _closed(
        object_of("What changes; null goes back to what the settings say. What is left out stays.", {}, _CHOICES)
    ),
    "Message": object_of(
        "One thing that was said.",
        {
            "id": text("Its id."),
            "role": _enum(Role, "Who said it."),
            "kind": text("`text`, or what else it is."),
            "content": text("What was said."),
            "createdAt": _moment("When it was said"),
        },
    ),
    "ThreadSummary": object_of("A conversation, without what was said.", _THREAD, _PARENT),
    "Thread": object_of(
        "A conversation.", {**_THREAD, "messages": list_of(ref("Message"), "What was said, oldest first.")}, _PARENT
    ),
    "ThreadList": object_of("Threads.", {"threads": list_of(ref("ThreadSummary"), "The newest first.")}),
    "MessageRequest": _closed(
        object_of(
            "A message to a thread.",
            {"content": {**text("What to say; it is handed on word for word."), "minLength": 1}},
            {
                "steer": {
                    "type": ["boolean", "null"],
                    "description": "Give it to the invocation that runs in this thread, if one does.",
                }
            },
        )
    ),
    "MessageAccepted": object_of(
        "The message is stored.", {"messageId": text("Its id."), "runId": text("The run that answers it.")}
    ),
    "RunRequest": _closed(
        object_of(
            "Something to do for an agent.",
            {"prompt": {**text("What to do; it is handed on word for word."), "minLength": 1}},
            {
                "threadId": _maybe({**_ID, "description": "The thread it belongs to; a new one unless said."}),
                "sessionId": _named("A conversation of the runtime's own to go on with."),
                **{
                    name: _named("Instead of the thread's and the settings' one.")
                    for name in _CHOICES
                    if name != "title"
                },
                "cwd": _maybe(text("The folder it works in: a path inside the project, which must exist.")),
                "timeout": {
                    "type": ["number", "null"],
                    "exclusiveMinimum": 0,
                    "maximum": 604_800,
                    "description": "Seconds after which it is ended.",
                },
            },
        )
    ),
    "RunAccepted": object_of(
        "The run waits for its turn.", {"runId": text("Its id."), "threadId": text("Its thread.")}
    ),
    "Run": object_of(
        "One invocation of an agent.",
        {
            "id": text("Its id."),
            "threadId": text("Its thread."),
            "parentRunId": _maybe(text("The run that delegated it.")),
            "agent": text("Which agent."),
            "runtime": text("What drives the model."),
            "model": text("Which model; empty for the runtime's own."),
            "status": _enum(RunStatus, "How far it is, or how it ended."),
            "result": _maybe(text("What it answered, when it completed.")),
            "error": {
                **object_of(
                    "Why it did not complete.",
                    {"code": text("A word for programs."), "message": text("A sentence for people.")},
                ),
                "type": ["object", "null"],
            },
            "usage": _USAGE,
            "startedAt": _maybe(_moment("When its turn came")),
            "endedAt": _maybe(_moment("When it ended")),
        },
    ),
    "PrewarmRequest": _closed(object_of("A thread that will soon get a message.", {"threadId": _ID})),
    "Prewarmed": object_of(
        "Whether the thread's next message finds an open session.",
        {
            "warm": {"type": "boolean", "description": "Whether a session is open."},
            "runtime": text("The runtime it is a session of."),
        },
    ),
    "Event": object_of(
        "Something that happened, as the `data` of a stream has it.",
        {
            "id": text("To come back with; empty when it was not stored."),
            "type": text("What happened, such as `tool_result`."),
            "time": _moment("When"),
            "data": {"type": "object", "description": "The type's own members."},
        },
        {"threadId": text("Its thread."), "runId": text("Its run."), "taskId": text("Its task.")},
    ),
    "KeptResult": object_of(
        "A tool's whole answer.",
        {
            "content": list_of(ref("Content"), "What it said, in order."),
            "isError": {"type": "boolean", "description": "True when the call failed; `content` says why."},
        },
        {"structuredContent": {"description": "The same answer as a JSON value, where the tool has one."}},
    ),
}
