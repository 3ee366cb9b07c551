"""The load generator, a program of its own: many keep-alive HTTP clients, each with one request in flight.

    python -m benchmarks.load PORT CLIENTS ERA TOOL ARGUMENTS ANSWER WRONG

It opens the connections, shakes hands where the protocol version has a handshake, checks one right and one wrong call,
and then obeys stdin: for each line with a number it makes calls for so many seconds and answers with a line of JSON.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any, cast

from benchmarks import messages

TIMEOUT = 30.0
_FIRST = 1_000_000_000


class Connection:
    """One client: its socket, its session, its next request."""

    def __init__(self, port: int, era: messages.Era, tool: str, arguments: dict[str, Any]) -> None:
        self._port = port
        self._era: messages.Era = era
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._session = b""
        if era == "handshake":
            self._shake_hands()
        self._number = _FIRST
        self._before, self._after = self._frame(messages.call(_FIRST, tool, arguments, era), tool).split(b"%d" % _FIRST)
        self.pending = b""
        self.sent = 0.0

    def _shake_hands(self) -> None:
        head, body = self.exchange(self._frame(messages.initialize(1), ""))
        if b"protocolVersion" not in body:
            raise SystemExit(f"no handshake: {(head + body)[:500]!r}")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"mcp-session-id:"):
                self._session = b"Mcp-Session-Id: " + line.split(b":", 1)[1].strip() + b"\r\n"
        self.exchange(self._frame(messages.INITIALIZED, ""))

    def _frame(self, body: bytes, tool: str) -> bytes:
        version = messages.MODERN if self._era == "modern" else messages.HANDSHAKE
        modern = f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n" if self._era == "modern" else ""
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: {version}\r\n{modern}Content-Length: {len(body)}\r\n"
        )
        return head.encode() + self._session + b"\r\n" + body

    def exchange(self, frame: bytes) -> tuple[bytes, bytes]:
        """Send one request and wait for the whole answer: its head and its body."""
        self.socket.sendall(frame)
        data = b""
        while not is_whole(data):
            part = self.socket.recv(1 << 16)
            if not part:
                raise SystemExit(f"the server closed the connection after {data[:500]!r}")
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        return head, body

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """One call, decoded from JSON or from the one event of a stream."""
        _, body = self.exchange(self._frame(messages.call(2, tool, arguments, self._era), tool))
        begin, end = body.find(b"{"), body.rfind(b"}")
        return json.loads(body[begin : end + 1]) if begin >= 0 else {"error": body.decode(errors="replace")}

    def send(self) -> None:
        self._number += 1
        self.socket.send(b"%b%d%b" % (self._before, self._number, self._after))


def is_whole(data: bytes) -> bool:
    """Whether these bytes are a whole HTTP response."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[:end].lower()
    at = head.find(b"content-length:")
    if at >= 0:
        stop = head.find(b"\r", at)
        return len(data) - end - 4 >= int(head[at + 15 : stop if stop >= 0 else None])
    if b"chunked" in head:
        return data.endswith(b"\r\n0\r\n\r\n")
    return True


def generate(connections: dict[int, Connection], answer: bytes, seconds: float) -> dict[str, Any]:
    """Keep one request in flight on every connection; when the time is over, let the last answers come in."""
    poll = select.poll()
    for number in connections:
        poll.register(number, select.POLLIN)
    took: list[float] = []
    clock = time.perf_counter
    began = clock()
    deadline = began + seconds
    for connection in connections.values():
        connection.pending, connection.sent = b"", clock()
        connection.send()
    flying = len(connections)
    while flying:
        ready = poll.poll(TIMEOUT * 1000)
        if not ready:
            raise SystemExit(f"{flying} answers did not come within {TIMEOUT:g} s")
        for number, _ in ready:
            connection = connections[number]
            part = connection.socket.recv(1 << 16)
            if not part:
                raise SystemExit(f"the server closed a connection after {connection.pending[:300]!r}")
            data = connection.pending + part if connection.pending else part
            if not is_whole(data):
                connection.pending = data
                continue
            if answer not in data:
                raise SystemExit(f"a wrong answer: {data[:500]!r}")
            now = clock()
            took.append(now - connection.sent)
            connection.pending = b""
            if now < deadline:
                connection.sent = now
                connection.send()
            else:
                flying -= 1
    wall = clock() - began
    took.sort()
    return {
        "count": len(took),
        "wall": wall,
        "p50": took[len(took) // 2],
        "p99": took[len(took) * 99 // 100],
    }


def main() -> None:
    port, clients, era, tool, arguments, answer, wrong = sys.argv[1:8]
    era = cast("messages.Era", era)
    given = json.loads(arguments)
    opened = [Connection(int(port), era, tool, given) for _ in range(int(clients))]
    reply = opened[0].call(tool, given)
    if answer not in messages.text_of(reply):
        raise SystemExit(f"a wrong answer: {json.dumps(reply)[:500]}")
    rejects = messages.is_refusal(opened[0].call(tool, json.loads(wrong)))
    print(json.dumps({"rejects": rejects}), flush=True)
    connections = {connection.socket.fileno(): connection for connection in opened}
    for line in sys.stdin:
        print(json.dumps(generate(connections, answer.encode(), float(line))), flush=True)


if __name__ == "__main__":
    main()
