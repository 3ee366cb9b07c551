"""What the log says of requests that were refused: who sent them, what, and why; a few lines a minute for each peer."""

from __future__ import annotations

import asyncio
import logging

from toolstead.adapters.http.asgi import Scope
from toolstead.adapters.http.problem import make_readable

logger = logging.getLogger(__name__)

MOST_LINES = 10
"""Lines that each peer gets in a window; further refusals are counted, in one line at its end."""
WINDOW_SECONDS = 60.0
MOST_PEERS = 1_000
"""Peers that are counted apart; the others share a count."""
_OTHERS = "other peers"


class RefusalLog:
    """Logs the refusals of a server. It belongs to one event loop."""

    def __init__(self, *, most_lines: int = MOST_LINES, window_seconds: float = WINDOW_SECONDS) -> None:
        self._most_lines, self._window_seconds = most_lines, window_seconds
        self._counts: dict[str, int] = {}
        """Peer → its refusals in the window that its first one began."""

    def note_refusal(self, scope: Scope, status: int, reason: str) -> None:
        """Log that a request was refused with this status, or count it."""
        client = scope.get("client")
        peer = str(client[0]) if client else "an unnamed peer"
        counted = peer if peer in self._counts or len(self._counts) < MOST_PEERS else _OTHERS
        count = self._counts[counted] = self._counts.get(counted, 0) + 1
        if count == 1:
            asyncio.get_running_loop().call_later(self._window_seconds, self._end_window, counted)
        if count > self._most_lines:
            return
        path = make_readable(scope["path"], 100)
        about = {"peer": peer, "method": scope["method"], "path": path, "status": status, "reason": reason}
        logger.warning(
            "refused %s %r of %s with %s: %s", scope["method"], path, peer, status, reason, extra={"about": about}
        )

    def _end_window(self, peer: str) -> None:
        if (more := self._counts.pop(peer) - self._most_lines) > 0:
            about = {"peer": peer, "count": more}
            seconds = f"{self._window_seconds:g}"
            logger.warning(
                "refused %s more of the requests of %s within %s seconds", more, peer, seconds, extra={"about": about}
            )
