"""Where new tool files go, how they get there, and the editor they are opened with."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest

from toolstead.app.authoring import add_file, authoring_folder, find_editor, put_file
from toolstead.app.places import Places
from toolstead.errors import SettingsError, ToolsteadError


def test_a_file_goes_where_the_users_files_are_read_from_or_into_the_project(tmp_path: Path) -> None:
    places = Places(project=tmp_path / "project", user=tmp_path / "user", data=tmp_path / "data")
    assert authoring_folder(places, in_project=False, environ={}) == tmp_path / "user" / "tools"
    named = {"TOOLSTEAD_TOOLS_DIR": str(tmp_path / "other")}
    assert authoring_folder(places, in_project=False, environ=named) == tmp_path / "other"
    assert authoring_folder(places, in_project=True, environ=named) == tmp_path / "project" / ".toolstead" / "tools"


def test_the_editor_is_visual_then_editor_cut_into_words() -> None:
    own = sys.executable
    both = {"VISUAL": f"'{own}' -m 'my editor'", "EDITOR": "no-such-editor"}
    assert find_editor(at_terminal=False, environ=both) == [own, "-m", "my editor"]
    assert find_editor(at_terminal=False, environ={"VISUAL": " ", "EDITOR": own}) == [own]


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
@pytest.mark.parametrize("value", ["'open", "no-such-editor --wait", "''"])
def test_an_editor_that_cannot_be_started_is_an_error_that_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"environment {variable}: "):
        find_editor(at_terminal=True, environ={variable: value, "PATH": os.environ["PATH"]})


def test_without_a_choice_vi_or_nano_is_taken_and_only_at_a_terminal(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert find_editor(at_terminal=True, environ=environ) is None
    for name in ("nano", "vi"):
        (tmp_path / name).touch(0o755)
        assert find_editor(at_terminal=True, environ=environ) == [str(tmp_path / name)]
        assert find_editor(at_terminal=False, environ=environ) is None


def without_links(source: object, target: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_file_is_added_whole_and_never_over_another(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    file = tmp_path / "deep" / "tools" / "a.json"
    add_file(file, b"one")
    with pytest.raises(ToolsteadError, match="exists already; edit that file, or choose another name"):
        add_file(file, b"two")
    dangling = file.with_name("b.json")
    dangling.symlink_to("nowhere")
    with pytest.raises(ToolsteadError, match="exists already"):
        add_file(dangling, b"two")
    assert file.read_bytes() == b"one"
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["a.json", "b.json"]


def test_of_many_who_add_the_same_file_one_does(tmp_path: Path) -> None:
    file, lost = tmp_path / "a.json", list[int]()
    together = threading.Barrier(8)

    def add(number: int) -> None:
        together.wait(30)
        try:
            add_file(file, str(number).encode())
        except ToolsteadError:
            lost.append(number)

    workers = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert sorted([*lost, int(file.read_text())]) == list(range(8))
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_has_the_rights_that_the_user_gives_to_new_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        add_file(tmp_path / "a.json", b"")
        put_file(tmp_path / "b.json", b"")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.json", "b.json")] == [0o640, 0o640]


def test_a_file_is_put_anew_only_when_it_says_something_else(tmp_path: Path) -> None:
    file = tmp_path / "tools" / ".schema.json"
    put_file(file, b"one")
    first = file.stat()
    put_file(file, b"one")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    put_file(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("write", [add_file, put_file])
def test_what_cannot_be_written_is_an_error_that_names_it_and_leaves_nothing(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(write)
    (tmp_path / "file").touch()
    with pytest.raises(ToolsteadError, match=r"the folder .*/file cannot be made: File exists"):
        write(tmp_path / "file" / "a.json", b"one")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolsteadError, match=r"a\.json cannot be written: No space left on device"):
        write(tmp_path / "a.json", b"one")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
