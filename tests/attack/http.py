"""Raw HTTP that is malformed, hidden, cut, huge or slow: answered below 500 or closed, and never hung.

A request that hides in another's body calls a tool that leaves a file; none may appear. The server's health is asked
for all the time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from random import Random

from tests.attack.harness import Attack, Target, serving, share_work, watched
from tests.attack.mutations import Mutator
from tests.surfaces.rest_server import request

PATIENCE = 20.0
"""Seconds in which what is whole is answered or closed; the server closes a head that does not end after a minute."""
METHODS = (
    *("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PRI", "get", "G" * 5_000),
    *("G\0T", "", "GET\t"),
)
TARGETS = (
    *("/api/health", "/api/tools", "/mcp", "/openapi.json", "/docs", "/api/tools/play__echo/call", "/api/threads/x"),
    *("*", "", "/%", "/%00", "//", "/..", "/../../etc/passwd", "http://example.org/", "http://[", "example.org:443"),
    *("/" + "a" * 70_000, "/api/tools/\xff", "/é", "/api/events?after=x"),
)
VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.11", "HTTP/9.9", "http/1.1", "HTTP/1.1 x", "", "HTTP/", "ICY")
HEADERS = (
    *("Host: evil.example", "Host: 127.0.0.1\r\nHost: evil.example", "Host:", "Host: 127.0.0.1:99999", "Host: ["),
    *("Host: 127.0.0.1\0",),
    *("Origin: null", "Origin: http://evil.example", "Origin: http://127.0.0.1.evil.example", "Origin: "),
    *("Sec-Fetch-Site: cross-site",),
    *("Content-Length: -1", "Content-Length: +5", "Content-Length: 5, 5", "Content-Length: 5\r\nContent-Length: 6"),
    *("Content-Length: 0x5", "Content-Length: 99999999999999999999", "Content-Length: 1e3", "Content-Length: "),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, chunked"),
    *("Transfer-Encoding: gzip, chunked", "Transfer-Encoding : chunked", "Transfer-Encoding:\tchunked"),
    *("Transfer-Encoding: identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
    *("X: y\r\n Transfer-Encoding: chunked", "Transfer-Encoding: \x0bchunked"),
    *("Expect: 100-continue", "Expect: 200-ok", "Upgrade: websocket\r\nConnection: upgrade"),
    *("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA", "Connection: close"),
    *("Connection: keep-alive, close",),
    *("Content-Type: application/json", "Content-Type: text/plain", "Content-Type: multipart/form-data"),
    *("Content-Encoding: gzip", "Range: bytes=0-", "Last-Event-ID: \xff", "Idempotency-Key: " + "k" * 300),
    *("Cookie: " + "a=b; " * 5_000, "Authorization: Bearer x"),
    *(": empty", "no colon", "A B: c", "X:\0", "X: \x7f", "X-\xff: y", "X: " + "y" * 70_000, " leading: x", "\tX: y"),
)
CHUNKS = (
    *("5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n", "5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"),
    *("+5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "FFFFFFFFFFFFFFFFF\r\nx"),
    *("-1\r\n\r\n", "5\r\nhel", "\r\n", "g\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n"),
    *("1\r\na\r\n" * 2_000 + "0\r\n\r\n", "0" * 5_000 + "\r\n\r\n"),
)
ENDINGS = ("\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n ", "\r\n\r\n")


def hidden_request(target: Target, name: str) -> str:
    """A whole request, for the body of another: whoever serves it leaves a file."""
    body = json.dumps({"input": {"name": str(target.project / name)}})
    lines = [
        "POST /api/tools/play__mark/call HTTP/1.1",
        f"Host: 127.0.0.1:{target.port}",
        "Content-Type: application/json",
    ]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body])


def make_request(target: Target, chance: Random, number: int) -> bytes:
    """A request with something wrong in it, and often another one hidden in its body."""
    method = chance.choice((*("GET", "POST") * 8, *METHODS))
    path, version = (
        chance.choice((*("/api/health", "/mcp", "/api/tools/play__echo/call") * 7, *TARGETS)),
        chance.choice(("HTTP/1.1",) * 12 + VERSIONS),
    )
    ending = chance.choice(ENDINGS)
    headers = [f"Host: 127.0.0.1:{target.port}"] if chance.random() < 0.9 else []
    headers += [chance.choice(HEADERS) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    if chance.random() < 0.02:
        headers += [f"X-{count}: y" for count in range(5_000)]
    hidden = hidden_request(target, f"hidden-{number}")
    if chance.random() < 0.4:  # the length covers it, whatever else is said about lengths
        ending, body = "\r\n", chance.choice(("", "0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "0\r\n")) + hidden
        headers = [f"Host: 127.0.0.1:{target.port}", f"Content-Length: {len(body)}", *headers]
    else:
        body = chance.choice(("", "{}", '{"input":{"text":"a"}}', chance.choice(CHUNKS), "x" * 5_000))
        headers += [f"Content-Length: {len(body)}"] if chance.random() < 0.5 else []
    data = (ending.join([f"{method} {path} {version}", *headers, "", ""]) + body).encode(
        "utf-8" if chance.random() < 0.5 else "latin-1", "replace"
    )
    return Mutator(chance).bytes(data) if chance.random() < 0.1 and hidden not in body else data


async def attack(attack: Attack) -> None:
    """Random requests, then those that need a script of their own."""
    async with serving(attack.folder / "server") as target:
        before, here = target.memory, set(target.project.iterdir())
        async with watched(attack, target):
            requests = [make_request(target, attack.chance, number) for number in range(attack.count)]
            await share_work(requests, lambda data: _try(attack, target, data), at_once=8)
            for name, check in SCRIPTS.items():
                try:
                    async with asyncio.timeout(60):
                        said = await check(target)
                except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                    said = f"{type(error).__name__} {error}"
                attack.check(name, not said, said)
        hidden = [path.name for path in set(target.project.iterdir()) - here]
        served = [requests[int(name.partition("-")[2])] for name in hidden]
        for data in served:
            attack.fail("no hidden request was served", f"served: {data[:200]!r}", data)
        attack.hold("no hidden request was served", sum(b"hidden-" in data for data in requests) - len(served))
        await target.check_end(attack, before=before)


async def _try(attack: Attack, target: Target, data: bytes) -> None:
    """Send it, and half-close: then the server knows that nothing follows, and must answer or close."""
    what = "malformed request: answered below 500, or closed"
    if attack.is_over:
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    answer = b""
    try:
        async with asyncio.timeout(PATIENCE):
            try:
                writer.write(data)
                await writer.drain()
                writer.write_eof()
                while piece := await reader.read(65_536):
                    answer += piece
                    if len(answer) > 1 << 20:
                        break
            except OSError:  # closed in the middle: that is an answer
                pass
    except TimeoutError:
        attack.fail(what, f"neither answered nor closed in {PATIENCE:.0f} s, after {answer[:60]!r}", data)
        return
    finally:
        writer.close()
    status = answer.split(b" ", 2)[1][:3] if answer.startswith(b"HTTP/1.1 ") else b""
    held = not status.startswith(b"5") and (not answer or bool(status))
    attack.check(what, held, f"{answer[:120]!r}", data)


def _get(target: Target, more: str = "") -> bytes:
    return f"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n{more}\r\n".encode()


def _post(target: Target, length: int) -> bytes:
    body = json.dumps({"input": {"text": "x" * length}}).encode()
    return request("POST", "/api/tools/play__echo/call", body, host=f"127.0.0.1:{target.port}")


async def _count_answers(target: Target, data: bytes, wanted: int, *pieces: bytes, may_refuse: bool = False) -> int:
    """How many good answers come to these bytes, of so many; a refusal in words may stand for the rest."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1 << 24)

    async def send() -> None:
        for piece in (data, *pieces):
            writer.write(piece)
            await writer.drain()

    sending = asyncio.create_task(send())
    answers = 0
    try:
        async with asyncio.timeout(30):
            while answers < wanted:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(length[1]) if length else 0)
                if not head.startswith(b"HTTP/1.1 200"):
                    return wanted if may_refuse and head.startswith(b"HTTP/1.1 4") else answers
                answers += 1
    except (TimeoutError, OSError, asyncio.IncompleteReadError):
        pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    return answers


