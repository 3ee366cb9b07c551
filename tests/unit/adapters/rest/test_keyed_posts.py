"""Posts with a key that come at once: counted once, tried again after a failure, forgotten when they are done."""

from __future__ import annotations

import asyncio

import pytest

from toolstead.adapters.rest.keyed_posts import KeyedPosts
from toolstead.errors import StorageError
from toolstead.orchestrator.store import Accepted


class Posting:
    """Counts, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.count = 0
        self.go = asyncio.Event()
        self._failures = failures

    async def __call__(self) -> Accepted:
        self.count += 1
        number = self.count
        await self.go.wait()
        if number <= self._failures:
            raise StorageError("not now")
        return Accepted(message_id=f"m{number}", run_id=f"r{number}", fresh=True)


async def test_twins_that_come_at_once_are_one_post_also_when_the_first_sender_leaves() -> None:
    posts, posting = KeyedPosts(), Posting()
    waiting = [asyncio.create_task(posts.once("t", "k", posting)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    posting.go.set()
    first, *others = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert [answer.message_id for answer in others if isinstance(answer, Accepted)] == ["m1", "m1"]
    assert posting.count == 1


async def test_keys_belong_to_their_thread_and_a_post_without_one_always_counts() -> None:
    posts, posting = KeyedPosts(), Posting()
    posting.go.set()
    answers = [await posts.once(*where, posting) for where in (("t", "k"), ("u", "k"), ("t", None), ("t", None))]
    assert [answer.message_id for answer in answers] == ["m1", "m2", "m3", "m4"]


async def test_a_post_that_failed_may_be_tried_again() -> None:
    posts, posting = KeyedPosts(), Posting(failures=1)
    posting.go.set()
    with pytest.raises(StorageError):
        await posts.once("t", "k", posting)
    assert (await posts.once("t", "k", posting)).message_id == "m2"


async def test_a_post_that_is_done_is_forgotten_here() -> None:
    """The store knows its key."""
    posts, posting = KeyedPosts(), Posting()
    posting.go.set()
    for _ in range(2):
        await posts.once("t", "k", posting)
    assert posting.count == 2
    assert posts._posts == {}
