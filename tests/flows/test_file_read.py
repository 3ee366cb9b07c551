"""file-read tools and the built-in file-reader: the same attacks on both, and nothing outside is ever shown."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.flows.tool_files import opened, tool, write
from tests.waiting import PATIENCE
from toolstead import ToolResult
from toolstead.errors import RefusedError
from toolstead.tools.builtin import file_reader
from toolstead.tools.handlers import file_read as file_read_handler
from toolstead.tools.handlers.file_read import FileReadConfig, FileReadHandler
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.types.content import Image
from toolstead.types.result import Failure

pytestmark = [pytest.mark.promise("R2"), pytest.mark.promise("R8")]

SECRET = "top secret, never shown"
INNER = "inner text"
TOOLS = ["read", "file-reader"]
PATH = {"path": {"type": "string"}}
READS = 1_000


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A project whose root is the folder of the tool, with links in it and secrets around it."""
    folder = tmp_path / "base"
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "tools").mkdir()
    evil = tmp_path / "base-evil"
    evil.mkdir()
    for place in (tmp_path / "secret.txt", evil / "secret.txt", evil / "inner.txt"):
        place.write_text(SECRET)
    (folder / "sub/inner.txt").write_text(INNER)
    (folder / "sub/ünï ￥;$(x).txt").write_text(INNER)
    (folder / "%2e%2e").mkdir()
    (folder / "%2e%2e/inner.txt").write_text(INNER)
    (folder / "...").write_text(INNER)
    links = {
        "to-inner": "sub/inner.txt",
        "to-sub": "sub",
        "around": "../base/sub/inner.txt",
        "out-file": str(tmp_path / "secret.txt"),
        "out-relative": "../secret.txt",
        "out-folder": str(evil),
        "chain": "out-file",
        "sub/up": "../..",
        "sub/deep/up": "../../../secret.txt",
        "root": "/",
        "zero": "/dev/zero",
        "environ": "/proc/self/environ",
        "loop": "loop",
        "dangling": "/no/such/place",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(folder)
        listening.bind("socket")
        os.chdir(before)
    return folder


def file_read(name: str = "read", **handler: Any) -> Any:
    return tool(name, {"type": "file-read", "basePath": ".", **handler}, PATH)


async def read(base: Path, path: str, by: str = "read", **handler: Any) -> ToolResult:
    """What both ways answer: the first call of a tool reads in a worker thread, the next one at once where it can."""
    write(base / "tools/files.json", file_read(**handler))
    async with opened(base, watch=False) as stead, asyncio.timeout(PATIENCE):
        result = await stead.call(by, {"path": path})
        again = await stead.call(by, {"path": path})
        assert again == result or result.handle  # what is kept has a name of its own
        return result


INSIDE = [
    "sub/inner.txt",
    "./sub/inner.txt",
    "sub//inner.txt",
    "sub/./inner.txt",
    "sub/deep/../inner.txt",
    "sub/deep/../../sub/inner.txt",
    "to-inner",
    "to-sub/inner.txt",
    "around",
    "../base/sub/inner.txt",
    "{base}/sub/inner.txt",
    "{base}/to-sub/inner.txt",
    "sub/ünï ￥;$(x).txt",
    "%2e%2e/inner.txt",
    "sub/inner.txt/",
    "...",
]
OUTSIDE = [
    "../secret.txt",
    "sub/../../secret.txt",
    "sub/deep/../../../secret.txt",
    "./.././secret.txt",
    "..//secret.txt",
    "../../../../../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/cwd/../secret.txt",
    "/proc/self/root/etc/passwd",
    "/dev/stdin",
    "/dev/fd/0",
    "/",
    "..",
    "../",
    "../base-evil/secret.txt",
    "{base}-evil/secret.txt",
    "{base}/../secret.txt",
    "{base}/../base-evil/secret.txt",
    "out-file",
    "out-relative",
    "out-folder/secret.txt",
    "out-folder/../secret.txt",
    "chain",
    "sub/up/secret.txt",
    "sub/deep/up",
    "root/etc/passwd",
    "to-sub/../../secret.txt",
    "zero",
    "environ",
    "dangling",
    "\0",
    "sub/inner.txt\0.png",
    "../secret.txt\0sub/inner.txt",
    "../" * 2_000 + "etc/passwd",
    "a" * 5_000,
]
NO_FILE = [
    "..\\secret.txt",
    "..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e/secret.txt",
    "．．/secret.txt",
    "..\u2044secret.txt",
    "..\u200b/secret.txt",
    "~/secret.txt",
    "~root/.bashrc",
    "$HOME/secret.txt",
    "${HOME}",
    "`id`",
    "file:///etc/passwd",
    "http://127.0.0.1/",
    "sub/inner.txt/../../../secret.txt/x",
    "sub/inner.txt ",
    "sub/inner.txt\n",
    "SUB/INNER.TXT/x",
    "no/such/file",
    "a" * 300,
    "loop",
    "loop/x",
    "*",
    "-",
    "sub/inner.tx?",
]
NOT_A_FILE = {"": "a folder", ".": "a folder", "sub": "a folder", "pipe": "a named pipe"}


@pytest.mark.parametrize("by", TOOLS)
@pytest.mark.parametrize("path", INSIDE)
async def test_what_is_inside_is_read_however_it_is_written(path: str, by: str, base: Path) -> None:
    result = await read(base, path.format(base=base), by)
    assert (result.is_error, result.text) == (False, INNER)


@pytest.mark.parametrize("by", TOOLS)
@pytest.mark.parametrize("path", OUTSIDE, ids=range(len(OUTSIDE)))
async def test_what_leads_outside_is_refused_and_never_shown(path: str, by: str, base: Path) -> None:
    result = await read(base, path.format(base=base), by)
    assert result.failure == Failure.REFUSED
    assert SECRET not in result.text
    assert "root:" not in result.text
    assert len(result.text) < 1_000


@pytest.mark.parametrize("by", TOOLS)
@pytest.mark.parametrize("path", NO_FILE, ids=range(len(NO_FILE)))
async def test_what_is_no_path_to_a_file_is_told_and_nothing_is_decoded(path: str, by: str, base: Path) -> None:
    result = await read(base, path, by)
    assert result.is_error
    assert result.failure in (Failure.TOOL, Failure.REFUSED)
    assert SECRET not in result.text
    assert INNER not in result.text


@pytest.mark.parametrize("by", TOOLS)
@pytest.mark.parametrize("path", NOT_A_FILE)
async def test_folders_and_pipes_are_no_files_and_nobody_waits_for_them(path: str, by: str, base: Path) -> None:
    result = await read(base, path, by)
    assert result.failure == Failure.REFUSED
    assert f"is {NOT_A_FILE[path]}, not a file" in result.text


@pytest.mark.parametrize("by", TOOLS)
async def test_a_socket_is_no_file(by: str, base: Path) -> None:
    result = await read(base, "socket", by)
    assert result.is_error
    assert "is a socket" in result.text


# While somebody moves things about


@contextmanager
def _again_and_again(act: Callable[[], None]) -> Iterator[None]:
    """Something else happens all the while, in a thread of its own."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            act()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join(PATIENCE)


@pytest.mark.parametrize("by", TOOLS)
async def test_a_thousand_reads_while_a_file_becomes_a_link_never_show_what_is_outside(by: str, base: Path) -> None:
    target, aside = base / "swapped", base / ".aside"

    def swap() -> None:
        aside.write_text(INNER)
        aside.replace(target)
        aside.symlink_to(base.parent / "secret.txt")
        aside.replace(target)

    swap()
    with _again_and_again(swap):
        seen = await _many(base, "swapped", by)
    assert seen.keys() <= {INNER, "refused", "other"}
    assert {INNER, "refused"} <= seen.keys(), "the swaps never hit, so this proves nothing"


@pytest.mark.parametrize("by", TOOLS)
async def test_a_thousand_reads_while_a_folder_becomes_a_link_never_show_what_is_outside(by: str, base: Path) -> None:
    """The parent of the file is a folder at one moment, and a link to another one at the next."""
    real, swapped, link = base / "real", base / "parent", base / "link"
    real.mkdir()
    (real / "inner.txt").write_text(INNER)
    link.symlink_to(base.parent / "base-evil")

    def swap() -> None:
        real.rename(swapped)
        swapped.rename(real)
        link.rename(swapped)
        swapped.rename(link)

    with _again_and_again(swap):
        seen = await _many(base, "parent/inner.txt", by)
    assert seen.keys() <= {INNER, "refused", "other"}
    assert {INNER, "refused"} <= seen.keys(), "the swaps never hit, so this proves nothing"


async def _many(base: Path, path: str, by: str) -> dict[str, int]:
    """How often each text was read, each refusal and each other error counted as one."""
    write(base / "tools/files.json", file_read())
    seen: dict[str, int] = {}
    async with opened(base, watch=False) as stead:
        for _ in range(READS // 20):
            results = await asyncio.gather(*(stead.call(by, {"path": path}) for _ in range(20)))
            for result in results:
                assert SECRET not in result.text
                kind = "refused" if result.failure == Failure.REFUSED else "other" if result.is_error else result.text
                seen[kind] = seen.get(kind, 0) + 1
    return seen


async def test_a_base_that_is_a_link_is_the_folder_it_leads_to(base: Path) -> None:
    (base / "alias").symlink_to("sub")
    for path in ("inner.txt", str(base / "alias/inner.txt"), str(base / "sub/inner.txt")):
        assert (await read(base, path, basePath="alias")).text == INNER
    for path in ("../secret.txt", "up/secret.txt", str(base.parent / "secret.txt"), "../tools/files.json"):
        result = await read(base, path, basePath="alias")
        assert result.failure == Failure.REFUSED
        assert f"is outside the tool's folder '{base}/alias'" in result.text


async def test_the_base_may_be_absolute_or_in_the_home_and_is_told_when_it_is_missing(base: Path, home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes/a.txt").write_text("at home")
    assert (await read(base, "a.txt", basePath="~/notes")).text == "at home"
    assert (await read(base, "a.txt", basePath=str(home / "notes"))).text == "at home"
    missing = await read(base, "a.txt", basePath="no/such")
    assert missing.text == f"the folder '{base}/no/such' that this tool reads from does not exist"


def test_a_preview_names_the_file_and_refuses_what_leads_outside(base: Path) -> None:
    handler = FileReadHandler(FileReadConfig(base_path="."), Surroundings(root=base, environ={}))
    assert handler.preview_call({"path": "to-inner"})["file"] == str((base / "sub/inner.txt").resolve())
    for path in ("../secret.txt", "out-file", "sub/up/secret.txt", "a\0b"):
        with pytest.raises(RefusedError):
            handler.preview_call({"path": path})


@pytest.mark.parametrize(("by", "module"), [("read", file_read_handler), ("file-reader", file_reader)])
async def test_nobody_else_waits_for_the_disk(
    by: str, module: Any, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[threading.Thread] = []
    opens = module.open_inside

    def opened_by(*given: Any, **named: Any) -> Any:
        workers.append(threading.current_thread())
        return opens(*given, **named)

    monkeypatch.setattr(module, "open_inside", opened_by)
    assert (await read(base, "sub/inner.txt", by)).text == INNER
    assert len(workers) in (1, 2)  # the second call may have read at once, which asks no disk
    assert threading.current_thread() not in workers


# Sizes


async def test_a_file_that_is_too_large_is_an_error_that_names_both_sizes(base: Path) -> None:
    (base / "large").write_bytes(b"x" * 1_048_577)
    (base / "largest").write_bytes(b"x" * 1_048_576)
    assert (await read(base, "large")).text == "'large' has 1,048,577 bytes; at most 1,048,576 are read"
    shown = await read(base, "largest")
    assert not shown.is_error
    assert (await read(base, "large", maxSize=10)).text == "'large' has 1,048,577 bytes; at most 10 are read"
    assert (await read(base, "sub/inner.txt", maxSize=10)).text == INNER
    assert (await read(base, "sub/inner.txt", maxSize=9)).text == "'sub/inner.txt' has 10 bytes; at most 9 are read"


async def test_a_file_that_is_said_to_be_empty_is_read_within_the_bound_all_the_same(base: Path) -> None:
    """Files of `/proc` have the size 0 and content all the same."""
    if Path("/proc/self/status").exists():
        result = await read(base, "self/status", basePath="/proc", maxSize=100)
        assert result.text == "'self/status' has 101 bytes; at most 100 are read"


async def test_a_file_that_grows_while_it_is_read_stays_within_the_bound(base: Path) -> None:
    growing = base / "growing"
    growing.write_bytes(b"")

    def grow() -> None:
        with growing.open("ab") as file:
            file.write(b"y" * 1_000)
        if growing.stat().st_size > 40_000:
            os.truncate(growing, 0)

    write(base / "tools/files.json", file_read(maxSize=20_000))
    with _again_and_again(grow):
        async with opened(base, watch=False) as stead:
            for _ in range(300):
                result = await stead.call("read", {"path": "growing"})
                if result.is_error:
                    assert "at most 20,000 are read" in result.text
                else:
                    assert len(result.text) <= 20_000
                    assert set(result.text) <= {"y"}


class Endless:
    """A file of short lines that has no end, until the test has one."""

    def __init__(self) -> None:
        self.reading, self.closed, self.over = threading.Event(), threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def read(self, size: int) -> bytes:
        self.reading.set()
        return b"" if self.over.is_set() else b"x\n" * (size // 2)


async def test_nobody_reads_on_for_a_call_that_was_given_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Endless()
    monkeypatch.setattr(file_reader, "open_inside", lambda *_, **__: file)
    async with opened(base, watch=False) as stead:
        call = asyncio.ensure_future(stead.call("file-reader", {"path": "any", "startLine": 10**15}))
        try:
            assert await asyncio.to_thread(file.reading.wait, PATIENCE)
            call.cancel()
            await asyncio.wait([call], timeout=PATIENCE)
            assert call.cancelled()
            assert await asyncio.to_thread(file.closed.wait, PATIENCE)
        finally:
            file.over.set()


# Content

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
IMAGES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
    "image/gif": b"GIF89a\x01\x00\x01\x00\x00\xff\x00",
    "image/webp": b"RIFF\x1a\x00\x00\x00WEBPVP8 \xff",
}


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("name", ["picture", "picture.txt"])
async def test_an_image_is_known_by_its_content(kind: str, name: str, base: Path) -> None:
    (base / name).write_bytes(IMAGES[kind])
    result = await read(base, name)
    assert result.content == (Image(data=IMAGES[kind], mime_type=kind),)
    assert not result.is_error


async def test_an_old_gif_and_texts_that_only_look_like_images_by_name(base: Path) -> None:
    (base / "old").write_bytes(b"GIF87a\xff")
    assert (await read(base, "old")).content == (Image(data=b"GIF87a\xff", mime_type="image/gif"),)
    for text in ("plain", "RIFF of another kind", "PNG", "", "GIF8"):
        (base / "text.png").write_text(text)
        assert (await read(base, "text.png")).text == text


@pytest.mark.parametrize("data", [b"caf\xe9", b"\xff\xfea\x00", b"\x80", b"a\xc3"])
async def test_what_is_neither_text_nor_image_is_told_with_its_size(data: bytes, base: Path) -> None:
    (base / "data").write_bytes(data)
    result = await read(base, "data")
    assert result.is_error
    assert result.text == f"'data' is neither UTF-8 text nor an image ({len(data)} bytes)"


async def test_text_is_given_as_it_is(base: Path) -> None:
    for text in ("é\r\n\tü\0x", "\ufeffwith a mark", "no end", "\n\n", "😀" * 1_000):
        (base / "text").write_text(text, newline="")
        assert (await read(base, "text")).text == text


# Loading


async def test_a_path_with_a_default_need_not_be_given(base: Path) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "default": "sub/inner.txt"}}}
    handler = {"type": "file-read", "basePath": "."}
    write(base / "tools/files.json", {**tool("read", handler), "inputSchema": schema})
    async with opened(base, watch=False) as stead:
        assert (await stead.call("read")).text == INNER
        assert (await stead.call("read", {})).text == INNER
        assert (await stead.call("read", {"path": "../secret.txt"})).failure == Failure.REFUSED


@pytest.mark.parametrize(
    ("properties", "required", "base_path", "says"),
    [
        ({}, [], ".", 'a file-read tool needs a property "path" with "type": "string"'),
        ({"path": {"type": "integer"}}, ["path"], ".", '"path" with "type": "string"'),
        ({"path": {"type": "string"}}, [], ".", '"path" must be in "required", or have a "default"'),
        ({"path": {"type": "string"}}, ["path"], "{{path}}", "a placeholder may not stand here"),
        ({"path": {"type": "string"}}, ["path"], "a\0b", "U+0000 NULL"),
    ],
)
async def test_a_tool_that_could_not_work_is_set_aside_with_the_place(
    properties: Any, required: list[str], base_path: str, says: str, base: Path
) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    handler = {"type": "file-read", "basePath": base_path}
    write(base / "tools/files.json", {**tool("read", handler), "inputSchema": schema})
    async with opened(base, watch=False) as stead:
        (problem,) = stead.tool_files()[0].problems
        assert says in problem.message
        assert (problem.line or 0) > 1
        assert (problem.column or 0) > 1
        assert not stead.registry.has_tool("read")
