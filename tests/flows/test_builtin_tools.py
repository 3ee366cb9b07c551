"""`workspace-info`, `file-reader` and what all built-in tools have in common, through the dispatcher."""

from __future__ import annotations

import asyncio
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.git_project import first_text, git, repository, tools_of
from toolstead.tools.builtin import builtin_offers, file_reader
from toolstead.tools.builtin.file_reader import MOST_SHOWN
from toolstead.tools.builtin.workspace_info import without_secrets
from toolstead.tools.registry import Registry
from toolstead.tools.sources import FixedSource
from toolstead.types.result import Failure
from toolstead.types.tool import Annotations

pytestmark = pytest.mark.promise("R1")

NAMES = ["git-status", "git-diff-summary", "workspace-info", "file-reader"]
WAYS_OUT = [
    "../../etc/passwd",
    "/etc/passwd",
    "out",
    "{root}-evil/secret",
    "a\0b",
    "x" * 5_000,
    "{root}/../project-evil",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "project-evil").mkdir()
    (tmp_path / "project-evil/secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "project-evil/secret")
    (folder / "five.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    return folder


async def test_the_four_tools_are_built_in_and_say_that_they_change_nothing(root: Path) -> None:
    registry = Registry([FixedSource(name="builtin", offers=builtin_offers(root, dict(os.environ)))])
    assert (await registry.reload()).problems == ()
    infos = {name: tool.info for name, tool in registry.current.tools.items()}
    assert list(infos) == NAMES
    for name, info in infos.items():
        module = f"toolstead.tools.builtin.{name.replace('-', '_')}"
        assert (info.provenance.source, info.provenance.origin) == ("builtin", module)
        assert (info.provenance.plugin_name, info.provenance.agent_name) == (None, None)
        assert info.annotations == Annotations(read_only=True, open_world=False)
        assert "Changes nothing" in info.description
        assert info.input_schema["additionalProperties"] is False


@pytest.mark.promise("R8")
@pytest.mark.parametrize("tool", ["git-status", "file-reader"])
@pytest.mark.parametrize("path", WAYS_OUT, ids=range(len(WAYS_OUT)))
async def test_a_path_out_of_the_project_is_refused(tool: str, path: str, root: Path) -> None:
    result = await (await tools_of(root))(tool, path=path.format(root=root))
    assert result.is_error
    assert result.failure == Failure.REFUSED
    assert "secret" not in result.text.replace(f"{root}-evil/secret", "")
    assert "root:" not in result.text


# workspace-info


@pytest.mark.requires("git")
async def test_workspace_info_tells_folder_branch_and_remote(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    git(root, "checkout", "-q", "-b", "topic/ünï")
    result = await (await tools_of(root))("workspace-info")
    expected = {"projectPath": str(root), "branch": "topic/ünï", "remoteUrl": "https://example.org/a.git"}
    assert result.structured == expected
    assert '"branch":"topic/ünï"' in result.text


@pytest.mark.requires("git")
async def test_workspace_info_outside_a_repository_has_nulls(root: Path) -> None:
    result = await (await tools_of(root))("workspace-info")
    assert result.structured == {"projectPath": str(root), "branch": None, "remoteUrl": None}


@pytest.mark.requires("git")
async def test_workspace_info_knows_a_branch_before_its_first_commit_and_none_when_detached(root: Path) -> None:
    call = await tools_of(root)
    git(root, "init", "-q", "-b", "trunk")
    assert (await call("workspace-info")).structured == {
        "projectPath": str(root),
        "branch": "trunk",
        "remoteUrl": None,
    }
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "checkout", "-q", "--detach")
    assert (await call("workspace-info")).structured["branch"] is None


@pytest.mark.requires("git")
async def test_workspace_info_prefers_the_branchs_own_remote_then_origin_then_the_first(root: Path) -> None:
    call = await tools_of(root)
    git(root, "init", "-q", "-b", "main")
    for name in ("first", "second"):
        git(root, "remote", "add", name, f"https://example.org/{name}")
    assert (await call("workspace-info")).structured["remoteUrl"] == "https://example.org/first"
    git(root, "remote", "add", "origin", "https://example.org/origin")
    assert (await call("workspace-info")).structured["remoteUrl"] == "https://example.org/origin"
    git(root, "config", "branch.main.remote", "second")
    assert (await call("workspace-info")).structured["remoteUrl"] == "https://example.org/second"
    git(root, "config", "branch.main.remote", ".")
    assert (await call("workspace-info")).structured["remoteUrl"] == "https://example.org/origin"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://example.org/a.git", "https://example.org/a.git"),
        ("https://example.org:8443/a@b.git", "https://example.org:8443/a@b.git"),
        ("https://[::1]:8443/a@b.git", "https://[::1]:8443/a@b.git"),
        ("https://ada:hunter2@example.org/a.git", "https://***@example.org/a.git"),
        ("https://hunter2@example.org/a.git", "https://***@example.org/a.git"),
        ("HTTPS://x-token-auth:hunter2@example.org:443/a", "HTTPS://***@example.org:443/a"),
        ("https://ada:hunt@er2@example.org/a.git", "https://***@example.org/a.git"),
        ("https://ada:hunt/er2@example.org/a.git", "https://***@example.org/a.git"),
        ("https://ada:9hunt/er2@example.org/a.git", "https://***@example.org/a.git"),
        ("https://ada:hunt?er2@example.org/a.git", "https://***@example.org/a.git"),
        ("https://example.org/a.git?access_token=hunter2", "https://example.org/a.git?***"),
        ("ssh://git@example.org/a.git", "ssh://git@example.org/a.git"),
        ("ssh://ada:hunter2@example.org:22/a.git", "ssh://ada:***@example.org:22/a.git"),
        ("git+ssh://ada:hunter2@example.org/a.git", "git+ssh://ada:***@example.org/a.git"),
        ("git@example.org:team/a.git", "git@example.org:team/a.git"),
        ("ada:hunter2@example.org:team/a.git", "ada:***@example.org:team/a.git"),
        ("example.org:team/a@b:c.git", "example.org:team/a@b:c.git"),
        ("remote::https://ada:hunter2@example.org/a", "remote::https://***@example.org/a"),
        ("/srv/git/a@b.git", "/srv/git/a@b.git"),
        ("../a.git", "../a.git"),
    ],
)
def test_secrets_in_a_remotes_address_are_masked(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


@pytest.mark.requires("git")
async def test_a_secret_in_the_remotes_address_reaches_nobody(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "remote", "add", "origin", "https://ada:hunter2@example.org/a.git")
    result = await (await tools_of(root))("workspace-info")
    assert result.structured["remoteUrl"] == "https://***@example.org/a.git"
    assert "hunter2" not in result.text


# file-reader


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ({}, "one\ntwo\nthree\nfour\nfive\n"),
        ({"startLine": 2, "endLine": 3}, "two\nthree\n"),
        ({"startLine": 4}, "four\nfive\n"),
        ({"endLine": 1}, "one\n"),
        ({"startLine": 5, "endLine": 5}, "five\n"),
        ({"startLine": 5, "endLine": 99}, "five\n"),
        ({"startLine": 2.0, "endLine": 2}, "two\n"),
    ],
)
async def test_a_file_is_read_by_lines_that_count_from_one(lines: dict[str, int], text: str, root: Path) -> None:
    assert first_text(await (await tools_of(root))("file-reader", path="five.txt", **lines)) == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"startLine": 3, "endLine": 2}, "endLine 2 is before startLine 3"),
        ({"startLine": 6}, "'five.txt' has 5 lines, so there is no line 6"),
        ({"startLine": 0}, "/startLine: expected at least 1"),
        ({"endLine": 0}, "/endLine: expected at least 1"),
        ({"startLine": "1"}, "/startLine"),
        ({"lines": 3}, "lines"),
    ],
)
async def test_lines_that_are_not_there_are_an_error_the_model_can_mend(
    arguments: dict[str, object], says: str, root: Path
) -> None:
    result = await (await tools_of(root))("file-reader", path="five.txt", **arguments)
    assert result.is_error
    assert says in result.text


