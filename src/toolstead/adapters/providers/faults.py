"""Failures of a model API: converts any exception to a `ModelError` with its kind and a message.

Errors before and during a stream are treated alike.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pydantic
from pydantic_ai import exceptions as foreign
from pydantic_ai.models import known_model_names

from toolstead.adapters.providers.catalogue import API, LOOPBACK
from toolstead.adapters.providers.http_client import CONNECT_SECONDS, READ_SECONDS, Connection
from toolstead.errors import ModelError, ModelFault
from toolstead.nearest_names import suggest
from toolstead.types.content import whole_text
from toolstead.types.tool import ToolInfo

_LONGEST = 500
_LONGEST_PAGE = 20_000
_LONGEST_NAME = 100
_SHOWN_NAMES = 8

_CATEGORIES: tuple[tuple[type[foreign.ModelAPIError], ModelFault], ...] = (
    (foreign.ModelContextWindowExceededError, "overflow"),
    (foreign.ModelQuotaExceededError, "quota"),
    (foreign.ModelRateLimitError, "rate"),
    (foreign.ModelAuthenticationError, "key"),
    (foreign.ModelNotFoundError, "name"),
    (foreign.ModelUnavailableError, "busy"),
    (foreign.ModelServerError, "server"),
    (foreign.ModelConnectionError, "network"),
    (foreign.ModelRequestTimeout, "network"),
)
# Not covered by a category: a time-out of the server's, a conflict, a body that is too large.
_STATUSES: Mapping[int, ModelFault] = {408: "network", 409: "server", 413: "overflow", 425: "busy"}

_TOO_LONG = re.compile(
    r"context (?:length|limit|window)|too many (?:input )?tokens|(?:prompt|input|request) is too (?:long|large)",
    re.IGNORECASE,
)
_TOOL_INDEX = re.compile(r"\btools[.\[](\d+)\]?(?:\.function_?declarations\[(\d+)\])?", re.IGNORECASE)
_OF_A_TOOL = re.compile(r"schema|parameters|function|tool", re.IGNORECASE)
_SECRET = re.compile(r"\b(?:sk-|gsk_|xai-|AIza)[-\w*]{6,}|(?<![-\w])[-\w]*+\*{2,}+[-\w*]*+")

_PATHS: Mapping[API, str] = {
    "anthropic": "/v1/messages",
    "responses": "/responses",
    "chat": "/chat/completions",
    "gemini": "/v1beta/models",
}
"""Where each API answers, below its address."""
_NO_TOOLS = re.compile(r"not support (?:tools?|function)|tool (?:use|calling) is not supported", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]*>")

_WORDS: Mapping[ModelFault, str] = {
    "busy": "is busy",
    "rate": "limits the rate of requests",
    "server": "failed",
    "network": "broke off its answer",
    "overflow": "reports that the conversation is too long for the model",
    "quota": "reports that the account's credit or quota is used up",
    "rejected": "refuses the request",
}


def raised_by(api: API) -> tuple[type[Exception], ...]:
    """The exceptions that the API or the network may cause; anything else is a bug."""
    everywhere = (
        foreign.ModelAPIError,
        foreign.UnexpectedModelBehavior,
        httpx2.HTTPError,
        httpx2.StreamError,
        json.JSONDecodeError,
        UnicodeDecodeError,
    )
    match api:
        case "anthropic":
            import anthropic

            return (*everywhere, anthropic.APIError)
        case "responses" | "chat":
            import openai

            return (*everywhere, openai.APIError)
        case "gemini":
            from google.genai import errors

            return (*everywhere, errors.APIError, errors.UnknownApiResponseError, pydantic.ValidationError)


def explain_page(response: httpx2.Response, connection: Connection) -> ModelError | None:
    """Why what came is no answer of an API but a web page, or the way to one; None where it is neither."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.has_redirect_location:
        target = _mask_secrets(" ".join(response.headers["location"].split()), connection)[:_LONGEST]
        what = f"with a redirect to {target} ({response.status_code})"
    elif response.is_success and kind in ("text/html", "application/xhtml+xml"):
        what = f"with a web page ({kind})"
    else:
        return None
    urls, path = connection.vendor.urls, urlsplit(str(response.url)).path
    has_version = connection.vendor.api not in ("chat", "responses") or urlsplit(connection.address).path.endswith(
        "/v1"
    )
    usual = "" if has_version else " It usually ends in /v1"
    hint = f"; is {' or '.join(urls)} right?{usual}" if urls else ""
    return ModelError(f"{connection.origin}{path} answered {what}, not as an API does{hint}", fault="rejected")


