"""What goes wrong with a conversation, as problem documents: one place for every route of threads, runs and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolstead.adapters.http.asgi import Answer, Handler, Request, Sendable
from toolstead.adapters.http.body import BodyError
from toolstead.adapters.http.guard import RETRY_AFTER
from toolstead.adapters.http.problem import NOT_FOUND, STOPPING, problem
from toolstead.adapters.rest.problem_kinds import (
    NO_RUNTIME,
    STORAGE,
    UNKNOWN_RESULT,
    UNKNOWN_RUN,
    UNKNOWN_THREAD,
)
from toolstead.errors import InvocationError, NotFoundError, RuntimeFailureError, ScriptError, StorageError
from toolstead.orchestrator.orchestrator import Orchestrator

_UNKNOWN = {"thread": UNKNOWN_THREAD, "run": UNKNOWN_RUN, "result": UNKNOWN_RESULT}
_ELSEWHERE = {
    "thread": "GET /api/threads lists them",
    "run": "the answer to a message has its run's id",
    "result": "a tool's answer has the handle of what was kept",
}

Opened = Callable[[], Awaitable[Orchestrator]]
"""Gives the orchestrator; the first call opens the database."""

Conversing = Callable[[Orchestrator, Request], Awaitable[Sendable | None]]
"""Answers a request with the orchestrator at hand."""


def conversing(opened: Opened, handler: Conversing) -> Handler:
    """A handler that gets the orchestrator, and whose foreseen failures are problem documents."""

    async def answer(request: Request) -> Sendable | None:
        if any("\0" in value for value in request.params.values()):  # which not every database could look for
            return problem(NOT_FOUND, "No id has a null character in it.", instance=request.path)
        try:
            return await handler(await opened(), request)
        except BodyError as error:
            return error.answer
        except NotFoundError as error:
            detail = f"There is no {error.kind} {error.id[:200]!r}; {_ELSEWHERE[error.kind]}."
            return problem(_UNKNOWN[error.kind], detail, instance=request.path)
        except StorageError as error:
            return problem(STORAGE, _sentence(error), instance=request.path, headers=(RETRY_AFTER,))
        except (RuntimeFailureError, ScriptError) as error:
            return problem(NO_RUNTIME, _sentence(error), instance=request.path)
        except InvocationError as error:
            return problem(STOPPING, _sentence(error), instance=request.path, headers=(RETRY_AFTER,))

    return answer


def no_content() -> Answer:
    """Done, and nothing to say about it."""
    return Answer(204, b"", ())


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
