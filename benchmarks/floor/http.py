"""A bare ASGI program on uvicorn with uvloop and httptools: parse, validate, call, answer."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import uvicorn

from benchmarks import workload
from benchmarks.floor.answers import answer, catalogue

HANDLERS, LISTED = catalogue()
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


async def app(_scope: dict[str, Any], receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        part = await receive()
        body += part.get("body", b"")
        more = part.get("more_body", False)
    message = decode(body)
    reply = await answer(message, HANDLERS, LISTED)
    payload = b"" if reply is None else encode(reply)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(payload))]
    if message["method"] == "initialize":
        headers.append((b"mcp-session-id", secrets.token_hex(16).encode()))
    await send({"type": "http.response.start", "status": 202 if reply is None else 200, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


def main() -> None:
    _, options = workload.options()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(options["port"]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
