"""How many lines the log gets of requests that were refused."""

from __future__ import annotations

import pytest

from tests.waiting import until
from toolstead.adapters.http import refusal_log
from toolstead.adapters.http.asgi import Scope
from toolstead.adapters.http.refusal_log import RefusalLog


def scope_of(peer: str) -> Scope:
    return {"client": (peer, 50_000), "method": "GET", "path": "/api/tools"}


async def test_what_a_peer_has_too_much_is_counted_and_told_in_one_line_and_no_other_peer_loses_its_own(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_log, "MOST_PEERS", 2)
    log = RefusalLog(most_lines=3, window_seconds=0.01)
    for _ in range(8):
        log.note_refusal(scope_of("10.0.0.1"), 401, "no token")
    for peer in ("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"):
        log.note_refusal(scope_of(peer), 401, "no token")
    said = [record.getMessage() for record in caplog.records]
    assert said[:3] == ["refused GET '/api/tools' of 10.0.0.1 with 401: no token"] * 3
    assert [line.split()[4] for line in said[3:]] == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]
    await until(lambda: "other peers" in caplog.text)
    assert [record.getMessage() for record in caplog.records[len(said) :]] == [
        "refused 5 more of the requests of 10.0.0.1 within 0.01 seconds",
        "refused 1 more of the requests of other peers within 0.01 seconds",
    ]
    log.note_refusal(scope_of("10.0.0.1"), 401, "no token")
    assert "10.0.0.1 with 401" in caplog.records[-1].getMessage(), "a new window"