def model_error(
    error: Exception, connection: Connection, tools: Sequence[ToolInfo], models: Sequence[str] = ()
) -> ModelError:
    """Convert an exception of a request to a `ModelError`.

    Args:
        error: The exception.
        connection: Of the request.
        tools: Those that the request offered.
        models: The models that the API says it has; none where it was not asked, or does not say.
    """
    sentence = _error_sentence(error, connection)
    fault, tool = _classify_fault(error, sentence, tools)
    status = error.status_code if isinstance(error, foreign.ModelHTTPError) else None
    if fault == "network" and status is None:
        text = _network_text(error, sentence, connection)
        if _is_port_closed(error, connection):
            fault = "unreachable"
    elif fault == "name" and _is_path_missing(error, sentence):
        text = _describe_missing_path(status, connection)
    else:
        text = _fault_text(fault, tool, status, sentence, connection=connection, models=models)
    return ModelError(text, fault=fault, retry_after=_retry_after(error), tool=tool)


def _classify_fault(error: Exception, sentence: str, tools: Sequence[ToolInfo]) -> tuple[ModelFault, str | None]:
    if isinstance(error, foreign.ContentFilterError):
        return "rejected", None
    if not isinstance(error, foreign.ModelAPIError):
        return "network", None  # a closed connection, an unreadable answer
    for category, fault in _CATEGORIES:
        if isinstance(error, category):
            return ("quota" if fault == "rate" and _is_daily(error) else fault), None
    if isinstance(error, foreign.ModelHTTPError) and error.status_code in _STATUSES:
        return _STATUSES[error.status_code], None
    if isinstance(error, foreign.ModelRequestRejectedError | foreign.ModelHTTPError):
        tool = _refused_tool(sentence, error.body, tools)
        if tool is not None:
            return "schema", tool
        return ("overflow" if _TOO_LONG.search(sentence) else "rejected"), None
    # An error without a status: sent in the middle of a stream, or a body that is not an answer.
    return ("server" if error.body is not None else "network"), None


def _refused_tool(sentence: str, body: object, tools: Sequence[ToolInfo]) -> str | None:
    """The tool that a refusal names, by its name or its index in the request."""
    if not _OF_A_TOOL.search(sentence):
        return None
    quoted = set(re.findall(r"['\"`]([\w.-]{1,128})['\"`]", sentence))
    named = [tool.name for tool in tools if tool.name in quoted]
    if len(named) == 1:
        return named[0]
    parameter = _error_body(body).get("param")
    for place in _TOOL_INDEX.finditer(f"{parameter if isinstance(parameter, str) else ''} {sentence}"):
        index = int(place[1]) + int(place[2] or 0)  # tools are in one list, or each in its own
        if index < len(tools):
            return tools[index].name
    return None


def _fault_text(
    fault: ModelFault,
    tool: str | None,
    status: int | None,
    sentence: str,
    *,
    connection: Connection,
    models: Sequence[str],
) -> str:
    title = connection.server_name
    code = f" ({status})" if status is not None else ""
    match fault:
        case "key":
            return _describe_key(code, sentence, connection)
        case "name":
            hint = _nearest_names(connection, models)
            return f"{title} does not know the model {connection.model_name!r}{code}: {sentence}{hint}"
        case "schema":
            return f"{title} refuses the schema of tool {tool!r}{code}: {sentence}"
        case "rejected" if _NO_TOOLS.search(sentence):
            return (
                f"{title} {_WORDS[fault]}{code}: {sentence}; use a model that calls tools, or ask this one without"
                " them: --set 'tools.allowed=[]'"
            )
        case _:
            return f"{title} {_WORDS[fault]}{code}: {sentence}"


