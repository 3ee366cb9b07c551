"""Strict parsing of query parameters, `Last-Event-ID` and `Idempotency-Key`, with explaining errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from toolstead.adapters.http.asgi import HttpRequest
from toolstead.adapters.http.body import RequestError
from toolstead.adapters.http.problem import BAD_QUERY, problem_response
from toolstead.nearest_names import suggest

LONGEST = 200
MOST_TYPES = 50
_MOST_FIELDS = 100
_EVENT_ID = re.compile(r"[0-9]{16,18}")
_KEY = re.compile(r"[!-~]{1,200}")


def read_query(request: HttpRequest, *names: str, longest: int = LONGEST) -> Mapping[str, list[str]]:
    """The parameters by name; an empty one counts as absent.

    Raises:
        RequestError: One is unknown or too long, or the query is malformed.
    """
    query: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_MOST_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise wrong_parameter(
            request, f"The query is not `name=value&…` in UTF-8 with at most {_MOST_FIELDS} fields."
        ) from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in names:
            hint = suggest(name, names, otherwise=f"it accepts {' and '.join(map(repr, names))}.")
            raise wrong_parameter(request, f"This route does not accept the parameter {name[:100]!r}; {hint}")
        if len(value) > longest or "\0" in value:
            raise wrong_parameter(request, f"{name}: a value has at most {longest} characters and no null character.")
        if value:
            found.setdefault(name, []).append(value)
    return found


def single_value(request: HttpRequest, query: Mapping[str, list[str]], name: str) -> str | None:
    """The one value of a parameter, or None.

    Raises:
        RequestError: It was given more than once.
    """
    values = query.get(name, ())
    if len(values) > 1:
        raise wrong_parameter(request, f"{name}: given {len(values)} times; give it once.")
    return values[0] if values else None


def page_size(request: HttpRequest, query: Mapping[str, list[str]], *, usual: int, most: int) -> int:
    """How many items a page may have, by the parameter `limit`.

    Raises:
        RequestError: It is not a number from 1 to `most`.
    """
    return whole_number(request, query, "limit", usual=usual, least=1, most=most)


def whole_number(
    request: HttpRequest, query: Mapping[str, list[str]], name: str, *, usual: int, least: int, most: int
) -> int:
    """The number that a parameter has, or the usual one.

    Raises:
        RequestError: It is not a number from `least` to `most`.
    """
    given = single_value(request, query, name) or str(usual)
    if not (given.isascii() and given.isdigit() and least <= int(given) <= most):
        raise wrong_parameter(request, f"{name}: must be a whole number from {least} to {most}.")
    return int(given)


def is_true(request: HttpRequest, query: Mapping[str, list[str]], name: str, *, usual: bool = False) -> bool:
    """Whether a parameter is `true`.

    Raises:
        RequestError: It is neither `true` nor `false`.
    """
    given = single_value(request, query, name)
    if given not in (None, "true", "false"):
        raise wrong_parameter(request, f"{name}: must be `true` or `false`.")
    return usual if given is None else given == "true"


def event_id(request: HttpRequest, query: Mapping[str, list[str]]) -> str | None:
    """The event after which a stream begins: `Last-Event-ID`, else `after`; empty for the very first.

    The header wins, because a browser that reconnects repeats its original URL.

    Raises:
        RequestError: It is not an event id.
    """
    given = request.find_header(b"last-event-id") or single_value(request, query, "after")
    if not given:
        return None
    if given.strip("0") == "":
        return ""
    return check_event_id(request, given)


def check_event_id(request: HttpRequest, given: str) -> str:
    """An event's id, unchanged. Raises RequestError for what cannot be one."""
    if _EVENT_ID.fullmatch(given) is None:
        shown = given[:100]
        raise wrong_parameter(request, f"{shown!r} is not an event id; send one back unchanged, or 0 for all events.")
    return given


def read_types(request: HttpRequest, query: Mapping[str, list[str]]) -> frozenset[str] | None:
    """The types of events that the parameter `type` names, with commas or by repeating it; None for all.

    Raises:
        RequestError: There are too many.
    """
    types = frozenset(name.strip() for value in query.get("type", ()) for name in value.split(",") if name.strip())
    if len(types) > MOST_TYPES:
        raise wrong_parameter(request, f"type: at most {MOST_TYPES} types can be named, and there are {len(types)}.")
    return types or None


def idempotency_key(request: HttpRequest) -> str | None:
    """The idempotency key, if there is one.

    Raises:
        RequestError: It is too long, or has other than visible ASCII characters.
    """
    given = request.find_header(b"idempotency-key")
    if given is not None and _KEY.fullmatch(given) is None:
        raise wrong_parameter(request, "Idempotency-Key: 1 to 200 visible ASCII characters, such as a UUID.")
    return given


def wrong_parameter(request: HttpRequest, detail: str) -> RequestError:
    """The refusal of a parameter or a header."""
    return RequestError(problem_response(BAD_QUERY, detail, instance=request.path))
