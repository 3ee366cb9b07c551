"""The run routes: start, show, cancel, steps; warm up a session; fetch a whole result. With OpenAPI operations."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from toolstead.adapters.http.access import find_access
from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.body import RequestError, decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, BAD_QUERY, NOT_IN_PROFILE, problem_response
from toolstead.adapters.rest.answers import Prewarmed, RunAccepted, StepList
from toolstead.adapters.rest.openapi import body_of, describe_answer, path_parameter, query_parameter, route
from toolstead.adapters.rest.problems import (
    NO_RUNTIME,
    STORAGE,
    UNKNOWN_AGENT,
    UNKNOWN_RESULT,
    UNKNOWN_RUN,
    UNKNOWN_THREAD,
)
from toolstead.adapters.rest.profile_threads import check_thread, read_own_run
from toolstead.adapters.rest.query import idempotency_key, page_size, read_query, single_value, wrong_parameter
from toolstead.adapters.rest.thread_routes import Name
from toolstead.adapters.rest.tool_routes import NoBody, ThreadId
from toolstead.errors import RefusedError, ToolError
from toolstead.orchestrator.orchestrator import Orchestrator, RunRequest
from toolstead.orchestrator.step_reading import MOST_BYTES, read_steps
from toolstead.tools.confinement import quote_path, resolve_inside
from toolstead.types.result import ToolResult
from toolstead.types.run import Run, RunError, Usage
from toolstead.types.step import RunStep

LONGEST_RUN = 604_800
MOST_STEPS = 200
_USUAL_STEPS = 50

NewId = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)[^\x00-\x20\x7f/\\?#%]+\Z")]
"""A thread's id as a caller may choose it: usable in a URL without escapes."""


RESULTS_PATH = "/api/results/"
HANDLE = "{handle}"

ReadResult = Callable[[str], Awaitable[Any]]
"""Reads the result of a handle, also while it is still being written. Raises NotFoundError."""


class RunBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A prompt for an agent.

    Attributes:
        prompt: What to do; passed on verbatim.
        thread_id: The thread it belongs to; a new one by default.
        session_id: A conversation of the runtime to resume.
        agent: Overrides the agent of the thread and the settings.
        model: Overrides the model of the thread and the settings.
        runtime: Overrides the runtime of the thread and the settings.
        cwd: The folder it works in: a path inside the project, which must exist.
        timeout: Seconds after which the run is ended.
    """

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    thread_id: NewId | None = None
    session_id: Name | None = None
    agent: Name | None = None
    model: Name | None = None
    runtime: Name | None = None
    cwd: str | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_RUN)] | None = None


class PrewarmBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A thread that will soon get a message.

    Attributes:
        thread_id: A thread's id.
    """

    thread_id: ThreadId


_DONE = Run(
    id="run_1",
    thread_id="thread_1",
    prompt="Hello",
    created_at=1790000001.0,
    owner="",
    agent="main",
    runtime="scripted",
    status="completed",
    result="Hello to you, too.",
    usage=Usage(input_tokens=12, output_tokens=5, cost=0.0001),
    started_at=1790000001.5,
    ended_at=1790000002.25,
)
_CANCELLED = msgspec.structs.replace(
    _DONE, status="cancelled", result=None, error=RunError(code="cancelled", message="it was cancelled")
)
_STEP = RunStep(
    run_id="run_1",
    number=1,
    created_at=1790000001.5,
    model="anthropic:claude-sonnet-4-6",
    request={
        "instructions": "You work for the user.",
        "messages": [{"role": "user", "text": "What is in notes.txt?"}],
        "tools": ["file-reader"],
        "maxTokens": None,
    },
    reply={
        "text": "",
        "calls": [{"id": "call_1", "name": "file-reader", "input": {"path": "notes.txt"}}],
        "cut": False,
    },
    usage=Usage(input_tokens=412, output_tokens=31, cost=0.0017),
    duration_ms=1204.5,
)
_ID = path_parameter("id", "The run's id.", "run_1")


