"""Which runs and threads are there for a request under a profile: those of that profile alone."""

from __future__ import annotations

from toolstead.adapters.http.access import find_access
from toolstead.adapters.http.asgi import HttpRequest
from toolstead.adapters.http.body import RequestError
from toolstead.adapters.http.problem import problem_response
from toolstead.adapters.rest.problems import UNKNOWN_THREAD
from toolstead.errors import NotFoundError
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.types.run import Run

MOST_LOOKED_AT = 1_000
"""Runs of a thread among which one without the profile is looked for; a longer thread is refused."""


async def read_own_run(conversations: Orchestrator, request: HttpRequest) -> Run:
    """The run of a request; under a profile only runs of that profile are there. Raises NotFoundError."""
    run = await conversations.store.read_run(request.params["id"])
    access = find_access(request.scope)
    if access is not None and run.profile != access.profile:
        raise NotFoundError("run", run.id)
    return run


async def check_thread(
    conversations: Orchestrator, thread_id: str, request: HttpRequest, *, may_be_new: bool = False
) -> None:
    """Refuse a thread that holds more than the profile of a request shows.

    Args:
        conversations: Has the threads.
        thread_id: The thread that the request names.
        request: A request; under no profile it may name every thread.
        may_be_new: Whether a thread that is not there yet is one that the request begins.

    Raises:
        RequestError: It is not a thread of runs of the profile.
    """
    access = find_access(request.scope)
    if access is None or await _is_of_profile(conversations, thread_id, access.profile, may_be_new=may_be_new):
        return
    detail = f"There is no thread {thread_id!r} of runs of the profile {access.profile!r}; leave threadId out."
    raise RequestError(problem_response(UNKNOWN_THREAD, detail, instance=request.path))


async def _is_of_profile(conversations: Orchestrator, thread_id: str, profile: str, *, may_be_new: bool) -> bool:
    """Whether all runs of a thread are of a profile."""
    try:
        await conversations.store.read_thread(thread_id)
    except NotFoundError:  # a call may have kept files under an id that no thread has
        return may_be_new and not await conversations.store.list_files(thread_id)
    runs = await conversations.store.list_runs(thread_id=thread_id, limit=MOST_LOOKED_AT)
    return 0 < len(runs) < MOST_LOOKED_AT and all(run.profile == profile for run in runs)
