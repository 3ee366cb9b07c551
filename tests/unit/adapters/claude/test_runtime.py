from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.claude.runtime import ClaudeRuntime
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import SessionSpec

KEYS = {"ANTHROPIC_API_KEY": "a key"}


def runtime(folder: Path, **more: Any) -> ClaudeRuntime:
    given: dict[str, Any] = {"environ": {}, "lookup": KEYS.get, "offered": lambda spec: [], "folder": folder / "kept"}
    return ClaudeRuntime(**{**given, **more})


@pytest.fixture
def spec(tmp_path: Path) -> SessionSpec:
    return SessionSpec(agent="main", model="", cwd=tmp_path)


def test_making_one_costs_nothing(tmp_path: Path) -> None:
    made = runtime(tmp_path)
    assert (made.name, made.owns_process) == ("claude", True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", "anthropic:claude-sonnet-5-5"),
        ("opus", "anthropic:claude-opus-5-5"),
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
        ("anthropic:claude-x", "anthropic:claude-x"),
    ],
)
def test_a_model_of_anthropics_is_found_by_its_name(tmp_path: Path, asked: str, found: str) -> None:
    assert runtime(tmp_path).resolve_model(asked) == found


def test_a_login_has_a_model_of_its_own(tmp_path: Path) -> None:
    assert runtime(tmp_path, login=True).resolve_model("") == ""
    assert runtime(tmp_path, login=True).resolve_model("opus") == "anthropic:claude-opus-5-5"


@pytest.mark.parametrize("asked", ["gpt-6.1-terra", "google:gemini-3.8-flash", "opsu"])
def test_another_model_is_refused_with_what_would_be_right(tmp_path: Path, asked: str) -> None:
    with pytest.raises(RuntimeFailureError, match=r"anthropic:claude-|opus"):
        runtime(tmp_path).resolve_model(asked)


async def test_a_missing_extra_says_what_to_install(
    tmp_path: Path, spec: SessionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("claude_agent_sdk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with pytest.raises(RuntimeFailureError, match=r'pip install .*"claude-agent-sdk[<>=]'):
        await runtime(tmp_path).open(spec, thread_id="t")


@pytest.mark.requires("claude")
async def test_a_missing_program_is_named(tmp_path: Path, spec: SessionSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    import claude_agent_sdk

    monkeypatch.setattr(claude_agent_sdk, "__file__", str(tmp_path / "claude_agent_sdk" / "__init__.py"))
    with pytest.raises(RuntimeFailureError, match=r"has no program: .*_bundled"):
        await runtime(tmp_path).open(spec, thread_id="t")


@pytest.mark.requires("claude")
async def test_a_program_on_the_path_will_do_and_what_it_says_when_it_fails_is_told(
    tmp_path: Path, spec: SessionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    import claude_agent_sdk

    monkeypatch.setattr(claude_agent_sdk, "__file__", str(tmp_path / "claude_agent_sdk" / "__init__.py"))
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho the moon is full >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(RuntimeFailureError, match="the moon is full"):
        await runtime(tmp_path, environ={"PATH": str(tmp_path)}).open(spec, thread_id="t")


@pytest.mark.parametrize("resume", ["conv-1", "", "--help", "0" * 36, "{00000000-0000-0000-0000-000000000000}"])
async def test_what_is_no_id_of_claudes_is_a_lost_conversation(tmp_path: Path, spec: SessionSpec, resume: str) -> None:
    with pytest.raises(SessionLostError):
        await runtime(tmp_path).open(spec, thread_id="t", resume=resume)


@pytest.mark.requires("claude")
async def test_without_a_key_nothing_is_started(tmp_path: Path, spec: SessionSpec) -> None:
    with pytest.raises(RuntimeFailureError, match="ANTHROPIC_API_KEY"):
        await runtime(tmp_path, lookup=lambda name: None).open(spec, thread_id="t")


async def test_a_tool_that_cannot_be_claudes_own_is_refused_before_anything_is_started(
    tmp_path: Path, spec: SessionSpec
) -> None:
    with pytest.raises(RuntimeFailureError, match=r"runtime\.claude\.tools"):
        await runtime(tmp_path, tools=["Bash(rm:*)"]).open(spec, thread_id="t")
