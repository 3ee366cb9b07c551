from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.codex.runtime import CodexRuntime
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec


def runtime(folder: Path, **more: Any) -> CodexRuntime:
    return CodexRuntime(offered=lambda spec: [], folder=folder, lookup={}.get, **more)


@pytest.mark.parametrize(
    ("asked", "full"),
    [
        ("gpt-9", "openai:gpt-9"),
        ("openai:gpt-9", "openai:gpt-9"),
        ("codex-of-its-own", "openai:codex-of-its-own"),
        ("openai:ft:gpt-9:house::x1", "openai:ft:gpt-9:house::x1"),
    ],
)
def test_a_model_is_named_in_full(tmp_path: Path, asked: str, full: str) -> None:
    assert runtime(tmp_path).resolve_model(asked) == full


def test_without_any_name_codex_chooses(tmp_path: Path) -> None:
    assert runtime(tmp_path).resolve_model("") == ""


@pytest.mark.parametrize("asked", ["anthropic:claude-sonnet-5-5", "sonnet", "gemini-3.8-flash"])
def test_a_model_of_another_vendor_is_refused(tmp_path: Path, asked: str) -> None:
    with pytest.raises(RuntimeFailureError, match="runs OpenAI's models"):
        runtime(tmp_path).resolve_model(asked)


def test_only_a_shell_can_be_permitted(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match="web_search"):
        runtime(tmp_path, tools=["web_search"])


def test_nothing_can_be_permitted_where_our_gates_cannot_stand(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match="own login"):
        runtime(tmp_path, tools=["shell"], login=True)


async def test_a_permission_of_an_agent_is_checked_before_anything_starts(tmp_path: Path) -> None:
    spec = SessionSpec(agent="main", model="", cwd=tmp_path, permissions=("Bash",))
    with pytest.raises(RuntimeFailureError, match="Bash"):
        await runtime(tmp_path).open(spec, thread_id="t")


async def test_without_a_key_no_session_is_opened(tmp_path: Path, requires) -> None:
    requires("codex")
    with pytest.raises(RuntimeFailureError, match="OPENAI_API_KEY"):
        await runtime(tmp_path).open(SessionSpec(agent="main", model="", cwd=tmp_path), thread_id="t")
