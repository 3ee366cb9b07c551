"""What a project brings, read once: no link is followed, nothing is waited for, and everything has a bound."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolstead.app.trust import snapshot as module
from toolstead.app.trust.snapshot import PinnedFile, Snapshot, take_mark, take_snapshot
from toolstead.errors import TrustError

pytestmark = pytest.mark.promise("R8")

SECRET = "what lies elsewhere"


def put(file: Path, text: str = "x", mode: int = 0o644) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder outside of the project, with everything in it that one could be led to."""
    for path in ("tools/a.json", "agents/a.md", "config.toml", "a.json"):
        put(tmp_path / "elsewhere" / path, SECRET)
    return tmp_path / "elsewhere"


def test_the_scope_is_the_projects_folder_and_the_agents(project: Path) -> None:
    inside = [
        ".toolstead/config.toml",
        ".toolstead/deep/er/x",
        ".toolstead/.hidden",
        ".claude/agents/a.md",
    ]
    for path in (*inside, ".mcp.json", ".claude/settings.json", "toolstead/x", "src/main.py", ".git/config"):
        put(project / path, path)
    found = take_snapshot(project)
    assert {path: file.data.decode() for path, file in found.files.items()} == {path: path for path in inside}
    assert list(found.files) == sorted(found.files)
    assert found.skipped == ()


def test_a_project_without_anything_brings_nothing(project: Path) -> None:
    assert take_snapshot(project) == Snapshot(files={})
    assert take_mark(project) == ()


def test_a_plain_file_where_a_folder_of_the_scope_would_be_holds_nothing(project: Path) -> None:
    put(project / ".claude", "no folder")
    assert take_snapshot(project) == Snapshot(files={})


LINKS: dict[str, Callable[[Path, Path], str]] = {
    "file": lambda project, there: _link(project / ".toolstead/tools/a.json", there / "a.json"),
    "folder": lambda project, there: _link(project / ".toolstead/tools", there / "tools"),
    "whole": lambda project, there: _link(project / ".toolstead", there),
    "claude": lambda project, there: _link(project / ".claude", there),
    "agents": lambda project, there: _link(project / ".claude/agents", there / "agents"),
    "dangling": lambda project, there: _link(project / ".toolstead/x", there / "nothing"),
    "itself": lambda project, _: _link(project / ".toolstead/x", project / ".toolstead/x"),
}


def _link(link: Path, target: Path) -> str:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return ".claude" if link.name == ".claude" else link.as_posix().partition("/project/")[2]


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_never_followed_and_is_told(kind: str, project: Path, elsewhere: Path) -> None:
    path = LINKS[kind](project, elsewhere)
    assert take_snapshot(project) == Snapshot(files={}, skipped=(path,))


def test_pipes_sockets_and_names_that_are_no_text_are_told_and_never_waited_for(project: Path) -> None:
    folder = project / ".toolstead"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    try:
        os.chdir(folder)  # a socket's path may not be long
        listening.bind("socket")
    finally:
        os.chdir(here)
        listening.close()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text(SECRET)
    put(folder / "good")
    found = take_snapshot(project)
    assert list(found.files) == [".toolstead/good"]
    assert found.skipped == (".toolstead/pipe", ".toolstead/socket", ".toolstead/\udcff.json")


