"""What is kept of a stream: its head, its tail, and the exact size of what lies between."""

from __future__ import annotations

import random
import re
import tracemalloc

import pytest

from toolstead.processes.capture import LONGEST_LINE, Capture

pytestmark = pytest.mark.promise("R2")

NOTE = re.compile(r"\n\[toolstead: ([\d,]+) of ([\d,]+) bytes left out here\]\n")


def fed(limit: int, *parts: bytes) -> Capture:
    capture = Capture(limit)
    for part in parts:
        capture.take_part(part)
    capture.end_stream()
    return capture


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """The data cut at random."""
    cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(0, 12)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_what_fits_is_kept_as_it_is(size: int) -> None:
    capture = fed(100, b"x" * size)
    assert (capture.text, capture.total) == ("x" * size, size)


@pytest.mark.parametrize("size", [101, 102, 125, 126, 150, 1_000, 12_345])
def test_of_more_the_head_and_the_tail_are_kept_and_the_middle_is_counted(size: int) -> None:
    data = bytes(random.Random(size).choices(b"abcdefgh", k=size))
    for parts in ([data], [data[at : at + 1] for at in range(size)], pieces(data, random.Random(1))):
        capture = fed(100, *parts)
        head, left_out, total, tail = NOTE.split(capture.text)
        assert (head.encode(), tail.encode()) == (data[:75], data[-25:])
        assert (int(left_out.replace(",", "")), int(total.replace(",", ""))) == (size - 100, size)


@pytest.mark.parametrize("limit", range(5))
def test_a_bound_that_leaves_no_room_for_a_tail_is_kept_too(limit: int) -> None:
    capture = Capture(limit)
    for _ in range(100):
        capture.take_part(b"x" * 1_000)
        assert len(capture._head) + len(capture._tail) <= limit + 2
    assert NOTE.sub("", capture.text) == "x" * limit
    assert f"{100_000 - limit:,} of 100,000 bytes left out" in capture.text


def test_however_the_stream_is_cut_the_outcome_is_the_same() -> None:
    chance = random.Random(3)
    for _ in range(300):
        data = bytes(chance.choices(b"ab\n\xc3\xa9\xff\x00\xe2\x82\xac", k=chance.randint(0, 600)))
        limit = chance.choice([4, 16, 100, 512])
        whole, cut = fed(limit, data), fed(limit, *pieces(data, chance))
        assert cut.text == whole.text
        assert cut.total == whole.total
        assert cut.total == len(data)


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_no_character_is_cut_in_two(character: str) -> None:
    for shift in range(4):
        text = "x" * shift + character * 200
        capture = fed(100, text.encode())
        assert "\ufffd" not in capture.text
        head, left_out, _, tail = NOTE.split(capture.text)
        shown = len(head.encode()) + len(tail.encode())
        assert int(left_out.replace(",", "")) == len(text.encode()) - shown
        assert 100 - 6 <= shown <= 100


@pytest.mark.parametrize("byte", [b"\xff", b"\x80", b"\xc3", b"\xf0"])
@pytest.mark.parametrize("size", [90, 100, 1_000])
def test_bytes_that_are_no_text_keep_within_the_bound_and_are_counted_all_the_same(byte: bytes, size: int) -> None:
    capture = fed(100, byte * size)
    text = capture.text
    assert len(NOTE.sub("", text).encode()) <= 120
    _, left_out, total, _ = NOTE.split(text)
    assert int(total.replace(",", "")) == size
    assert int(left_out.replace(",", "")) == size - text.count("\ufffd")


def test_a_few_bytes_that_are_no_text_are_not_taken_for_the_rest_of_a_character() -> None:
    assert fed(100, b"a" * 200 + b"\x80" * 5 + b"z" * 20).text.endswith("\n" + "\ufffd" * 5 + "z" * 20)


def test_memory_is_bounded_however_much_is_written() -> None:
    capture, chunk = Capture(10_000), b"0123456789" * 6_553
    for _ in range(20):
        capture.take_part(chunk)
    tracemalloc.start()
    for _ in range(2_000):
        capture.take_part(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert capture.total == 2_020 * len(chunk)
    assert f"{capture.total - 10_000:,} of {capture.total:,} bytes left out" in capture.text


def test_lines_are_told_as_they_end_and_the_last_one_at_the_end() -> None:
    lines: list[list[bytes]] = []
    capture = Capture(100, lines.append)
    capture.take_part(b"one\ntw")
    assert lines == [[b"one"]]
    capture.take_part(b"")
    capture.take_part(b"o\n\nthree")
    assert lines == [[b"one"], [b"two", b""]]
    capture.end_stream()
    assert lines == [[b"one"], [b"two", b""], [b"three"]]
    capture.end_stream()
    assert len(lines) == 3


def test_a_line_without_an_end_is_held_up_to_a_bound() -> None:
    lines: list[list[bytes]] = []
    capture = Capture(100, lines.append)
    for _ in range(100):
        capture.take_part(b"x" * 1_000)
        assert len(capture._line) <= LONGEST_LINE
    capture.take_part(b"y\nshort\n" + b"z" * 10_000 + b"\n")
    assert lines == [[b"x" * LONGEST_LINE, b"short", b"z" * LONGEST_LINE]]


def test_a_stream_may_be_changed_on_its_way() -> None:
    class Doubled:
        def filter_part(self, data: bytes) -> bytes:
            return data * 2

        def filter_end(self) -> bytes:
            return b"!"

    lines: list[list[bytes]] = []
    capture = Capture(100, lines.append, Doubled())
    capture.take_part(b"a\n")
    capture.end_stream()
    assert (capture.text, capture.total) == ("a\na\n!", 5)
    assert lines == [[b"a", b"a"], [b"!"]]
