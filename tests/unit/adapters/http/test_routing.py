"""Which handler answers a path, when pages stand beside routes."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Message
from toolstead.adapters.http.routing import Endpoint, Routes


def named(name: str) -> Handler:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, name.encode())

    return handler


async def find_page(request: HttpRequest) -> HttpResponse | None:
    return HttpResponse(200, f"page {request.path}".encode()) if request.path.startswith("/pages") else None


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(method=method, path=path, handler=named(f"{method} {path}"), operation={})


ROUTES = Routes(
    [endpoint("GET", "/files/about"), endpoint("GET", "/files/{name}/info"), endpoint("POST", "/pages/upload")],
    find_page=find_page,
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
        ("/files/about", b"GET /files/about"),
        ("/files/x/info", b"GET /files/{name}/info"),
        ("/pages", b"page /pages"),
        ("/pages/upload", b"page /pages/upload"),
    ],
)
async def test_what_no_route_has_is_looked_for_among_the_pages(path: str, answer: bytes) -> None:
    for method in ("GET", "HEAD"):
        assert (await ask(ROUTES, method, path))[:2] == (200, answer)


async def test_a_page_is_only_read() -> None:
    assert (await ask(ROUTES, "DELETE", "/pages/a"))[0] == 404
    status, _, headers = await ask(ROUTES, "DELETE", "/pages/upload")
    assert (status, headers[b"allow"]) == (405, b"POST, OPTIONS")


async def test_what_is_neither_route_nor_page_is_refused_with_the_nearest_route() -> None:
    status, body, _ = await ask(ROUTES, "GET", "/files/abou")
    assert status == 404
    assert b"did you mean /files/about?" in body
