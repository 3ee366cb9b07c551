"""The task routes: list, show, read a result, cancel, start again. With their OpenAPI operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from toolstead.adapters.http.asgi import JSON_TYPE, HttpRequest, HttpResponse, encode_json
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, BAD_QUERY, problem_response
from toolstead.adapters.rest.openapi import describe_answer, path_parameter, query_parameter, route
from toolstead.adapters.rest.problems import (
    NO_RUNTIME,
    RETRY_REFUSED,
    STORAGE,
    UNKNOWN_AGENT,
    UNKNOWN_TASK,
    write_sentence,
)
from toolstead.adapters.rest.query import page_size, read_query, single_value, whole_number, wrong_parameter
from toolstead.adapters.rest.task_answers import (
    CalledTool,
    TaskBudget,
    TaskDetails,
    TaskEvidence,
    TaskList,
    TaskNode,
    TaskResultPart,
)
from toolstead.adapters.rest.tool_routes import NoBody
from toolstead.errors import RefusedError
from toolstead.types.run import RunError, Usage
from toolstead.types.task import Attempt, Task, TreeBudget

MOST_LISTED = 500
_USUALLY_LISTED = 100
LONGEST_PART = 1_000_000
_USUAL_PART = 16_000
_LARGEST_OFFSET = 10**12
_OPEN = {"true": True, "false": False}


class TaskControl(Protocol):
    """The delegated tasks of a stead, as its interfaces show and change them."""

    async def list_tasks(
        self, *, thread: str | None = None, root: str | None = None, is_open: bool | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Tasks, the newest first."""
        ...

    async def read_task(self, id: str) -> dict[str, Any]:
        """A task with all that is known of it, and the tree below it. Raises NotFoundError."""
        ...

    async def read_task_result(self, id: str, *, offset: int = 0, limit: int = _USUAL_PART) -> dict[str, Any]:
        """A part of its result. Raises NotFoundError."""
        ...

    async def cancel_task(self, id: str) -> dict[str, Any]:
        """End it and those below it. Raises NotFoundError."""
        ...

    async def retry_task(self, id: str) -> dict[str, Any]:
        """Start its work again. Raises NotFoundError, RefusedError and InvocationError."""
        ...


_TASK = Task(
    id="task_1",
    agent="researcher",
    prompt="Find out who calls the old route.",
    thread_id="thread_2",
    parent_thread_id="thread_1",
    root_run_id="run_1",
    parent_run_id="run_1",
    project="",
    duplicate_key="",
    timeout=1800.0,
    created_at=1790000000.0,
    deadline=1790001800.0,
    max_attempts=5,
    outcome="completed",
    summary="Two pages do.",
    result_size=13,
    usage=Usage(input_tokens=1200, output_tokens=80, cost=0.005),
    ended_at=1790000012.5,
)
_BELOW = replace(
    _TASK,
    id="task_2",
    agent="reader",
    prompt="Read the logs.",
    thread_id="thread_3",
    parent_thread_id="thread_2",
    parent_run_id="run_2",
    parent_task_id="task_1",
    mode="immediate",
    depth=2,
    summary="Two.",
    result_size=4,
)
_DETAILS = TaskDetails(
    task=_TASK,
    attempts=[
        Attempt(
            task_id="task_1",
            number=1,
            run_id="run_2",
            accepted=True,
            feedback="",
            defect="",
            answer_digest="",
            ended_at=1790000012.5,
        )
    ],
    children=[_BELOW],
    budget=TaskBudget(
        tree=TreeBudget(root_run_id="run_1", token_budget=500_000, cost_budget=5.0, spent_tokens=2560, spent_cost=0.01),
        left_tokens=497_440,
        left_cost=4.99,
    ),
    evidence=TaskEvidence(calls=[CalledTool(name="file-reader", is_error=False, content="GET /old")], gates=[]),
    tree=[TaskNode(task=_BELOW, children=[])],
)
_CANCELLED = replace(
    _TASK, outcome="cancelled", summary=None, result_size=0, error=RunError(code="cancelled", message="it was")
)
_AGAIN = replace(
    _TASK,
    id="task_3",
    thread_id="thread_4",
    root_run_id="task_3",
    retry_of="task_1",
    outcome=None,
    summary=None,
    result_size=0,
    usage=Usage(),
    ended_at=None,
)
_ID = path_parameter("id", "The task's id.", "task_1")


