"""The routes for looking back: runs in lists and trees, and the event log in pages. With their OpenAPI operations."""

from __future__ import annotations

from typing import cast, get_args

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.problem import BAD_QUERY
from toolstead.adapters.rest.answers import EventLogPage, RunList
from toolstead.adapters.rest.openapi import describe_answer, query_parameter, route
from toolstead.adapters.rest.problems import STORAGE, UNKNOWN_RUN
from toolstead.adapters.rest.query import (
    check_event_id,
    event_id,
    is_true,
    page_size,
    read_query,
    read_types,
    single_value,
    wrong_parameter,
)
from toolstead.errors import NotFoundError
from toolstead.nearest_names import suggest
from toolstead.orchestrator.log_store import MOST_IN_TREE, LogFilter, RunFilter
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.types.event import Event
from toolstead.types.run import ListedRun, RunStatus, Usage

MOST_RUNS = 500
_USUAL_RUNS = 50
MOST_EVENTS = 1_000
_USUAL_EVENTS = 200
STATUSES: tuple[str, ...] = get_args(RunStatus)
_FIRST = "0" * 16
_CHOOSING = ("status", "active", "thread", "roots", "limit", "before")

_RUN = ListedRun(
    id="run_2",
    thread_id="thread_2",
    prompt="Read the introduction.",
    created_at=1790000002.0,
    owner="",
    agent="research",
    runtime="scripted",
    status="completed",
    result="It has two pages.",
    usage=Usage(input_tokens=12, output_tokens=5, cost=0.0001),
    started_at=1790000002.5,
    ended_at=1790000003.25,
    parent_run_id="run_1",
    root_run_id="run_1",
    depth=1,
)
_EVENT = Event(
    id="0000000000000042",
    type="tool_use",
    time=1790000002.75,
    thread_id="thread_2",
    run_id="run_2",
    data={"callId": "call_1", "name": "file-reader", "input": {"path": "notes.txt"}},
)


class LogRoutes:
    """Runs and stored events over HTTP."""

    @route(
        "GET",
        "/api/runs",
        "listRuns",
        "List the runs",
        "The runs of this server's project, each with the beginnings of its prompt and its result: the newest first. "
        f"With `root` those of one tree, the root included: the oldest first, at most {MOST_IN_TREE:,}, whatever else "
        "is chosen being refused. `next` is there when more runs may follow: give it as `before`.",
        parameters=[
            query_parameter("status", f"Only those with this status: {', '.join(STATUSES)}.", None),
            query_parameter("active", "`true` for runs without an end, `false` for runs with one.", None),
            query_parameter("thread", "Only runs in this thread.", None),
            query_parameter("roots", "`true` for those that no other run started.", None),
            query_parameter("root", "The id of a run: its whole tree, also where it is not the root.", None),
            query_parameter("limit", f"How many, at most {MOST_RUNS}; {_USUAL_RUNS} by default.", None),
            query_parameter("before", "The `next` of the previous page, or the id of any run.", None),
        ],
        responses=describe_answer(
            RunList, "The runs.", UNKNOWN_RUN, BAD_QUERY, STORAGE, example={"runs": [_RUN.to_json()]}
        ),
    )
    async def list_runs(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/runs`."""
        query = read_query(request, "root", *_CHOOSING)
        root = single_value(request, query, "root")
        if root is not None:
            if others := [name for name in _CHOOSING if name in query]:
                detail = f"{others[0]}: a tree (`root`) is given whole; leave {' and '.join(others)} out."
                raise wrong_parameter(request, detail)
            return HttpResponse.of_json((await _list_tree(conversations, root)).to_json())
        status = single_value(request, query, "status")
        if status is not None and status not in STATUSES:
            hint = suggest(status, STATUSES, otherwise=f"there are: {', '.join(STATUSES)}.")
            raise wrong_parameter(request, f"status: no run has the status {status[:100]!r}; {hint}")
        wanted = RunFilter(
            project=conversations.project,
            thread_id=single_value(request, query, "thread"),
            status=cast("RunStatus | None", status),
            is_active=is_true(request, query, "active") if "active" in query else None,
            are_roots=is_true(request, query, "roots"),
        )
        limit = page_size(request, query, usual=_USUAL_RUNS, most=MOST_RUNS)
        before = single_value(request, query, "before")
        try:
            runs = await conversations.store.list_run_page(wanted, limit=limit + 1, before=before)
        except NotFoundError as error:
            raise wrong_parameter(request, f"before: there is no run {error.id!r}.") from None
        shown = runs[:limit]
        return HttpResponse.of_json(RunList(runs=shown, next=shown[-1].id if len(runs) > limit else None).to_json())

    @route(
        "GET",
        "/api/events/log",
        "readEventLog",
        "Read the stored events",
        "A page of what `/api/events` streams and stores, as JSON: the newest events, or with `before` the newest "
        "before an id, or with `after` the oldest after one. Each page is read in about the same time. So where `type` "
        "or `tool` leaves out many events, a page may have few or none: go on with `before` while it is there, or with "
        "`after` until it stays the same. `after` of the newest page is where a stream goes on without a gap.",
        parameters=[
            query_parameter("thread", "Only events of this thread.", None),
            query_parameter("run", "Only events of this run.", None),
            query_parameter("root", "The id of a run: only events of its whole tree, and of the tasks in it.", None),
            query_parameter("task", "Only events of this task.", None),
            query_parameter("type", "Only events of this type; several with commas, or by repeating it.", None),
            query_parameter("tool", "Only calls of this tool, their results and the approvals that they need.", None),
            query_parameter("before", "The `before` of the page after it, or the id of any event.", None),
            query_parameter("after", "The `after` of the page before it, the id of any event, or 0.", None),
            query_parameter("limit", f"How many, at most {MOST_EVENTS:,}; {_USUAL_EVENTS} by default.", None),
        ],
        responses=describe_answer(
            EventLogPage,
            "The events.",
            BAD_QUERY,
            STORAGE,
            example={"events": [_EVENT.to_json()], "before": _EVENT.id, "after": "0000000000000057"},
        ),
    )
    async def read_log(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/events/log`."""
        names = ("thread", "run", "root", "task", "type", "tool", "before", "after", "limit")
        query = read_query(request, *names)
        before, after = single_value(request, query, "before"), event_id(request, query)
        if before is not None and after is not None:
            raise wrong_parameter(request, "before and after: give one of them; a page goes backwards or forwards.")
        root = single_value(request, query, "root")
        wanted = LogFilter(
            thread_id=single_value(request, query, "thread"),
            run_id=single_value(request, query, "run"),
            task_id=single_value(request, query, "task"),
            types=read_types(request, query),
            root_run_id=None if root is None else await conversations.store.find_root(root),
            tool=single_value(request, query, "tool"),
        )
        page = await conversations.store.read_event_log(
            wanted,
            before=None if before is None else check_event_id(request, before),
            after=None if after is None else after or _FIRST,
            limit=page_size(request, query, usual=_USUAL_EVENTS, most=MOST_EVENTS),
        )
        answer = EventLogPage(events=list(page.events), before=page.before, after=page.after)
        return HttpResponse.of_json(answer.to_json())


async def _list_tree(conversations: Orchestrator, id: str) -> RunList:
    """The tree of a run of this project. Raises NotFoundError."""
    root = await conversations.store.find_root(id)
    runs = await conversations.store.list_run_tree(root, project=conversations.project, limit=MOST_IN_TREE + 1)
    if not runs:
        raise NotFoundError("run", id)
    return RunList(runs=runs[:MOST_IN_TREE], cut=len(runs) > MOST_IN_TREE)
