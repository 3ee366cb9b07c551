"""Scripted model APIs: one server on loopback that speaks Anthropic, OpenAI and Gemini, and plays a script.

The real clients talk to it, so an agent is tested from its first byte to its last, without a key and without a
network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from toolstead.adapters.http.asgi import Receive, Scope, Send
from toolstead.adapters.scripted.api_dialect import ApiName, Dialect, Grievance, MalformedError, text_of
from toolstead.adapters.scripted.api_exchange import MODEL, ClientGoneError, Exchange, decode_body
from toolstead.adapters.scripted.api_script import Performer
from toolstead.adapters.scripted.script import Script
from toolstead.adapters.scripted.script_file import parse_script

_MOST_REQUESTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A request that came in.

    Attributes:
        number: Its place among all of them, from 1.
        api: Which API it was meant for.
        path: Where it was posted, without the query.
        headers: Their names in lower case; the key is among them as it came.
        body: What was posted; empty when it was no JSON object.
        model: Which model was asked for.
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
    from toolstead.adapters.http.server import serve_on_loopback  # uvicorn is paid for by those who serve
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
        self._performer = Performer(script)
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
        exchange = Exchange(scope, receive, send)
        try:
            with suppress(ClientGoneError):
                await self._answer_exchange(exchange)
        finally:
            await exchange.stop_watching()
            self.active -= 1

    async def _answer_exchange(self, exchange: Exchange) -> None:
        dialect = exchange.dialect
        if dialect is None:
            await exchange.answer_other()
            return
        try:
            data = await exchange.read()
        except MalformedError as error:
            await exchange.send_refusal(dialect, Grievance(kind="too_large", text=str(error)))
            return
        body, wrong = decode_body(data, exchange.headers)
        number = self._capture_request(exchange, dialect, body)
        if wrong:
            await exchange.send_refusal(dialect, Grievance(kind="invalid", text=wrong))
            return
        if exchange.counts is not None:
            await exchange.send_json(200, {exchange.counts: max(1, len(data) // 4)})
            return
        try:
            request = dialect.read(body, exchange.extra)
        except MalformedError as error:
            await exchange.send_refusal(dialect, Grievance(kind="invalid", text=str(error)))
            return
        performance = self._performer.choose_performance(request, size=len(data), number=number)
        await exchange.play_performance(dialect, request, performance)

    def _capture_request(self, exchange: Exchange, dialect: Dialect, body: Mapping[str, Any]) -> int:
        """Keep a request for the test to look at; gives its number."""
        self._count += 1
        self._requests.append(
            Captured(
                number=self._count,
                api=dialect.name,
                path=exchange.path,
                headers=exchange.headers,
                body=body,
                model=text_of(exchange.extra.get("model")) or text_of(body.get("model")),
            )
        )
        return self._count
