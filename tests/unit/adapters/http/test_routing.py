"""Which handler answers a path, when prefixes stand beside routes."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Message
from toolstead.adapters.http.routing import REMAINDER, Endpoint, Routes


def named(name: str) -> Handler:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, f"{name}:{request.params.get(REMAINDER, '')}".encode())

    return handler


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(method=method, path=path, handler=named(f"{method} {path}"), operation={})


ROUTES = Routes(
    [endpoint("GET", "/files/about"), endpoint("GET", "/files/{name}/info"), endpoint("POST", "/files/upload")],
    prefixes={"/": named("root"), "/files/": named("files"), "/files/deep/": named("deep")},
)


async def ask(routes: Routes, method: str, path: str) -> tuple[int, bytes, dict[bytes, bytes]]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    await routes(scope, receive, send)
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/files/about", b"GET /files/about:"),
        ("/files/x/info", b"GET /files/{name}/info:"),
        ("/files/", b"files:"),
        ("/files/a/b/c.txt", b"files:a/b/c.txt"),
        ("/files/deep/x", b"deep:x"),
        ("/files/upload", b"files:upload"),
        ("/files", b"root:files"),
        ("/", b"root:"),
    ],
)
async def test_a_route_goes_before_a_prefix_and_the_longest_prefix_first(path: str, answer: bytes) -> None:
    for method in ("GET", "HEAD"):
        assert (await ask(ROUTES, method, path))[:2] == (200, answer)


async def test_a_prefix_answers_no_other_method() -> None:
    status, _, headers = await ask(ROUTES, "DELETE", "/files/a")
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD, OPTIONS")
    status, _, headers = await ask(ROUTES, "OPTIONS", "/files/upload")
    assert (status, headers[b"allow"]) == (204, b"GET, HEAD, POST, OPTIONS")


async def test_without_a_prefix_that_fits_there_is_no_such_route() -> None:
    routes = Routes([endpoint("GET", "/files/about")], prefixes={"/console/": named("console")})
    status, body, _ = await ask(routes, "GET", "/files/abou")
    assert status == 404
    assert b"did you mean /files/about?" in body
