"""Files of a folder over real connections: what is served, how long it is kept, and what is never reached."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.surfaces.rest_server import Client
from toolstead.adapters.http.application import HttpApplication
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.routing import Routes
from toolstead.adapters.http.server import serve_on_loopback
from toolstead.adapters.http.static_files import StaticFiles
from toolstead.adapters.http.stopping import Stopping

FILES = {
    "index.html": b"<!doctype html>",
    "favicon.ico": b"icon",
    "assets/index-DiwrgTda.js": b"export {}",
    "assets/index-DiwrgTda.js.map": b"{}",
    "assets/logo.svg": b"<svg/>",
    "my-component.js": b"1",
    "data.unknown": b"?",
    "a b/ü.txt": "grüß".encode(),
    ".env": b"SECRET",
    ".git/config": b"SECRET",
}
YEAR = "public, max-age=31536000, immutable"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "built"
    for name, content in FILES.items():
        path = built / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret.txt").write_bytes(b"SECRET")
    (tmp_path / "built-beside").mkdir()
    (tmp_path / "built-beside" / "file.txt").write_bytes(b"SECRET")
    return built


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    files = StaticFiles(folder, headers=((b"content-security-policy", b"default-src 'self'"),))
    async with serving(files) as client:
        yield client


@asynccontextmanager
async def serving(files: StaticFiles) -> AsyncIterator[httpx2.AsyncClient]:
    """A server that has these files, the index at `/`, and nothing else."""
    routes = Routes([], find_page=lambda request: files.find_file(request, request.path[1:] or "index.html"))
    app = HttpApplication(routes, options=ServerOptions(port=0), stopping=Stopping())
    async with (
        serve_on_loopback(app) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("path", "name", "kind", "caching"),
    [
        ("", "index.html", "text/html; charset=utf-8", "no-cache"),
        ("index.html", "index.html", "text/html; charset=utf-8", "no-cache"),
        ("favicon.ico", "favicon.ico", "image/x-icon", "no-cache"),
        ("assets/index-DiwrgTda.js", "assets/index-DiwrgTda.js", "text/javascript; charset=utf-8", YEAR),
        ("assets/index-DiwrgTda.js.map", "assets/index-DiwrgTda.js.map", "application/json", YEAR),
        ("assets/logo.svg", "assets/logo.svg", "image/svg+xml", "no-cache"),
        ("my-component.js", "my-component.js", "text/javascript; charset=utf-8", "no-cache"),
        ("data.unknown", "data.unknown", "application/octet-stream", "no-cache"),
        ("a%20b/%C3%BC.txt", "a b/ü.txt", "text/plain; charset=utf-8", "no-cache"),
    ],
)
async def test_a_file_is_served_with_its_type_and_as_long_as_its_name_allows(
    client: httpx2.AsyncClient, path: str, name: str, kind: str, caching: str
) -> None:
    answer = await client.get(f"/{path}")
    assert (answer.status_code, answer.content) == (200, FILES[name])
    assert answer.headers["content-type"] == kind
    assert answer.headers["cache-control"] == caching
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    head = await client.head(f"/{path}")
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers, "date": ""} == {**answer.headers, "date": ""}


async def test_a_file_that_the_browser_has_is_not_sent_again(client: httpx2.AsyncClient) -> None:
    etag = (await client.get("/")).headers["etag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await client.get("/", headers={"if-none-match": given})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == etag
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-type" not in answer.headers
        assert "content-length" not in answer.headers
    assert (await client.head("/", headers={"if-none-match": etag})).status_code == 304
    for given in ('"other"', etag.strip('"'), ""):
        assert (await client.get("/", headers={"if-none-match": given})).status_code == 200


async def test_another_content_has_another_etag(client: httpx2.AsyncClient) -> None:
    tags = {(await client.get(f"/{name}")).headers["etag"] for name in ("index.html", "favicon.ico")}
    assert len(tags) == 2


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "assets/../../secret.txt",
        "..%5csecret.txt",
        "../built-beside/file.txt",
        "/etc/passwd",
        "//etc/passwd",
        "%00",
        "index.html%00.js",
        "./index.html",
        "assets",
        "assets/",
        "nothing.html",
        "INDEX.HTML",
        ".env",
        ".git/config",
        "%ff",
    ],
)
async def test_nothing_else_is_reached_and_no_folder_is_listed(client: httpx2.AsyncClient, path: str) -> None:
    raw = Client(str(client.base_url).rstrip("/"))  # which sends a path as it is
    reply = await raw.get(f"/{path}")
    assert reply.status == 404
    assert "There is no " in reply.problem["detail"]
    assert b"SECRET" not in reply.body


async def test_links_out_of_the_folder_and_what_is_no_file_are_left_out(
    client: httpx2.AsyncClient, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "out.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "out").symlink_to(folder.parent / "built-beside")
    (folder / "nowhere.txt").symlink_to(folder / "missing")
    (folder / "in.txt").symlink_to(folder / "a b" / "ü.txt")
    os.mkfifo(folder / "pipe.txt")
    for name in ("out.txt", "out/file.txt", "nowhere.txt", "pipe.txt"):
        assert (await client.get(f"/{name}")).status_code == 404
    assert (await client.get("/in.txt")).content == FILES["a b/ü.txt"]
    assert "skipped a static file: 'out.txt' is outside the folder of static files" in caplog.text


async def test_what_is_put_into_the_folder_later_is_not_served(client: httpx2.AsyncClient, folder: Path) -> None:
    assert (await client.get("/")).status_code == 200
    (folder / "late.txt").write_bytes(b"late")
    (folder / "index.html").write_bytes(b"another")
    assert (await client.get("/late.txt")).status_code == 404
    assert (await client.get("/")).content == FILES["index.html"]


async def test_a_folder_that_is_built_later_is_found_then(tmp_path: Path) -> None:
    async with serving(StaticFiles(tmp_path / "later")) as client:
        assert (await client.get("/")).status_code == 404
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "index.html").write_text("built")
        assert (await client.get("/")).text == "built"


SCRIPT = b"export const text = 'a text that repeats itself';\n" * 200


@pytest.fixture
async def compressed(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    (folder / "assets" / "large-DiwrgTda.js").write_bytes(SCRIPT)
    (folder / "assets" / "photo-DiwrgTda.png").write_bytes(SCRIPT)
    async with serving(StaticFiles(folder)) as client:
        yield client


@pytest.mark.parametrize("accepted", ["gzip", "br, GZIP;q=0.8", "gzip, deflate, br, zstd"])
async def test_a_text_is_sent_compressed_to_who_accepts_it(compressed: httpx2.AsyncClient, accepted: str) -> None:
    path = "/assets/large-DiwrgTda.js"
    answer = await compressed.get(path, headers={"accept-encoding": accepted})
    assert (answer.content, answer.headers["content-encoding"]) == (SCRIPT, "gzip")
    assert int(answer.headers["content-length"]) < len(SCRIPT) / 10
    assert (answer.headers["vary"], answer.headers["cache-control"]) == ("Accept-Encoding", YEAR)
    again = {"accept-encoding": accepted, "if-none-match": answer.headers["etag"]}
    unchanged = await compressed.get(path, headers=again)
    assert (unchanged.status_code, unchanged.headers["vary"]) == (304, "Accept-Encoding")
    assert "content-encoding" not in unchanged.headers
    assert (await compressed.get(path, headers={**again, "accept-encoding": "br"})).content == SCRIPT


@pytest.mark.parametrize("accepted", ["", "br", "identity", "gzip;q=0", "gzip; q=0.000", "xgzip"])
async def test_a_text_is_sent_as_it_is_to_anybody_else(compressed: httpx2.AsyncClient, accepted: str) -> None:
    answer = await compressed.get("/assets/large-DiwrgTda.js", headers={"accept-encoding": accepted})
    assert (answer.content, answer.headers["vary"]) == (SCRIPT, "Accept-Encoding")
    assert "content-encoding" not in answer.headers


async def test_what_compression_does_not_shrink_is_never_compressed(compressed: httpx2.AsyncClient) -> None:
    for path in ("/assets/photo-DiwrgTda.png", "/index.html"):
        answer = await compressed.get(path, headers={"accept-encoding": "gzip"})
        assert not {"content-encoding", "vary"} & answer.headers.keys()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_files_are_only_read(client: httpx2.AsyncClient, method: str) -> None:
    assert (await client.request(method, "/index.html")).status_code == 404


async def test_the_guard_stands_before_files_too(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/", headers={"host": "evil.example"})).status_code == 421
