"""`git-status` and `git-diff-summary`: git's own answers, for every kind of repository, inside the project only."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
from pathlib import Path

import pytest

from tests.flows.git_project import STAGED, STATUS, UNSTAGED, change, first_text, git, repository, tools_of
from toolstead.types.result import Failure

pytestmark = [pytest.mark.promise("R1"), pytest.mark.requires("git")]

CLEAN = "nothing to commit, working tree clean"
OLD = (1_000_000_000, 1_000_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


# The answers


async def test_the_answers_are_what_git_prints(root: Path) -> None:
    git(root, "mv", "b.txt", "moved.txt")
    change_names = ("ünï.txt", "with space.txt", 'quo"te.txt', "tab\there.txt", "new\nline.txt", "-dash.txt")
    for name in change_names:
        (root / name).write_text("x\n")
    git(root, "add", "--", "ünï.txt", "-dash.txt")
    (root / "a.txt").unlink()
    call = await tools_of(root)
    assert first_text(await call("git-status")) == git(root, "-c", "core.quotePath=false", "status", "--porcelain")
    for staged in (False, True):
        said = git(root, "-c", "core.quotePath=false", "diff", "--stat", *(["--cached"] if staged else []))
        assert first_text(await call("git-diff-summary", staged=staged)) == said
    assert "ünï.txt" in (await call("git-status")).text


async def test_a_name_that_is_no_utf8_can_still_be_read(root: Path) -> None:
    (root / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert first_text(await (await tools_of(root))("git-status")) == "?? caf\\xe9.txt\n"


async def test_nothing_to_tell_is_told_in_a_sentence(root: Path) -> None:
    call = await tools_of(root)
    assert (await call("git-status")).text == CLEAN
    assert (await call("git-status", path=".")).text == CLEAN
    assert (await call("git-status", path="a.txt")).text == f"{CLEAN} under 'a.txt'"
    assert (await call("git-diff-summary")).text == "no unstaged changes"
    assert (await call("git-diff-summary", staged=True)).text == "no staged changes"


async def test_a_path_limits_the_status(root: Path) -> None:
    change(root)
    (root / "src").mkdir()
    (root / "src/new.py").write_text("x")
    (root / "b.txt").unlink()
    (root / "link").symlink_to("src")
    call = await tools_of(root)
    assert first_text(await call("git-status", path="src")) == "?? src/\n"
    assert first_text(await call("git-status", path=str(root / "src"))) == "?? src/\n"
    assert first_text(await call("git-status", path="a.txt")) == " M a.txt\n"
    assert first_text(await call("git-status", path="b.txt")) == " D b.txt\n"
    assert first_text(await call("git-status", path="link")) == "?? link\n?? src/\n"
    assert first_text(await call("git-status", path="link/new.py")) == "?? src/new.py\n"
    assert first_text(await call("git-status", path="src/..")) == first_text(await call("git-status"))


async def test_a_link_to_nothing_is_something(root: Path) -> None:
    (root / "dangling").symlink_to("nothing")
    call = await tools_of(root)
    assert first_text(await call("git-status", path="dangling")) == "?? dangling\n"
    git(root, "add", "dangling")
    git(root, "commit", "-q", "-m", "link")
    assert (await call("git-status", path="dangling")).text == f"{CLEAN} under 'dangling'"


@pytest.mark.parametrize("path", ["nothing-here", ":/", ":(top)", "*.txt", ":!a.txt", "--help", "%61.txt"])
async def test_a_path_is_a_name_and_never_a_pattern(path: str, root: Path) -> None:
    change(root)
    result = await (await tools_of(root))("git-status", path=path)
    assert result.is_error
    assert f"there is nothing at {path!r} in the project" in result.text


async def test_long_names_are_shown_whole_in_the_summary(root: Path) -> None:
    folder = root / "a-rather-long-folder-name" / "and-another-one-inside-of-it"
    folder.mkdir(parents=True)
    (folder / "with-a-file-that-has-a-long-name-too.txt").write_text("x\n" * 500)
    git(root, "add", ".")
    assert "..." in git(root, "diff", "--stat", "--cached")
    text = first_text(await (await tools_of(root))("git-diff-summary", staged=True))
    assert str(folder.relative_to(root)) in text
    assert "500 insertions(+)" in text
    assert max(map(len, text.splitlines())) < 200


async def test_an_answer_that_is_too_long_ends_at_a_whole_line_and_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9_000):
        (root / f"a-file-with-a-name-of-some-length-{number:05}").touch()
    result = await (await tools_of(root))("git-status")
    text = first_text(result)
    assert text.endswith("\n")
    assert all(line.startswith("?? a-file") for line in text.splitlines())
    assert 199_000 < len(text) <= 200_000
    assert "the list is longer than 200,000 bytes and cut here; ask with a path" in result.text


# Every kind of repository


async def test_a_repository_without_a_commit_is_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    call = await tools_of(tmp_path)
    assert (await call("git-status")).text == CLEAN
    (tmp_path / "new.txt").write_text("x\n")
    assert first_text(await call("git-status")) == "?? new.txt\n"
    git(tmp_path, "add", "new.txt")
    assert first_text(await call("git-status")) == "A  new.txt\n"
    assert "new.txt | 1 +" in (await call("git-diff-summary", staged=True)).text


async def test_a_project_inside_a_repository_sees_only_its_own_files(root: Path) -> None:
    project = root / "packages/one"
    project.mkdir(parents=True)
    (project / "own.txt").write_text("own\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "package")
    change(root)
    (project / "own.txt").write_text("own\nmore\n")
    (project / "new.txt").write_text("new\n")
    call = await tools_of(project)
    assert first_text(await call("git-status")) == " M own.txt\n?? new.txt\n"
    assert first_text(await call("git-diff-summary")) == " own.txt | 1 +\n 1 file changed, 1 insertion(+)\n"
    assert (await call("git-diff-summary", staged=True)).text == "no staged changes"
    assert (await call("workspace-info")).structured["branch"] == "main"
    for path in ("..", "../..", "../../a.txt"):
        assert (await call("git-status", path=path)).failure == Failure.REFUSED


async def test_a_linked_work_tree_is_read(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    change(tmp_path / "tree")
    call = await tools_of(tmp_path / "tree")
    assert first_text(await call("git-status")) == STATUS
    assert first_text(await call("git-diff-summary")) == UNSTAGED
    assert (await call("workspace-info")).structured["branch"] == "side"


async def test_a_submodule_as_a_project_is_read(root: Path, tmp_path: Path) -> None:
    outer = repository(tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", str(root), "sub")
    change(outer / "sub")
    assert first_text(await (await tools_of(outer / "sub"))("git-status")) == STATUS


async def test_a_submodule_that_moved_is_told_and_what_is_inside_it_is_not(root: Path, tmp_path: Path) -> None:
    outer = repository(tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", str(root), "sub")
    call = await tools_of(outer)
    assert first_text(await call("git-status")) == "A  .gitmodules\nA  sub\n"
    assert "sub" in first_text(await call("git-diff-summary", staged=True))
    git(outer, "commit", "-q", "-m", "sub")
    change(outer / "sub")
    assert (await call("git-status")).text == CLEAN
    git(outer / "sub", "commit", "-q", "-m", "moved")
    assert first_text(await call("git-status")) == " M sub\n"


@pytest.mark.parametrize("kind", ["sha256", "split", "sparse", "version-4", "untracked-cache"])
async def test_other_ways_to_store_a_repository_give_the_same_answers(kind: str, tmp_path: Path) -> None:
    if kind == "sha256":
        (tmp_path / "made").mkdir()
        git(tmp_path / "made", "init", "-q", "--object-format=sha256", "-b", "main")
        root = tmp_path / "made"
        (root / "a.txt").write_text("one\n")
        (root / "b.txt").write_text("two\n")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", "first")
    else:
        root = repository(tmp_path / "made")
    if kind == "split":
        git(root, "update-index", "--split-index")
    if kind == "version-4":
        git(root, "update-index", "--index-version", "4")
    if kind == "untracked-cache":
        git(root, "update-index", "--force-untracked-cache")
        git(root, "status")
    if kind == "sparse":
        (root / "left-out").mkdir()
        (root / "left-out/file").write_text("x")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", "more")
        git(root, "sparse-checkout", "set", "--cone", "--sparse-index")
        assert not (root / "left-out").exists()
    change(root)
    call = await tools_of(root)
    assert first_text(await call("git-status")) == git(root, "status", "--porcelain") == STATUS
    assert first_text(await call("git-diff-summary")) == UNSTAGED
    assert first_text(await call("git-diff-summary", staged=True)) == STAGED


async def test_what_is_ignored_stays_ignored(root: Path, home: Path) -> None:
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/exclude").write_text("by-exclude\n")
    (home / "mine").write_text("by-user\n")
    git(root, "config", "--global", "core.excludesFile", "~/mine")
    for name in ("by-exclude", "by-user", "by-nobody"):
        (root / name).touch()
    assert first_text(await (await tools_of(root))("git-status")) == "?? by-nobody\n"


async def test_settings_that_change_the_answer_are_kept(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\n")
    (root / "b.txt").chmod(0o755)
    call = await tools_of(root)
    text = first_text(await call("git-diff-summary"))
    assert text == " a.txt | 2 +-\n b.txt | 0\n 2 files changed, 1 insertion(+), 1 deletion(-)\n"
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "core.fileMode", "false")
    assert (await call("git-diff-summary")).text == "no unstaged changes"
    assert git(root, "diff", "--stat") == ""


async def test_a_change_within_the_moment_of_the_last_commit_is_seen(root: Path) -> None:
    """Same size, same time as the index knows: only the index's own time tells that the file is unsure."""
    git(root, "config", "core.trustctime", "false")
    os.utime(root / "a.txt", OLD)
    git(root, "update-index", "--refresh")
    (root / "a.txt").write_text("ONE\n")
    os.utime(root / "a.txt", OLD)
    os.utime(root / ".git/index", OLD)
    call = await tools_of(root)
    assert first_text(await call("git-status")) == " M a.txt\n"
    assert first_text(await call("git-diff-summary")).startswith(" a.txt | 2 +-")


