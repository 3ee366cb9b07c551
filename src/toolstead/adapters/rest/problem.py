"""RFC 9457 problem documents: every error of this door, each with its own line in `/docs`.

`type` is a reference into the running server's own documentation, so it works offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from toolstead.adapters.rest.asgi import Answer, Headers

PROBLEM_TYPE = (b"content-type", b"application/problem+json")
_LONGEST_INSTANCE = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of error.

    Attributes:
        slug: Its anchor in `/docs`.
        status: The HTTP status.
        title: What is wrong, in a few words.
        advice: What would be right.
    """

    slug: str
    status: int
    title: str
    advice: str


BAD_HTTP = Kind("bad-http", 400, "Not a valid HTTP request", "Send HTTP/1.1 as RFC 9112 describes it.")
BAD_HEADERS = Kind(
    "bad-headers",
    400,
    "A header is missing or there twice",
    "Send Host exactly once; Origin, Authorization, Cookie, Content-Type and Content-Length at most once.",
)
BAD_JSON = Kind(
    "bad-json", 400, "The body is not JSON", "Send one JSON value in UTF-8, nested less than a few hundred levels deep."
)
NO_TOKEN = Kind(
    "no-token",
    401,
    "A token is needed",
    "Send `Authorization: Bearer TOKEN` with the server's token, or open a page once with `?token=TOKEN`.",
)
BAD_ORIGIN = Kind(
    "bad-origin",
    403,
    "This web page may not call",
    "Name the page's origin in `allowed_origins` under `[server]`, or call without a browser.",
)
PRIVATE = Kind(
    "private",
    403,
    "Only a person may do this",
    "Use the console or the command line: they have the private token that the server made when it started.",
)
NOT_FOUND = Kind("not-found", 404, "No such route", "Every route is listed on this page.")
UNKNOWN_TOOL = Kind(
    "unknown-tool",
    404,
    "No such tool",
    "`GET /api/tools` lists what can be called; a tool that is blocked or switched off is not there.",
)
UNKNOWN_THREAD = Kind("unknown-thread", 404, "No such thread", "`GET /api/threads` lists them.")
UNKNOWN_RUN = Kind(
    "unknown-run", 404, "No such run", "The answer to a message or to `POST /api/runs` has the run's id."
)
UNKNOWN_RESULT = Kind(
    "unknown-result", 404, "No such result", "A tool's answer has the handle of what was kept; results expire."
)
UNKNOWN_PLUGIN = Kind("unknown-plugin", 404, "No such plugin", "`GET /api/plugins` lists them.")
UNKNOWN_APPROVAL = Kind(
    "unknown-approval", 404, "No such approval", "`GET /api/approvals` lists those that wait; decided ones expire."
)
BAD_METHOD = Kind("bad-method", 405, "The route has no such method", "The `Allow` header lists the methods.")
TOO_SLOW = Kind("too-slow", 408, "The request did not arrive in time", "Send the whole request within a minute.")
APPROVAL_DECIDED = Kind(
    "approval-decided",
    409,
    "The approval is decided already",
    "Nothing is left to decide: the answer says how it was decided, by a person, a deadline or the end of the caller.",
)
TOO_LARGE = Kind("too-large", 413, "The body is too large", "Send less, or raise `max_body` under `[server]`.")
BAD_TYPE = Kind(
    "bad-type", 415, "The body is of the wrong type", "Send JSON in UTF-8 with `Content-Type: application/json`."
)
BAD_HOST = Kind(
    "bad-host",
    421,
    "This server does not answer to that name",
    "Use its address, or name the host in `allowed_hosts` under `[server]`.",
)
BAD_BODY = Kind("bad-body", 422, "The body has the wrong shape", "Each route below shows the shape of its body.")
BAD_QUERY = Kind(
    "bad-query",
    422,
    "A parameter or a header has a wrong value",
    "Each route below shows its parameters; an event's id is given back as it came.",
)
BAD_PLUGIN = Kind(
    "bad-plugin",
    422,
    "The plugin cannot take this",
    "The detail names the setting and what would be right; nothing was changed.",
)
NO_RUNTIME = Kind(
    "no-runtime",
    422,
    "The runtime cannot be had",
    "Name another in the body or in the thread, or set one up under `[runtime]`; the detail says what is missing.",
)
HEAD_TOO_LARGE = Kind("head-too-large", 431, "The request's head is too large", "Send fewer or shorter headers.")
CRASH = Kind("crash", 500, "Something broke in the server", "The server's log has the details under the given id.")
STORAGE = Kind(
    "storage",
    503,
    "The database does not answer",
    "Try again; the detail says what is wrong with it. What was acknowledged before is not lost.",
)
STOPPING = Kind("stopping", 503, "The server is stopping", "Try again when it is back; `Retry-After` says when.")

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


def problem(kind: Kind, detail: str, *, instance: str = "", headers: Headers = (), **more: Any) -> Answer:
    """A problem document.

    Args:
        kind: Which error it is.
        detail: What was wrong with this very request, and what would be right.
        instance: The path that was asked for.
        headers: Further headers.
        more: Further members.
    """
    document: dict[str, Any] = {
        "type": f"/docs#{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": readable(detail),
    }
    if instance:
        document["instance"] = readable(instance, _LONGEST_INSTANCE)
    document.update(more)
    return Answer(kind.status, msgspec.json.encode(document), (PROBLEM_TYPE, *headers))


def readable(text: str, longest: int = 2_000) -> str:
    """Text that can be shown and encoded: without lone surrogates, without control characters, not endless."""
    text = text if len(text) <= longest else text[:longest] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