def test_what_cannot_be_read_is_named_and_nothing_is_approved_without_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(project / ".toolstead/secret\x1b[31m.txt")
    opened = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).startswith("secret"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(TrustError, match=r"Permission denied \(secret\\u\{1b\}\[31m\.txt\)"):
        take_snapshot(project)


def test_a_project_that_is_gone_is_said_to_be(project: Path) -> None:
    project.rmdir()
    for look in (take_snapshot, take_mark):
        with pytest.raises(TrustError, match="No such file"):
            look(project)


# bounds


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds made small enough to reach them."""
    monkeypatch.setattr(module, "MOST_FILES", 10)
    monkeypatch.setattr(module, "LARGEST_FILE", 1_000)
    monkeypatch.setattr(module, "LARGEST_SNAPSHOT", 2_500)
    monkeypatch.setattr(module, "DEEPEST", 4)


def test_the_bounds_are_those_that_are_documented() -> None:
    assert (module.MOST_FILES, module.LARGEST_FILE, module.LARGEST_SNAPSHOT, module.DEEPEST) == (
        2_000,
        8_388_608,
        67_108_864,
        32,
    )


@pytest.mark.usefixtures("small")
def test_as_much_as_the_bounds_allow_is_read(project: Path) -> None:
    for number in range(2):
        put(project / f".toolstead/{number}", "x" * 1_000)
    put(project / ".toolstead/1/2/3/4/file".replace("1/", "a/"), "x" * 500)
    found = take_snapshot(project)
    assert sum(len(file.data) for file in found.files.values()) == 2_500


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("look", [take_snapshot, take_mark])
@pytest.mark.parametrize(
    "make", [put, Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["file", "dir", "link"]
)
def test_too_many_names_of_any_kind_are_refused(project: Path, look: Callable[[Path], object], make) -> None:
    (project / ".toolstead").mkdir()
    for number in range(9):
        make(project / f".toolstead/{number}")
    look(project)
    make(project / ".toolstead/last")
    with pytest.raises(TrustError, match="brings more than 10 files"):
        look(project)


@pytest.mark.usefixtures("small")
def test_a_large_file_is_refused_by_its_name(project: Path) -> None:
    put(project / ".toolstead/la\nrge", "x" * 1_001)
    with pytest.raises(TrustError, match=r"\.toolstead/la\\nrge has more than 1,000 bytes"):
        take_snapshot(project)


@pytest.mark.usefixtures("small")
def test_too_much_in_all_is_refused(project: Path) -> None:
    for number in range(3):
        put(project / f".toolstead/{number}", "x" * 900)
    with pytest.raises(TrustError, match="brings more than 2,500 bytes"):
        take_snapshot(project)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("look", [take_snapshot, take_mark])
def test_deep_nesting_is_refused(project: Path, look: Callable[[Path], object]) -> None:
    put(project / ".toolstead/1/2/3/4/x")
    look(project)
    put(project / ".toolstead/1/2/3/4/5/x")
    with pytest.raises(TrustError, match="nested more than 4 folders deep"):
        look(project)


def test_a_thousand_folders_deep_is_refused_and_nothing_breaks(project: Path) -> None:
    here = os.open(project, os.O_RDONLY)
    for name in (".toolstead", *["d"] * 300):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(TrustError, match="nested more than 32 folders deep"):
        take_snapshot(project)


# what differs


def test_the_digest_tells_bytes_names_and_modes_apart() -> None:
    one = PinnedFile(data=b"x")
    others = [
        {"a": one},
        {"b": one},
        {"a": PinnedFile(data=b"y")},
        {"a": PinnedFile(data=b"x", executable=True)},
        {"a": one, "b": one},
        {},
    ]
    assert len({Snapshot(files=files).digest for files in others}) == len(others)
    assert Snapshot(files={"a": one}).digest == Snapshot(files={"a": one}, skipped=("link",)).digest


def test_the_mark_changes_with_bytes_names_modes_and_nobody_can_set_it_back(project: Path) -> None:
    file = put(project / ".toolstead/a", "1234")
    seen = file.stat()
    marks = [take_mark(project)]
    file.write_text("5678")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    marks.append(take_mark(project))
    file.chmod(0o755)
    marks.append(take_mark(project))
    file.rename(file.with_name("b"))
    marks.append(take_mark(project))
    put(project / ".claude/agents/a.md")
    marks.append(take_mark(project))
    assert len(set(marks)) == len(marks)


def test_the_users_own_folder_inside_of_the_project_is_left_out(project: Path) -> None:
    put(project / ".toolstead/config.toml")
    put(project / ".claude/agents/a.md")
    assert list(take_snapshot(project, without=project / ".toolstead").files) == [".claude/agents/a.md"]


# while somebody replaces things


def _until_done(change: Callable[[], None], look: Callable[[], None], times: int = 300) -> None:
    """Change in a worker, again and again, while it is looked at."""
    done = threading.Event()

    def keep_changing() -> None:
        while not done.is_set():
            change()

    with ThreadPoolExecutor(1) as worker:
        changing = worker.submit(keep_changing)
        try:
            for _ in range(times):
                look()
        finally:
            done.set()
        changing.result()


def test_a_link_put_in_place_of_a_folder_meanwhile_leads_nowhere(project: Path, elsewhere: Path) -> None:
    put(project / ".toolstead/tools/a.json", "own")
    link, folder, aside = project / "link", project / ".toolstead/tools", project / "aside"

    def swap() -> None:
        folder.rename(aside)
        link.symlink_to(elsewhere / "tools")
        link.rename(folder)
        folder.unlink()
        aside.rename(folder)

    seen: set[bytes] = set()
    _until_done(swap, lambda: seen.update(file.data for file in take_snapshot(project).files.values()))
    assert seen <= {b"own"}


def test_a_link_or_a_pipe_put_in_place_of_a_file_meanwhile_leads_nowhere(project: Path, elsewhere: Path) -> None:
    file = put(project / ".toolstead/tools/a.json", "own")
    aside = project / "aside"

    def swap() -> None:
        aside.symlink_to(elsewhere / "a.json")
        aside.replace(file)
        os.mkfifo(aside)
        aside.replace(file)
        aside.write_text("own")
        aside.replace(file)

    seen: set[bytes] = set()
    _until_done(swap, lambda: seen.update(found.data for found in take_snapshot(project).files.values()))
    assert seen <= {b"own"}


@pytest.mark.parametrize("name", ["tools", "a.json"])
@pytest.mark.parametrize("what", ["link", "pipe", "nothing"])
def test_what_is_replaced_right_after_the_look_at_it_is_not_read(
    name: str, what: str, project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(project / ".toolstead/tools/a.json", "own")
    victim = project / ".toolstead/tools" if name == "tools" else project / ".toolstead/tools/a.json"
    look = os.stat

    def look_and_swap(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        seen = look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == name and dir_fd is not None:
            monkeypatch.undo()
            victim.rename(project / "aside")
            if what == "link":
                victim.symlink_to(elsewhere / name)
            elif what == "pipe":
                os.mkfifo(victim)
        return seen

    monkeypatch.setattr(os, "stat", look_and_swap)
    found = take_snapshot(project)
    assert found == Snapshot(files={}, skipped=(victim.relative_to(project).as_posix(),))
