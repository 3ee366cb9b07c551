"""Paths and files stay inside their folder, also while somebody swaps links under the reader."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolstead.errors import RefusedError, ToolError
from toolstead.tools import confinement
from toolstead.tools.confinement import LONGEST_PATH, open_inside, resolve_inside

pytestmark = pytest.mark.promise("R8")

SECRET = b"secret"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with files and links, a sibling whose name begins like it, and a secret outside."""
    folder = tmp_path / "base"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/inner.txt").write_bytes(b"inner")
    (folder / "here").symlink_to("sub/inner.txt")
    (folder / "folder-link").symlink_to("sub", target_is_directory=True)
    (tmp_path / "base-evil").mkdir()
    (tmp_path / "base-evil/secret").write_bytes(SECRET)
    (folder / "out").symlink_to(tmp_path / "base-evil")
    (folder / "out-file").symlink_to(tmp_path / "base-evil/secret")
    (folder / "chain").symlink_to("out-file")
    (folder / "loop").symlink_to("loop")
    return folder


def read(base: Path, path: str) -> bytes:
    with open_inside(base, path) as file:
        return file.read()


@pytest.mark.parametrize(
    "path",
    ["sub/inner.txt", "here", "folder-link/inner.txt", "./sub//inner.txt", "sub/../sub/inner.txt", "{base}/here"],
)
def test_a_file_inside_is_read_also_through_links_that_stay_inside(path: str, base: Path) -> None:
    assert read(base, path.format(base=base)) == b"inner"