async def _find_profile(conversations: Orchestrator, body: RunBody, request: HttpRequest) -> str | None:
    """The profile of the run that a request starts; None for no profile.

    Raises:
        RequestError: It would go on with a conversation that holds more than the profile shows.
    """
    access = find_access(request.scope)
    if access is None:
        return None
    if body.session_id is not None:
        detail = f"/sessionId: the token of the profile {access.profile!r} begins its own conversations; leave it out."
        raise RequestError(problem_response(NOT_IN_PROFILE, detail, instance=request.path))
    if body.thread_id is not None:
        await check_thread(conversations, body.thread_id, request, may_be_new=True)
    return access.profile


class RunRoutes:
    """Runs over HTTP."""

    def __init__(self, project: Path, results: ReadResult | None) -> None:
        self._project = project
        self._results = results

    @route(
        "POST",
        "/api/runs",
        "startRun",
        "Start a run",
        "Stores the prompt as a message, in a new thread unless one is named, and queues the run that answers it. "
        "`GET /api/runs/{id}/events` streams its events. With the token of a profile, the run and all that it starts "
        "see that profile's tools, and `threadId` is new or that of such runs.",
        for_profiles=True,
        requestBody=body_of(RunBody, {"prompt": "Hello", "cwd": ".", "timeout": 60}, required=True),
        responses=describe_answer(
            RunAccepted,
            "The run is queued.",
            BAD_JSON,
            BAD_BODY,
            NO_RUNTIME,
            UNKNOWN_AGENT,
            STORAGE,
            example={"runId": "run_1", "threadId": "thread_1"},
            status=202,
        ),
    )
    async def start_run(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`POST /api/runs`."""
        body = await decode_body(request, RunBody)
        key = idempotency_key(request)
        if key is not None and body.thread_id is None:
            raise wrong_parameter(
                request, "Idempotency-Key: a key belongs to a thread, so the body needs a threadId too."
            )
        wanted = RunRequest(
            prompt=body.prompt,
            thread_id=body.thread_id,
            session_id=body.session_id or None,
            agent=body.agent or "",
            model=body.model or "",
            runtime=body.runtime or "",
            cwd=None if body.cwd is None else self._check_folder(body.cwd, request),
            timeout=body.timeout,
            idempotency_key=key,
            profile=await _find_profile(conversations, body, request),
        )
        accepted = await conversations.submit(wanted)
        thread_id = body.thread_id or (await conversations.store.read_run(accepted.run_id)).thread_id
        return HttpResponse.of_json(RunAccepted(run_id=accepted.run_id, thread_id=thread_id), 202)

    @route(
        "GET",
        "/api/runs/{id}",
        "showRun",
        "Show a run",
        "Its current state, or how it ended.",
        for_profiles=True,
        parameters=[_ID],
        responses=describe_answer(Run, "The run.", UNKNOWN_RUN, STORAGE, example=_DONE.to_json()),
    )
    async def show_run(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/runs/{id}`."""
        return HttpResponse.of_json((await read_own_run(conversations, request)).to_json())

    @route(
        "POST",
        "/api/runs/{id}/cancel",
        "cancelRun",
        "Cancel a run",
        "Interrupts a running run and drops a queued one, whichever process owns it. Answers with the run once it has "
        "ended; a run that had already ended is unchanged.",
        for_profiles=True,
        parameters=[_ID],
        responses=describe_answer(Run, "The run at its end.", UNKNOWN_RUN, STORAGE, example=_CANCELLED.to_json()),
    )
    async def cancel_run(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`POST /api/runs/{id}/cancel`: answers when the run has ended."""
        await decode_body(request, NoBody)
        run = await read_own_run(conversations, request)
        return HttpResponse.of_json((await conversations.cancel(run.id)).to_json())

    @route(
        "GET",
        "/api/runs/{id}/steps",
        "listSteps",
        "Show what the model was sent",
        "The requests of the run to its model and the replies, in order: whole requests, as the kernel sent them. A "
        "program such as Claude Code makes its own requests; of its turns there is what it was given and what it "
        "answered. Secrets are masked; what was too long is cut, with a note where. Steps are there shortly after they "
        "ended, and deleted with the run's events. A page ends early, with at least one step, when its requests have "
        f"more than {MOST_BYTES:,} bytes; `next` is null on the last one, else give it as `after`.",
        parameters=[
            _ID,
            query_parameter("after", "The `next` of the previous page, or the number of any step.", None),
            query_parameter("limit", f"How many steps, at most {MOST_STEPS}; {_USUAL_STEPS} by default.", None),
        ],
        responses=describe_answer(
            StepList,
            "The steps.",
            UNKNOWN_RUN,
            BAD_QUERY,
            STORAGE,
            example={"steps": [_STEP.to_json()], "next": None},
        ),
    )
    async def list_steps(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/runs/{id}/steps`."""
        query = read_query(request, "after", "limit")
        limit = page_size(request, query, usual=_USUAL_STEPS, most=MOST_STEPS)
        after = single_value(request, query, "after") or "0"
        if not (after.isascii() and after.isdigit() and len(after) <= 9):
            raise wrong_parameter(request, "after: must be the number of a step, or 0 for the first page.")
        page = await read_steps(conversations.store, request.params["id"], after=int(after), limit=limit)
        return HttpResponse.of_json(StepList(steps=page.steps, next=page.next).to_json())

    @route(
        "POST",
        "/api/prewarm",
        "prewarm",
        "Warm up a thread's session",
        "Opens the session that the thread's next message will need.",
        requestBody=body_of(PrewarmBody, {"threadId": "thread_1"}, required=True),
        responses=describe_answer(
            Prewarmed,
            "Whether it is open.",
            BAD_JSON,
            UNKNOWN_THREAD,
            BAD_BODY,
            NO_RUNTIME,
            STORAGE,
            example={"warm": True, "runtime": "scripted"},
            status=202,
        ),
    )
    async def prewarm(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`POST /api/prewarm`."""
        body = await decode_body(request, PrewarmBody)
        warm, runtime = await conversations.prewarm(body.thread_id)
        return HttpResponse.of_json(Prewarmed(warm=warm, runtime=runtime), 202)

    @route(
        "GET",
        RESULTS_PATH + HANDLE,
        "showResult",
        "Fetch a whole result",
        "The whole result of a tool whose caller got only a part and a handle. The result's address"
        " (`toolstead://results/…`) in place of the handle is understood too.",
        parameters=[path_parameter("handle", "The handle.", "result_1")],
        responses=describe_answer(
            ToolResult,
            "The whole result.",
            UNKNOWN_RESULT,
            STORAGE,
            example={"content": [{"type": "text", "text": "All of it."}], "isError": False},
        ),
    )
    async def show_result(self, conversations: Orchestrator, request: HttpRequest) -> HttpResponse:
        """`GET /api/results/{handle}`: returns the stored JSON unchanged."""
        handle = request.params["handle"]
        if self._results is not None:
            return HttpResponse.of_json(await self._results(handle))
        return HttpResponse(200, (await conversations.store.read_result(handle)).content)

    def _check_folder(self, cwd: str, request: HttpRequest) -> str:
        """A folder inside the project, with its links followed, relative to the project.

        Raises:
            RequestError: It is outside, or not a folder.
        """
        try:
            resolved = resolve_inside(self._project, cwd)
            if not resolved.is_dir():
                raise RefusedError(f"there is no folder {quote_path(cwd)} in the project; it must exist")
        except (ToolError, OSError) as error:
            raise RequestError(problem_response(BAD_BODY, f"/cwd: {error}.", instance=request.path)) from None
        return str(resolved.relative_to(os.path.realpath(self._project)))
