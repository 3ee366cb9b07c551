"""The console's page: where it is served, what a browser may do with it, and how a person logs in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import machine
from tests.programs.running import TOOLSTEAD
from tests.programs.running import running as program
from tests.programs.terminal import open_terminal
from tests.surfaces.fake_plugins import FakePlugins
from tests.surfaces.rest_server import SAY, Client, Live, running
from tests.waiting import PATIENCE, until
from toolstead.app.server_file import ServerFile

PRIVATE, GENERAL, OTHER_PAGE = "the-private-token", "s3cret-token", "http://localhost:5173"
OPENAPI = Path(__file__).parents[2] / "src/toolstead/console/web/openapi.json"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PAGE = """<!doctype html><title>Console</title><link rel="stylesheet" href="/assets/index-DiwrgTda.css">
<p id="shown">…</p><script type="module" src="/assets/index-DiwrgTda.js"></script>"""
SCRIPT = """const answer = await fetch("/api/access");
const access = await answer.json();
const inline = document.createElement("script");
inline.textContent = "window.inline = true";
document.body.append(inline);
document.getElementById("shown").textContent = JSON.stringify(
    {...access, place: location.href, cookie: document.cookie, inline: window.inline ?? false});
"""


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE, "utf-8")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "assets" / "index-DiwrgTda.css").write_text("p { color: green }")
    (folder / "assets" / "index-DiwrgTda.js").write_text(SCRIPT, "utf-8")
    return folder


@pytest.fixture
async def live(built: Path) -> AsyncIterator[Live]:
    options = {"private_token": PRIVATE, "allowed_origins": [OTHER_PAGE]}
    async with running(SAY, plugins=FakePlugins(), console=built, **options) as live:
        yield live


@pytest.mark.parametrize(
    "path", ["/", "/chat", "/chat/thread_1", "/runs/run_1?view=tree", "/tools/git-status", "/approvals"]
)
async def test_the_page_answers_the_address_of_every_screen(live: Live, path: str) -> None:
    reply = await live.get(path, accept=BROWSER)
    assert (reply.status, reply.body.decode()) == (200, PAGE)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-security-policy"] == (
        "default-src 'self'; img-src 'self' data: blob:; media-src data:; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert (reply.headers["x-content-type-options"], reply.headers["referrer-policy"]) == ("nosniff", "same-origin")
    assert reply.headers["cache-control"] == "no-cache"
    again = await live.get(path, accept=BROWSER, if_none_match=reply.headers["etag"])
    assert (again.status, again.body) == (304, b"")


async def test_its_files_are_kept_for_a_year_and_its_icon_is_asked_about(live: Live) -> None:
    for name, caching in [
        ("assets/index-DiwrgTda.js", "public, max-age=31536000, immutable"),
        ("icon.svg", "no-cache"),
    ]:
        reply = await live.get(f"/{name}")
        assert (reply.status, reply.headers["cache-control"]) == (200, caching)
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" in reply.headers


@pytest.mark.parametrize(
    ("method", "path", "accepted"),
    [
        ("GET", "/chat/thread_1", "*/*"),
        ("GET", "/chat/thread_1", "application/json, text/html"),
        ("GET", "/api", BROWSER),
        ("GET", "/api/nothing", BROWSER),
        ("GET", "/mcp/nothing", BROWSER),
        ("GET", "/docs/nothing", BROWSER),
        ("GET", "/approvals/approval_1", BROWSER),
        ("GET", "/assets/missing.js", BROWSER),
        ("GET", "/.well-known/nothing", BROWSER),
        ("POST", "/chat/thread_1", BROWSER),
    ],
)
async def test_what_is_no_screen_or_asked_by_a_program_is_not_found(
    live: Live, method: str, path: str, accepted: str
) -> None:
    reply = await live.ask(method, path, headers={"Accept": accepted})
    assert reply.problem["status"] == 404


async def test_who_has_only_a_profile_gets_no_page(built: Path) -> None:
    from toolstead.adapters.http.options import ProfileOptions

    profiles = {"readers": ProfileOptions(token="the-token-of-readers")}
    async with running(SAY, console=built, profiles=profiles) as live:
        shown = {"Authorization": "Bearer the-token-of-readers", "Accept": BROWSER}
        for path, status in [("/", 403), ("/api/access", 403), ("/chat", 404), ("/assets/index-DiwrgTda.js", 404)]:
            assert (await live.ask("GET", path, headers=shown)).status == status, path


async def test_a_console_that_was_not_built_is_explained_and_found_once_it_is(tmp_path: Path) -> None:
    async with running(SAY, console=tmp_path / "dist") as live:
        for path in ("/", "/chat/thread_1"):
            reply = await live.get(path, accept=BROWSER)
            assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
            text = reply.body.decode()
            assert "<pre>make console</pre>" in text
            assert '<a href="/docs">' in text
            assert str(tmp_path / "dist") in text
        (tmp_path / "dist").mkdir()
        (tmp_path / "dist" / "index.html").write_text("built")
        assert (await live.get("/")).body == b"built"


async def test_only_the_private_token_or_its_cookie_on_a_page_of_this_server_gives_its_rights(built: Path) -> None:
    options = {"token": GENERAL, "private_token": PRIVATE, "allowed_origins": [OTHER_PAGE]}
    async with running(SAY, plugins=FakePlugins(), console=built, **options) as live:
        opened = await live.get(f"/runs/run_1?token={PRIVATE}&view=tree", accept=BROWSER)
        assert (opened.status, opened.headers["location"]) == (303, "/runs/run_1?view=tree")
        assert (opened.headers["referrer-policy"], opened.headers["cache-control"]) == ("no-referrer", "no-store")
        cookie, *attributes = opened.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
        assert PRIVATE not in cookie
        general = (await live.get(f"/?token={GENERAL}", accept=BROWSER)).headers["set-cookie"].partition(";")[0]
        bearer = {"Authorization": f"Bearer {GENERAL}"}
        for shown, is_private in [
            ({"Authorization": f"Bearer {PRIVATE}"}, True),
            ({"Cookie": cookie}, True),
            ({"Cookie": cookie, "Origin": f"http://127.0.0.1:{live.port}"}, True),
            (bearer, False),
            ({"Cookie": general}, False),
            ({**bearer, "Cookie": cookie, "Origin": OTHER_PAGE}, False),
        ]:
            reply = await live.ask("GET", "/api/access", headers=shown)
            assert (reply.status, reply.json) == (200, {"private": is_private, "login": "Log in."}), shown
            assert reply.headers["cache-control"] == "no-store"
            changed = await live.ask("PATCH", "/api/plugins/shouty", {"enabled": False}, shown)
            assert changed.status == (200 if is_private else 403), "and so it is with what it may do"
        assert (await live.get("/", accept=BROWSER)).status == 401
        assert (await live.ask("GET", "/", headers={"Cookie": cookie})).status == 200


async def test_a_terminal_is_shown_the_address_that_logs_in_and_the_log_never_has_the_token(
    home: Path, tmp_path: Path
) -> None:
    with open_terminal(tmp_path, "-v", "-v", "serve", "--port", "0") as terminal:
        said = await asyncio.to_thread(terminal.until, "Ctrl-C stops it.")
        shown = re.search(r"^  console  (http://127\.0\.0\.1:\d+)/\?token=(\S+)\s*$", said, re.MULTILINE)
        assert shown, said
        url, token = shown.groups()
        client = Client(url)
        assert (await client.get("/api/access")).json["private"] is False
        opened = await client.get(f"/?token={token}", accept=BROWSER)
        cookie = opened.headers["set-cookie"].partition(";")[0]
        access = await client.ask("GET", "/api/access", headers={"Cookie": cookie})
        assert access.json["private"] is True
        assert "toolstead doctor" in access.json["login"]
        assert (await client.get("/", cookie=cookie, accept=BROWSER)).status == 200
        await client.call("workspace-info", {})
        await asyncio.to_thread(terminal.until, "workspace-info ok")
        client.leave()

        with open_terminal(tmp_path, "doctor") as asking:
            _, printed, _ = await asyncio.to_thread(asking.end)
        assert f"console   {url}/ (a terminal is shown" in printed, "its stdout is a pipe"
        assert token not in printed
        with open_terminal(tmp_path, "doctor", stdout=True) as asking:
            _, _, seen = await asyncio.to_thread(asking.end)
        assert f"console   {url}/?token={token}\n" in seen
        with open_terminal(tmp_path, "doctor", "--json", stdout=True) as asking:
            _, _, document = await asyncio.to_thread(asking.end)
        assert url in document
        assert token not in document
        assert terminal.shown.count(token) == 1


@pytest.mark.parametrize("words", [(), ("--log-format", "json")], ids=["text", "JSON"])
async def test_a_pipe_and_a_log_in_json_are_told_only_how_to_see_it(
    home: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command = [*TOOLSTEAD, "-v", "-v", "serve", "--port", "0", *words]
    async with program(command, errors=tmp_path / "stderr.txt", cwd=tmp_path) as served:
        data = home / ".config" / "toolstead" / "data"
        known = await until(lambda: ServerFile(data).find_server(tmp_path))
        said = await served.stderr_with("toolstead doctor")
        client = Client(known.url)
        assert (await client.get(f"/?token={known.token}", accept=BROWSER)).status == 303
        client.leave()
        served.process.terminate()
        await served.ended()
        assert known.token not in served.stderr
    if words:
        about = next(line for line in map(json.loads, said.splitlines()) if "console" in line.get("about", line))
        said = str(about)
    assert f"{known.url}/ (`toolstead doctor` on a terminal shows the address that logs in)" in said


@pytest.mark.requires("browser")
async def test_a_browser_logs_in_by_the_address_and_runs_nothing_but_the_files(built: Path) -> None:
    from playwright.async_api import async_playwright

    async with running(SAY, console=built, private_token=PRIVATE) as live, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=machine.browser(), args=["--no-sandbox"])
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        for path, is_private in [("/runs/run_1", False), (f"/runs/run_1?token={PRIVATE}", True), ("/", True)]:
            await page.goto(live.url + path)
            text = await page.locator("#shown", has_text="private").text_content()
            place = live.url + path.partition("?")[0]
            seen = {"private": is_private, "login": "Log in.", "place": place, "cookie": "", "inline": False}
            assert json.loads(text or "") == seen
        refused = [text for text in said if "Content Security Policy" in text]
        assert len(refused) == 3, "each time the script in the page, and nothing else"
        await browser.close()


async def test_the_types_of_the_console_come_from_the_routes_that_there_are(tmp_path: Path, home: Path) -> None:
    assert home.is_dir()
    async with program([*TOOLSTEAD, "serve", "--port", "0"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as served:
        url = re.search(r"console +(http://[^/]+)/", await served.stderr_with("  docs  "))
        assert url is not None
        client = Client(url[1])
        document = (await client.get("/openapi.json")).json
        client.leave()
        served.process.terminate()
        await served.ended()
    kept = json.loads(OPENAPI.read_text("utf-8"))
    for one in (document, kept):
        del one["servers"]
    new = tmp_path / "openapi.json"
    new.write_text(json.dumps(document | {"servers": []}, indent=2) + "\n")
    assert document == kept, f"copy {new} to {OPENAPI}, and run `npm run check` beside it: a route or a shape changed"