def test_a_base_that_is_a_link_itself_is_the_folder_it_leads_to(base: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(base)
    assert read(tmp_path / "alias", "here") == b"inner"
    assert read(tmp_path / "alias", str(tmp_path / "alias/here")) == b"inner"
    assert read(tmp_path / "alias", str(base / "here")) == b"inner"


@pytest.mark.parametrize(
    "path",
    [
        "../base-evil/secret",
        "sub/../../base-evil/secret",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "{base}-evil/secret",
        "{base}/../base-evil/secret",
        "out/secret",
        "out-file",
        "chain",
        "out/nothing",
        "..",
        "/",
        "/proc/self/environ",
        "folder-link/../../base-evil/secret",
    ],
)
def test_a_path_that_leads_out_is_refused(path: str, base: Path) -> None:
    for check in (resolve_inside, open_inside):
        with pytest.raises(RefusedError, match="is outside the project; give a path inside it"):
            check(base, path.format(base=base))


def test_a_refusal_calls_the_folder_what_the_caller_calls_it(base: Path) -> None:
    with pytest.raises(RefusedError, match="is outside the folder of docs;"):
        open_inside(base, "..", named="the folder of docs")


@pytest.mark.parametrize(
    "path", ["..%2fbase-evil%2fsecret", "%2e%2e/base-evil/secret", "~/x", "~root/x", "$HOME", "sub/no"]
)
def test_nothing_is_decoded_or_expanded_in_a_path(path: str, base: Path) -> None:
    assert resolve_inside(base, path) == base.resolve() / path
    with pytest.raises(ToolError, match="there is no file"):
        open_inside(base, path)


def test_a_tilde_is_an_ordinary_name_and_the_error_says_so(base: Path) -> None:
    with pytest.raises(ToolError, match="`~` is not expanded here"):
        open_inside(base, "~/x")
    (base / "~").mkdir()
    (base / "~/x").write_bytes(b"here")
    assert read(base, "~/x") == b"here"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("sub\0/../../x", "null byte"),
        ("x/" * LONGEST_PATH, "at most 4,096"),
        ("é" * (LONGEST_PATH // 2 + 1), "at most 4,096"),
        ("\ud800", "no file's name can have"),
    ],
)
def test_what_can_be_no_path_is_refused(path: str, says: str, base: Path) -> None:
    with pytest.raises(RefusedError, match=says) as refused:
        open_inside(base, path)
    assert len(str(refused.value)) < 400


def test_a_name_that_is_too_long_for_a_file_is_an_error_with_a_sentence(base: Path) -> None:
    with pytest.raises(ToolError, match="longer than a file's name can be"):
        open_inside(base, "n" * 300)


def test_a_link_to_itself_is_an_error_with_a_sentence(base: Path) -> None:
    with pytest.raises(ToolError, match="leads back to itself"):
        open_inside(base, "loop")


@pytest.mark.parametrize("path", ["sub/inner.txt/more", "no/such/file"])
def test_a_file_that_is_not_there_is_an_error_with_a_sentence(path: str, base: Path) -> None:
    with pytest.raises(ToolError, match=r"there is no file .* in the project; a path is relative to that folder"):
        open_inside(base, path)


@pytest.mark.timeout(20)
def test_only_regular_files_are_opened_and_nothing_is_waited_for(base: Path) -> None:
    os.mkfifo(base / "pipe")
    with pytest.raises(RefusedError, match="'pipe' is a named pipe, not a file"):
        open_inside(base, "pipe")
    for folder in ("sub", ".", ""):
        with pytest.raises(RefusedError, match="is a folder, not a file"):
            open_inside(base, folder)


def test_a_socket_is_no_file(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)  # a socket's address is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(ToolError, match="is a socket"):
            open_inside(base, "socket")


@pytest.mark.requires("root")
def test_a_device_inside_is_no_file(base: Path) -> None:
    os.mknod(base / "zero", 0o600 | 0o020000, os.makedev(1, 5))
    with pytest.raises(RefusedError, match="'zero' is a device, not a file"):
        open_inside(base, "zero")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_file_without_permission_is_an_error_with_a_sentence(
    number: int, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def as_another_user(path: str | Path, flags: int) -> int:
        if Path(path).name == "inner.txt":
            raise PermissionError(number, os.strerror(number))
        return real(path, flags)

    monkeypatch.setattr(confinement.os, "open", as_another_user)  # root may read everything
    with pytest.raises(ToolError, match="'here' may not be read by this user"):
        open_inside(base, "here")


@pytest.mark.parametrize("path", ["", ".", "x", "../inner.txt"])
def test_a_base_that_is_no_folder_has_no_files(path: str, base: Path) -> None:
    with pytest.raises(ToolError):
        open_inside(base / "sub/inner.txt", path)


def test_where_nobody_tells_what_is_open_nothing_is_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.readlink

    def no_proc(path: str) -> str:
        if path.startswith("/proc/self/fd/"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path)

    before = len(list(Path("/dev/fd").iterdir()))
    monkeypatch.setattr(confinement.sys, "platform", "linux")
    monkeypatch.setattr(os, "readlink", no_proc)
    with pytest.raises(RefusedError, match="cannot check where an open file is"):
        open_inside(base, "here")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_no_descriptor_is_left_open(base: Path) -> None:
    os.mkfifo(base / "pipe")
    before = len(list(Path("/dev/fd").iterdir()))
    for path in ("here", "pipe", "out-file", "no", "sub"):
        try:
            read(base, path)
        except ToolError:
            continue
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_link_swapped_in_between_check_and_opening_is_caught(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "sub/secret").write_bytes(b"harmless")
    real = os.open

    def swap_and_open(path: str | Path, flags: int) -> int:
        if Path(path).name == "secret":
            (base / "sub").rename(base / "sub-before")
            (base / "sub").symlink_to(base.parent / "base-evil")
        return real(path, flags)

    monkeypatch.setattr(confinement.os, "open", swap_and_open)
    with pytest.raises(RefusedError, match="is outside the project"):
        open_inside(base, "sub/secret")


def test_a_link_that_vanishes_while_it_is_followed_is_an_error_with_a_sentence(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.readlink

    def too_late(path: str) -> str:
        (base / "here").unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(os, "readlink", too_late)
    with pytest.raises(ToolError, match=r"cannot resolve 'here'|there is no file 'here'"):
        open_inside(base, "here")  # Python 3.13 takes it for an ordinary name, and then it is not there


@contextmanager
def swapping(place: Path, inside: Path, outside: Path) -> Iterator[None]:
    """While it lasts, `place` is now a link to a folder inside, now one to a folder outside."""
    done, turns = threading.Event(), 0

    def swap() -> None:
        nonlocal turns
        while not done.is_set():
            for target in (outside, inside):
                fresh = place.with_name(f"{place.name}-{turns}")
                fresh.symlink_to(target)
                fresh.replace(place)
                turns += 1

    worker = threading.Thread(target=swap)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join(20)
        assert turns > 10


def test_a_thousand_reads_while_links_are_swapped_never_show_what_is_outside(base: Path, tmp_path: Path) -> None:
    for folder, content in ((base / "good", b"harmless"), (tmp_path / "bad", SECRET)):
        folder.mkdir()
        (folder / "secret").write_bytes(content)
    (base / "swapped").symlink_to(base / "good")
    seen: set[bytes] = set()
    refused = 0
    with swapping(base / "swapped", base / "good", tmp_path / "bad"):
        for _ in range(1_000):
            try:
                seen.add(read(base, "swapped/secret"))
            except RefusedError:
                refused += 1
    assert seen <= {b"harmless"}
    assert refused, "the swaps never hit, so this test proves nothing"


def test_a_thousand_reads_while_folders_are_swapped_never_show_what_is_outside(base: Path, tmp_path: Path) -> None:
    """Here the path has no link when it is resolved: only the check of the open descriptor can tell."""
    (base / "real").mkdir()
    (base / "real/secret").write_bytes(b"harmless")
    place, aside = base / "place", base / "aside"
    (base / "real").rename(place)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            place.rename(aside)
            place.symlink_to(tmp_path / "base-evil")
            place.unlink()
            aside.rename(place)

    worker = threading.Thread(target=swap)
    worker.start()
    seen: set[bytes] = set()
    try:
        for _ in range(1_000):
            try:
                seen.add(read(base, "place/secret"))
            except ToolError:
                continue
    finally:
        done.set()
        worker.join(20)
    assert seen <= {b"harmless"}
