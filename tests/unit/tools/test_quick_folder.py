"""Small files that are read at once, on the event loop: what is read is the same, and nothing is waited for."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolstead.errors import RefusedError, ToolError
from toolstead.tools import kernel_cache
from toolstead.tools.confinement import QuickFolder, open_inside

pytestmark = [pytest.mark.promise("R8"), pytest.mark.requires("kernelcache")]

MOST = 65_536
SECRET = b"secret"
AT_ONCE = [
    "sub/inner.txt",
    "./sub//inner.txt",
    "sub/../sub/inner.txt",
    "here",
    "folder-link/inner.txt",
    "sub/new\nline",
    os.fsdecode(b"caf\xe9"),
    "empty",
    "{base}/sub/inner.txt",
]
REFUSED_AT_ONCE = [".", "sub", "pipe", "kept/token", "kept-link", "a\0b", "sub/inner.txt\0", "x/" * 2_049, "\ud800"]
LEFT_TO_A_WORKER = [
    "",
    "no",
    "sub/no",
    "sub/inner.txt/",
    "sub/inner.txt/more",
    "n" * 300,
    "loop",
    "dangling",
    "out-file",
    "out-relative",
    "out/secret",
    "../base-evil/secret",
    "../base/sub/inner.txt",
    "sub/../../base-evil/secret",
    "{base}-evil/secret",
    "{base}/../base-evil/secret",
    "/etc/passwd",
    "/proc/self/environ",
    "root/etc/passwd",
    "large",
    "sparse",
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "base-evil").mkdir()
    (tmp_path / "base-evil/secret").write_bytes(SECRET)
    for name in ("sub/inner.txt", "sub/new\nline", os.fsdecode(b"caf\xe9")):
        (folder / name).write_bytes(b"inner")
    (folder / "empty").touch()
    (folder / "large").write_bytes(b"x" * (MOST + 1))
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(10 << 30)
    (folder / "kept").mkdir()
    (folder / "kept/token").write_bytes(SECRET)
    links = {
        "here": "sub/inner.txt",
        "folder-link": "sub",
        "kept-link": "kept/token",
        "out": str(tmp_path / "base-evil"),
        "out-file": str(tmp_path / "base-evil/secret"),
        "out-relative": "../base-evil/secret",
        "root": "/",
        "loop": "loop",
        "dangling": "no/such",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    return folder


def quick(base: Path, private: Path | None = None) -> QuickFolder:
    folder = QuickFolder(base, private=private or base / "kept")
    folder.survey()
    return folder


def read_soon(folder: QuickFolder, path: str) -> bytes | None:
    """What is read at once after a worker has read it; the system notes the first use of a new link some times over."""
    for _ in range(2_000):
        if (data := folder.read_at_once(path, MOST)) is not None:
            return data
        with suppress(ToolError):
            read_in_worker(folder.base, path)
    return None


def outcome(read: Callable[[], bytes | None]) -> bytes | str | None:
    try:
        return read()
    except ToolError as error:
        return f"{type(error).__name__}: {error}"


def read_in_worker(base: Path, path: str) -> bytes:
    with open_inside(base, path, private=base / "kept") as file:
        return file.read(MOST + 1)


@pytest.mark.parametrize("path", [*AT_ONCE, *REFUSED_AT_ONCE, *LEFT_TO_A_WORKER])
def test_both_ways_agree_and_what_is_not_plain_is_left_to_a_worker(path: str, base: Path) -> None:
    named = path.format(base=base)
    folder, slow = quick(base), outcome(lambda: read_in_worker(base, named))
    if path in AT_ONCE:
        assert isinstance(slow, bytes)
        assert read_soon(folder, named) == slow
    else:
        at_once = outcome(lambda: folder.read_at_once(named, MOST))
        assert at_once == (None if path in LEFT_TO_A_WORKER else slow)
        assert not isinstance(at_once, bytes)


def test_a_file_is_read_up_to_the_bound_of_the_caller_and_the_loop(base: Path) -> None:
    folder = quick(base)
    (base / "largest").write_bytes(b"x" * MOST)
    assert folder.read_at_once("largest", 1 << 30) == b"x" * MOST
    assert folder.read_at_once("large", 1 << 30) is None
    assert folder.read_at_once("sub/inner.txt", 5) == b"inner"
    assert folder.read_at_once("sub/inner.txt", 4) is None


def test_a_file_that_only_the_disk_has_is_left_to_a_worker(base: Path) -> None:
    folder, file = quick(base), base / "sub/inner.txt"
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert folder.read_at_once("sub/inner.txt", MOST) is None
    assert file.read_bytes() == b"inner"
    assert folder.read_at_once("sub/inner.txt", MOST) == b"inner"


def test_a_name_that_is_not_in_the_cache_is_not_looked_up(base: Path) -> None:
    descriptor = kernel_cache.open_folder(os.fsencode(base))
    try:
        with pytest.raises(BlockingIOError):
            kernel_cache.open_below(descriptor, b"never-asked-for")
    finally:
        os.close(descriptor)
    with pytest.raises(BlockingIOError):
        kernel_cache.open_folder(os.fsencode(base / "never-asked-for-either"))


def test_a_relative_base_is_no_part_of_the_path(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "base").mkdir()
    (base / "base/inner").write_bytes(b"deeper")
    (base / "inner").write_bytes(b"not this one")
    monkeypatch.chdir(base.parent)
    assert read_soon(quick(Path("base")), "base/inner") == b"deeper"


@pytest.mark.parametrize("place", ["/proc", "/dev", "/sys"])
def test_a_file_system_that_may_ask_somebody_is_never_read_on_the_loop(place: str) -> None:
    assert kernel_cache.find_device(Path(place)) is None
    folder = quick(Path(place), private=Path("/no/such"))
    assert folder.read_at_once("version", MOST) is None


def test_a_mount_point_below_the_folder_is_not_crossed() -> None:
    assert Path("/dev/null").is_char_device()  # it is in the cache now
    descriptor = kernel_cache.open_folder(b"/")
    try:
        with pytest.raises(OSError, match=r"cross-device|temporarily unavailable"):
            kernel_cache.open_below(descriptor, b"dev/null")
    finally:
        os.close(descriptor)


def test_a_folder_that_was_replaced_is_the_new_one_and_another_file_system_is_left_to_a_worker(
    base: Path, tmp_path: Path
) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(base)
    folder = quick(alias)
    assert read_soon(folder, "here") == b"inner"
    base.rename(tmp_path / "gone")
    assert folder.read_at_once("here", MOST) is None
    (base / "kept").mkdir(parents=True)
    (base / "here").write_bytes(b"new")
    assert read_soon(folder, "here") == b"new"
    alias.unlink()
    alias.symlink_to("/dev")
    assert Path("/dev/null").is_char_device()  # it is in the cache now, and would be refused
    assert folder.read_at_once("null", MOST) is None
    alias.unlink()
    alias.symlink_to(base)
    folder.survey()
    assert read_soon(folder, "here") == b"new"


def test_where_the_open_file_lies_is_checked_after_it_was_opened(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel already keeps the path below the folder; the same check as in a worker stands behind it."""
    monkeypatch.setattr(
        kernel_cache, "open_below", lambda folder, path: os.open(path, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    )
    with pytest.raises(RefusedError, match="'out-file' is outside the project"):
        quick(base).read_at_once("out-file", MOST)


@contextmanager
def again_and_again(change: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            change()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join(20)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["link", "relative link", "pipe", "private"])
def test_what_is_swapped_in_while_it_is_read_is_never_shown(kind: str, base: Path, tmp_path: Path) -> None:
    place, aside, other = base / "place", base / "aside", base / "other"
    place.mkdir()
    (place / "secret").write_bytes(b"harmless")
    if kind == "pipe":
        other.mkdir()
        os.mkfifo(other / "secret")
    else:
        (base / "kept/secret").write_bytes(SECRET)
        targets = {"link": tmp_path / "base-evil", "relative link": "../base-evil", "private": "kept"}
        other.symlink_to(targets[kind])

    def swap() -> None:
        place.rename(aside)
        other.rename(place)
        place.rename(other)
        aside.rename(place)

    folder, seen = quick(base), set[bytes | str | None]()
    with again_and_again(swap):
        for tried in range(300_000):  # a busy machine may let the other thread swap for long
            seen.add(outcome(lambda: folder.read_at_once("place/secret", MOST)))
            if tried >= 3_000 and b"harmless" in seen and len(seen) > 1:
                break
    assert b"harmless" in seen
    assert SECRET not in seen
    assert len(seen) > 1, "the swaps never hit"


def test_a_file_that_grows_and_shrinks_is_read_as_it_was_at_some_moment(base: Path) -> None:
    growing = base / "growing"
    growing.touch()

    def grow() -> None:
        with growing.open("ab") as file:
            file.write(b"y" * 1_000)
        if growing.stat().st_size > 40_000:
            os.truncate(growing, 0)

    folder, sizes = quick(base), set[int]()
    with again_and_again(grow):
        for _ in range(100_000):
            data = folder.read_at_once("growing", MOST)
            assert set(data or b"") <= {ord("y")}
            sizes.add(len(data or b""))
            if len(sizes) > 10:
                break
    assert len(sizes) > 10


@pytest.mark.parametrize("path", ["sub/inner.txt", "kept/token"])
def test_with_few_descriptors_left_nothing_private_is_read_and_none_is_kept(path: str, base: Path) -> None:
    folder = quick(base)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = sorted(map(int, os.listdir("/dev/fd")))  # noqa: PTH208 - one descriptor of its own
    probe = os.open(base, os.O_RDONLY)
    os.close(probe)
    outcomes: list[bytes | str | None] = []
    try:
        for spare in range(16):
            resource.setrlimit(resource.RLIMIT_NOFILE, (probe + spare, limits[1]))
            outcomes += [outcome(lambda: folder.read_at_once(path, MOST)), outcome(lambda: read_in_worker(base, path))]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sorted(map(int, os.listdir("/dev/fd"))) == before  # noqa: PTH208 - as above
    assert SECRET not in outcomes
    assert any("Too many open files" in str(said) for said in outcomes)
    private = "RefusedError: 'kept/token' is in Toolstead's private folder, which no tool may read"
    assert outcomes[-2:] == ([b"inner"] * 2 if path == "sub/inner.txt" else [private] * 2)
