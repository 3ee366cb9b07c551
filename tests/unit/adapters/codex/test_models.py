from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.codex.program import write_models
from toolstead.errors import RuntimeFailureError

SAID: dict[str, Any] = {"supports_search_tool": False, "experimental_supported_tools": []}


def program(folder: Path, says: Any, status: int = 0) -> Path:
    """A program that says something of its models."""
    path = folder / "program"
    text = says if isinstance(says, str) else json.dumps(says)
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit {status}\n")
    path.chmod(0o700)
    return path


def test_what_hides_tools_is_not_said_and_everything_else_is(tmp_path: Path) -> None:
    told = {"slug": "m", "tool_mode": "code_mode_only", "multi_agent_version": "v2", "supports_search_tool": True}
    more = {"experimental_supported_tools": ["clock"], "use_responses_lite": True, "context_window": 5}
    path = write_models(program(tmp_path, {"models": [told | more]}), tmp_path, {"PATH": "/bin:/usr/bin"})
    (model,) = json.loads(path.read_text())["models"]
    assert model == {
        "slug": "m",
        "supports_search_tool": False,
        "experimental_supported_tools": [],
        "use_responses_lite": True,
        "context_window": 5,
    }


def test_it_is_written_once_and_anew_for_another_program(tmp_path: Path) -> None:
    environ = {"PATH": "/bin:/usr/bin"}
    first = write_models(program(tmp_path, {"models": [{"slug": "m"}]}), tmp_path, environ)
    before = first.stat()
    assert write_models(tmp_path / "program", tmp_path, {}) == first  # nothing is started any more: it has no PATH
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert json.loads(first.read_text()) == {"models": [{"slug": "m", **SAID}]}
    other = write_models(program(tmp_path, {"models": [{"slug": "another"}]}), tmp_path, environ)
    assert json.loads(other.read_text()) == {"models": [{"slug": "another", **SAID}]}
    assert other != first
    assert not list(tmp_path.glob(".models-*"))
    assert first.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("says", "status"), [("no JSON", 0), ("[]", 0), ("{}", 0), ({"models": ["m"]}, 0), ({"models": []}, 3)]
)
def test_a_program_that_does_not_tell_its_models_is_not_used(tmp_path: Path, says: Any, status: int) -> None:
    with pytest.raises(RuntimeFailureError, match="it would hide our tools"):
        write_models(program(tmp_path, says, status), tmp_path, {"PATH": "/bin:/usr/bin"})


def test_what_the_program_says_of_its_failure_is_told(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\necho no such word >&2\nexit 3\n")
    path.chmod(0o700)
    with pytest.raises(RuntimeFailureError, match="it ended with status 3: no such word"):
        write_models(path, tmp_path, {"PATH": "/bin:/usr/bin"})


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match="nowhere"):
        write_models(tmp_path / "nowhere", tmp_path, {})