class TaskRoutes:
    """Delegated tasks over HTTP."""

    def __init__(self, tasks: TaskControl) -> None:
        self._tasks = tasks

    @route(
        "GET",
        "/api/tasks",
        "listTasks",
        "List the tasks",
        "The delegated tasks of this project, the newest first, each with the first 1,000 characters of its prompt.",
        parameters=[
            query_parameter("thread", "Only tasks that this thread delegated.", None),
            query_parameter("root", "Only tasks of one tree: its `rootRunId`.", None),
            query_parameter("open", "`true` for tasks without an outcome, `false` for tasks with one.", None),
            query_parameter("limit", f"How many, at most {MOST_LISTED}; {_USUALLY_LISTED} by default.", None),
        ],
        responses=describe_answer(
            TaskList, "The tasks.", BAD_QUERY, STORAGE, example={"tasks": [_BELOW.to_json(), _TASK.to_json()]}
        ),
    )
    async def list_tasks(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tasks`."""
        query = read_query(request, "thread", "root", "open", "limit")
        found = await self._tasks.list_tasks(
            thread=single_value(request, query, "thread"),
            root=single_value(request, query, "root"),
            is_open=_read_open(request, query),
            limit=page_size(request, query, usual=_USUALLY_LISTED, most=MOST_LISTED),
        )
        return HttpResponse.of_json({"tasks": found})

    @route(
        "GET",
        "/api/tasks/{id}",
        "showTask",
        "Show a task",
        "How far it is or how it ended, with its reviewed attempts, the budget of its tree, what its agent called, and "
        "`tree`: every task below it, each with its own `children`.",
        parameters=[_ID],
        responses=describe_answer(TaskDetails, "The task.", UNKNOWN_TASK, STORAGE, example=_DETAILS.to_json()),
    )
    async def show_task(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tasks/{id}`."""
        return HttpResponse.of_json(await self._tasks.read_task(request.params["id"]))

    @route(
        "GET",
        "/api/tasks/{id}/result",
        "readTaskResult",
        "Read a task's result",
        "A part of the whole result, of which `summary` is only the beginning. `next` is there when more follows: give "
        "it as `offset`.",
        parameters=[
            _ID,
            query_parameter("offset", "How many characters to leave out; 0 by default.", None),
            query_parameter("limit", f"How many characters, at most {LONGEST_PART}; {_USUAL_PART} by default.", None),
        ],
        responses=describe_answer(
            TaskResultPart,
            "The part.",
            UNKNOWN_TASK,
            BAD_QUERY,
            STORAGE,
            example={"text": "Two pages do.", "offset": 0, "size": 13},
        ),
    )
    async def read_result(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tasks/{id}/result`."""
        query = read_query(request, "offset", "limit")
        offset = whole_number(request, query, "offset", usual=0, least=0, most=_LARGEST_OFFSET)
        limit = page_size(request, query, usual=_USUAL_PART, most=LONGEST_PART)
        part = await self._tasks.read_task_result(request.params["id"], offset=offset, limit=limit)
        return HttpResponse.of_json(part)

    @route(
        "POST",
        "/api/tasks/{id}/cancel",
        "cancelTask",
        "Cancel a task",
        "Ends it as `cancelled` with every open task below it, whichever processes work on them. Answers when their "
        "runs have ended; a task that had already ended is unchanged.",
        parameters=[_ID],
        responses=describe_answer(
            Task,
            "The task at its end.",
            BAD_JSON,
            UNKNOWN_TASK,
            BAD_BODY,
            STORAGE,
            example=_CANCELLED.to_json(),
        ),
    )
    async def cancel_task(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/tasks/{id}/cancel`: answers when the task and those below it have ended."""
        await decode_body(request, NoBody)
        return HttpResponse.of_json(await self._tasks.cancel_task(request.params["id"]))

    @route(
        "POST",
        "/api/tasks/{id}/retry",
        "retryTask",
        "Start a task again",
        "Starts the work of a task that has ended once more: as a new task, whose `retryOf` names the old one, with a "
        "tree and a budget of its own. Its result goes to the thread that delegated the old one.",
        parameters=[_ID],
        responses=describe_answer(
            Task,
            "The new task.",
            BAD_JSON,
            UNKNOWN_TASK,
            RETRY_REFUSED,
            BAD_BODY,
            NO_RUNTIME,
            UNKNOWN_AGENT,
            STORAGE,
            example=_AGAIN.to_json(),
            status=201,
        ),
    )
    async def retry_task(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/tasks/{id}/retry`."""
        await decode_body(request, NoBody)
        try:
            task = await self._tasks.retry_task(request.params["id"])
        except RefusedError as error:
            return problem_response(RETRY_REFUSED, write_sentence(error), instance=request.path)
        place = (b"location", f"/api/tasks/{task['id']}".encode())
        return HttpResponse(201, encode_json(task), (JSON_TYPE, place))


def _read_open(request: HttpRequest, query: Mapping[str, list[str]]) -> bool | None:
    """The parameter `open`. Raises RequestError for one that is neither true nor false."""
    given = single_value(request, query, "open")
    if given is not None and given not in _OPEN:
        raise wrong_parameter(request, "open: must be `true` or `false`.")
    return None if given is None else _OPEN[given]
