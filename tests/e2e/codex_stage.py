"""The real Codex program on a stage, against a scripted Responses API on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e import captured
from tests.e2e.model_stage import Player
from tests.e2e.view import View
from tests.waiting import PATIENCE
from toolstead.testing import Captured

__all__ = ["CODEX", "MODEL", "PATIENCE", "CodexView", "processes_of"]

MODEL = "openai:gpt-6.1-sol"
"""The one it takes by itself."""
_HEAD = re.compile(r"Wall time: [\d.]+ seconds?\nOutput:\n")
"""What Codex puts before each result."""
_BESIDE = ("<environment_context>", "<turn_aborted>")
"""What it says in the name of the user."""


class CodexView(View):
    """Codex keeps our tools in a namespace, spells them its own way, and shows a thread the tools of its beginning."""

    own = frozenset({"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"})
    interrupted = ("aborted", "was cancelled")  # its own word, or ours where that comes first
    reloads_within_a_turn = False
    knows_prices = False

    def spelled(self, name: str) -> str:
        return name.replace("-", "_")

    def ordered(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self.spelled)

    def offered(self, request: Captured) -> dict[str, dict[str, Any]]:
        (ours,) = [tool for tool in _tools(request) if tool.get("name") == "mcp__toolstead"]
        assert ours["type"] == "namespace"
        return {tool["name"]: tool["parameters"] for tool in ours["tools"]}

    def own_in(self, request: Captured) -> set[str]:
        found: set[str] = set()
        for tool in _tools(request):
            inner = tool["tools"] if tool.get("type") == "namespace" else [tool]
            if tool.get("name") != "mcp__toolstead":
                found |= {one.get("name", one["type"]) for one in inner}
        return found

    def results(self, request: Captured) -> list[str]:
        return [self.plain(text) for text in captured.results_of(request)]

    def spoken(self, request: Captured) -> list[str]:
        return [text for text in captured.user_texts(request) if not text.startswith(_BESIDE)]

    def plain(self, text: str | None) -> str:
        return _HEAD.sub("", text or "")

    def called(self, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return sorted(events, key=lambda data: data["callId"])


def _tools(request: Captured) -> list[dict[str, Any]]:
    """What is offered: beside the messages, or as the first of them, as the model wants it."""
    spoken = [item for item in request.body["input"] if item.get("type") == "additional_tools"]
    return [*request.body.get("tools", []), *(tool for item in spoken for tool in item["tools"])]


def processes_of(home: Path) -> list[int]:
    """The processes that live in a Codex home, by what they were started with."""
    wanted = f"CODEX_HOME={home}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            surroundings = path.read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if wanted in surroundings:
            found.append(int(path.parent.name))
    return found


CODEX = Player(
    name="codex", runtime="codex", model=MODEL, view=CodexView(), programs=processes_of, shares_its_program=True
)