def _describe_key(code: str, sentence: str, connection: Connection) -> str:
    """Which key was refused, where it came from, and how another one is given."""
    title, name = connection.server_name, connection.key_name
    keys = f"toolstead keys set {connection.vendor.name.removesuffix('-chat')}"
    if not name:
        setting = connection.vendor.keys[0]
        return f"{title} refuses the request{code}: {sentence} (no key was sent: {setting} is not set; `{keys}`)"
    is_set = connection.key_origin in ("", "the environment")
    origin = f", from {connection.key_origin}" if connection.key_origin else ""
    steps = f"set {name} to it, or unset {name} and run `{keys}`" if is_set else f"run `{keys}`"
    return f"{title} refuses the key in {name}{origin}{code}: {sentence.rstrip('.')}. To use another one, {steps}"


def _is_path_missing(error: Exception, sentence: str) -> bool:
    """Whether nothing answers at the path that was asked: what came is no error of an API, and names no model."""
    if not isinstance(error, foreign.ModelHTTPError) or "model" in sentence.lower():
        return False
    return not isinstance(_error_body(error.body).get("message"), str)


def _describe_missing_path(status: int | None, connection: Connection) -> str:
    vendor = connection.vendor
    base, path = urlsplit(connection.address).path.rstrip("/"), _PATHS[vendor.api]
    text = f"{connection.origin}{base}{path} does not exist ({status})"
    if vendor.api in ("chat", "responses") and not base.endswith("/v1"):
        return f"{text}: {vendor.urls[0]} should probably end in /v1"
    return f"{text}: is {' or '.join(vendor.urls)} the address of an API like that of {vendor.title}?"


def _network_text(error: Exception, sentence: str, connection: Connection) -> str:
    title, causes = connection.server_name, list(_find_causes(error))
    if (reason := _find_connect_reason(causes)) is not None:
        return _describe_unreachable(reason, connection)
    if any(isinstance(cause, httpx2.ReadTimeout) for cause in causes):
        return f"no answer from {connection.vendor.title} at {connection.origin}: silent for {READ_SECONDS:g} seconds"
    is_closed = any(isinstance(cause, httpx2.RemoteProtocolError) for cause in causes)
    return f"the answer of {title} broke off: {'the connection was closed before its end' if is_closed else sentence}"


def _is_port_closed(error: Exception, connection: Connection) -> bool:
    """Whether nothing listens at an address of this machine."""
    is_refused = any(isinstance(cause, ConnectionRefusedError) for cause in _find_causes(error))
    return is_refused and urlsplit(connection.address).hostname in LOOPBACK


def _find_connect_reason(causes: Sequence[BaseException]) -> str | None:
    """Why no connection was made, as the system says it; None where there was one."""
    if any(isinstance(cause, httpx2.ConnectTimeout) for cause in causes):
        return f"no connection after {CONNECT_SECONDS:g} seconds"
    if not any(isinstance(cause, httpx2.ConnectError | httpx2.ProxyError) for cause in causes):
        return None
    last = next((cause for cause in reversed(causes) if isinstance(cause, OSError) and cause.errno), None)
    if last is None:
        return str(causes[-1]) or type(causes[-1]).__name__
    # A name that is not found has a number of its own kind, and the system's words.
    text = os.strerror(last.errno) if last.errno is not None and last.errno > 0 else last.strerror
    return (text or str(last)).lower()