# What cannot be read is told in a sentence


async def test_a_folder_that_is_no_repository_is_told(tmp_path: Path) -> None:
    call = await tools_of(tmp_path)
    for name in ("git-status", "git-diff-summary"):
        result = await call(name)
        assert result.is_error
        assert result.text == "the project is not a git repository"


async def test_a_machine_without_git_is_told(root: Path, tmp_path: Path) -> None:
    call = await tools_of(root, {**os.environ, "PATH": str(tmp_path)})
    for name in ("git-status", "git-diff-summary", "workspace-info"):
        assert (await call(name)).text == "git is not installed here, or not in a folder that PATH names"


async def test_a_project_that_is_the_whole_machine_has_git(tmp_path: Path) -> None:
    assert "not installed" not in (await (await tools_of(Path("/")))("workspace-info")).text


@pytest.mark.requires("root")
async def test_a_repository_of_another_user_is_told_with_the_way_out(root: Path) -> None:
    os.chown(root, 12_345, 12_345)
    os.chown(root / ".git", 12_345, 12_345)
    call = await tools_of(root)
    for name in ("git-status", "git-diff-summary", "workspace-info"):
        result = await call(name)
        assert result.is_error
        assert "belongs to another user" in result.text
        assert f"git config --global --add safe.directory {root}" in result.text


