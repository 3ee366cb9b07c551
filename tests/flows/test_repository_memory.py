"""What is remembered of a repository gives the same answers as git, whatever happens to it between two calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.git_project import Call, change, git, repository, tools_of
from tests.machine import git as git_program
from toolstead.tools.builtin import repository_memory
from toolstead.types.result import ToolResult

pytestmark = [pytest.mark.promise("R1"), pytest.mark.requires("git")]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(repository_memory, "_SETTLED", 0)  # else nothing new is remembered for two seconds
    return repository(tmp_path / "project")


@pytest.fixture
def runs(root: Path, tmp_path: Path) -> Callable[[], int]:
    """A git on PATH that counts its runs."""
    (tmp_path / "bin").mkdir()
    log, program = tmp_path / "runs", tmp_path / "bin/git"
    program.write_text(f'#!/bin/sh\necho >> "{log}"\nexec "{git_program()}" "$@"\n')
    program.chmod(0o755)
    log.touch()
    return lambda: len(log.read_text().splitlines())


def counted(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def make_linked(root: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "linked", "../linked")
    shutil.move(root, root.with_name("main"))
    shutil.move(root.with_name("linked"), root)
    git(root.with_name("main"), "worktree", "repair", str(root))


def lend_elsewhere(root: Path) -> None:
    (root / ".git").rename(root.with_name("elsewhere"))
    (root / ".git").symlink_to("../elsewhere")


def replace_by_other(root: Path) -> None:
    other = repository(root.with_name("other"))
    git(other, "checkout", "-q", "-b", "another")
    shutil.rmtree(root / ".git")
    (other / ".git").rename(root / ".git")


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "nothing": lambda _, __: None,
    "a branch": lambda root, _: git(root, "checkout", "-q", "-b", "topic/ünï"),
    "a branch with dots": lambda root, _: git(root, "checkout", "-q", "-b", "release/1.2.x"),
    "a commit": lambda root, _: git(root, "checkout", "-q", "--detach"),
    "an unborn branch": lambda root, _: git(root, "symbolic-ref", "HEAD", "refs/heads/unborn"),
    "no branch": lambda root, _: git(root, "update-ref", "--no-deref", "HEAD", commit(root)),
    "a reference that is no branch": lambda root, _: git(root, "symbolic-ref", "HEAD", "refs/remotes/origin/x"),
    "a branch that is a reference": lambda root, _: git(root, "symbolic-ref", "refs/heads/main", "refs/heads/final"),
    "packed references": lambda root, _: git(root, "pack-refs", "--all"),
    "a HEAD that is a link": lambda root, _: (
        (root / ".git/HEAD").unlink(),
        (root / ".git/HEAD").symlink_to("refs/heads/main"),
    ),
    "a branch that is a link": lambda root, _: (
        git(root, "branch", "other"),
        (root / ".git/refs/heads/main").unlink(),
        (root / ".git/refs/heads/main").symlink_to("other"),
    ),
    "a broken HEAD": lambda root, _: write(root / ".git/HEAD", "nonsense\n"),
    "an impossible name": lambda root, _: write(root / ".git/HEAD", "ref: refs/heads/a..b\n"),
    "a name that ends in .lock": lambda root, _: write(root / ".git/HEAD", "ref: refs/heads/a.lock\n"),
    "a remote": lambda root, _: git(root, "remote", "set-url", "origin", "https://example.org/b.git"),
    "no remote": lambda root, _: git(root, "remote", "remove", "origin"),
    "a remote of the user": lambda _, home: write(
        home / ".gitconfig", '[remote "upstream"]\nurl = u\n[branch "main"]\nremote = upstream\n'
    ),
    "a remote of the user, elsewhere": lambda _, home: write(
        home / ".config/git/config", '[branch "main"]\nremote = none\n[remote "none"]\nurl = x\n'
    ),
    "broken settings": lambda root, _: write(root / ".git/config", "[core\n"),
    "broken settings of the user": lambda _, home: write(home / ".gitconfig", "[core\n"),
    "an included file": lambda root, _: (
        write(root.with_name("more"), '[remote "origin"]\nurl = https://example.org/included\n'),
        git(root, "config", "include.path", str(root.with_name("more"))),
        git(root, "remote", "remove", "origin"),
    ),
    "settings of the work tree": lambda root, _: (
        git(root, "config", "extensions.worktreeConfig", "true"),
        git(root, "config", "--worktree", "branch.main.remote", "own"),
        git(root, "config", "--worktree", "remote.own.url", "https://example.org/own"),
    ),
    "a work tree elsewhere": lambda root, _: git(root, "config", "core.worktree", str(root.parent)),
    "a linked work tree": lambda root, _: make_linked(root),
    "a repository elsewhere": lambda root, _: lend_elsewhere(root),
    "another repository": lambda root, _: replace_by_other(root),
    "no repository": lambda root, _: shutil.rmtree(root / ".git"),
    "no objects": lambda root, _: shutil.rmtree(root / ".git/objects"),
    "a repository above": lambda root, _: (shutil.rmtree(root / ".git"), git(root.parent, "init", "-q", "-b", "above")),
}


def share_folder(root: Path) -> None:
    """Let everything but HEAD and the index lie in another folder, as in a linked work tree."""
    shared = root.with_name("shared")
    shared.mkdir()
    for name in ("config", "objects", "refs"):
        (root / ".git" / name).rename(shared / name)
    write(root / ".git/commondir", str(shared))


def point_work_tree_at_link(root: Path) -> None:
    root.with_name("link").symlink_to(root.parent)
    git(root, "config", "core.worktree", str(root.with_name("link")))


def point_link_elsewhere(root: Path) -> None:
    root.with_name("link").unlink()
    root.with_name("link").symlink_to(root.parent.parent / "nowhere")


def break_head_above(root: Path) -> None:
    shutil.rmtree(root / ".git")
    git(root.parent, "init", "-q")
    write(root.parent / ".git/HEAD", "nonsense\n")


NOT_PLAIN: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "a linked work tree": (make_linked, lambda root: write(root / ".git", "gitdir: /no/such/place\n")),
    "a work tree by a link": (point_work_tree_at_link, point_link_elsewhere),
    "a shared folder": (
        share_folder,
        lambda root: write(root.with_name("shared") / "refs/heads/main", "ref: refs/heads/final\n"),
    ),
    "a broken repository above": (
        break_head_above,
        lambda root: write(root.parent / ".git/HEAD", "ref: refs/heads/mended\n"),
    ),
    "an included file that is not there yet": (
        lambda root: git(root, "config", "include.path", str(root.with_name("more"))),
        lambda root: write(root.with_name("more"), '[branch "main"]\nremote = b\n[remote "b"]\nurl = b\n'),
    ),
    "settings of a work tree that are not there yet": (
        lambda root: git(root, "config", "extensions.worktreeConfig", "true"),
        lambda root: git(root, "config", "--worktree", "remote.origin.url", "https://example.org/own"),
    ),
}


async def answers(call: Call) -> list[ToolResult]:
    return [await call("workspace-info"), await call("git-status"), await call("git-diff-summary")]


@pytest.mark.parametrize("name", CHANGES)
async def test_after_a_change_the_answer_is_gits_own(name: str, root: Path, home: Path) -> None:
    change(root)
    call = await tools_of(root)
    assert await answers(call) == await answers(call)
    CHANGES[name](root, home)
    for _ in range(3):
        assert await answers(call) == await answers(await tools_of(root))


@pytest.mark.parametrize("name", [name for name in CHANGES if "user" not in name])
async def test_a_change_that_is_taken_back_is_too(name: str, root: Path, home: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy", symlinks=True)
    CHANGES[name](root, home)
    call = await tools_of(root)
    changed = [(await call("workspace-info")) for _ in range(2)]
    assert changed[0] == changed[1]
    for place in (root, tmp_path / "main", tmp_path / ".git"):
        shutil.rmtree(place, ignore_errors=True)
    (tmp_path / "copy").rename(root)
    assert (await call("workspace-info")).structured == {
        "projectPath": str(root),
        "branch": "main",
        "remoteUrl": "https://example.org/a.git",
    }


@pytest.mark.parametrize("name", NOT_PLAIN)
async def test_what_is_not_plain_is_asked_of_git_each_time(name: str, root: Path) -> None:
    make, alter = NOT_PLAIN[name]
    make(root)
    call = await tools_of(root)
    for _ in range(4):
        assert await answers(call) == await answers(await tools_of(root))
    alter(root)
    assert await answers(call) == await answers(await tools_of(root))


async def test_settings_in_a_place_that_was_not_known_are_looked_at_from_then_on(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_memory, "_name_settings_files", lambda _: ())
    write(home / ".gitconfig", '[remote "first"]\nurl = a\n[branch "main"]\nremote = first\n')
    call = await tools_of(root)
    for url in ("a", "b", "c"):
        write(home / ".gitconfig", f'[remote "first"]\nurl = {url}\n[branch "main"]\nremote = first\n')
        assert [(await call("workspace-info")).structured["remoteUrl"] for _ in range(3)] == [url] * 3


async def test_what_changes_while_git_reads_it_is_not_remembered(root: Path, home: Path, tmp_path: Path) -> None:
    write(home / ".gitconfig", '[remote "brief"]\nurl = brief\n[branch "main"]\nremote = brief\n')
    write(
        tmp_path / "bin/git",
        f'#!/bin/sh\n"{git_program()}" "$@" || exit\nif [ "$1" = config ]; then rm -f "{home}/.gitconfig"; fi\n',
    )
    (tmp_path / "bin/git").chmod(0o755)
    call = await tools_of(root, counted(tmp_path))
    assert (await call("workspace-info")).structured["remoteUrl"] == "brief"
    assert (await call("workspace-info")).structured["remoteUrl"] == "https://example.org/a.git"


@pytest.mark.requires("root")
async def test_a_repository_that_another_user_takes_over_is_no_longer_read(root: Path) -> None:
    call = await tools_of(root)
    assert not any(result.is_error for result in [*await answers(call), *await answers(call)])
    os.chown(root / ".git", 12_345, 12_345)
    assert all("belongs to another user" in result.text for result in await answers(call))


async def test_a_settled_repository_is_found_without_git(root: Path, runs: Callable[[], int], tmp_path: Path) -> None:
    call = await tools_of(root, counted(tmp_path))
    first = await call("workspace-info")
    before = runs()
    assert [await call("workspace-info") for _ in range(5)] == [first] * 5
    assert runs() == before
    await call("git-status")
    assert runs() - before == 3, "HEAD, the changed files and the status"


async def test_a_folder_without_a_repository_is_found_without_git(
    root: Path, runs: Callable[[], int], tmp_path: Path
) -> None:
    shutil.rmtree(root / ".git")
    call = await tools_of(root, counted(tmp_path))
    first = await call("workspace-info")
    before = runs()
    assert await call("workspace-info") == first
    assert runs() == before
    git(root.parent, "init", "-q", "-b", "above")
    assert (await call("workspace-info")).structured["branch"] == "above"


@pytest.mark.parametrize("why", ["it just changed", "it is long ago"])
async def test_what_may_be_out_of_date_is_not_remembered(
    why: str, root: Path, runs: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, value = ("_SETTLED", 10**12) if why == "it just changed" else ("_LONGEST", 0.0)
    monkeypatch.setattr(repository_memory, name, value)
    call = await tools_of(root, counted(tmp_path))
    assert await call("workspace-info") == await call("workspace-info")
    assert runs() == 6
