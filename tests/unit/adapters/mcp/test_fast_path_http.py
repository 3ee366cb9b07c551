"""The sessions that the fast path over HTTP knows of."""

from __future__ import annotations

from toolstead.adapters.mcp.fast_path.http import HandshakeSessions


def test_a_session_is_known_until_it_ends() -> None:
    sessions = HandshakeSessions()
    forget = sessions.learn_session("a")
    assert forget is not None
    assert sessions.learn_session("a") is None
    assert sessions.find_session(b"a") is not None
    forget()
    assert sessions.find_session(b"a") is None


def test_a_session_that_ended_before_it_was_learned_of_is_not_learned_of_any_more() -> None:
    sessions = HandshakeSessions()
    sessions.forget_session(
        b"a"
    )  # its client ended it while the SDK still dealt with the message that it is initialized
    assert sessions.learn_session("a") is None
    assert sessions.find_session(b"a") is None
