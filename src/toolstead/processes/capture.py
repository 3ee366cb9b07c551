"""What a process writes, kept within a bound: the head, the tail, and a count of the middle."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Protocol

LONGEST_LINE = 4_096
_MOST_BYTES_OF_A_BAD_ONE = 3
"""A byte that is no UTF-8 is shown as `\\ufffd`, which takes three."""

OnLines = Callable[[list[bytes]], None]


class Filter(Protocol):
    """Changes a stream on its way, such as a mask for secrets."""

    def filter_part(self, data: bytes) -> bytes:
        """The next part; some of it may be held back until it is known what follows."""
        ...

    def filter_end(self) -> bytes:
        """What was held back."""
        ...


class Capture:
    """Keeps at most `limit` bytes of a stream, however much is written.

    Args:
        limit: Bytes of text that are kept.
        on_lines: Called with whole lines as they come, cut to a bound.
        through: Changes the stream before anything else sees it; counts are then those of the result.
    """

    def __init__(self, limit: int, on_lines: OnLines | None = None, through: Filter | None = None) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._tail_room = limit // 4
        self._room = limit - self._tail_room
        self._on_lines = on_lines
        self._through = through
        self._line = bytearray()

    def take_part(self, data: bytes) -> None:
        """Take the next part of the stream."""
        self._keep_bytes(data if self._through is None else self._through.filter_part(data))

    def end_stream(self) -> None:
        """The stream is over: what was held back and a last line without a line break count too."""
        if self._through is not None:
            self._keep_bytes(self._through.filter_end())
        if self._on_lines is not None and self._line:
            self._on_lines([bytes(self._line)])
            self._line.clear()

    @property
    def text(self) -> str:
        """What was kept, with a note where something is missing."""
        head, tail = self._cut_head_and_tail()
        left_out = self.total - len(head) - len(tail)
        if not left_out:
            return (head + tail).decode("utf-8", "replace")
        note = f"\n[toolstead: {left_out:,} of {self.total:,} bytes left out here]\n"
        return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")

    def _keep_bytes(self, data: bytes) -> None:
        self.total += len(data)
        if self._on_lines is not None:
            self._split_lines(data, self._on_lines)
        room = self._room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data and self._tail_room:
            self._tail += data[-self._tail_room :]
            if len(self._tail) > 2 * self._tail_room:
                del self._tail[: -self._tail_room]

    def _cut_head_and_tail(self) -> tuple[bytes, bytes]:
        """Head and tail for display: no character cut in two, and fewer bytes where they are not text."""
        head, tail = bytes(self._head), bytes(self._tail)
        limit = self._room + self._tail_room
        if self.total <= limit and _fits_as_text(head + tail, limit):
            return head, tail
        tail = tail[-self._tail_room :] if self._tail_room else b""
        if not _fits_as_text(head, self._room):
            head = head[: self._room // _MOST_BYTES_OF_A_BAD_ONE]
        if not _fits_as_text(tail, self._tail_room):
            tail = tail[-(self._tail_room // _MOST_BYTES_OF_A_BAD_ONE) :]
        return head[: len(head) - _count_begun_character(head)], tail[_count_rest_of_character(tail) :]

    def _split_lines(self, data: bytes, on_lines: OnLines) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
            on_lines([line[:LONGEST_LINE] for line in lines])
        self._line += rest[: LONGEST_LINE - len(self._line)]


def _fits_as_text(data: bytes, room: int) -> bool:
    """Whether bytes decoded as text fit the limit; a character that was cut in two does not count."""
    allowed = room + 2 * _MOST_BYTES_OF_A_BAD_ONE * _MOST_BYTES_OF_A_BAD_ONE
    return data.isascii() or len(data.decode("utf-8", "replace").encode()) <= allowed


def _count_begun_character(data: bytes) -> int:
    """How many bytes at the end begin a character that is not all there."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return len(decoder.getstate()[0])


def _count_rest_of_character(data: bytes) -> int:
    """How many bytes at the beginning, three at most, end a character whose start is not there."""
    for at, byte in enumerate(data[:4]):
        if byte & 0xC0 != 0x80:
            return at
    return 0
