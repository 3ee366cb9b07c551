"""The official MCP conformance suite against tools that are written with the public API alone.

For each revision of the protocol the suite names what it requires of a server. Everything it names
stands in one of the two lists below: what must pass, and what Toolstead does not offer.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import node_packages
from tests.programs.running import HANDSHAKE, MODERN, PROGRAMS, served

pytestmark = [pytest.mark.requires("node"), pytest.mark.promise("B6"), pytest.mark.timeout(700)]

CALLS = {
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-simple-text",
    "tools-call-with-progress",
    "tools-list",
}
PROMPTS = {
    f"prompts-{name}" for name in ("list", "get-simple", "get-with-args", "get-embedded-resource", "get-with-image")
}
RESOURCES = {f"resources-{name}" for name in ("list", "read-text", "read-binary", "templates-read")}
OFFERED = CALLS | PROMPTS | RESOURCES | {"completion-complete"}
REQUIRED = {
    HANDSHAKE: OFFERED
    | {
        "dns-rebinding-protection",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "logging-set-level",
        "ping",
        "server-initialize",
        "server-sse-multiple-streams",
        "tools-call-elicitation",
        "tools-call-sampling",
        "tools-call-with-logging",
    },
    # This revision has no `initialize` and no `ping`; what asks a client is in the results of its calls.
    MODERN: OFFERED
    | {
        "caching",
        "dns-rebinding-protection",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "server-stateless",
    }
    | {
        f"input-required-result-{name}"
        for name in (
            "basic-elicitation",
            "basic-sampling",
            "capability-check",
            "ignore-extra-params",
            "missing-input-response",
            "multi-round",
            "request-state",
            "result-type",
            "tampered-state",
            "unsupported-methods",
            "validate-input",
        )
    },
}
BEYOND = {
    HANDSHAKE: {"json-schema-2020-12", "server-session-lifecycle"},
    MODERN: {"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"},
}
"""What the suite has and does not require (yet), and passes."""

NOT_OFFERED = {
    # Results do not change, and of the others clients are told that the list changed (docs/mcp.md).
    HANDSHAKE: {"resources-subscribe", "resources-unsubscribe"},
    # Roots are not asked for: the revision itself deprecates them. A prompt asks nobody.
    MODERN: {
        f"input-required-result-{name}" for name in ("basic-list-roots", "multiple-input-requests", "non-tool-request")
    },
}
NOT_OFFERED_BEYOND = {
    # Streams that are resumed after they broke: needs a store of events.
    HANDSHAKE: {"server-sse-polling"},
    # The tasks extension.
    MODERN: {
        f"tasks-{name}"
        for name in (
            "capability-negotiation",
            "dispatch-and-envelope",
            "lifecycle",
            "mrtr-composition",
            "mrtr-input",
            "request-headers",
            "request-state-removal",
            "required-task-error",
            "status-notifications",
            "wire-fields",
        )
    },
}
"""What the suite has besides, and neither it requires nor we offer."""


def listed(revision: str, folder: Path) -> tuple[set[str], set[str]]:
    """What the suite itself says: the server scenarios it requires, and those it has besides."""
    done = node_packages.run(node_packages.CONFORMANCE, "list", "--server", "--requirements", revision, cwd=folder)
    assert done.returncode == 0, done.stderr
    required = done.stdout.partition("Server scenarios")[2].partition("\n\n")[0]
    besides = done.stdout.partition("never scored")[2]
    return set(re.findall(r"- (\S+)", required)), set(re.findall(r"- (\S+) \[server\]", besides))


def results_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Scenario → its checks, as the suite wrote them down."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in folder.glob("server-*/checks.json"):
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert name is not None, path
        assert name[1] not in found, f"{name[1]} ran twice"
        found[name[1]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def failed(checks: list[dict[str, Any]]) -> list[str]:
    """What did not go well; a warning is a recommendation that was not followed."""
    return [
        f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] in {"FAILURE", "WARNING"}
    ]


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_every_scenario_about_what_is_offered_passes(revision: str, packages: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    async with served([sys.executable, str(PROGRAMS / "conformance_server.py")], tmp_path) as (program, address):
        command = ["server", "--url", f"{address}/mcp", "--requirements", revision, "-o", str(out)]
        await asyncio.to_thread(node_packages.run, node_packages.CONFORMANCE, *command, cwd=tmp_path)
        program.process.terminate()
        assert await program.ended() == 0, program.stderr
        assert "Traceback" not in program.stderr
    results = results_in(out)
    claimed = REQUIRED[revision] | BEYOND[revision]
    assert claimed <= results.keys(), f"not run: {claimed - results.keys()}"
    problems = {name: failed(results[name]) for name in sorted(claimed) if failed(results[name])}
    assert not problems, json.dumps(problems, indent=2)
    assert all(any(check["status"] == "SUCCESS" for check in results[name]) for name in claimed)


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
def test_nothing_that_the_suite_has_is_left_out(revision: str, packages: Path, tmp_path: Path) -> None:
    required, besides = listed(revision, tmp_path)
    assert required == REQUIRED[revision] | NOT_OFFERED[revision]
    assert not REQUIRED[revision] & NOT_OFFERED[revision]
    assert besides == BEYOND[revision] | NOT_OFFERED_BEYOND[revision]
    about_tools = {name for name in required if name.startswith("tools-")}
    assert about_tools <= REQUIRED[revision], "no scenario about tools may be left aside"
