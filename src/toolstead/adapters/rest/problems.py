"""The problems of the REST routes: their kinds, all kinds for `/docs`, and the failures that become such problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolstead.adapters.http.asgi import Handler, HttpRequest, Sendable
from toolstead.adapters.http.problem import (
    BAD_BODY,
    BAD_HEADERS,
    BAD_HOST,
    BAD_HTTP,
    BAD_JSON,
    BAD_METHOD,
    BAD_ORIGIN,
    BAD_QUERY,
    BAD_SCOPE,
    BAD_TYPE,
    CRASH,
    HEAD_TOO_LARGE,
    NO_ISSUER,
    NO_TOKEN,
    NOT_FOUND,
    NOT_IN_PROFILE,
    PRIVATE,
    RETRY_AFTER,
    STOPPING,
    TOO_LARGE,
    TOO_SLOW,
    UNKNOWN_PROFILE,
    ProblemKind,
    problem_response,
)
from toolstead.errors import (
    ApprovalDecidedError,
    FileConflictError,
    InvalidApprovalError,
    InvalidFileError,
    InvocationError,
    NotFoundError,
    PluginError,
    RuntimeFailureError,
    ScriptError,
    StateError,
    StorageError,
    UnknownAgentError,
)
from toolstead.orchestrator.orchestrator import Orchestrator

UNKNOWN_TOOL = ProblemKind(
    "unknown-tool",
    404,
    "No such tool",
    "`GET /api/tools` lists the tools that can be called; a tool that is blocked or switched off is not listed.",
)
NOT_READY = ProblemKind(
    "not-ready", 503, "The server cannot work at the moment", "The detail says what is missing, and the log more."
)
UNKNOWN_THREAD = ProblemKind("unknown-thread", 404, "No such thread", "`GET /api/threads` lists them.")
UNKNOWN_RUN = ProblemKind(
    "unknown-run", 404, "No such run", "The answer to a message or to `POST /api/runs` has the run's id."
)
UNKNOWN_TASK = ProblemKind("unknown-task", 404, "No such task", "`GET /api/tasks` lists those of this project.")
RETRY_REFUSED = ProblemKind(
    "retry-refused",
    409,
    "The task cannot be started again",
    "The detail says why: one that is still open has to end, or to be cancelled, first.",
)
UNKNOWN_RESULT = ProblemKind(
    "unknown-result", 404, "No such result", "A tool's result has the handle of its whole content; results expire."
)
UNKNOWN_PLUGIN = ProblemKind("unknown-plugin", 404, "No such plugin", "`GET /api/plugins` lists them.")
UNKNOWN_APPROVAL = ProblemKind(
    "unknown-approval", 404, "No such approval", "`GET /api/approvals` lists the pending ones; decided ones expire."
)
APPROVAL_DECIDED = ProblemKind(
    "approval-decided",
    409,
    "The approval is already decided",
    "The detail says how it was decided: by a person, by a deadline or by the end of the caller.",
)
UNKNOWN_FILE = ProblemKind(
    "unknown-file",
    404,
    "No such shared file",
    "`GET /api/vfs` lists the files of a thread tree, `GET /api/vfs/log` the versions of one, deletions included.",
)
FILE_CONFLICT = ProblemKind(
    "file-conflict",
    409,
    "A newer version would be lost",
    "Merge what `diff` shows into your text, and send it with the newer `version` as `If-Match`.",
)
BAD_FILE = ProblemKind(
    "bad-file",
    422,
    "The shared file cannot be written or read so",
    "The detail says what is wrong with the path or the text, or which limit under `[plugins.vfs]` is reached.",
)
BAD_PLUGIN = ProblemKind(
    "bad-plugin",
    422,
    "The plugin does not accept this",
    "The detail names the setting and what would be right; nothing was changed.",
)
UNKNOWN_TOOL_FILE = ProblemKind(
    "unknown-tool-file",
    404,
    "No such tool file",
    "`GET /api/tool-files` lists the files in the user's folder.",
)
TOOL_FILE_CONFLICT = ProblemKind(
    "tool-file-conflict",
    409,
    "The tool file is not as it was read",
    "Read it again, and send your change with the `digest` that it has now; an empty `digest` says that it is gone.",
)
BAD_TOOL_FILE = ProblemKind(
    "bad-tool-file",
    422,
    "The tool file is refused",
    "The detail says why, `problems` where in the text; nothing was changed.",
)
TRUST_CHANGED = ProblemKind(
    "trust-changed",
    409,
    "The project is not what was shown",
    "Read `GET /api/trust` again, and approve with the `digest` of what it shows then; nothing was approved.",
)
TRUST_REFUSED = ProblemKind(
    "trust-refused",
    422,
    "The project cannot be approved",
    "The detail says why; what was approved before stays in use.",
)
NO_RUNTIME = ProblemKind(
    "no-runtime",
    422,
    "The runtime is not available",
    "Name another in the body or in the thread, or set one up under `[runtime]`; the detail says what is missing.",
)
UNKNOWN_AGENT = ProblemKind(
    "unknown-agent", 422, "No such agent", "`GET /api/agents` lists them; the detail names the one that looks like it."
)
NO_AGENT = ProblemKind(
    "no-agent", 404, "No such agent", "`GET /api/agents` lists them; the detail names the one that looks like it."
)
STORAGE = ProblemKind(
    "storage",
    503,
    "The database does not answer",
    "Try again; the detail says what is wrong with it. Acknowledged data is not lost.",
)

KINDS = (
    BAD_HTTP,
    BAD_HEADERS,
    BAD_JSON,
    NO_TOKEN,
    BAD_ORIGIN,
    NOT_IN_PROFILE,
    BAD_SCOPE,
    UNKNOWN_PROFILE,
    NO_ISSUER,
    PRIVATE,
    NOT_FOUND,
    UNKNOWN_TOOL,
    UNKNOWN_THREAD,
    UNKNOWN_RUN,
    UNKNOWN_TASK,
    UNKNOWN_RESULT,
    UNKNOWN_PLUGIN,
    UNKNOWN_APPROVAL,
    UNKNOWN_FILE,
    UNKNOWN_TOOL_FILE,
    NO_AGENT,
    BAD_METHOD,
    TOO_SLOW,
    APPROVAL_DECIDED,
    FILE_CONFLICT,
    RETRY_REFUSED,
    TOOL_FILE_CONFLICT,
    TRUST_CHANGED,
    TOO_LARGE,
    BAD_TYPE,
    BAD_HOST,
    BAD_BODY,
    BAD_QUERY,
    BAD_FILE,
    BAD_PLUGIN,
    BAD_TOOL_FILE,
    TRUST_REFUSED,
    NO_RUNTIME,
    UNKNOWN_AGENT,
    HEAD_TOO_LARGE,
    CRASH,
    STORAGE,
    NOT_READY,
    STOPPING,
)

_UNKNOWN = {
    "thread": (UNKNOWN_THREAD, "GET /api/threads lists them"),
    "run": (UNKNOWN_RUN, "the answer to a message has its run's id"),
    "task": (UNKNOWN_TASK, "GET /api/tasks lists those of this project"),
    "result": (UNKNOWN_RESULT, "a tool's result has the handle of its whole content"),
    "approval": (UNKNOWN_APPROVAL, "GET /api/approvals lists the pending ones"),
    "file": (UNKNOWN_FILE, "GET /api/vfs lists the files of a thread tree"),
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
        except NotFoundError as error:
            kind, hint = _UNKNOWN[error.kind]
            detail = f"There is no {error.kind} {error.id[:200]!r}; {hint}."
            return problem_response(kind, detail, instance=request.path)
        except ApprovalDecidedError as error:
            return problem_response(
                APPROVAL_DECIDED,
                write_sentence(error),
                instance=request.path,
                decision=error.decision,
                reason=error.reason,
            )
        except InvalidApprovalError as error:
            lines = "\n".join(f"/{error.field}: {one}" for one in error.problems)
            return problem_response(BAD_BODY, lines, instance=request.path)
        except FileConflictError as error:
            return problem_response(
                FILE_CONFLICT,
                write_sentence(error),
                instance=request.path,
                version=error.version,
                author=error.author,
                deleted=error.deleted,
                diff=error.diff,
            )
        except InvalidFileError as error:
            return problem_response(BAD_FILE, write_sentence(error), instance=request.path, field=error.field)
        except PluginError as error:
            detail = f"{error.field}: {error.reason.rstrip('.')}{'' if error.reason.endswith('?') else '.'}"
            return problem_response(BAD_PLUGIN, detail, instance=request.path, plugin=error.plugin, field=error.field)
        except (StorageError, StateError) as error:
            return problem_response(STORAGE, write_sentence(error), instance=request.path, headers=(RETRY_AFTER,))
        except UnknownAgentError as error:
            return problem_response(UNKNOWN_AGENT, write_sentence(error), instance=request.path, agent=error.name)
        except (RuntimeFailureError, ScriptError) as error:
            return problem_response(NO_RUNTIME, write_sentence(error), instance=request.path)
        except InvocationError as error:
            return problem_response(STOPPING, write_sentence(error), instance=request.path, headers=(RETRY_AFTER,))

    return answer


def write_sentence(error: Exception) -> str:
    """An error's text as a sentence; a name or a URL at its beginning stays as it is."""
    text = str(error)
    if text.partition(" ")[0].isalpha():
        text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."
