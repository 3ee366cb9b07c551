"""The git tools never run what a repository names: each weapon fires in plain git, and never in ours."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.git_project import STAGED, STATUS, UNSTAGED, change, first_text, git, repository, tools_of

pytestmark = [pytest.mark.promise("R1"), pytest.mark.requires("git")]

run = functools.partial(subprocess.run, capture_output=True, timeout=60, check=False)
PLAIN = (["status"], ["diff"], ["diff", "--cached"], ["diff", "--stat"])


def script(place: Path, marker: Path, then: str = "exit 0") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\ntouch '{marker}'\n{then}\n")
    place.chmod(0o755)
    return place


def arm_fsmonitor(folder: Path, marker: Path) -> None:
    git(folder, "config", "core.fsmonitor", str(script(folder / ".git/watch", marker)))


def arm_hook(folder: Path, marker: Path) -> None:
    script(folder / ".git/hooks/post-index-change", marker)


def arm_hooks_path(folder: Path, marker: Path) -> None:
    script(folder / ".git/other/post-index-change", marker)
    git(folder, "config", "core.hooksPath", ".git/other")


def arm_clean_filter(folder: Path, marker: Path) -> None:
    for key in ("clean", "smudge"):
        git(folder, "config", f"filter.evil.{key}", f"touch '{marker}'; cat")
    git(folder, "config", "filter.evil.required", "true")


def arm_process_filter(folder: Path, marker: Path) -> None:
    git(folder, "config", "filter.evil.process", f"touch '{marker}'; exit 1")
    git(folder, "config", "filter.evil.required", "true")


def arm_included_file(folder: Path, marker: Path) -> None:
    git(folder, "config", "-f", ".git/more", "filter.evil.clean", f"touch '{marker}'; cat")
    git(folder, "config", "include.path", "more")


def arm_conditional_include(folder: Path, marker: Path) -> None:
    git(folder, "config", "-f", ".git/more", "filter.evil.clean", f"touch '{marker}'; cat")
    git(folder, "config", "includeIf.onbranch:main.path", "more")


def arm_worktree_settings(folder: Path, marker: Path) -> None:
    git(folder, "config", "extensions.worktreeConfig", "true")
    git(folder, "config", "--worktree", "filter.evil.clean", f"touch '{marker}'; cat")


def arm_oddly_named_filter(folder: Path, marker: Path) -> None:
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("*.txt filter=a=b.c;d\\e\n")
    git(folder, "config", "filter.a=b.c;d\\e.clean", f"touch '{marker}'; cat")
    git(folder, "config", "filter.a=b.c;d\\e.required", "true")


def arm_textconv(folder: Path, marker: Path) -> None:
    git(folder, "config", "diff.evil.textconv", str(script(folder / ".git/convert", marker)))


def arm_diff_driver(folder: Path, marker: Path) -> None:
    git(folder, "config", "diff.evil.command", str(script(folder / ".git/differ", marker)))


def arm_external_diff(folder: Path, marker: Path) -> None:
    git(folder, "config", "diff.external", str(script(folder / ".git/differ", marker)))


def _submodule(folder: Path) -> Path:
    source = repository(folder.parent / f"{folder.name}-source")
    git(folder, "submodule", "--quiet", "add", str(source), "sub")
    git(folder, "commit", "-q", "-m", "submodule", ".gitmodules", "sub")
    return folder / "sub"


def arm_submodules_fsmonitor(folder: Path, marker: Path) -> None:
    git(_submodule(folder), "config", "core.fsmonitor", str(script(folder / ".git/watch", marker)))


def arm_submodules_filter(folder: Path, marker: Path) -> None:
    sub = _submodule(folder)
    git(sub, "config", "filter.evil.clean", f"touch '{marker}'; cat")
    os.utime(sub / "b.txt", (1_000_000_000, 1_000_000_000))


WEAPONS = [
    arm_fsmonitor,
    arm_hook,
    arm_hooks_path,
    arm_clean_filter,
    arm_process_filter,
    arm_included_file,
    arm_conditional_include,
    arm_worktree_settings,
    arm_oddly_named_filter,
    arm_textconv,
    arm_diff_driver,
    arm_external_diff,
    arm_submodules_fsmonitor,
    arm_submodules_filter,
]


@pytest.mark.parametrize("arm", WEAPONS, ids=lambda arm: arm.__name__.removeprefix("arm_"))
async def test_a_program_that_a_repository_names_is_never_run(
    arm: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    fired, silent = tmp_path / "fired", tmp_path / "silent"
    for folder, marker in ((tmp_path / "plain", fired), (tmp_path / "ours", silent)):
        repository(folder)
        change(folder)
        arm(folder, marker)
    for arguments in PLAIN:
        git(tmp_path / "plain", *arguments, check=False)
    assert fired.exists(), "plain git does not run it either, so this test proves nothing"

    call = await tools_of(tmp_path / "ours")
    assert first_text(await call("git-status")) == STATUS
    assert first_text(await call("git-diff-summary")) == UNSTAGED
    assert first_text(await call("git-diff-summary", staged=True)) == STAGED
    assert (await call("workspace-info")).structured["branch"] == "main"
    assert not silent.exists(), "a program of the repository was run"


def _arm_ext(folder: Path, marker: Path) -> None:
    git(folder, "config", "protocol.ext.allow", "always")
    git(folder, "config", "remote.origin.url", f"ext::sh -c touch% '{marker}'")


def _arm_ssh(folder: Path, marker: Path) -> None:
    git(folder, "config", "core.sshCommand", f"touch '{marker}'; false")
    git(folder, "config", "remote.origin.url", "ssh://example.org/a.git")


@pytest.mark.parametrize("arm", [_arm_ext, _arm_ssh])
async def test_objects_that_are_missing_are_not_fetched(arm: Callable[[Path, Path], None], tmp_path: Path) -> None:
    fired, silent = tmp_path / "fired", tmp_path / "silent"
    for folder, marker in ((tmp_path / "plain", fired), (tmp_path / "ours", silent)):
        repository(folder)
        blob = git(folder, "rev-parse", "HEAD:a.txt").strip()
        (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
        git(folder, "config", "core.repositoryFormatVersion", "1")
        git(folder, "config", "extensions.partialClone", "origin")
        git(folder, "config", "remote.origin.promisor", "true")
        arm(folder, marker)
        (folder / "a.txt").write_text("one\nmore\n")
    git(tmp_path / "plain", "diff", "--stat", check=False)
    assert fired.exists()

    call = await tools_of(tmp_path / "ours")
    assert first_text(await call("git-status")) == " M a.txt\n"
    summary = await call("git-diff-summary")
    assert summary.is_error
    assert "unable to read" in summary.text
    assert not silent.exists()


async def test_a_filter_of_the_user_is_not_run_for_a_repository_either(tmp_path: Path, home: Path) -> None:
    marker = tmp_path / "marker"
    root = repository(tmp_path / "project")
    change(root)
    git(root, "config", "--global", "filter.evil.clean", f"touch '{marker}'; cat")
    call = await tools_of(root)
    assert first_text(await call("git-status")) == STATUS
    assert first_text(await call("git-diff-summary")) == UNSTAGED
    assert not marker.exists()
    git(root, "status")
    assert marker.exists()


async def test_a_filter_of_the_system_is_not_run_for_a_repository_either(tmp_path: Path) -> None:
    """The system's settings come from a file that only an environment variable can move, so git is a wrapper here."""
    marker, system = tmp_path / "marker", tmp_path / "system"
    root = repository(tmp_path / "project")
    change(root)
    git(root, "config", "-f", str(system), "filter.evil.clean", f"touch '{marker}'; cat")
    real = shutil.which("git")
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\nexport GIT_CONFIG_SYSTEM='{system}'\nexec '{real}' \"$@\"\n")
    wrapper.chmod(0o755)
    environ = {**os.environ, "PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    call = await tools_of(root, environ)
    assert first_text(await call("git-status")) == STATUS
    assert not marker.exists()
    assert run([str(wrapper), "status"], cwd=root).returncode == 0
    assert marker.exists()


async def test_nothing_in_the_repository_is_written(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    change(root)
    index = root / ".git/index"

    def state() -> dict[str, tuple[int, int]]:
        known = {path: path.lstat() for path in (root / ".git").rglob("*")}
        return {str(path): (stat.st_mtime_ns, stat.st_ino) for path, stat in known.items()}

    before, content = state(), index.read_bytes()
    call = await tools_of(root)
    for arguments in ({}, {"staged": True}):
        await call("git-diff-summary", **arguments)
    await call("git-status")
    await call("workspace-info")
    assert state() == before
    assert index.read_bytes() == content
    git(root, "--no-optional-locks", "diff", "--stat")
    assert index.read_bytes() != content, "plain git writes it, optional locks or not"


async def test_no_stand_in_is_left_behind(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    call = await tools_of(root, {**os.environ, "TMPDIR": str(temporary)})
    assert not (await call("git-status")).is_error
    (root / ".git/index").write_bytes(b"no index")
    assert (await call("git-status")).is_error
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_CONFIG_GLOBAL", "GIT_EXTERNAL_DIFF", "GIT_INDEX_FILE"])
async def test_the_environment_cannot_lead_git_astray(name: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    change(root)
    call = await tools_of(root, {**os.environ, name: str(tmp_path / "elsewhere")})
    assert first_text(await call("git-status")) == STATUS
    assert first_text(await call("git-diff-summary")) == UNSTAGED


@pytest.mark.parametrize("entry", [".", "", "bin", "{root}/bin"])
@pytest.mark.parametrize("here", ["project", "elsewhere"])
async def test_a_git_inside_the_project_is_never_the_git_that_runs(
    entry: str, here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "project")
    marker = tmp_path / "marker"
    for folder in (root, tmp_path / "elsewhere"):
        script(folder / "git", marker)
        script(folder / "bin/git", marker)
    path = f"{entry.format(root=root)}:{os.environ['PATH']}"
    monkeypatch.chdir(tmp_path / here)
    call = await tools_of(root, {**os.environ, "PATH": path})
    assert first_text(await call("git-status")) == "?? bin/\n?? git\n"
    assert not marker.exists()


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LANGUAGE"])
async def test_what_git_says_is_understood_in_every_language(name: str, tmp_path: Path) -> None:
    """A git that speaks the language it is told to, as a translated one does."""
    program = script(tmp_path / "bin/git", tmp_path / "marker")
    program.write_text(
        "#!/bin/sh\n"
        '[ -n "$LANG$LC_ALL$LANGUAGE" ] && echo "fatal: Kein Git-Repository" >&2 && exit 128\n'
        'echo "fatal: not a git repository (or any of the parent directories): .git" >&2; exit 128\n'
    )
    root = tmp_path / "project"
    root.mkdir()
    call = await tools_of(root, {**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin", name: "de_DE.UTF-8"})
    assert (await call("git-status")).text == "the project is not a git repository"


async def test_changed_files_under_a_filter_are_marked_as_unsure(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    change(root)
    git(root, "config", "filter.evil.clean", "tr a-z A-Z")
    call = await tools_of(root)
    for name in ("git-status", "git-diff-summary"):
        result = await call(name)
        assert "content filters (evil) are not run" in result.text
        assert "shown as changed although it is not, such as a.txt" in result.text
    assert "filters" not in (await call("git-diff-summary", staged=True)).text
