"""`make install` puts a command on the PATH that works from anywhere; `make uninstall` takes it away again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import ENVIRONMENT

ROOT = Path(__file__).parents[2]
FETCHING = ("PIP_", "SSL_", "REQUESTS_")

pytestmark = pytest.mark.requires("index")


def command(*words: str, home: Path, cwd: Path = ROOT, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    """Run a command as a new user would: an empty home, and nothing of ours on the PATH."""
    kept = {name: value for name, value in ENVIRONMENT.items() if name.startswith(FETCHING)}
    return subprocess.run(
        words,
        cwd=cwd,
        env={**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "SHELL": "/bin/bash"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=280,
        check=False,
    )


def make(*words: str, home: Path, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    return command("make", *words, f"PYTHON={sys.executable}", home=home, path=path)


def test_install_gives_a_command_that_works_anywhere_and_uninstall_takes_only_that(tmp_path: Path) -> None:
    links, mine = tmp_path / ".local" / "bin", tmp_path / ".config" / "toolstead" / "tools"
    mine.mkdir(parents=True)
    (mine / "mine.json").write_text('{"name": "mine", "tools": []}', "utf-8")

    installed = make("install", home=tmp_path)
    assert installed.returncode == 0, installed.stderr
    assert 'export PATH="$HOME/.local/bin:$PATH"' in installed.stdout
    on_path = f"{links}:{os.defpath}"
    shown = command("toolstead", "tools", "list", home=tmp_path, cwd=Path("/usr"), path=on_path)
    assert shown.returncode == 0, shown.stderr
    where = "import toolstead; print(toolstead.__file__)"
    python = links.parent / "share" / "toolstead" / "app" / "bin" / "python"
    imported = Path(command(str(python), "-c", where, home=tmp_path, cwd=Path("/usr")).stdout.strip())
    assert not imported.is_relative_to(ROOT), "it needs the checkout"

    refused = make("install", "EXTRAS=modles", home=tmp_path)
    assert refused.returncode != 0
    assert "there is no 'modles'; there are: claude codex keyring models postgres" in refused.stderr
    again = make("install", "EXTRAS=postgres", home=tmp_path, path=on_path)
    assert again.returncode == 0, again.stderr
    assert "Next: toolstead connect" in again.stdout
    assert command(str(python), "-c", "import asyncpg", home=tmp_path).returncode == 0

    codex, cursor = tmp_path / ".codex" / "config.toml", tmp_path / ".cursor" / "mcp.json"
    codex.parent.mkdir()
    codex.write_text('model = "x"\n', "utf-8")
    for arguments in (["codex"], ["codex", "--name", "second"], ["cursor"]):
        connected = command("toolstead", "connect", *arguments, home=tmp_path, cwd=Path("/usr"), path=on_path)
        assert connected.returncode == 0, connected.stderr
    another = '{"mcpServers": {"toolstead": {"command": "/srv/toolstead", "args": ["mcp"]}}}'
    cursor.write_text(another, "utf-8")

    removed = make("uninstall", home=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert "Codex is not connected any more (second)." in removed.stdout
    assert codex.read_text("utf-8") == 'model = "x"\n'
    assert cursor.read_text("utf-8") == another
    assert not (links / "toolstead").is_symlink()
    assert not python.parent.parent.exists()
    assert (mine / "mine.json").exists()


def test_what_somebody_else_put_there_is_not_touched(tmp_path: Path) -> None:
    theirs = tmp_path / ".local" / "bin" / "toolstead"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs", "utf-8")
    app = tmp_path / ".local" / "share" / "toolstead" / "app"

    assert f"{theirs} is there already, and not ours" in make("install", home=tmp_path).stderr
    assert "not this installation's" in make("uninstall", home=tmp_path).stdout
    assert theirs.read_text("utf-8") == "theirs"
    app.mkdir(parents=True)
    (app / "notes.txt").write_text("theirs", "utf-8")
    assert make("uninstall", home=tmp_path).returncode != 0
    assert (app / "notes.txt").exists()