async def test_a_repository_with_broken_settings_is_told(root: Path) -> None:
    (root / ".git/config").write_text("[core\n")
    result = await (await tools_of(root))("git-status")
    assert result.is_error
    assert "git cannot read the repository: bad config line 1" in result.text


async def test_a_broken_index_is_told(root: Path) -> None:
    (root / ".git/index").write_bytes(b"no index at all, but long enough to be one")
    result = await (await tools_of(root))("git-status")
    assert result.is_error
    assert result.failure == Failure.TOOL


async def test_a_project_folder_that_is_gone_is_told(root: Path) -> None:
    call = await tools_of(root)
    shutil.rmtree(root)
    result = await call("git-status")
    assert result.is_error
    assert result.failure == Failure.TOOL
    assert "project's folder" in result.text


async def test_a_temporary_folder_that_is_missing_is_told(root: Path, tmp_path: Path) -> None:
    result = await (await tools_of(root, {**os.environ, "TMPDIR": str(tmp_path / "none")}))("git-status")
    assert result.failure == Failure.TOOL


# Repositories that point elsewhere


async def test_a_work_tree_elsewhere_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/diary.txt").write_text("x")
    for elsewhere in (tmp_path / "private", root / "sub"):
        elsewhere.mkdir(exist_ok=True)
        git(root, "config", "core.worktree", str(elsewhere))
        for name in ("git-status", "git-diff-summary"):
            result = await (await tools_of(root))(name)
            assert result.is_error
            assert "diary" not in result.text


