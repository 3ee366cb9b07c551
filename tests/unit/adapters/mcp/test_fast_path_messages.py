"""What the fast path looks for before it trusts msgspec, which does not read what it skips."""

from __future__ import annotations

import pytest

from toolstead.adapters.mcp.fast_path.messages import (
    NoMessage,
    cancelled_id,
    check_skipped,
    read_handshake,
    read_modern,
)

CANCELLED = b'"jsonrpc":"2.0","method":"notifications\\/cancelled","params":{"requestId":7,"more":[]}'


def test_a_cancellation_is_heard_whatever_else_it_says_but_a_request_is_none() -> None:
    assert cancelled_id(b"{" + CANCELLED + b',"extra":1}') == 7
    assert cancelled_id(b"{" + CANCELLED + b',"id":1}') is None
    assert cancelled_id(b"{" + CANCELLED + b',"extra":"\xff"}') is None
    assert cancelled_id(b"{" + CANCELLED.replace(b"7", b"true") + b"}") is None


@pytest.mark.parametrize("inside", [b'"\xff"', b"[" * 200 + b"]" * 200, b"9" * 5_000], ids=["half", "deep", "long"])
def test_what_would_only_be_skipped_is_looked_at(inside: bytes) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":' + inside + b"}}}"
    for read in (read_handshake, read_modern):
        with pytest.raises(NoMessage):
            read(line)


def test_many_brackets_side_by_side_or_in_a_string_are_not_deep() -> None:
    for data in (b"[" + b"[]," * 1_000 + b"{}]", b'["' + b"[" * 1_000 + b'"]', b'["\\"' + b"[" * 1_000 + b'"]'):
        assert check_skipped(data) is data


def test_what_is_large_and_full_of_brackets_is_left_to_the_sdk() -> None:
    with pytest.raises(NoMessage):
        check_skipped(b"[" + b"[]," * 100_000 + b"[]]")
    assert check_skipped(b'["' + b"x" * 300_000 + b'"]')