def _find_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it came from: the libraries wrap the system's error, and say less than it does."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _describe_unreachable(reason: str, connection: Connection) -> str:
    scheme, host = urlsplit(connection.address).scheme, urlsplit(connection.address).hostname or ""
    hint = "is it running?" if host in LOOPBACK else f"check the network, or {scheme.upper()}_PROXY"
    return f"{connection.vendor.title} cannot be reached at {connection.origin}: {reason} ({hint})"


def _nearest_names(connection: Connection, models: Sequence[str]) -> str:
    """Models that the API has and whose names are similar to the unknown one; else those that pydantic-ai knows."""
    if has := sorted({" ".join(whole_text(name).split())[:_LONGEST_NAME] for name in models} - {connection.model_name}):
        more = f", and {len(has) - _SHOWN_NAMES} more" if len(has) > _SHOWN_NAMES else ""
        otherwise = f"it has {', '.join(has[:_SHOWN_NAMES])}{more}"
        return f"; {suggest(connection.model_name, has, most=3, cutoff=0.4, otherwise=otherwise)}"
    if models:
        return ""
    prefix = f"{connection.vendor.name.removesuffix('-chat')}:"
    known = {name.removeprefix(prefix) for name in known_model_names() if name.startswith(prefix)} - {
        connection.model_name
    }
    hint = suggest(connection.model_name, sorted(known), most=3, cutoff=0.4)
    return f"; {hint}" if hint else ""


def _error_sentence(error: Exception, connection: Connection) -> str:
    """The API's message in one line, bounded and without the key."""
    message: object = None
    if isinstance(error, foreign.ModelAPIError):
        message = _error_body(error.body).get("message") or (error.body if isinstance(error.body, str) else None)
        if message is None and isinstance(error, foreign.ModelHTTPError):
            message = json.dumps(error.body, default=str) if error.body else "no reason was given"
    text = message if isinstance(message, str) else (str(error) or type(error).__name__)
    line = _mask_secrets(" ".join(_read_markup(text).split()), connection)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _mask_secrets(line: str, connection: Connection) -> str:
    """A line of the API without the key, or what it shows of the key."""
    if connection.key_name:
        line = line.replace(connection.key, "…")
    return _SECRET.sub("…", line)


def _read_markup(text: str) -> str:
    """The title of a page that a proxy sent instead of an answer, or its text; any other text as it is."""
    if not re.match(r"\s*<(?:!doctype|html|head|body)\b", text, re.IGNORECASE):
        return text
    page = text[:_LONGEST_PAGE]
    lower = page.lower()
    begin = lower.find(">", lower.find("<title")) + 1
    title = page[begin : max(lower.find("</title", begin), 0)].strip() if "<title" in lower else ""
    return html.unescape(title or _MARKUP.sub(" ", page[max(lower.find("<body"), 0) :]))


def _error_body(body: object) -> Mapping[str, Any]:
    """The relevant part of an error body: some APIs wrap it in `error`, Gemini also in a list."""
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    if not isinstance(body, Mapping):
        return {}
    whole = cast("Mapping[str, Any]", body)
    inner = whole.get("error")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else whole


def _gemini_details(body: object) -> list[Mapping[str, Any]]:
    """Gemini's details beside the message."""
    details = _error_body(body).get("details")
    if not isinstance(details, list):
        return []
    return [cast("Mapping[str, Any]", one) for one in cast("list[object]", details) if isinstance(one, Mapping)]


def _is_daily(error: foreign.ModelAPIError) -> bool:
    """Whether a limit is per day, so that a short wait does not help."""
    return any("PerDay" in str(detail.get("violations", "")) for detail in _gemini_details(error.body))


def _retry_after(error: Exception) -> float | None:
    """Seconds to wait, from the header or, for Gemini, the body."""
    if not isinstance(error, foreign.ModelAPIError):
        return None
    if error.retry_after is not None:
        return error.retry_after
    for detail in _gemini_details(error.body):
        delay = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
        if delay:
            return float(delay[1])
    return None
