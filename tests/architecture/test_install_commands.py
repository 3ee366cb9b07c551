"""No command that we print or document asks an index for a package of our name: nobody released it, so it would be
somebody else's."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import module_name, parsed, shown, source_files
from toolstead.adapters import installing
from toolstead.adapters.installing import install_command, reinstall_command, required_by

ROOT = Path(__file__).parents[2]
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Makefile", *(ROOT / "requirements").glob("*.in")]
INSTALLER = "toolstead.adapters.installing"
COMMAND = re.compile(
    r"(?:\bpip3?|\buv(?: pip| tool)?|\bpipx|\bpdm|\bpoetry)\s+(?:install|add|inject|run|sync)\b[^`\n]*"
    r"|\buvx\s+\w[^`\n]*"
)
OUR_NAME = re.compile(r"(?<![\w./-])toolstead(?:\[[\w,-]*\])?(?:[=<>~!][^\s\"']*)?(?=[\s\"'`)]|$)", re.IGNORECASE)
EXTRAS = [
    name
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if name != "all"
]


def commands(text: str) -> list[str]:
    return [found.group() for found in COMMAND.finditer(text)]


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('pip install "toolstead[models]"', True),
        ("pip install toolstead", True),
        ("pip install -U toolstead==1.0", True),
        ("uv tool install toolstead --with shouty", True),
        ("uvx toolstead serve", True),
        ("`pipx install toolstead`", True),
        ('pip install ".[models]"', False),
        ("pip install dist/toolstead-0.1.0-py3-none-any.whl", False),
        ('pip install "/home/me/toolstead[claude]"', False),
        ('pip install "claude-agent-sdk<0.3"', False),
    ],
)
def test_a_command_that_asks_an_index_for_us_is_seen(text: str, asks: bool) -> None:
    (command,) = commands(text)
    assert bool(OUR_NAME.search(command.partition("#")[0])) is asks


def test_no_documented_command_asks_an_index_for_us() -> None:
    found = {(path.name, command) for path in TEXTS for command in commands(path.read_text(encoding="utf-8"))}
    assert len(found) >= 5, "the commands of the docs are not found any more"
    assert not [one for one in found if OUR_NAME.search(one[1].partition("#")[0])]


def test_only_one_module_writes_install_commands() -> None:
    elsewhere = [
        f"{shown(path, node.lineno)}: {node.value!r}"
        for path in source_files()
        if module_name(path) != INSTALLER
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and commands(node.value)
    ]
    assert not elsewhere, f"say it with {INSTALLER}: {elsewhere}"


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("pip", ["here", "elsewhere", "nowhere"])
def test_the_command_of_an_extra_names_what_it_requires_and_never_us(
    extra: str, pip: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installing.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(installing, "which", lambda _: str(tmp_path / "pip") if pip == "here" else "/usr/bin/pip")
    monkeypatch.setattr(installing, "find_spec", lambda _: None if pip == "nowhere" else object())
    command = install_command(extra)
    assert required_by(extra)
    assert all(f'"{requirement}"' in command for requirement in required_by(extra))
    assert "pip install" in command
    for said in (command, reinstall_command("claude-agent-sdk")):
        assert not OUR_NAME.search(said)


def test_make_and_pipx_are_asked_where_they_made_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installing.sys, "prefix", str(tmp_path))
    (tmp_path / "extras").touch()
    monkeypatch.setattr(installing, "_find_checkout", lambda: tmp_path / "my checkout")
    assert install_command("models") == f"make -C '{tmp_path}/my checkout' install EXTRAS=models"
    monkeypatch.setattr(installing, "_find_checkout", lambda: None)  # it is gone: pip still works
    assert "pip install" in install_command("models")
    (tmp_path / "extras").unlink()
    (tmp_path / "pipx_metadata.json").touch()
    assert install_command("keyring") == f'pipx inject {tmp_path.name} "{required_by("keyring")[0]}"'


def test_a_checkout_that_nobody_installed_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "_DISTRIBUTION", "no-such-package-anywhere")
    assert required_by("claude") == [f"{ROOT}[claude]"]