@pytest.mark.parametrize(
    ("content", "lines"), [(b"", 0), (b"x", 1), (b"x\n", 1), (b"x\ny", 2), (b"\n\n", 2), (b"x\r\ny\r\n", 2)]
)
async def test_a_files_lines_are_counted_as_an_editor_counts_them(content: bytes, lines: int, root: Path) -> None:
    (root / "f").write_bytes(content)
    call = await tools_of(root)
    result = await call("file-reader", path="f", startLine=lines + 2)
    assert f"has {lines} line{'' if lines == 1 else 's'}, so" in result.text
    expected = content.decode() or "[the file is empty]"
    assert first_text(await call("file-reader", path="f")) == expected


async def test_absolute_paths_and_links_inside_the_project_are_read(root: Path) -> None:
    (root / "link").symlink_to("five.txt")
    call = await tools_of(root)
    for path in ("link", str(root / "link"), str(root / "five.txt")):
        assert first_text(await call("file-reader", path=path, endLine=1)) == "one\n"


async def test_binary_files_are_named_with_their_size(root: Path) -> None:
    (root / "image").write_bytes(b"\x89PNG\0" + bytes(2_000))
    (root / "late").write_bytes(b"text\n" * 50_000 + b"\0")
    call = await tools_of(root)
    result = await call("file-reader", path="image")
    assert result.is_error
    assert "'image' is no text but binary (2,005 bytes)" in result.text
    assert "binary" in (await call("file-reader", path="late", startLine=49_999)).text


