from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolstead.adapters.codex.program import OFF, prepare_program
from toolstead.errors import RuntimeFailureError

KEY = {"OPENAI_API_KEY": "sk-secret", "PATH": "/bin"}


def given(command: Sequence[str]) -> dict[str, str]:
    """The settings on a command line."""
    return dict(word.split("=", 1) for before, word in itertools.pairwise(command) if before == "-c")


@pytest.mark.requires("codex")
class TestPrepared:
    def test_the_environment_is_an_allow_list_and_the_key(self, tmp_path: Path) -> None:
        folder = tmp_path / "codex"
        environ = {**KEY, "HOME": "/elsewhere", "AWS_SECRET": "x", "HTTPS_PROXY": "http://p", "NO_PROXY": "here"}
        program = prepare_program(folder=folder, lookup=environ.get, login=False)
        assert program.environ["OPENAI_API_KEY"] == "sk-secret"
        assert program.environ["HOME"] == program.environ["CODEX_HOME"] == str(folder)
        assert program.environ["PATH"].endswith(":/bin")
        assert program.environ["HTTPS_PROXY"] == "http://p"
        assert program.environ["NO_PROXY"] == "here,127.0.0.1,localhost,::1"
        assert "AWS_SECRET" not in program.environ
        assert "sk-secret" not in " ".join(program.command)
        assert folder.stat().st_mode & 0o777 == 0o700

    def test_everything_that_acts_or_looks_elsewhere_is_off(self, tmp_path: Path) -> None:
        lookup = {**KEY, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}.get
        program = prepare_program(folder=tmp_path, lookup=lookup, login=False)
        settings = given(program.command)
        assert all(settings[f"features.{name}"] == "false" for name in OFF)
        assert settings["sandbox_mode"] == '"read-only"'
        assert settings["approval_policy"] == '"never"'
        assert settings["web_search"] == '"disabled"'
        assert settings["project_doc_max_bytes"] == "0"
        assert settings["model_providers.toolstead.base_url"] == '"http://127.0.0.1:1/v1"'
        assert settings["model_providers.toolstead.env_key"] == '"OPENAI_API_KEY"'

    def test_without_a_key_it_says_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeFailureError, match="set OPENAI_API_KEY"):
            prepare_program(folder=tmp_path, lookup={}.get, login=False)

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(RuntimeFailureError, match="file"):
            prepare_program(folder=tmp_path / "file" / "codex", lookup=KEY.get, login=False)

    def test_a_login_is_used_without_a_key_and_without_their_servers(self, tmp_path: Path) -> None:
        theirs = tmp_path / ".codex"
        theirs.mkdir()
        (theirs / "config.toml").write_text('[mcp_servers.git-hub]\ncommand = "x"\n')
        program = prepare_program(folder=tmp_path / "own", lookup={**KEY, "HOME": str(tmp_path)}.get, login=True)
        settings = given(program.command)
        assert program.environ["CODEX_HOME"] == str(theirs)
        assert "OPENAI_API_KEY" not in program.environ
        assert settings["mcp_servers.git-hub.enabled"] == "false"
        assert "model_provider" not in settings
        assert settings["sandbox_mode"] == '"read-only"'

    def test_a_login_needs_a_home(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeFailureError, match="HOME is not set"):
            prepare_program(folder=tmp_path, lookup={}.get, login=True)

    @pytest.mark.parametrize(("text", "said"), [("= nonsense", "config.toml"), ('[mcp_servers."a.b"]\n', "'a.b'")])
    def test_a_login_whose_servers_cannot_be_switched_off_is_refused(
        self, tmp_path: Path, text: str, said: str
    ) -> None:
        (tmp_path / "config.toml").write_text(text)
        lookup = {"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}.get
        with pytest.raises(RuntimeFailureError, match=said):
            prepare_program(folder=tmp_path / "own", lookup=lookup, login=True)


def test_a_missing_extra_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    with pytest.raises(RuntimeFailureError, match=r'pip install .*"openai-codex[<>=]'):
        prepare_program(folder=tmp_path, lookup=KEY.get, login=False)
