"""RFC 9457 problem documents: every error of this server, each with its own line in `/docs`.

`type` is a reference into the running server's own documentation, so it works offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from toolstead.adapters.http.asgi import Headers, HttpResponse

RETRY_AFTER = (b"retry-after", b"5")
PROBLEM_TYPE = (b"content-type", b"application/problem+json")
_LONGEST_INSTANCE = 200


@dataclass(frozen=True, slots=True)
class ProblemKind:
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


BAD_HTTP = ProblemKind("bad-http", 400, "Not a valid HTTP request", "Send HTTP/1.1 as RFC 9112 describes it.")
BAD_HEADERS = ProblemKind(
    "bad-headers",
    400,
    "A header is missing or duplicated",
    "Send Host exactly once; Origin, Authorization, Cookie, Content-Type and Content-Length at most once.",
)
BAD_JSON = ProblemKind(
    "bad-json", 400, "The body is not JSON", "Send one JSON value in UTF-8, nested less than a few hundred levels deep."
)
NO_TOKEN = ProblemKind(
    "no-token",
    401,
    "A token is needed",
    "Send `Authorization: Bearer TOKEN` with the server's token, or open a page once with `?token=TOKEN`.",
)
BAD_ORIGIN = ProblemKind(
    "bad-origin",
    403,
    "This web page may not call",
    "Add the page's origin to `allowed_origins` under `[server]`, or call without a browser.",
)
PRIVATE = ProblemKind(
    "private",
    403,
    "Only the owner of this server may do this",
    "Use the command line on the server's machine: it reads the private token that the server created at its start.",
)
NOT_IN_PROFILE = ProblemKind(
    "not-in-profile",
    403,
    "The token gives no access to this",
    "A token of a profile opens `/mcp` and the routes for tools and runs, under its own profile; see the detail.",
)
BAD_SCOPE = ProblemKind(
    "bad-scope",
    403,
    "The access token has not the scope for this",
    "Ask the authorization server for the scope that `WWW-Authenticate` names.",
)
UNKNOWN_PROFILE = ProblemKind(
    "unknown-profile", 404, "No such profile", "The profiles are the tables `[profiles.NAME]` of the settings."
)
NO_ISSUER = ProblemKind(
    "no-issuer",
    503,
    "The authorization server does not answer",
    "Try again when it is back; tokens of the settings work meanwhile.",
)
NOT_FOUND = ProblemKind("not-found", 404, "No such route", "Every route is listed on this page.")
BAD_METHOD = ProblemKind("bad-method", 405, "The route has no such method", "The `Allow` header lists the methods.")
TOO_SLOW = ProblemKind("too-slow", 408, "The request did not arrive in time", "Send the whole request within a minute.")
TOO_LARGE = ProblemKind("too-large", 413, "The body is too large", "Send less, or raise `max_body` under `[server]`.")
BAD_TYPE = ProblemKind(
    "bad-type", 415, "The body is of the wrong type", "Send JSON in UTF-8 with `Content-Type: application/json`."
)
BAD_HOST = ProblemKind(
    "bad-host",
    421,
    "This server does not answer to that name",
    "Use its address, or add the host to `allowed_hosts` under `[server]`.",
)
BAD_BODY = ProblemKind("bad-body", 422, "The body has the wrong shape", "Each route below shows the shape of its body.")
BAD_QUERY = ProblemKind(
    "bad-query",
    422,
    "A parameter or a header has a wrong value",
    "Each route below shows its parameters; send an event's id back unchanged.",
)
HEAD_TOO_LARGE = ProblemKind("head-too-large", 431, "The request's head is too large", "Send fewer or shorter headers.")
CRASH = ProblemKind(
    "crash", 500, "Something broke in the server", "The server's log has the details under the given id."
)
STOPPING = ProblemKind("stopping", 503, "The server is stopping", "Try again when it is back; `Retry-After` says when.")


def problem_response(
    kind: ProblemKind, detail: str, *, instance: str = "", headers: Headers = (), **more: Any
) -> HttpResponse:
    """A problem document.

    Args:
        kind: Which error it is.
        detail: What was wrong with this request, and what would be right.
        instance: The path of the request.
        headers: Further headers.
        more: Further members.
    """
    document: dict[str, Any] = {
        "type": f"/docs#{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": make_readable(detail),
    }
    if instance:
        document["instance"] = make_readable(instance, _LONGEST_INSTANCE)
    document.update(more)
    return HttpResponse(kind.status, msgspec.json.encode(document), (PROBLEM_TYPE, *headers))


def make_readable(text: str, longest: int = 2_000) -> str:
    """Make text printable: no lone surrogates, no control characters, bounded length."""
    text = text if len(text) <= longest else text[:longest] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
