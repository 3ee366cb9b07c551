"""The open sessions of the handshake versions: which are known, and which end when there are too many."""

from __future__ import annotations

import asyncio

from tests.virtual_time import run_virtually
from toolstead.adapters.mcp.handshake_sessions import HandshakeSessions


class Ended:
    """The sessions that were ended in the SDK, in order."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    async def end(self, key: bytes) -> None:
        self.keys.append(key)


async def test_a_session_is_known_until_it_ends() -> None:
    sessions = HandshakeSessions(Ended().end)
    sessions.add_session(b"a", "")
    forget = sessions.learn_session("a", None)
    assert forget is not None
    assert sessions.learn_session("a", None) is None
    assert sessions.find_session(b"a") is not None
    forget()
    assert sessions.find_session(b"a") is None


async def test_a_session_that_ended_before_it_was_learned_of_is_not_learned_of_any_more() -> None:
    sessions = HandshakeSessions(Ended().end)
    sessions.add_session(b"a", "")
    # Its client ended it while the SDK still dealt with the message that it is initialized.
    sessions.forget_session(b"a")
    assert sessions.learn_session("a", None) is None
    assert sessions.find_session(b"a") is None


async def test_one_address_cannot_push_out_the_sessions_of_the_others() -> None:
    ended = Ended()
    sessions = HandshakeSessions(ended.end, most=10)
    for number in range(3):
        sessions.add_session(b"quiet %d" % number, "10.0.0.1")
    for number in range(1_000):
        sessions.add_session(b"loud %d" % number, "10.0.0.2")
        await sessions.end_surplus()
    assert ended.keys == [b"loud %d" % number for number in range(993)], "the longest idle ones first"
    sessions.add_session(b"new", "10.0.0.3")
    await sessions.end_surplus()
    assert ended.keys[-1] == b"loud 993", "a newcomer gets room"


async def test_a_session_in_use_does_not_end_and_when_all_are_there_is_no_room() -> None:
    ended = Ended()
    sessions = HandshakeSessions(ended.end, most=2)
    with sessions.add_session(b"a", ""):
        busy = sessions.add_session(b"b", "")
        sessions.add_session(b"c", "")
        await sessions.end_surplus()
        assert ended.keys == [b"b"], "the longest idle one that is not in use"
        assert not sessions.is_full
        with sessions.find_session(b"c") or busy:
            assert sessions.is_full


def test_sessions_end_when_they_are_idle_for_too_long_and_not_before() -> None:
    ended = Ended()

    async def live() -> None:
        sessions = HandshakeSessions(ended.end, idle=100)
        ending = asyncio.create_task(sessions.end_idle_sessions())
        sessions.add_session(b"a", "")
        await asyncio.sleep(50)
        used = sessions.add_session(b"b", "")
        await asyncio.sleep(49)
        assert ended.keys == []
        await asyncio.sleep(2)
        assert ended.keys == [b"a"]
        with used:
            await asyncio.sleep(1_000)
        assert ended.keys == [b"a"]
        await asyncio.sleep(99)
        assert ended.keys == [b"a"]
        await asyncio.sleep(2)
        assert ended.keys == [b"a", b"b"]
        ending.cancel()

    run_virtually(live())
