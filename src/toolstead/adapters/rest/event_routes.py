"""The event routes: everything, a thread's, a run's. Each one's OpenAPI operation stands beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from toolstead.adapters.http.asgi import HttpRequest, Sendable
from toolstead.adapters.http.problem import BAD_QUERY
from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.rest.openapi import answers_with, path_parameter, query_parameter, route
from toolstead.adapters.rest.problems import STORAGE, UNKNOWN_RUN, UNKNOWN_THREAD
from toolstead.adapters.rest.profile_threads import read_own_run
from toolstead.adapters.rest.query import event_id, is_true, read_query, read_types, single_value
from toolstead.adapters.rest.sse import EventStreamAnswer, EventStreamHead
from toolstead.errors import InvocationError, NotFoundError
from toolstead.orchestrator.feed import Feed
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.orchestrator import LAST_EVENTS, Orchestrator

_STREAM = {
    "200": {
        "description": "Server-sent events: `event` is the type, `id` the event's id, `data` an `Event`.",
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "string",
                    "description": "`event:`, `id:` and `data:` lines, and comments as heartbeat.",
                }
            }
        },
    }
}
_AFTER = [
    query_parameter("after", "Only what came after the event of this id; 0 for everything there is.", "0"),
    {
        **query_parameter("Last-Event-ID", "The same, as browsers send it when they come back. It wins.", None),
        "in": "header",
    },
]
_FOLLOW = query_parameter("follow", "`false` ends the stream after what is stored by now.", None)
_THREAD = query_parameter("thread", "Only events of this thread.", None)
_RUN = query_parameter("run", "Only events of this run.", None)
_TASK = query_parameter("task", "Only events of this task.", None)
_TYPE = query_parameter("type", "Only events of this type; several with commas, or by repeating it.", None)


class EventRoutes:
    """The event log over HTTP."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping

    @route(
        "GET",
        "/api/events",
        "events",
        "Follow all events",
        "A stream (server-sent events) of what happens, from now on; with `after` or `Last-Event-ID`, from that event "
        "on. Ids are opaque, in the order of what was stored, and stay valid over restarts. Calls outside a run that "
        "go well are sent only to readers: they have no id. A client that takes nothing for half a minute is cut "
        "off, and may come back with the last id it saw.",
        parameters=[_THREAD, _RUN, _TASK, _TYPE, *_AFTER],
        responses={**_STREAM, **answers_with(BAD_QUERY, STORAGE)},
    )
    async def stream_all(self, conversations: Orchestrator, request: HttpRequest) -> Sendable:
        """`GET /api/events`: from now on, unless an id is given."""
        wanted, after = _read(request, "thread", "run", "task")
        return await self._build_stream(conversations, request, wanted, after)

    @route(
        "GET",
        "/api/threads/{id}/events",
        "threadEvents",
        "Follow a thread",
        "The same for one thread, from its first event on.",
        parameters=[path_parameter("id", "The thread's id.", "thread_1"), _RUN, _TASK, _TYPE, *_AFTER, _FOLLOW],
        responses={**_STREAM, **answers_with(UNKNOWN_THREAD, BAD_QUERY, STORAGE)},
    )
    async def stream_thread(self, conversations: Orchestrator, request: HttpRequest) -> Sendable:
        """`GET /api/threads/{id}/events`: from the thread's first event, unless an id is given."""
        wanted, after = _read(request, "run", "task", "follow")
        follows = is_true(request, read_query(request, "run", "task", "type", "after", "follow"), "follow", usual=True)
        thread_id = request.params["id"]
        wanted = replace(wanted, thread_id=thread_id)
        await conversations.store.read_thread(thread_id)

        async def has_ended() -> bool:
            try:
                await conversations.store.read_thread(thread_id)
                return not follows
            except NotFoundError:
                return True

        return await self._build_stream(conversations, request, wanted, after or "", has_ended=has_ended)

    @route(
        "GET",
        "/api/runs/{id}/events",
        "runEvents",
        "Follow a run",
        "The same for one run, from its first event on. It ends with exactly one of `completed`, `error` and "
        "`cancelled`, and then the stream closes; also when the run had ended before.",
        for_profiles=True,
        parameters=[path_parameter("id", "The run's id.", "run_1"), _THREAD, _TASK, _TYPE, *_AFTER],
        responses={**_STREAM, **answers_with(UNKNOWN_RUN, BAD_QUERY, STORAGE)},
    )
    async def stream_run(self, conversations: Orchestrator, request: HttpRequest) -> Sendable:
        """`GET /api/runs/{id}/events`: the same for a run; it closes after the run's end."""
        wanted, after = _read(request, "thread", "task")
        run_id, shown, store = request.params["id"], wanted.types, conversations.store
        types = None if shown is None else shown | LAST_EVENTS  # its end is looked for, shown or not
        wanted = replace(wanted, run_id=run_id, types=types)
        await read_own_run(conversations, request)

        async def has_ended() -> bool:
            try:
                return (await store.read_run(run_id)).has_ended
            except NotFoundError:
                return True

        return await self._build_stream(
            conversations, request, wanted, after or "", has_ended=has_ended, shown=shown, last=LAST_EVENTS
        )

    async def _build_stream(
        self,
        conversations: Orchestrator,
        request: HttpRequest,
        wanted: EventFilter,
        after: str | None,
        *,
        has_ended: Callable[[], Awaitable[bool]] | None = None,
        shown: frozenset[str] | None = None,
        last: frozenset[str] = frozenset(),
    ) -> Sendable:
        if request.scope["method"] == "HEAD":
            return EventStreamHead()
        reader = await _feed_of(conversations).open_reader(wanted, after=after)
        # Asked after the reader was there: an end that comes after this answer comes to the reader, too.
        try:
            if has_ended is not None and await has_ended():
                reader.finish()
        except BaseException:
            reader.close()
            raise
        return EventStreamAnswer(
            reader, receive=request.receive, stopping=self._stopping, shown=shown, last=last, has_ended=has_ended
        )


def _feed_of(conversations: Orchestrator) -> Feed:
    feed = conversations.log.feed
    if feed is None or feed.store is None:
        raise InvocationError("everything is being closed; try again when it runs again")
    return feed


def _read(request: HttpRequest, *filters: str) -> tuple[EventFilter, str | None]:
    """Which events are wanted, and after which id.

    Raises:
        RequestError: A parameter or the id is wrong.
    """
    query = read_query(request, *filters, "type", "after")
    wanted = EventFilter(
        thread_id=single_value(request, query, "thread"),
        run_id=single_value(request, query, "run"),
        task_id=single_value(request, query, "task"),
        types=read_types(request, query),
    )
    return wanted, event_id(request, query)