async def _answer_before_half_a_head(target: Target) -> str:
    found = await _count_answers(target, _post(target, 100_000) + _get(target)[:20], 1)
    return "" if found == 1 else "a whole request, followed by half of the next one's head, was not answered"


async def _answer_many_at_once(target: Target) -> str:
    """As many as fit; what is too many is answered with an error, not dropped without a word."""
    for count in (100, 2_000, 3_001, 5_000):
        found = await _count_answers(target, _get(target) * count, count, may_refuse=True)
        if found < count:
            return f"{found} of {count} requests that were sent at once were answered"
    return ""


async def _answer_in_small_pieces(target: Target) -> str:
    data = _post(target, 10)
    found = await _count_answers(target, data[:1], 1, *(data[at : at + 1] for at in range(1, len(data))))
    return "" if found == 1 else "a request that came byte by byte was not answered"


async def _slow_heads(target: Target) -> str:
    """Many connections with half a head hold up nobody."""
    writers = [(await asyncio.open_connection("127.0.0.1", target.port))[1] for _ in range(300)]
    for writer in writers:
        writer.write(_get(target)[:30])
    healthy = await target.is_healthy()
    for writer in writers:
        writer.close()
    return "" if healthy else "no answer while 300 connections had sent half a head"


async def _readers_that_do_not_read(target: Target) -> str:
    """Answers that nobody takes hold up nobody."""
    writers = [(await asyncio.open_connection("127.0.0.1", target.port, limit=1))[1] for _ in range(20)]
    for writer in writers:
        writer.write(f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n\r\n".encode() * 200)
    healthy = await target.is_healthy()
    for writer in writers:
        writer.transport.abort()
    return "" if healthy else "no answer while 20 connections did not read"


async def _large_bodies(target: Target) -> str:
    """More than a request may have is refused before it is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    writer.write(_post(target, 10).replace(b"content-length: 33", b"content-length: 900000000"))
    status = (await asyncio.wait_for(reader.read(100), 20)).split(b" ")[1:2]
    writer.close()
    return "" if status == [b"413"] else f"a length of 900 MB was answered with {status}"


async def _refuse_foreign_pages(target: Target) -> str:
    """Whatever name or page a browser was led here by: no tool is called for it."""
    foreign = [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        f"evil.example:{target.port}",
        "127.0.0.1@evil",
    ]
    heads = [("host", name) for name in foreign] + [("origin", f"http://{name}") for name in foreign]
    for name, value in [*heads, ("origin", "null"), ("origin", "file://"), ("host", "")]:
        body = {"input": {"name": str(target.project / "hidden-0")}}
        host = {"host": f"127.0.0.1:{target.port}"}
        connection = await target.connect()
        await connection.send(request("POST", "/api/tools/play__mark/call", body, {**host, name: value}))
        status = (await connection.reply()).status
        await connection.close()
        if not 400 <= status < 500:
            return f"{name}: {value} was answered with {status}"
    return ""


SCRIPTS: dict[str, Callable[[Target], object]] = {
    "a whole request before half a head is answered": _answer_before_half_a_head,
    "requests sent at once are answered": _answer_many_at_once,
    "a request byte by byte is answered": _answer_in_small_pieces,
    "half heads hold up nobody": _slow_heads,
    "readers that do not read hold up nobody": _readers_that_do_not_read,
    "a length that is too large is refused": _large_bodies,
    "foreign names and pages are refused": _refuse_foreign_pages,
}