async def test_a_work_tree_above_the_project_shows_the_project_only(root: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/diary.txt").write_text("x")
    git(root, "config", "core.worktree", str(tmp_path))
    result = await (await tools_of(root))("git-status")
    assert "diary" not in result.text
    assert "private" not in result.text


@pytest.mark.parametrize("link", ["file", "symlink"])
async def test_a_git_folder_of_somebody_else_is_refused(link: str, tmp_path: Path) -> None:
    private = repository(tmp_path / "private")
    root = tmp_path / "project"
    root.mkdir()
    if link == "file":
        (root / ".git").write_text(f"gitdir: {private / '.git'}\n")
    else:
        (root / ".git").symlink_to(private / ".git")
    assert "a.txt" in git(root, "status", "--porcelain"), "plain git shows the stranger's names"
    call = await tools_of(root)
    for name in ("git-status", "git-diff-summary", "workspace-info"):
        result = await call(name)
        assert result.failure == Failure.REFUSED
        assert "does not name this folder as its own" in result.text
        assert "a.txt" not in result.text
    git(private, "config", "core.worktree", str(root))
    assert " D a.txt" in first_text(await call("git-status"))


async def test_a_linked_work_tree_of_somebody_else_is_refused(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "thief").mkdir()
    shutil.copy(tmp_path / "tree/.git", tmp_path / "thief/.git")
    assert (await (await tools_of(tmp_path / "thief"))("git-status")).failure == Failure.REFUSED


@pytest.mark.timeout(30)
async def test_an_index_that_is_a_link_or_a_pipe_is_not_followed(root: Path, tmp_path: Path) -> None:
    private = repository(tmp_path / "private")
    (root / ".git/index").unlink()
    (root / ".git/index").symlink_to(private / ".git/index")
    call = await tools_of(root)
    assert "'index' is outside the repository's own folder" in (await call("git-status")).text
    (root / ".git/index").unlink()
    os.mkfifo(root / ".git/index")
    assert "'index' is a named pipe, not a file" in (await call("git-status")).text


async def test_an_index_beyond_reason_is_told_and_not_copied(root: Path) -> None:
    os.truncate(root / ".git/index", 2 << 30)
    assert "at most 1,073,741,824 are read" in (await (await tools_of(root))("git-status")).text


async def test_a_folder_that_only_looks_like_a_bare_repository_is_not_one(tmp_path: Path) -> None:
    """Such a folder can come with a clone, settings included; a `.git` folder cannot."""
    root = tmp_path / "project"
    git(tmp_path, "init", "-q", "--bare", str(root))
    git(root, "config", "core.bare", "false")
    git(root, "config", "core.worktree", str(root))
    assert "HEAD" in git(root, "status", "--porcelain")
    result = await (await tools_of(root))("git-status")
    assert result.is_error
    assert "bare repository" in result.text


@pytest.mark.parametrize("way", ["../{}", "{outside}/{}", "sub/../../{}"])
async def test_names_in_a_crafted_index_never_lead_out(way: str, root: Path, tmp_path: Path) -> None:
    name = way.format("secret.txt", outside=tmp_path)
    (tmp_path / "secret.txt").write_text("x\n" * 7)
    (root / "sub").mkdir()
    placeholder = "p" * len(name)
    (root / placeholder).write_text("x\n")
    git(root, "add", placeholder)
    (root / placeholder).unlink()
    index = root / ".git/index"
    index.write_bytes(index.read_bytes().replace(placeholder.encode(), name.encode()))
    assert "6 ++++++" in git(root, "diff", "--stat"), "plain git counts the lines of the file outside"
    call = await tools_of(root)
    for tool in ("git-status", "git-diff-summary"):
        result = await call(tool)
        assert result.failure == Failure.REFUSED
        assert result.text == "the repository's index names files outside the project"


# The process


SLOW = """#!/bin/sh
(sleep 600 & echo $! >> "$HOME/pids"; wait) &
echo $$ > "$HOME/leader"
echo $$ >> "$HOME/pids"
{then}
wait
"""
BOTH = 'while [ "$(wc -l < "$HOME/pids")" -lt 2 ]; do :; done'


def fake_git(tmp_path: Path, then: str) -> dict[str, str]:
    program = tmp_path / "fake/git"
    program.parent.mkdir()
    program.write_text(SLOW.format(then=then))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


async def ended(home: Path, processes: int = 2) -> None:
    """Wait until every process that the program wrote down is gone, no zombie left."""
    async with asyncio.timeout(20):
        pids = [int(line) for line in (home / "pids").read_text().split()]
        assert len(pids) >= processes
        for pid in pids:
            while _alive(pid):
                await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # a system without /proc, or it is gone by now
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2] != ["Z", "1"]  # an orphan's end
    return True


