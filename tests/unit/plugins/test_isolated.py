"""Isolated calls: an answer, or a sentence about why there is none; the next call is not disturbed."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.waiting import PATIENCE
from toolstead.errors import ToolError
from toolstead.plugins.isolated import IsolatedCalls

LIMIT = "it takes more than 0.5 seconds of processor time or 256 MB of memory, which is the most allowed"


@pytest.fixture
async def calls() -> AsyncGenerator[IsolatedCalls]:
    made = IsolatedCalls("tests.programs.isolated_function", seconds=0.5, memory=256 << 20, largest=1_000_000)
    yield made
    await made.aclose()


@pytest.mark.promise("B12")
async def test_what_goes_wrong_in_the_process_is_a_sentence_and_the_next_call_works(calls: IsolatedCalls) -> None:
    cases = {
        b"spin": LIMIT,
        b"grow": "MemoryError",
        b"exit": LIMIT,
        b"raise": "LookupError: there is no such thing",
        b"refuse": "a sentence for the model",
        b"x" * 600_000: "its answer has 1,200,000 bytes; at most 1,000,000 are taken",
    }
    for content, said in cases.items():
        with pytest.raises(ToolError) as caught:
            await calls.call(content, timeout=PATIENCE)
        assert said in str(caught.value), content[:20]
        assert await calls.call(b"fine", timeout=PATIENCE) == b"finefine"


async def test_one_process_answers_many_calls_and_knows_nothing_of_our_environment(
    calls: IsolatedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert len({await calls.call(b"pid", timeout=PATIENCE) for _ in range(5)}) == 1
    names = (await calls.call(b"environ", timeout=PATIENCE)).decode().split(",")
    assert "SOME_API_KEY" not in names
    assert "HOME" not in names


async def test_a_call_that_waits_too_long_says_so(calls: IsolatedCalls) -> None:
    with pytest.raises(ToolError, match=r"no answer within 0\.05 seconds"):
        await calls.call(b"spin", timeout=0.05)
    assert await calls.call(b"", timeout=PATIENCE) == b""
