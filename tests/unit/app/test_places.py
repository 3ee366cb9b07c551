"""The folders: the project's root, the user's folder, the data folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolstead.app.places import find_places, find_project_root
from toolstead.errors import SettingsError


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "inner" / "deep"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("marker", [".toolstead", ".git"])
def test_the_nearest_folder_upward_with_a_marker_is_the_project(marker: str, deep: Path, tmp_path: Path) -> None:
    (tmp_path / "outer" / marker).mkdir()
    assert find_project_root(deep) == tmp_path / "outer"

    (tmp_path / "outer" / "inner" / ".git").mkdir()
    assert find_project_root(deep) == tmp_path / "outer" / "inner"

    (deep / ".toolstead").mkdir()
    assert find_project_root(deep) == deep


def test_a_worktree_whose_git_is_a_file_counts(deep: Path) -> None:
    (deep.parent / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")

    assert find_project_root(deep) == deep.parent


def test_a_file_called_toolstead_marks_nothing(deep: Path) -> None:
    (deep.parent / ".git").mkdir()
    (deep / ".toolstead").write_text("", encoding="utf-8")

    assert find_project_root(deep) == deep.parent


def test_without_a_marker_the_folder_itself_is_the_project(deep: Path) -> None:
    assert find_project_root(deep) == deep


def test_a_named_folder_is_the_project_whatever_stands_above_it(deep: Path, tmp_path: Path) -> None:
    (tmp_path / "outer" / ".git").mkdir()

    assert find_project_root(tmp_path, deep) == deep
    assert find_project_root(tmp_path, Path("outer/inner")) == deep.parent


def test_links_are_resolved_so_that_a_project_has_one_name(deep: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(deep)

    assert find_project_root(tmp_path / "link") == deep
    assert find_project_root(tmp_path, Path("link")) == deep


@pytest.mark.parametrize(("name", "why"), [("missing", "does not exist"), ("file", "is not a folder")])
def test_a_named_project_that_is_no_folder_is_refused(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(SettingsError) as caught:
        find_project_root(tmp_path, Path(name))

    assert caught.value.origin == "project"
    assert caught.value.reason == f"'{tmp_path / name}' {why}; name the project's root folder"


def test_a_folder_that_may_not_be_looked_into_is_no_marker(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)

    assert find_project_root(deep) == deep


def test_the_usual_folders_are_below_the_home(tmp_path: Path) -> None:
    places = find_places(environ={"HOME": "/home/me"}, cwd=tmp_path)

    assert places.user == Path("/home/me/.config/toolstead")
    assert places.data == Path("/home/me/.local/share/toolstead")
    assert places.project == tmp_path


def test_xdg_folders_are_honoured_when_they_are_absolute(tmp_path: Path) -> None:
    places = find_places(
        environ={"HOME": "/home/me", "XDG_CONFIG_HOME": "/cfg", "XDG_DATA_HOME": "relative"}, cwd=tmp_path
    )

    assert places.user == Path("/cfg/toolstead")
    assert places.data == Path("/home/me/.local/share/toolstead")
    assert find_places(environ={"HOME": "/h", "XDG_DATA_HOME": "/d"}, cwd=tmp_path).data == Path("/d/toolstead")


def test_one_variable_moves_everything(tmp_path: Path) -> None:
    environ = {"HOME": "/home/me", "XDG_CONFIG_HOME": "/cfg", "XDG_DATA_HOME": "/data"}

    places = find_places(environ={**environ, "TOOLSTEAD_HOME": str(tmp_path / "own")}, cwd=tmp_path)

    assert places.user == tmp_path / "own"
    assert places.data == tmp_path / "own" / "data"
    assert find_places(environ={**environ, "TOOLSTEAD_HOME": "own"}, cwd=tmp_path).user == tmp_path / "own"
    assert find_places(environ={**environ, "TOOLSTEAD_HOME": "~/own"}, cwd=tmp_path).user == Path("/home/me/own")
    assert find_places(environ={**environ, "TOOLSTEAD_HOME": ""}, cwd=tmp_path).user == Path("/cfg/toolstead")


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(SettingsError, match=r"TOOLSTEAD_HOME.*is not a folder"):
        find_places(environ={"TOOLSTEAD_HOME": "file"}, cwd=tmp_path)


def test_without_a_home_in_the_environment_the_systems_answer_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_places(environ={}, cwd=tmp_path).user.is_relative_to(Path.home())

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(SettingsError, match="set HOME, or TOOLSTEAD_HOME"):
        find_places(environ={}, cwd=tmp_path)


def test_the_process_itself_is_asked_when_nothing_is_given(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    places = find_places()

    assert places.project == tmp_path
    assert places.user == home / ".config" / "toolstead"


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(SettingsError, match="does not exist any more"):
        find_places()
    os.chdir(tmp_path)