async def started(home: Path) -> None:
    async with asyncio.timeout(20):
        while not (home / "pids").exists() or (home / "pids").read_text().count("\n") < 2:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("then", ["", "exit 0"], ids=["waiting", "gone itself"])
async def test_a_deadline_ends_git_and_whatever_it_started(then: str, root: Path, tmp_path: Path, home: Path) -> None:
    call = await tools_of(root, fake_git(tmp_path, f"{BOTH}; {then}"), seconds=2)
    result = await call("git-status")
    assert result.failure == Failure.TIMEOUT
    await ended(home)


async def test_a_caller_that_gives_up_ends_git_and_whatever_it_started(root: Path, tmp_path: Path, home: Path) -> None:
    call = await tools_of(root, fake_git(tmp_path, ""))
    task = asyncio.ensure_future(call("git-status"))
    await started(home)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):  # it is not even a zombie when the call returns
        os.kill(int((home / "leader").read_text()), 0)
    await ended(home)


async def test_a_caller_may_give_up_at_any_moment(root: Path, tmp_path: Path, home: Path) -> None:
    (home / "pids").touch()
    call = await tools_of(root, fake_git(tmp_path, ""))
    for turns in range(25):
        task = asyncio.ensure_future(call("git-status"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gc.collect()  # a pipe that was lost shows here, as a warning that is an error
    await ended(home, processes=0)


async def test_endless_output_ends_git_and_whatever_it_started(root: Path, tmp_path: Path, home: Path) -> None:
    call = await tools_of(root, fake_git(tmp_path, f"{BOTH}; yes"))
    assert (await call("git-status")).is_error
    await ended(home)


async def test_git_has_no_input_to_wait_for(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "fake/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nread line && exit 0\necho 'fatal: no input' >&2\nexit 1\n")
    program.chmod(0o755)
    call = await tools_of(root, {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert (await call("git-status")).text == "git cannot read the repository: no input"
