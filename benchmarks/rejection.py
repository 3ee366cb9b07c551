"""The proof that the fast way is no shortcut: a wrong argument is rejected, and what happened can be read afterwards.

Over HTTP the event comes from the stream that everybody can follow, over stdio it is the line of the log. It is asked
for after the timed calls, so that nobody listens meanwhile and the server is as it was started.
"""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any

from benchmarks import load, messages
from benchmarks.processes import Child, ContestantError
from benchmarks.stdio_client import StdioClient

PATIENCE = 30.0
_EVENT = "tool_result"
_LOGGED = "failed (invalid_arguments)"


def over_http(port: int, era: messages.Era, tool: str, wrong: dict[str, Any]) -> str:
    """What the server answers to a wrong argument, and the event that `/api/events` tells."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as listener:
        try:
            listener.request("GET", f"/api/events?type={_EVENT}")
            stream = listener.getresponse()
            stream.readline()  # from here on it tells everything
            caller = load.Connection(port, era, tool, wrong)
            with closing(caller.socket):
                reply = caller.call(tool, wrong)
            while not (line := stream.readline()).startswith(b"data:"):
                if not line:
                    raise ContestantError("the stream of events ended without the rejected call")
        except (OSError, http.client.HTTPException, SystemExit) as error:
            raise ContestantError(f"no event of the rejected call: {error!r}") from error
    event = json.loads(line.removeprefix(b"data:"))
    told = event.get("data", event)
    if told["name"] != tool or not told["isError"]:
        raise ContestantError(f"another event than that of the rejected call: {line[:300]!r}")
    return f"{_said(wrong, reply)}; event `{_EVENT}` `{json.dumps(told)}`"


def over_stdio(child: Child, client: StdioClient, tool: str, wrong: dict[str, Any]) -> str:
    """What the server answers to a wrong argument, and the line that it logs."""
    part = f"{tool} {_LOGGED}"
    before = child.count_log_lines(part)  # wrong arguments were tried before the timed calls, too
    reply = client.call(tool, wrong)
    return f"{_said(wrong, reply)}; log `{child.log_line_after(before, part, PATIENCE)}`"


def _said(wrong: dict[str, Any], reply: dict[str, Any]) -> str:
    if not messages.is_refusal(reply):
        raise ContestantError(f"wrong arguments were not rejected after the timed calls: {json.dumps(reply)[:300]}")
    return f"`{json.dumps(wrong)}` → {json.dumps(messages.text_of(reply) or reply['error'], ensure_ascii=False)}"
