from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.claude.launch import Launch, Launches, own_tools
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec

ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "LC_TIME": "C",
    "https_proxy": "http://proxy",
    "SSL_CERT_FILE": "/certs",
    "ANTHROPIC_API_KEY": "the key",
    "ANTHROPIC_BASE_URL": "http://models",
    "ANTHROPIC_AUTH_TOKEN": "a token",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "OPENAI_API_KEY": "another key",
    "GITHUB_TOKEN": "a third",
    "PYTHONPATH": "/elsewhere",
}


def launched(
    folder: Path, *, environ: dict[str, str] = ENVIRON, login: bool = False, resume: str | None = None, **spec: Any
) -> Launch:
    launches = Launches(environ=environ, lookup=environ.get, folder=folder / "kept", login=login, max_turns=7)
    given = SessionSpec(**{"agent": "main", "model": "anthropic:claude-x", "cwd": folder, **spec})
    return launches.prepare_launch(
        Path("/bin/claude"), given, instructions="Be brief.", own=("Bash", "Read"), resume=resume
    )


def test_only_what_is_listed_is_passed_on_and_no_key_at_all(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    environment = launch.environment
    passed = {name for name in ENVIRON if name in environment}
    assert passed == {"PATH", "HOME", "LC_TIME", "https_proxy", "SSL_CERT_FILE", "ANTHROPIC_BASE_URL"}
    assert "the key" not in environment.values()
    assert launch.key == "the key"
    assert "the key" not in repr(launch)


def test_everything_is_kept_in_the_private_folder(tmp_path: Path) -> None:
    environment = launched(tmp_path).environment
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR", "XDG_CACHE_HOME"):
        place = Path(environment[name])
        assert place.is_relative_to(tmp_path / "kept")
        assert place.stat().st_mode & 0o077 == 0


def test_with_a_login_the_users_own_configuration_counts_and_no_key_is_needed(tmp_path: Path) -> None:
    launch = launched(tmp_path, environ=ENVIRON | {"CLAUDE_CONFIG_DIR": "/home/ada/own"}, login=True)
    assert launch.environment["CLAUDE_CONFIG_DIR"] == "/home/ada/own"
    assert launch.environment["ANTHROPIC_AUTH_TOKEN"] == "a token"
    assert "XDG_CACHE_HOME" not in launch.environment
    assert "OPENAI_API_KEY" not in launch.environment
    assert "--setting-sources=user" in launch.argv
    bare = {"PATH": "/bin", "HOME": "/home/ada"}
    assert not launched(tmp_path, environ=bare, login=True).key


def test_without_a_key_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match=r"ANTHROPIC_API_KEY.*runtime\.claude\.login"):
        launched(tmp_path, environ={"PATH": "/bin", "ANTHROPIC_API_KEY": "  "})


def test_the_arguments_switch_off_what_nobody_named_and_let_nobody_be_asked(tmp_path: Path) -> None:
    argv = launched(tmp_path).argv
    assert argv[0] == "/bin/claude"
    said = dict(itertools.pairwise(argv))
    assert said["--tools"] == "Bash,Read"
    assert said["--allowedTools"] == "mcp__toolstead"  # Claude's own go through our hook, or nowhere
    assert said["--permission-mode"] == "dontAsk"
    assert said["--max-turns"] == "7"
    assert said["--model"] == "claude-x"
    assert json.loads(said["--mcp-config"]) == {"mcpServers": {"toolstead": {"type": "sdk", "name": "toolstead"}}}
    assert "--strict-mcp-config" in argv
    assert "--setting-sources=" in argv
    assert not any("resume" in word or "bypass" in word or "Be brief" in word for word in argv)
    assert Path(said["--system-prompt-file"]).read_text() == "Be brief."


def test_a_model_of_claudes_own_choice_is_not_named_and_a_conversation_is_resumed_by_one_word(tmp_path: Path) -> None:
    argv = launched(tmp_path, model="", resume="the-id").argv
    assert "--model" not in argv
    assert argv[-1] == "--resume=the-id"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(RuntimeFailureError, match="cannot write its files"):
        launched(tmp_path)


@pytest.mark.parametrize("name", ["Bash(git:*)", "Bash,Read", "", "mcp__other__tool", "--tools", "a" * 65])
def test_what_cannot_be_a_tool_of_claudes_own_is_refused(name: str) -> None:
    with pytest.raises(RuntimeFailureError, match=r"runtime\.claude\.tools"):
        own_tools(("Read",), (name,))


def test_tools_that_are_named_twice_count_once() -> None:
    assert own_tools(("Bash", "Read"), ("Read", "Glob")) == ("Bash", "Read", "Glob")
