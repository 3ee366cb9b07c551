"""The problem kinds of the REST routes, and the list of all kinds for `/docs`."""

from __future__ import annotations

from toolstead.adapters.http.problem import (
    BAD_BODY,
    BAD_HEADERS,
    BAD_HOST,
    BAD_HTTP,
    BAD_JSON,
    BAD_METHOD,
    BAD_ORIGIN,
    BAD_QUERY,
    BAD_TYPE,
    CRASH,
    HEAD_TOO_LARGE,
    NO_TOKEN,
    NOT_FOUND,
    PRIVATE,
    STOPPING,
    TOO_LARGE,
    TOO_SLOW,
    ProblemKind,
)

UNKNOWN_TOOL = ProblemKind(
    "unknown-tool",
    404,
    "No such tool",
    "`GET /api/tools` lists the tools that can be called; a tool that is blocked or switched off is not listed.",
)
UNKNOWN_THREAD = ProblemKind("unknown-thread", 404, "No such thread", "`GET /api/threads` lists them.")
UNKNOWN_RUN = ProblemKind(
    "unknown-run", 404, "No such run", "The answer to a message or to `POST /api/runs` has the run's id."
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
BAD_PLUGIN = ProblemKind(
    "bad-plugin",
    422,
    "The plugin does not accept this",
    "The detail names the setting and what would be right; nothing was changed.",
)
NO_RUNTIME = ProblemKind(
    "no-runtime",
    422,
    "The runtime is not available",
    "Name another in the body or in the thread, or set one up under `[runtime]`; the detail says what is missing.",
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
    PRIVATE,
    NOT_FOUND,
    UNKNOWN_TOOL,
    UNKNOWN_THREAD,
    UNKNOWN_RUN,
    UNKNOWN_RESULT,
    UNKNOWN_PLUGIN,
    UNKNOWN_APPROVAL,
    BAD_METHOD,
    TOO_SLOW,
    APPROVAL_DECIDED,
    TOO_LARGE,
    BAD_TYPE,
    BAD_HOST,
    BAD_BODY,
    BAD_QUERY,
    BAD_PLUGIN,
    NO_RUNTIME,
    HEAD_TOO_LARGE,
    CRASH,
    STORAGE,
    STOPPING,
)
