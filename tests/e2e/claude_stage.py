"""The real Claude Code on a stage, against a scripted Messages API on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e import captured
from tests.e2e.model_stage import MODELS, Player
from tests.e2e.view import View
from toolstead.testing import Captured

PREFIX = "mcp__toolstead__"
_BESIDE = ("<system-reminder>", "[Request interrupted by user")
"""What Claude Code says in the name of the user."""
_STEERED = re.compile(
    r"The user sent a new message while you were working:\n(.*?)\n\nThis is how Claude Code", re.DOTALL
)
"""How it tells of a message for the turn that runs."""


class ClaudeView(View):
    """Claude Code sorts our tools behind a prefix, and answers failed calls first."""

    interrupted = ("doesn't want to proceed",)

    def ordered(self, names: Iterable[str]) -> list[str]:
        return sorted(names)

    def offered(self, request: Captured) -> dict[str, dict[str, Any]]:
        found = captured.tools_of(request)
        return {name.removeprefix(PREFIX): schema for name, schema in found.items() if name.startswith(PREFIX)}

    def own_in(self, request: Captured) -> set[str]:
        return {name for name in captured.tools_of(request) if not name.startswith(PREFIX)}

    def results(self, request: Captured) -> list[str]:
        results = [part for part in _parts(request) if part.get("type") == "tool_result"]
        calls = captured.call_ids(request)
        assert sorted(part["tool_use_id"] for part in results) == sorted(calls)  # each call is answered once
        return [
            captured.text_of(part["content"])
            for part in sorted(results, key=lambda part: calls.index(part["tool_use_id"]))
        ]

    def spoken(self, request: Captured) -> list[str]:
        said: list[str] = []
        for message in request.body["messages"]:
            for text in captured.texts_of(message["content"]):
                if found := _STEERED.search(text):
                    said.append(found[1])
                elif message["role"] == "user" and not text.startswith(_BESIDE):
                    said.append(text.strip())
        return said

    def called(self, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return sorted(events, key=lambda data: data["callId"])


def processes_of(kept: Path) -> list[int]:
    """The programs that keep their temporary files in this folder, and what they started; the dead ones not."""
    mark = f"CLAUDE_CODE_TMPDIR={kept / 'tmp'}".encode()
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and mark in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return sorted(found)


CLAUDE = Player(name="claude", runtime="claude", model=MODELS["anthropic"], view=ClaudeView(), programs=processes_of)


def _parts(request: Captured) -> list[dict[str, Any]]:
    contents = [message["content"] for message in request.body["messages"]]
    return [part for content in contents if isinstance(content, list) for part in content]
