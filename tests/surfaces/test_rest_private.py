"""The private token: what people's own programs show, and nobody else has."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.flows.tool_files import shell, write
from tests.programs.running import TOOLSTEAD
from tests.programs.running import running as program
from tests.surfaces.fake_plugins import FakePlugins
from tests.surfaces.rest_server import SAY, Client, Live, Reply, running
from tests.surfaces.test_rest_guard import Mcp
from tests.waiting import until
from toolstead.adapters.http.asgi import HttpRequest, HttpResponse, Message
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.routing import Endpoint, Routes
from toolstead.adapters.http.token import AccessToken
from toolstead.app.server_file import ServerFile

TOKEN = "s3cret-token"
PRIVATE = "the-private-token"
EVERYBODY = ["/api/tools", "/api/plugins", "/api/health", "/docs", "/openapi.json", "/mcp"]
PAGE = "http://localhost:5173"

general = pytest.mark.parametrize("general", ["", TOKEN], ids=["no general token", "general token"])


async def switch(live: Client, **headers: str) -> Reply:
    return await live.ask("PATCH", "/api/plugins/shouty", {"enabled": False}, headers)


async def private_cookie(live: Live) -> str:
    """The cookie that a browser gets for the private token."""
    first = await live.get(f"/docs?token={PRIVATE}&a=1")
    assert (first.status, first.headers["location"]) == (303, "/docs?a=1")
    assert first.headers["cache-control"] == "no-store"
    return first.headers["set-cookie"].partition(";")[0]


@general
@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {PRIVATE}"},
        {"Authorization": f"Bearer {PRIVATE}x"},
        {"Cookie": f"toolstead-8420={PRIVATE}"},
        {"Cookie": AccessToken(TOKEN).make_cookie(b"x:8420").partition(b";")[0].decode()},
        {"Cookie": AccessToken("").make_cookie(b"x:8420").partition(b";")[0].decode()},
    ],
    ids=["nothing", "general", "wrong", "empty", "basic", "longer", "not a cookie of ours", "general cookie", "no key"],
)
async def test_without_the_private_token_nothing_is_changed_and_nothing_is_told(
    general: str, shown: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, token=general, private_token=PRIVATE) as live:
        passes = not general or TOKEN in shown.get("Authorization", "") or shown.get("Cookie") == _cookie_of(TOKEN)
        for method, path in [
            ("PATCH", "/api/plugins/shouty"),
            ("PATCH", "/api/plugins/nobody"),
            ("POST", "/api/plugins/shouty/reset"),
            ("POST", "/api/plugins/nobody/reset"),
        ]:
            body = {"enabled": False} if method == "PATCH" else None
            reply = await live.ask(method, path, body, shown)
            if passes:
                assert (reply.status, reply.problem["type"]) == (403, "/docs#private")
                assert "private token" in reply.problem["detail"]
                assert "server.json" in reply.problem["detail"]
            else:
                assert (reply.status, reply.problem["type"]) == (401, "/docs#no-token")
            assert PRIVATE not in reply.body.decode()
            assert "did you mean" not in reply.problem["detail"]
        assert plugins.asked == []
        assert "refused PATCH '/api/plugins/shouty' of 127.0.0.1 with" in caplog.text
        assert PRIVATE not in caplog.text


def _cookie_of(token: str) -> str:
    return AccessToken(token).make_cookie(b"x:8420").partition(b";")[0].decode()


@general
async def test_the_private_token_opens_what_is_private_and_everything_else(general: str) -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, token=general, private_token=PRIVATE, mcp=Mcp()) as live:
        for shown in ({"Authorization": f"Bearer {PRIVATE}"}, {"Cookie": f"a=b; {await private_cookie(live)}"}):
            for path in EVERYBODY:
                assert (await live.ask("GET", path, headers=shown)).status == 200, path
            assert (await switch(live, **shown)).json["enabled"] is False
            own = {**shown, "Origin": f"http://127.0.0.1:{live.port}"}
            assert (await switch(live, **own)).status == 200
            assert (await live.ask("POST", "/api/plugins/shouty/reset", headers=own)).json["enabled"] is True
    assert len(plugins.asked) == 6


async def test_a_browser_with_the_general_cookie_gets_the_private_one_by_the_address() -> None:
    async with running(SAY, plugins=FakePlugins(), token=TOKEN, private_token=PRIVATE) as live:
        general = (await live.get(f"/docs?token={TOKEN}")).headers["set-cookie"].partition(";")[0]
        assert (await live.get("/docs", cookie=general)).status == 200
        assert (await switch(live, Cookie=general)).status == 403
        raised = await live.get(f"/docs?token={PRIVATE}", cookie=general)
        assert raised.status == 303
        private = raised.headers["set-cookie"].partition(";")[0]
        assert private.partition("=")[0] == general.partition("=")[0], "one cookie takes the other's place"
        assert (await switch(live, Cookie=private)).status == 200


async def test_the_private_token_in_an_address_counts_for_pages_only() -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, private_token=PRIVATE, mcp=Mcp()) as live:
        for path in ("/api/tools", "/mcp"):
            reply = await live.get(f"{path}?token={PRIVATE}")
            assert (reply.status, "set-cookie" in reply.headers) == (200, False)
        assert (await live.ask("PATCH", f"/api/plugins/shouty?token={PRIVATE}", {"enabled": False})).status == 403
        assert (await live.ask("POST", f"/docs?token={PRIVATE}")).status == 405
        for wrong in ("wrong", "", TOKEN):
            reply = await live.get(f"/docs?token={wrong}")
            assert (reply.status, "set-cookie" in reply.headers) == (200, False)
    assert plugins.asked == []


async def test_another_page_changes_nothing_though_the_browser_sends_the_cookie_along() -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, private_token=PRIVATE, allowed_origins=[PAGE]) as live:
        cookie = await private_cookie(live)
        for origin, status in (("http://evil.example", 403), ("null", 403), (PAGE, 403)):
            for path in ("/api/plugins/shouty", "/api/plugins/shouty/reset"):
                method = "POST" if path.endswith("reset") else "PATCH"
                body = {"enabled": False} if method == "PATCH" else None
                reply = await live.ask(method, path, body, {"Origin": origin, "Cookie": cookie})
                kind = "private" if origin == PAGE else "bad-origin"
                assert (reply.status, reply.problem["type"]) == (status, f"/docs#{kind}")
        assert plugins.asked == []
        listed = {"Origin": PAGE, "Authorization": f"Bearer {PRIVATE}", "Cookie": cookie}
        assert (await switch(live, **listed)).status == 200
        foreign = {"Origin": "http://evil.example", "Authorization": f"Bearer {PRIVATE}"}
        assert (await switch(live, **foreign)).status == 403


async def test_a_private_route_admits_nobody_where_no_private_token_was_made() -> None:
    async def handler(_: HttpRequest) -> HttpResponse:
        raise AssertionError("nobody may come here")

    async with running(SAY, plugins=FakePlugins(), private_token="") as live:
        for headers in ({}, {"Authorization": "Bearer "}, {"Cookie": _cookie_of("")}):
            assert (await switch(live, **headers)).status == 403
        assert "set-cookie" not in (await live.get("/docs?token=")).headers
    routes = Routes([Endpoint(method="GET", path="/x", handler=handler, operation={}, private=True)])
    for method in ("GET", "HEAD"):
        sent: list[Message] = []

        async def keep(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        async def nothing() -> Message:
            return {"type": "http.request"}

        await routes({"type": "http", "method": method, "path": "/x", "headers": []}, nothing, keep)
        assert sent[0]["status"] == 403


def test_every_server_has_a_private_token_of_its_own_that_is_not_shown() -> None:
    one, two = ServerOptions(token=TOKEN), ServerOptions(token=TOKEN)
    assert len({one.private_token, two.private_token, TOKEN}) == 3
    assert len(one.private_token) >= 32
    assert one.private_token not in repr(one)


async def test_the_document_and_the_page_say_which_routes_are_private_and_not_the_token() -> None:
    async with running(SAY, plugins=FakePlugins(), private_token=PRIVATE) as live:
        document = await live.document()
        paths = document["paths"]
        private = {
            (method, path)
            for path, methods in paths.items()
            for method, described in methods.items()
            if described.get("security") == [{"privateToken": []}]
        }
        table = {(found.method.lower(), found.path) for found in live.app.routes.endpoints if found.private}
        assert private == table >= {("patch", "/api/plugins/{name}"), ("post", "/api/plugins/{name}/reset")}
        assert all("403" in paths[path][method]["responses"] for method, path in private)
        assert "privateToken" in document["components"]["securitySchemes"]
        page = (await live.get("/docs")).body.decode()
        assert "Bearer PRIVATE_TOKEN" in page
        for path in ("/docs", "/openapi.json", "/api/health", "/api/plugins", "/api/tools"):
            assert PRIVATE not in (await live.get(path)).body.decode()


async def test_the_token_of_a_served_project_is_in_its_private_file_and_nowhere_else(
    tmp_path: Path,
) -> None:
    tools, project = tmp_path / "tools", tmp_path / "project"
    tools.mkdir()
    project.mkdir()
    write(tools / "look.json", shell("look-around", "env"))
    data = Path(os.environ["TOOLSTEAD_HOME"], "data")
    environ = {"TOOLSTEAD_TOOLS_DIR": str(tools), "TOOLSTEAD_TOKEN": TOKEN}
    command = [*TOOLSTEAD, "-v", "-v", "serve", "--port", "0"]
    async with program(command, errors=tmp_path / "stderr.txt", cwd=project, env=environ) as served:
        found = await until(lambda: ServerFile(data).find_server(project.resolve()))
        await served.stderr_with("/docs")
        private = found.token
        assert private not in ("", TOKEN)
        assert stat.S_IMODE((data / "server.json").stat().st_mode) == 0o600
        client = Client(found.url)
        shown = {"Authorization": f"Bearer {TOKEN}"}
        looked = await client.ask("POST", "/api/tools/look-around/call", {"input": {}}, shown)
        environment: str = looked.json["content"][0]["text"]
        assert "PATH=" in environment
        told = [environment]
        for method, path in [
            ("GET", "/docs"),
            ("GET", "/openapi.json"),
            ("GET", "/api/health"),
            ("GET", "/api/tools"),
            ("GET", f"/docs?token={private}"),
            ("PATCH", "/api/plugins/x"),
            ("GET", f"/nowhere?token={private}"),
        ]:
            reply = await client.ask(method, path, headers=shown)
            told += [reply.body.decode(), json.dumps(dict(reply.headers))]
        client.leave()
        served.process.terminate()
        await served.ended()
        told.append(served.stderr)
        assert not [text for text in told if private in text]
    kept = [path for path in data.rglob("*") if path.is_file() and private.encode() in path.read_bytes()]
    assert kept == [], "and it is gone from its file, too"