async def test_text_that_is_no_utf8_is_shown_and_marked(root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9\n")
    result = await (await tools_of(root))("file-reader", path="latin")
    assert first_text(result) == "caf�\n"
    assert "no UTF-8" in result.text


async def test_a_large_file_is_shown_in_whole_lines_and_says_where_to_go_on(root: Path) -> None:
    wanted = "".join(f"line {number}\n" for number in range(1, 60_001))
    (root / "large").write_text(wanted)
    call = await tools_of(root)
    shown, start = "", 1
    for _ in range(10):
        result = await call("file-reader", path="large", startLine=start)
        part = first_text(result)
        assert len(part) <= MOST_SHOWN
        shown += part
        if len(result.content) == 1:
            break
        start = int(result.text.rsplit("startLine ", 1)[1].rstrip("]"))
    assert shown == wanted


@pytest.mark.parametrize("step", [1, 3, 7, 65_536])
async def test_lines_are_found_wherever_a_chunk_of_the_file_ends(
    step: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_reader, "_STEP", step)
    lines = ["a\n", "\n", "bcd\n", "é\n", "\n", "end"]
    (root / "f").write_text("".join(lines))
    call = await tools_of(root)
    for start in range(1, 7):
        for end in range(start, 8):
            expected = "".join(lines[start - 1 : end])
            assert first_text(await call("file-reader", path="f", startLine=start, endLine=end)) == expected
    assert "has 6 lines" in (await call("file-reader", path="f", startLine=7)).text


async def test_a_file_of_nothing_but_line_breaks_is_counted_to_any_line(root: Path) -> None:
    (root / "breaks").write_bytes(b"\n" * 65_536)
    call = await tools_of(root)
    for start, end, text in ((1, 2, "\n\n"), (40_000, 40_002, "\n\n\n"), (65_536, 65_536, "\n")):
        for _ in range(2):  # in a worker thread, and at once
            assert first_text(await call("file-reader", path="breaks", startLine=start, endLine=end)) == text
    assert "has 65,536 lines" in (await call("file-reader", path="breaks", startLine=65_537)).text


async def test_ten_thousand_calls_at_once_are_answered_and_leave_no_descriptor(root: Path) -> None:
    (root / "other.txt").write_text("other")
    call = await tools_of(root)
    await call("file-reader", path="five.txt")
    before = len(list(Path("/dev/fd").iterdir()))
    names = {"five.txt": "one\n", "other.txt": "other", "no.txt": "there is no file", "out": "outside the project"}
    asked = [name for _ in range(2_500) for name in names]
    results = await asyncio.gather(*(call("file-reader", path=name, endLine=1) for name in asked))
    assert all(names[name] in result.text for name, result in zip(asked, results, strict=True))
    assert len(list(Path("/dev/fd").iterdir())) == before


async def test_one_endless_line_is_cut_between_characters(root: Path) -> None:
    (root / "long").write_text("x" + "é" * MOST_SHOWN + "\nnext\n")
    call = await tools_of(root)
    result = await call("file-reader", path="long")
    assert set(first_text(result)) == {"x", "é"}
    assert "line 1 is longer than 200,000 bytes and cut; the next one is 2" in result.text
    assert first_text(await call("file-reader", path="long", startLine=2)) == "next\n"


async def test_a_file_of_five_gigabytes_is_never_held_in_memory(root: Path) -> None:
    line = b"x" * 1_023 + b"\n"
    with (root / "huge").open("wb") as huge:
        for _ in range(64):
            huge.write(line * 1_024)
        huge.truncate(5 << 30)
    call = await tools_of(root)
    tracemalloc.start()
    try:
        assert "go on with startLine 196" in (await call("file-reader", path="huge")).text
        assert first_text(await call("file-reader", path="huge", startLine=65_000, endLine=65_000)) == line.decode()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(30)
async def test_a_named_pipe_and_a_folder_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    call = await tools_of(root)
    assert "is a named pipe, not a file" in (await call("file-reader", path="pipe")).text
    assert "is a folder, not a file" in (await call("file-reader", path=".")).text


@pytest.mark.timeout(60)
async def test_a_reader_that_was_given_up_stops_reading(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "text").write_text("x\n")
    reading, stopped, test_ended = threading.Event(), threading.Event(), threading.Event()

    def endless(file: object, path: str, given_up: threading.Event) -> Iterator[bytes]:
        while not given_up.is_set():
            reading.set()
            if test_ended.wait(0.001):
                return
            yield b"x"
        stopped.set()

    monkeypatch.setattr(file_reader, "_read_chunks", endless)
    call = await tools_of(root)
    task = asyncio.ensure_future(call("file-reader", path="text"))
    try:
        assert await asyncio.to_thread(reading.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(stopped.wait, 10)
    finally:
        test_ended.set()


@pytest.mark.promise("R8")
async def test_a_thousand_reads_while_a_link_is_swapped_never_show_what_is_outside(root: Path) -> None:
    (root / "inside.txt").write_text("harmless")
    secret = root.parent / "project-evil/secret"
    done = threading.Event()

    def swap() -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            fresh = root / f"fresh-{turn}"
            fresh.symlink_to(secret if turn % 2 else root / "inside.txt")
            fresh.replace(root / "swapped")

    worker = threading.Thread(target=swap)
    worker.start()
    try:
        call = await tools_of(root)
        results = [await call("file-reader", path="swapped") for _ in range(1_000)]
    finally:
        done.set()
        worker.join(20)
    assert not any("secret" in result.text for result in results)
    assert {result.is_error for result in results} == {True, False}, "the swaps never hit"
