"""Problem documents for the failures behind every route except the tool routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Sendable
from toolstead.adapters.http.body import BodyError
from toolstead.adapters.http.guard import RETRY_AFTER
from toolstead.adapters.http.problem import BAD_BODY, NOT_FOUND, STOPPING, ProblemKind, problem_response
from toolstead.adapters.rest.problem_kinds import (
    APPROVAL_DECIDED,
    BAD_PLUGIN,
    NO_RUNTIME,
    STORAGE,
    UNKNOWN_APPROVAL,
    UNKNOWN_RESULT,
    UNKNOWN_RUN,
    UNKNOWN_THREAD,
)
from toolstead.errors import (
    ApprovalDecidedError,
    InvalidApprovalError,
    InvocationError,
    NotFoundError,
    PluginError,
    RuntimeFailureError,
    ScriptError,
    StateError,
    StorageError,
)
from toolstead.orchestrator.orchestrator import Orchestrator

_UNKNOWN = {"thread": UNKNOWN_THREAD, "run": UNKNOWN_RUN, "result": UNKNOWN_RESULT, "approval": UNKNOWN_APPROVAL}
_ELSEWHERE = {
    "thread": "GET /api/threads lists them",
    "run": "the answer to a message has its run's id",
    "result": "a tool's result has the handle of its whole content",
    "approval": "GET /api/approvals lists the pending ones",
}

Opened = Callable[[], Awaitable[Orchestrator]]
"""Returns the orchestrator; the first call opens the database."""

Conversing = Callable[[Orchestrator, HttpRequest], Awaitable[Sendable | None]]
"""Answers a request, given the orchestrator."""


def with_orchestrator(opened: Opened, handler: Conversing) -> Handler:
    """Wrap a handler so that it gets the orchestrator and expected failures become problem documents."""

    async def converse(request: HttpRequest) -> Sendable | None:
        return await handler(await opened(), request)

    return explain_failures(converse)


def explain_failures(handler: Handler, *, unknown: ProblemKind | None = NOT_FOUND) -> Handler:
    """Wrap a handler so that expected failures become problem documents.

    `unknown` is the problem kind for an id that cannot exist; None for routes without an id.
    """

    async def answer(request: HttpRequest) -> Sendable | None:
        if unknown is not None and any("\0" in value for value in request.params.values()):
            return problem_response(unknown, "An id cannot contain a null character.", instance=request.path)
        try:
            return await handler(request)
        except BodyError as error:
            return error.answer
        except NotFoundError as error:
            detail = f"There is no {error.kind} {error.id[:200]!r}; {_ELSEWHERE[error.kind]}."
            return problem_response(_UNKNOWN[error.kind], detail, instance=request.path)
        except ApprovalDecidedError as error:
            return problem_response(
                APPROVAL_DECIDED,
                _error_sentence(error),
                instance=request.path,
                decision=error.decision,
                reason=error.reason,
            )
        except InvalidApprovalError as error:
            lines = "\n".join(f"/{error.field}: {one}" for one in error.problems)
            return problem_response(BAD_BODY, lines, instance=request.path)
        except PluginError as error:
            detail = f"{error.field}: {error.reason.removesuffix('.')}."
            return problem_response(BAD_PLUGIN, detail, instance=request.path, plugin=error.plugin, field=error.field)
        except (StorageError, StateError) as error:
            return problem_response(STORAGE, _error_sentence(error), instance=request.path, headers=(RETRY_AFTER,))
        except (RuntimeFailureError, ScriptError) as error:
            return problem_response(NO_RUNTIME, _error_sentence(error), instance=request.path)
        except InvocationError as error:
            return problem_response(STOPPING, _error_sentence(error), instance=request.path, headers=(RETRY_AFTER,))

    return answer


def no_content() -> HttpResponse:
    """A response without content."""
    return HttpResponse(204, b"", ())


def _error_sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
