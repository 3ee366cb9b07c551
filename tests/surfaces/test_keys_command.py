"""`toolstead keys`: kept privately, never shown, and each with the place it comes from."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path

import keyring
import pytest

from tests.flows.key_drawer import keyring_of_the_test
from tests.programs.running import TOOLSTEAD
from tests.surfaces.talking_project import Project
from tests.waiting import PATIENCE
from toolstead.app.kept_keys import KeptKeys
from toolstead.app.key_file import KeyFile
from toolstead.app.keys import Keys, KeyWatcher
from toolstead.app.secret_mask import SecretMask
from toolstead.app.settings import Settings
from toolstead.errors import StateError
from toolstead.tools.handlers.secrets import MASK
from toolstead.tools.registry import Registry

pytestmark = pytest.mark.requires("keyring")

KEY = "sk-ant-never-shown-0123456789"
NAME = "ANTHROPIC_API_KEY"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    # Never the keyring of the person who runs the tests.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    (tmp_path / "project" / ".toolstead").mkdir(parents=True)
    return Project(tmp_path / "project", home / ".config" / "toolstead")


def test_a_key_as_an_argument_is_refused_and_not_repeated(project: Project) -> None:
    done = project.command("keys", "set", "anthropic", "sk-ant-123")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`toolstead keys set anthropic` asks for it" in done.stderr
    assert "sk-ant-123" not in done.stderr


def file_of(project: Project) -> Path:
    return project.home / "data" / "keys.json"


def test_a_key_is_kept_in_a_private_file_listed_by_its_end_and_removed(project: Project) -> None:
    kept = project.command("keys", "set", "anthropic", stdin=f" {KEY}\n")
    assert (kept.returncode, kept.stdout) == (0, "")
    assert kept.stderr == f"{NAME} is kept in {file_of(project)}.\n"
    assert stat.S_IMODE(file_of(project).stat().st_mode) == 0o600
    assert json.loads(file_of(project).read_text(encoding="utf-8"))["keys"] == {NAME: KEY}
    listed = project.json("keys", "list", "--json")
    assert listed == {"keys": [{"name": NAME, "origin": "keys.json", "ending": KEY[-4:], "used": True}]}
    over = project.command("keys", "list", **{NAME: "short"})
    assert over.stdout.splitlines()[1:] == [
        f"{NAME}  …        the environment",
        f"{NAME}  …6789    keys.json (another one counts)",
    ]
    assert "Anthropic: ANTHROPIC_API_KEY from keys.json" in project.command("doctor").stdout
    assert project.command("keys", "remove", NAME.lower()).returncode == 0
    assert KEY not in file_of(project).read_text(encoding="utf-8")
    assert project.command("keys", "remove", NAME).returncode == 2


def test_a_key_that_is_typed_on_a_terminal_is_not_shown(project: Project) -> None:
    master, slave = pty.openpty()
    command = subprocess.Popen(
        [*TOOLSTEAD, "keys", "set", "openai"], cwd=project.folder, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    try:
        while b"(it is not shown)" not in shown:
            shown += os.read(master, 65_536)
        os.write(master, f"{KEY}\n".encode())
        while data := os.read(master, 65_536):
            shown += data
    except OSError:  # it has ended, and closed its end
        pass
    finally:
        os.close(master)
    assert command.wait(PATIENCE) == 0
    assert KEY.encode() not in shown
    assert KeyFile(project.home / "data").read().keys == {"OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("TICKET_TOKEN", KEY, "tools take secrets from the environment: docs/tools.md#secrets"),
        ("OPENAI_KEY", KEY, "there is no key 'OPENAI_KEY'; did you mean 'OPENAI_API_KEY'?"),
        ("opnai", KEY, "there is no key 'opnai'; did you mean 'openai'?"),
        ("ANTROPIC_API_KEY", KEY, "did you mean 'ANTHROPIC_API_KEY'?"),
        ("ANTHROPIC_BASE_URL", KEY, "did you mean 'ANTHROPIC_API_KEY'?"),
        ("nothing-like-it", KEY, "tools take their own secrets from the environment"),
        ("anthropic", " \n", "no key was given; ANTHROPIC_API_KEY is unchanged"),
        ("anthropic", f"export {NAME}={KEY}", f"that is a whole assignment; give what stands after {NAME}="),
        ("anthropic", f"{KEY}\nmore", "that is no key: it has spaces, line breaks or letters that no key has"),
        ("anthropic", "k" * 5000, "that is no key: it has more than 4,096 characters"),
    ],
)
def test_what_is_no_key_is_refused_in_words_that_do_not_repeat_it(
    project: Project, name: str, given: str, said: str
) -> None:
    done = project.command("keys", "set", name, "--stdin", stdin=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert KEY not in done.stderr
    assert not file_of(project).exists()


@pytest.mark.parametrize("wrong", ["link", "mode", "content"])
def test_a_file_that_is_not_private_is_neither_used_nor_written(project: Project, wrong: str, tmp_path: Path) -> None:
    file = file_of(project)
    file.parent.mkdir(parents=True)
    content = json.dumps({"keys": {NAME: KEY}}) if wrong != "content" else "[]"
    real = tmp_path / "elsewhere.json" if wrong == "link" else file
    real.write_text(content, encoding="utf-8")
    real.chmod(0o644 if wrong == "mode" else 0o600)
    if wrong == "link":
        file.symlink_to(real)
    done = project.command("keys", "set", "openai", stdin=KEY)
    assert done.returncode == 2
    assert f"the keys in {file} are not used: " in done.stderr
    assert real.read_text(encoding="utf-8") == content
    doctor = project.command("doctor")
    assert doctor.stderr.startswith(f"toolstead.app.keys: the keys in {file} are not used: ")
    assert "from keys.json" not in doctor.stdout


def test_only_keys_count_that_are_looked_up_and_never_an_address(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    file.record_key(NAME, key=KEY)
    file.record_key("ANTHROPIC_BASE_URL", key="https://evil.example")
    keys = Keys({}, file)
    assert (keys(NAME), keys("ANTHROPIC_BASE_URL")) == (KEY, None)
    assert Keys({NAME: "mine"}, file)(NAME) == "mine"
    assert SecretMask(keys, Registry(()), Settings)()(f"<{KEY}>") == f"<{MASK}>"


def test_the_keyring_keeps_a_key_where_there_is_one_and_the_file_only_its_name(tmp_path: Path) -> None:
    kept = KeptKeys(tmp_path, environ={})
    KeyFile(tmp_path).record_key(NAME, key="an older one")
    with keyring_of_the_test() as drawer:
        assert kept.set_key(NAME, KEY) == "the keyring"
        assert drawer.kept == {("toolstead", NAME): KEY}
        assert "an older one" not in (tmp_path / "keys.json").read_text(encoding="utf-8")
        assert [(one.name, one.origin) for one in kept.list_keys()] == [(NAME, "the keyring")]
        assert kept.remove_key(NAME) == ["the keyring"]
        assert (drawer.kept, KeyFile(tmp_path).read().keyring) == ({}, ())
        drawer.fails = keyring.errors.KeyringLocked("it is locked")
        with pytest.raises(StateError, match=r"the keyring cannot be asked for .*: it is locked"):
            kept.remove_key(NAME)


async def test_a_key_that_changes_in_the_keyring_is_asked_for_again(tmp_path: Path) -> None:
    kept, keys = KeptKeys(tmp_path, environ={}), Keys({}, KeyFile(tmp_path))
    changed: list[tuple[str, ...]] = []

    async def note(stored: object) -> None:
        changed.append(getattr(stored, "keyring", ()))

    watcher = KeyWatcher(keys, KeyFile(tmp_path), note)
    with keyring_of_the_test():
        for key in ("first-0123456789", "second-0123456789"):
            kept.set_key(NAME, key)
            await watcher.check()
            keys.load([NAME])
            assert keys(NAME) == key
        await watcher.check()
    assert changed == [(NAME,), (NAME,)]
