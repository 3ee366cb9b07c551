"""One request to the scripted model APIs, and its answer: which API it is for, what it brings, what it gets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolstead.adapters.http.asgi import JSON_TYPE, HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.body import TooLargeError, read_body
from toolstead.adapters.scripted.anthropic_api import AnthropicApi
from toolstead.adapters.scripted.api_dialect import (
    ApiRequest,
    Dialect,
    Frame,
    Grievance,
    MalformedError,
    as_object,
    encode_json,
)
from toolstead.adapters.scripted.api_script import Performance
from toolstead.adapters.scripted.gemini_api import GeminiApi
from toolstead.adapters.scripted.openai_chat_api import OpenAIChatApi
from toolstead.adapters.scripted.openai_responses_api import OpenAIResponsesApi

LARGEST = 33_554_432
"""Bytes of a request's body."""
MODEL = "scripted"
"""The one model that is listed; every other name is answered all the same."""

_SERVED = (
    "POST /v1/messages and /v1/messages/count_tokens (Anthropic), POST /v1/responses and /v1/chat/completions "
    "(OpenAI), POST /v1beta/models/{model}:generateContent, :streamGenerateContent and :countTokens (Gemini), and "
    "GET /v1/models and /v1beta/models"
)
_GEMINI = re.compile(r"/v1(?:beta|alpha)?/models/([^:]+):(generateContent|streamGenerateContent|countTokens)")
_ANTHROPIC, _OPENAI, _CHAT, _GOOGLE = AnthropicApi(), OpenAIResponsesApi(), OpenAIChatApi(), GeminiApi()


class ClientGoneError(Exception):
    """The client has left."""


class Exchange:
    """One request and its answer.

    Attributes:
        path: Where it was sent, without the query.
        headers: Their names in lower case.
        dialect: The API that it is for; None when it is no post to any of them.
        counts: The name under which the API wants to know how many tokens there are, if that is the question.
        extra: What the address says beside that.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.extra: dict[str, Any] = {}
        self.counts: str | None = None
        self._method: str = scope["method"]
        self._drop: Callable[[], None] = scope["extensions"]["drop"]
        self._receive = receive
        self._send = send
        self._leaving: asyncio.Task[None] | None = None
        self.dialect = self._find_dialect() if self._method == "POST" else None

    def _find_dialect(self) -> Dialect | None:
        match self.path.rstrip("/"):
            case "/v1/messages":
                return _ANTHROPIC
            case "/v1/messages/count_tokens":
                self.counts = "input_tokens"
                return _ANTHROPIC
            case "/v1/responses":
                return _OPENAI
            case "/v1/chat/completions":
                return _CHAT
            case path:
                found = _GEMINI.fullmatch(path)
                if found is None:
                    return None
                self.extra = {"model": found[1], "streams": found[2] == "streamGenerateContent"}
                self.counts = "totalTokens" if found[2] == "countTokens" else None
                return _GOOGLE

    async def read(self) -> bytes:
        """The body.

        Raises:
            MalformedError: It is too large.
            GoneError: The client has left.
        """
        try:
            body = await read_body(self._receive, None, LARGEST)
        except TooLargeError:
            text = f"the request has more than {LARGEST:,} bytes, which is the most allowed"
            raise MalformedError(text) from None
        if body is None:
            raise ClientGoneError
        return body

    async def wait(self, seconds: float | None) -> None:
        """Be silent for so long, or for ever.

        Raises:
            GoneError: The client has left meanwhile.
        """
        if seconds == 0:
            return
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._watch_client())
        done, _ = await asyncio.wait([self._leaving], timeout=seconds)
        if done:
            raise ClientGoneError

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def stop_watching(self) -> None:
        """Stop listening whether the client leaves."""
        if self._leaving is not None:
            self._leaving.cancel()
            await asyncio.wait([self._leaving])

    async def play_performance(self, dialect: Dialect, request: ApiRequest, performance: Performance) -> None:
        """Answer as the script says.

        Raises:
            GoneError: The client has left meanwhile.
        """
        await self.wait(performance.delay)
        if performance.reply is None:
            await self.send_refusal(dialect, performance.refusal or Grievance(kind="server_error"))
            return
        if request.streams:
            kind, frames = b"text/event-stream; charset=utf-8", list(dialect.stream_reply(request, performance.reply))
        else:
            kind, frames = b"application/json", _split_body(dialect.whole_reply(request, performance.reply))
        silent_at = _silent_at(frames, performance)
        headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(frames[:silent_at])
        if performance.cut == "broken":
            self._drop()
        await self.wait(performance.hang if performance.cut is None else None)
        await self._write(frames[silent_at:])
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            await self._send({"type": "http.response.body", "body": frame.data, "more_body": True})

    async def answer_other(self) -> None:
        """Answer what is no post to an API: with a list of models, or with what is served here."""
        path = self.path.rstrip("/")
        gemini = path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in self.headers
        anthropic = path.startswith("/v1/messages") or "anthropic-version" in self.headers
        if self._method == "GET" and path in ("/v1/models", "/v1beta/models"):
            await self.send_json(200, _list_models(gemini=gemini, anthropic=anthropic))
            return
        text = f"{self._method} {self.path} is not served by the scripted model APIs; there are {_SERVED}"
        dialect = _GOOGLE if gemini else _ANTHROPIC if anthropic else _CHAT
        await self.send_refusal(dialect, Grievance(kind="unknown", text=text))

    async def send_refusal(self, dialect: Dialect, grievance: Grievance) -> None:
        """Answer with an error of the API."""
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        refusal = dialect.render_refusal(replace(grievance, key=key))
        await self.send_json(refusal.status, refusal.body, refusal.headers)

    async def send_json(self, status: int, body: Mapping[str, Any], headers: Iterable[tuple[str, str]] = ()) -> None:
        """Answer with a JSON object."""
        fields = ((name.encode(), value.encode()) for name, value in headers)
        await HttpResponse(status, encode_json(body), (JSON_TYPE, *fields)).send(self._send)


def decode_body(data: bytes, headers: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """A body as an object, and what is wrong with it."""
    if headers.get("content-encoding", "identity") != "identity":
        return {}, f"a body in {headers['content-encoding']!r} is not understood here; send it as it is"
    try:
        body = as_object(json.loads(data))
    except (ValueError, RecursionError) as error:
        return {}, f"the body is no JSON: {error}"
    return body, "" if body else "the body must be a JSON object with something in it"


def _silent_at(frames: list[Frame], performance: Performance) -> int:
    """Before which frame the answer goes silent: after all that is said, or in the middle of it."""
    deltas = [place for place, frame in enumerate(frames, start=1) if frame.delta]
    match performance.cut:
        case "broken":
            return deltas[(len(deltas) - 1) // 2]
        case "stall":
            return deltas[0]
        case None:
            return deltas[-1] if deltas else len(frames) - 1


def _split_body(body: Mapping[str, Any]) -> list[Frame]:
    """An answer in one piece, as two halves between which something may happen."""
    data = encode_json(body)
    middle = len(data) // 2
    return [Frame(data=data[:middle], delta=True), Frame(data=data[middle:])]


def _list_models(*, gemini: bool, anthropic: bool) -> dict[str, Any]:
    if gemini:
        return {"models": [{"name": f"models/{MODEL}", "displayName": MODEL}]}
    if anthropic:
        model = {"type": "model", "id": MODEL, "display_name": MODEL, "created_at": "2026-01-01T00:00:00Z"}
        return {"data": [model], "has_more": False, "first_id": MODEL, "last_id": MODEL}
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}]}
