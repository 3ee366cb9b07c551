"""The thread routes: list, create, show, change, delete, send a message. With their OpenAPI operations."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec

from toolstead.adapters.http.asgi import JSON_TYPE, HttpRequest, HttpResponse, encode_json
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, BAD_QUERY
from toolstead.adapters.rest.answers import MessageAccepted, ThreadAnswer, ThreadList
from toolstead.adapters.rest.openapi import (
    answers_with,
    body_of,
    describe_answer,
    path_parameter,
    query_parameter,
    route,
)
from toolstead.adapters.rest.problems import NO_RUNTIME, STORAGE, UNKNOWN_THREAD
from toolstead.adapters.rest.query import idempotency_key, is_true, page_size, read_query, single_value, wrong_parameter
from toolstead.errors import NotFoundError
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.orchestrator import Orchestrator, RunRequest
from toolstead.types.thread import Message, Thread, ThreadFilter

MOST_LISTED = 500
_USUALLY_LISTED = 100
MOST_SHOWN = 1_000
_USUALLY_SHOWN = 200
MOST_BYTES = 8 << 20
"""Of the messages of one page together."""
_END = "end"
"""Stands for the end of a thread in `before`; no message has this id."""

Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
"""Appears in lists and log lines, so it has no control characters."""


class ThreadBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A new thread. Every member is optional.

    Attributes:
        title: Its title; empty by default.
        agent: The agent that answers; the one in the settings by default.
        model: The model; the one of the agent or the settings by default.
        runtime: What drives the model; the one in the settings by default.
    """

    title: Name | msgspec.UnsetType | None = msgspec.UNSET
    agent: Name | msgspec.UnsetType | None = msgspec.UNSET
    model: Name | msgspec.UnsetType | None = msgspec.UNSET
    runtime: Name | msgspec.UnsetType | None = msgspec.UNSET

    def given_fields(self) -> dict[str, str]:
        """The members, with an empty text for null."""
        members = msgspec.structs.asdict(self)
        return {name: value or "" for name, value in members.items() if value is not msgspec.UNSET}


class ThreadChange(ThreadBody, forbid_unknown_fields=True, rename="camel"):
    """What to change; null restores the settings' value, and absent members stay unchanged."""


class MessageBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A message to a thread.

    Attributes:
        content: The text; passed on verbatim.
        steer: Give it to the run that is under way in this thread, if there is one.
    """

    content: Annotated[str, msgspec.Meta(min_length=1)]
    steer: bool | None = None


_THREAD = Thread(id="thread_1", created_at=1790000000.0, title="Hello")
_SAID = Message(id="msg_1", thread_id="thread_1", role="user", content="Hello", created_at=1790000001.5)
_EXAMPLE = _THREAD.to_json()
_LISTED = {**_EXAMPLE, "status": "completed", "answeredBy": "main", "usedAt": 1790000002.25}
_WITH_MESSAGES = ThreadAnswer(thread=_THREAD, messages=[_SAID]).to_json()
_ID = path_parameter("id", "The thread's id.", "thread_1")


class ThreadRoutes:
    """Conversations over HTTP."""

    def __init__(self) -> None:
        self._ids = Ids()

    @route(
        "GET",
        "/api/threads",
        "listThreads",
        "List the threads",
        "The last used first, without their messages; each with the status of its last run.",
        parameters=[
            query_parameter("own", "`true` for those of this server's project only.", None),
            query_parameter("roots", "`true` for those that no other thread started.", None),
            query_parameter("prefix", "Only those whose ids begin so.", None),
            query_parameter("limit", f"How many, at most {MOST_LISTED}; {_USUALLY_LISTED} by default.", None),
            query_parameter("before", "The id of the last thread on the previous page.", None),
        ],
        responses=describe_answer(ThreadList, "The threads.", BAD_QUERY, STORAGE, example={"threads": [_LISTED]}),
    )
    async def list_threads(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/threads`."""
        query = read_query(request, "own", "roots", "prefix", "limit", "before")
        limit = page_size(request, query, usual=_USUALLY_LISTED, most=MOST_LISTED)
        before = single_value(request, query, "before")
        wanted = ThreadFilter(
            project=conversations.project if is_true(request, query, "own") else None,
            are_roots=is_true(request, query, "roots"),
            prefix=single_value(request, query, "prefix") or "",
        )
        try:
            threads = await conversations.store.list_threads(wanted, limit=limit, before=before)
        except NotFoundError as error:
            raise wrong_parameter(request, f"before: there is no thread {error.id!r}.") from None
        return HttpResponse.of_json(ThreadList(threads=threads).to_json())

    @route(
        "POST",
        "/api/threads",
        "beginThread",
        "Create a thread",
        "The body overrides the settings for this thread.",
        requestBody=body_of(ThreadBody, {"title": "Hello"}),
        responses=describe_answer(
            ThreadAnswer,
            "The new thread.",
            BAD_JSON,
            BAD_BODY,
            STORAGE,
            example={**_EXAMPLE, "messages": []},
            status=201,
        ),
    )
    async def create_thread(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`POST /api/threads`."""
        given = await decode_body(request, ThreadBody)
        thread = Thread(
            id=self._ids.new_id("thread"), created_at=time.time(), project=conversations.project, **given.given_fields()
        )
        await conversations.store.create_thread(thread)
        place = (b"location", f"/api/threads/{thread.id}".encode())
        body = encode_json(ThreadAnswer(thread=thread, messages=[]).to_json())
        return HttpResponse(201, body, (JSON_TYPE, place))

    @route(
        "GET",
        "/api/threads/{id}",
        "showThread",
        "Show a thread",
        "With a page of its messages, oldest first. A page ends early, with at least one message, when its messages "
        f"have more than {MOST_BYTES:,} bytes. `next` is there when more messages follow: give it as `after`. To begin "
        "with the newest, give `before=end`: then `before` is there when there are earlier ones.",
        parameters=[
            _ID,
            query_parameter("limit", f"How many messages, at most {MOST_SHOWN}; {_USUALLY_SHOWN} by default.", None),
            query_parameter("after", "The `next` of the previous page, or the id of any message of the thread.", None),
            query_parameter(
                "before", "The `before` of a page, or the id of any message; `end` for the last page.", None
            ),
        ],
        responses=describe_answer(
            ThreadAnswer, "The thread.", UNKNOWN_THREAD, BAD_QUERY, STORAGE, example=_WITH_MESSAGES
        ),
    )
    async def show_thread(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/threads/{id}`."""
        query = read_query(request, "limit", "after", "before")
        limit = page_size(request, query, usual=_USUALLY_SHOWN, most=MOST_SHOWN)
        after, before = single_value(request, query, "after"), single_value(request, query, "before")
        if after is not None and before is not None:
            raise wrong_parameter(request, "before and after: give one of them; a page goes backwards or forwards.")
        thread = await conversations.store.read_thread(request.params["id"])
        try:
            return await _thread_answer(conversations, thread, after=after, before=before, limit=limit)
        except NotFoundError as error:
            name = "after" if before is None else "before"
            raise wrong_parameter(request, f"{name}: there is no message {error.id!r} in this thread.") from None

    @route(
        "PATCH",
        "/api/threads/{id}",
        "changeThread",
        "Change a thread",
        "Its title, and the agent, model and runtime of its next messages. The answer has the first page of messages.",
        parameters=[_ID],
        requestBody=body_of(ThreadChange, {"title": "Greetings"}),
        responses=describe_answer(
            ThreadAnswer,
            "The changed thread.",
            BAD_JSON,
            UNKNOWN_THREAD,
            BAD_BODY,
            STORAGE,
            example={**_WITH_MESSAGES, "title": "Greetings"},
        ),
    )
    async def change_thread(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`PATCH /api/threads/{id}`."""
        body = await decode_body(request, ThreadChange)
        return await _thread_answer(
            conversations, await conversations.store.update_thread(request.params["id"], **body.given_fields())
        )

    @route(
        "DELETE",
        "/api/threads/{id}",
        "deleteThread",
        "Delete a thread",
        "Ends its runs, and deletes its messages, runs and events permanently.",
        parameters=[_ID],
        responses={"204": {"description": "The thread is deleted."}, **answers_with(UNKNOWN_THREAD, STORAGE)},
    )
    async def delete_thread(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`DELETE /api/threads/{id}`: what runs in it is ended first."""
        await conversations.delete_thread(request.params["id"])
        return HttpResponse(204, b"", ())

    @route(
        "POST",
        "/api/threads/{id}/messages",
        "sendMessage",
        "Send a message",
        "Stores the message and queues it: each thread answers one message at a time, in order of arrival. It is plain "
        "text: nothing in it is interpreted as a command. With `steer` it is given to the run that is under way in the "
        "thread; if there is none, it is queued like any other. With `Idempotency-Key` a repeated request counts once, "
        "and gets the same answer.",
        parameters=[
            _ID,
            {
                **query_parameter(
                    "Idempotency-Key", "A text of your choice, such as a UUID; unique within the thread.", None
                ),
                "in": "header",
            },
        ],
        requestBody=body_of(MessageBody, {"content": "Hello"}, required=True),
        responses=describe_answer(
            MessageAccepted,
            "The message is stored.",
            BAD_JSON,
            UNKNOWN_THREAD,
            BAD_BODY,
            BAD_QUERY,
            NO_RUNTIME,
            STORAGE,
            example={"messageId": "msg_1", "runId": "run_1"},
            status=202,
        ),
    )
    async def post_message(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`POST /api/threads/{id}/messages`."""
        body = await decode_body(request, MessageBody)
        key = idempotency_key(request)
        thread_id = request.params["id"]
        wanted = RunRequest(prompt=body.content, thread_id=thread_id, idempotency_key=key, thread_must_exist=True)
        accepted = await (conversations.steer(wanted) if body.steer else conversations.submit(wanted))
        return HttpResponse.of_json(MessageAccepted(message_id=accepted.message_id, run_id=accepted.run_id), 202)


async def _thread_answer(
    conversations: Orchestrator,
    thread: Thread,
    *,
    after: str | None = None,
    before: str | None = None,
    limit: int = _USUALLY_SHOWN,
) -> HttpResponse:
    """A thread with the page after a message, or before one. Raises NotFoundError for that."""
    store = conversations.store
    if before is None:
        page = await store.list_message_page(thread.id, after=after, limit=limit, max_bytes=MOST_BYTES)
        answer = ThreadAnswer(
            thread=thread, messages=page.messages, next=page.messages[-1].id if page.has_more else None
        )
    else:
        earlier = None if before == _END else before
        page = await store.list_last_messages(thread.id, before=earlier, limit=limit, max_bytes=MOST_BYTES)
        answer = ThreadAnswer(
            thread=thread, messages=page.messages, before=page.messages[0].id if page.has_more else None
        )
    return HttpResponse.of_json(answer.to_json())
