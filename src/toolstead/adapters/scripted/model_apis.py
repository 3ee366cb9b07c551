"""Scripted model APIs: one server on loopback that speaks Anthropic, OpenAI and Gemini, and plays a script.

The real clients talk to it, so an agent is tested from its first byte to its last, without a key and without a
network.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from toolstead.adapters.http.asgi import JSON_TYPE, HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.body import TooLargeError, read_body
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.scripted.anthropic_api import ANTHROPIC
from toolstead.adapters.scripted.api_dialect import (
    ApiName,
    ApiRefusal,
    Dialect,
    Frame,
    MalformedError,
    Reply,
    as_object,
    encode_json,
    fill_words,
    text_of,
)
from toolstead.adapters.scripted.api_script import ScriptedResponse, ScriptPlayer
from toolstead.adapters.scripted.gemini_api import GEMINI
from toolstead.adapters.scripted.openai_apis import OPENAI, OPENAI_CHAT
from toolstead.adapters.scripted.script import Script
from toolstead.adapters.scripted.script_file import parse_script

LARGEST = 33_554_432
"""Bytes of a request's body."""
MODEL = "scripted"
"""The one model that is listed; every other name is answered all the same."""

_MOST_REQUESTS = 10_000
_SERVED = (
    "POST /v1/messages and /v1/messages/count_tokens (Anthropic), POST /v1/responses and /v1/chat/completions "
    "(OpenAI), POST /v1beta/models/{model}:generateContent, :streamGenerateContent and :countTokens (Gemini), and "
    "GET /v1/models and /v1beta/models"
)
_MODELS: Mapping[ApiName, dict[str, Any]] = {
    "gemini": {"models": [{"name": f"models/{MODEL}", "displayName": MODEL}]},
    "anthropic": {
        "data": [{"type": "model", "id": MODEL, "display_name": MODEL, "created_at": "2026-01-01T00:00:00Z"}],
        "has_more": False,
        "first_id": MODEL,
        "last_id": MODEL,
    },
    "openai-chat": {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}]},
}
"""The list of models in each API's own shape."""
_POSTS: Mapping[str, tuple[Dialect, str | None, dict[str, Any]]] = {
    "/v1/messages": (ANTHROPIC, None, {}),
    "/v1/messages/count_tokens": (ANTHROPIC, "input_tokens", {}),
    "/v1/responses": (OPENAI, None, {}),
    "/v1/chat/completions": (OPENAI_CHAT, None, {}),
}
"""What `_find_api` gives for these paths."""
_GEMINI = re.compile(r"/v1(?:beta|alpha)?/models/([^:]+):(generateContent|streamGenerateContent|countTokens)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A request that came in.

    Attributes:
        number: Its place among all of them, from 1.
        api: Which API it was meant for.
        path: Where it was posted, without the query.
        headers: Their names in lower case; the key is among them as it came.
        body: What was posted; empty when it was no JSON object.
        model: The model that was requested.
    """

    number: int
    api: ApiName
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str


@asynccontextmanager
async def scripted_models(script: Script | str, *, kept: int = _MOST_REQUESTS) -> AsyncGenerator[ScriptedModels]:
    """Serve a script on a free port of 127.0.0.1, as the four APIs, until the block ends.

    Args:
        script: From `load_script`, or as YAML text. `lose` and `rotate` mean nothing here, and neither
            does a `cost`: model APIs have no sessions and name no price.
        kept: How many requests are kept in `requests`, the last ones.

    Raises:
        ScriptError: The text is no script.
    """
    from toolstead.adapters.http.server import serve_on_loopback  # imports uvicorn, so only where a server runs
    from toolstead.adapters.scripted.droppable_protocol import DroppableProtocol

    models = ScriptedModels(parse_script(script) if isinstance(script, str) else script, kept)
    async with serve_on_loopback(models, protocol=DroppableProtocol) as port:
        models.url = f"http://127.0.0.1:{port}"
        yield models


class ScriptedModels:
    """The server, as a test sees it.

    Attributes:
        url: Where it listens.
        active: How many requests are being answered right now.
    """

    def __init__(self, script: Script, kept: int = _MOST_REQUESTS) -> None:
        self.url = ""
        self.active = 0
        self._player = ScriptPlayer(script)
        self._requests: deque[Captured] = deque(maxlen=kept)
        self._count = 0

    @property
    def requests(self) -> list[Captured]:
        """What was posted to the APIs, oldest first; the last 10,000."""
        return list(self._requests)

    def environ(self) -> dict[str, str]:
        """The variables that lead the APIs' own clients here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": MODEL,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": MODEL,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GOOGLE_API_KEY": MODEL,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; this is an ASGI application."""
        self.active += 1
        exchange = _Exchange(scope, receive, send)
        try:
            await self._answer_request(exchange)
        except MalformedError as error:
            await exchange.send_refusal(ApiRefusal(kind=error.kind, words={"text": str(error)}))
        finally:
            self.active -= 1

    async def _answer_request(self, exchange: _Exchange) -> None:
        if not exchange.is_post:
            await exchange.answer_other()
            return
        data = await exchange.read_body()
        if data is None:
            return
        body, problem = _decode_body(data, exchange.headers)
        posted = body | exchange.address
        self._count += 1
        self._requests.append(
            Captured(
                number=self._count,
                api=exchange.dialect.name,
                path=exchange.path,
                headers=exchange.headers,
                body=body,
                model=text_of(posted.get("model")),
            )
        )
        if problem:
            raise MalformedError(problem)
        if exchange.counts is not None:
            await exchange.send_json(200, {exchange.counts: max(1, len(data) // 4)})
            return
        request = exchange.dialect.read_request(posted)
        await exchange.play_response(self._player.choose_response(request, size=len(data), number=self._count))


class _Exchange:
    """One request and its answer.

    Attributes:
        path: Where it was sent, without the query.
        headers: Their names in lower case.
        is_post: Whether it was posted to one of the APIs.
        dialect: The API that it is for, as far as that can be seen.
        counts: The name of the number, where the question is how many tokens there are.
        address: What the address says beside that, by the names that other APIs have in the body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self._method: str = scope["method"]
        self._drop: Callable[[], None] = scope["extensions"]["drop"]
        self._receive = receive
        self._send = send
        path = self.path.rstrip("/")
        api = _find_api(path) if self._method == "POST" else None
        self.is_post = api is not None
        self.dialect, self.counts, self.address = api or (_guess_dialect(path, self.headers), None, {})

    async def read_body(self) -> bytes | None:
        """The body; None when the client has left.

        Raises:
            MalformedError: It is too large.
        """
        try:
            return await read_body(self._receive, None, LARGEST)
        except TooLargeError:
            text = f"the request has more than {LARGEST:,} bytes, which is the most allowed"
            raise MalformedError(text, "too_large") from None

    async def play_response(self, response: ScriptedResponse) -> None:
        """Answer as the script says, unless the client leaves meanwhile."""
        with DisconnectWatch(self._receive):
            await asyncio.sleep(response.delay)
            if isinstance(response.answer, ApiRefusal):
                await self.send_refusal(response.answer)
            else:
                await self._play_reply(response.answer, response)

    async def _play_reply(self, reply: Reply, response: ScriptedResponse) -> None:
        whole = self.dialect.build_reply(reply)
        if reply.request.streams:
            kind, frames = b"text/event-stream; charset=utf-8", list(self.dialect.stream_reply(reply, whole))
        else:
            kind, frames = b"application/json", _split_body(whole)
        silent_at = _silent_at(frames, response)
        headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(frames[:silent_at])
        if response.fault == "broken":
            self._drop()
        if response.fault in ("broken", "stall"):
            await asyncio.Event().wait()  # until the client leaves
        await asyncio.sleep(response.hang)
        await self._write(frames[silent_at:])
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            await self._send({"type": "http.response.body", "body": frame.data, "more_body": True})

    async def answer_other(self) -> None:
        """Answer what is no post to an API: with a list of models, or with what is served here."""
        if self._method == "GET" and self.path.rstrip("/") in ("/v1/models", "/v1beta/models"):
            await self.send_json(200, _MODELS[self.dialect.name])
            return
        text = f"{self._method} {self.path} is not served by the scripted model APIs; there are {_SERVED}"
        await self.send_refusal(ApiRefusal(kind="unknown", words={"text": text}))

    async def send_refusal(self, refusal: ApiRefusal) -> None:
        """Answer with an error of the API."""
        status, body = self.dialect.errors[refusal.kind]
        words = {**refusal.words, "key": _mask_key(self.headers.get("authorization", "").removeprefix("Bearer "))}
        wait = [(b"retry-after", str(words["seconds"]).encode())] if refusal.kind == "rate_limit" else []
        await self.send_json(status, fill_words(body, words), (*self.dialect.error_headers, *wait))

    async def send_json(
        self, status: int, body: Mapping[str, Any], headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Answer with a JSON object."""
        await HttpResponse(status, encode_json(body), (JSON_TYPE, *headers)).send(self._send)


def _find_api(path: str) -> tuple[Dialect, str | None, dict[str, Any]] | None:
    """The API of a path, the name of the number where it counts tokens, and the model if the path names it."""
    found = _GEMINI.fullmatch(path)
    if found is None:
        return _POSTS.get(path)
    address = {"model": found[1], "stream": found[2] == "streamGenerateContent"}
    return GEMINI, "totalTokens" if found[2] == "countTokens" else None, address


def _guess_dialect(path: str, headers: Mapping[str, str]) -> Dialect:
    """The API whose client sent a request to a path that is none of the APIs'."""
    if path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in headers:
        return GEMINI
    return ANTHROPIC if path.startswith("/v1/messages") or "anthropic-version" in headers else OPENAI_CHAT


def _decode_body(data: bytes, headers: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """A body as an object, and what is wrong with it."""
    if headers.get("content-encoding", "identity") != "identity":
        return {}, f"a body in {headers['content-encoding']!r} is not understood here; send it as it is"
    try:
        body = as_object(json.loads(data))
    except (ValueError, RecursionError) as error:
        return {}, f"the body is no JSON: {error}"
    return body, "" if body else "the body must be a JSON object with something in it"


def _silent_at(frames: list[Frame], response: ScriptedResponse) -> int:
    """Before which frame the answer goes silent: after the whole text, or in the middle of it."""
    deltas = [place for place, frame in enumerate(frames, start=1) if frame.delta]
    match response.fault:
        case "broken":
            return deltas[(len(deltas) - 1) // 2]
        case "stall":
            return deltas[0]
        case _:
            return deltas[-1] if deltas else len(frames) - 1


def _split_body(body: Mapping[str, Any]) -> list[Frame]:
    """An answer in one piece, as two halves between which something may happen."""
    data = encode_json(body)
    middle = len(data) // 2
    return [Frame(data=data[:middle], delta=True), Frame(data=data[middle:])]


def _mask_key(key: str) -> str:
    """A key as an API repeats it: its ends only."""
    return f"{key[:3]}{'*' * max(0, len(key) - 5)}{key[-2:]}" if len(key) > 5 else "*" * len(key)
