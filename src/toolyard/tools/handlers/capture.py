"""What a process writes, kept within a bound: the head, the tail, and a count of the middle."""

from __future__ import annotations

from collections.abc import Callable

LONGEST_LINE = 4_096


class Capture:
    """Keeps at most `limit` bytes of a stream, however much is written."""

    __slots__ = ("_head", "_head_room", "_line", "_on_line", "_tail", "_tail_room", "total")

    def __init__(self, limit: int, on_line: Callable[[str], None] | None = None) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._head_room = limit - limit // 4
        self._tail_room = limit // 4
        self._on_line = on_line
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next part of the stream."""
        self.total += len(data)
        if self._on_line is not None:
            self._split(data, self._on_line)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_room :] if self._tail_room else b""
            if len(self._tail) > 2 * self._tail_room:
                del self._tail[: -self._tail_room]

    def end(self) -> None:
        """The stream is over: a last line without a line break counts too."""
        if self._on_line is not None and self._line:
            self._on_line(self._line.decode("utf-8", "replace"))
            self._line.clear()

    @property
    def left_out(self) -> int:
        """How many bytes of the middle were not kept."""
        return max(0, self.total - len(self._head) - min(len(self._tail), self._tail_room))

    @property
    def text(self) -> str:
        """What was kept, with a note where something is missing."""
        head = self._head.decode("utf-8", "replace")
        if not self._tail:
            return head
        tail = self._tail[-self._tail_room :].decode("utf-8", "replace") if self._tail_room else ""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        return f"{head}\n[toolyard: {self.left_out:,} of {self.total:,} bytes left out here]\n{tail}"

    def _split(self, data: bytes, on_line: Callable[[str], None]) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = self._line + line[:LONGEST_LINE]
            self._line = bytearray()
            on_line(whole[:LONGEST_LINE].decode("utf-8", "replace"))
        self._line += rest[: LONGEST_LINE - len(self._line)]
