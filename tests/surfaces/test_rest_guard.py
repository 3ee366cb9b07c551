"""The guard before every route: names, pages, tokens. `/mcp` stands behind the same one."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.surfaces.rest_server import SAY, running
from toolstead.adapters.http.asgi import Message, Receive, Scope, Send
from toolstead.adapters.http.names import ServerNames
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.token import AccessToken, strip_token
from toolstead.errors import ServeError

TOKEN = "s3cret-token"
BEARER = f"Bearer {TOKEN}"
PATHS = ["/api/tools", "/api/health", "/docs", "/openapi.json", "/", "/mcp", "/nowhere"]


class Mcp:
    """Stands where the MCP door stands, and counts who gets through."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        body = (await receive()).get("body", b"")
        start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        await send(start)
        await send({"type": "http.response.body", "body": body or b"mcp", "more_body": False})


def options(**given: Any) -> ServerOptions:
    return ServerOptions(**given)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "localhost.evil.example", "a b", "", "127.0.0.1:x"]
)
async def test_no_route_answers_to_a_foreign_name(host: str, caplog: pytest.LogCaptureFixture) -> None:
    mcp = Mcp()
    async with running(SAY, mcp=mcp) as live:
        for path in PATHS:
            reply = await live.get(path, host=host)
            assert reply.status == 421
            assert reply.problem["type"] == "/docs#bad-host"
            assert "allowed_hosts" in reply.problem["detail"]
        assert mcp.reached == 0
        assert "not a name of this server" in caplog.text


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://evil.example/api/health", 421),
        ("http://evil.example:80/api/health", 421),
        ("https://evil.example/?x", 421),
        ("http://user@127.0.0.1/api/health", 421),
        ("http://127.0.0.1/api/health", 200),
        ("HTTP://[::1]:8420/api/health", 200),
    ],
)
async def test_a_whole_url_as_the_target_counts_instead_of_the_host_header(target: str, status: int) -> None:
    async with running(SAY) as live:
        for host in ("127.0.0.1", "evil.example"):
            reply = await live.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert reply.status == status
            assert status == 200 or reply.problem["type"] == "/docs#bad-host"
        without = await live.raw(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert without.problem["type"] == "/docs#bad-headers"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site "])
async def test_a_browser_that_hides_the_page_may_read_but_change_nothing_for_another_site(site: str) -> None:
    async with running(SAY) as live:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            refused = await live.ask(method, "/api/tools/reload", headers={"sec-fetch-site": site})
            assert (refused.status, refused.problem["type"]) == (403, "/docs#bad-origin")
            assert "Sec-Fetch-Site" in refused.problem["detail"]
        assert (await live.get("/api/health", sec_fetch_site=site)).status == 200, "a link may lead here"
        for own in ("same-origin", "none"):
            reply = await live.ask("POST", "/api/tools/reload", headers={"sec-fetch-site": own})
            assert reply.status == 200
    page = "http://page.example"
    async with running(SAY, allowed_origins=[page]) as live:
        headers = {"sec-fetch-site": site, "origin": page}
        assert (await live.ask("POST", "/api/tools/reload", headers=headers)).status == 200, "a listed page"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://localhost:1", "https://127.0.0.1", "x"])
async def test_no_route_answers_to_a_foreign_page(origin: str) -> None:
    mcp = Mcp()
    async with running(SAY, mcp=mcp) as live:
        for path in PATHS:
            reply = await live.get(path, origin=origin)
            assert reply.status == 403
            assert reply.problem["type"] == "/docs#bad-origin"
            assert "access-control-allow-origin" not in reply.headers
        assert mcp.reached == 0


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.8.9.1", "[::ffff:127.0.0.1]"])
async def test_loopback_names_pass_with_any_port_and_their_own_pages_too(name: str) -> None:
    async with running(SAY) as live:
        for host in (name, f"{name}:{live.port}", f"{name}:1"):
            assert (await live.get("/api/health", host=host)).status == 200
            own = await live.get("/api/health", host=host, origin=f"http://{host.lower()}")
            assert own.status == 200
            assert "access-control-allow-origin" not in own.headers


@pytest.mark.parametrize(
    ("given", "host", "passes"),
    [
        ({"host": "0.0.0.0"}, b"192.168.1.5:8420", True),
        ({"host": "0.0.0.0"}, b"[fe80::1]:8420", True),
        ({"host": "::"}, b"10.0.0.1", True),
        ({"host": "0.0.0.0"}, b"evil.example", False),
        ({"host": "0.0.0.0"}, b"1.2.3.4.evil.example", False),
        ({"host": "0.0.0.0"}, b"0x7f.1", False),
        ({"host": "127.0.0.1"}, b"192.168.1.5", False),
        ({"host": "192.168.1.5"}, b"192.168.1.5:99", True),
        ({"host": "192.168.1.5"}, b"192.168.1.6", False),
        ({"host": "stead.local"}, b"STEAD.local:8420", True),
        ({"allowed_hosts": ["stead.example"]}, b"stead.example", True),
        ({"allowed_hosts": ["stead.example"]}, b"stead.example:1234", True),
        ({"allowed_hosts": ["stead.example:80"]}, b"stead.example:80", True),
        ({"allowed_hosts": ["stead.example:80"]}, b"stead.example", False),
        ({"allowed_hosts": ["stead.example:80"]}, b"stead.example:81", False),
        ({"allowed_hosts": ["fe80::1"]}, b"[fe80::1]:8420", True),
        ({"allowed_hosts": ["stead.example"]}, b"a.stead.example", False),
        ({}, b"127.0.0.1:65535", True),
        ({}, b"127.0.0.1:65536", False),
        ({}, b"127.0.0.1:99999", False),
        ({}, b"[127.0.0.1]", False),
        ({"host": "0.0.0.0"}, b"[192.168.1.5]:80", False),
        ({}, b"user@localhost", False),
        ({}, b"localhost/../x", False),
        ({}, b"localhost\x00", False),
        ({}, b"local\xe4host", False),
    ],
)
def test_which_names_pass(given: dict[str, Any], host: bytes, passes: bool) -> None:
    assert ServerNames(options(**given)).allows_host(host) is passes


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (b"http://stead:8420", b"stead:8420", True),
        (b"HTTP://STEAD:8420", b"stead:8420", True),
        (b"http://stead", b"stead:80", True),
        (b"https://stead", b"stead", True),
        (b"https://stead", b"stead:443", True),
        (b"http://stead:81", b"stead:80", False),
        (b"http://stead", b"stead:8420", False),
        (b"ftp://stead:8420", b"stead:8420", False),
        (b"http://stead:8420/", b"stead:8420", False),
        (b"http://stead:8420@evil", b"stead:8420", False),
        (b"null", b"null", False),
    ],
)
def test_a_page_of_this_server_has_its_name_and_its_port(origin: bytes, host: bytes, own: bool) -> None:
    assert ServerNames(options()).is_own_page(origin, host) is own


@pytest.mark.parametrize("entry", ["https://x.y", "*.x.y", "*", "a b", "x.y/z", ""])
def test_an_allowed_host_that_could_never_match_is_refused_at_start(entry: str) -> None:
    with pytest.raises(ServeError, match="allowed_hosts"):
        ServerNames(options(allowed_hosts=[entry]))


@pytest.mark.parametrize("entry", ["*", "http://*", "x.y", "http://x.y/z", "http://x.y/", "null", ""])
def test_an_allowed_origin_that_could_never_match_is_refused_at_start(entry: str) -> None:
    with pytest.raises(ServeError, match="allowed_origins"):
        ServerNames(options(allowed_origins=[entry]))


async def test_a_listed_page_may_ask_call_and_read() -> None:
    page = "http://localhost:5173"
    async with running(SAY, allowed_origins=[page], token=TOKEN, mcp=Mcp()) as live:
        wanted = {"Origin": page, "Access-Control-Request-Method": "POST"}
        wanted["Access-Control-Request-Headers"] = "authorization,content-type"
        for path in ("/api/tools/say/call", "/mcp"):
            asked = await live.ask("OPTIONS", path, headers=wanted)
            assert asked.status == 204
            assert asked.headers["access-control-allow-origin"] == page
            assert asked.headers["access-control-allow-headers"] == "authorization,content-type"
            assert "POST" in asked.headers["access-control-allow-methods"]
            assert "access-control-allow-credentials" not in asked.headers
            reply = await live.ask("POST", path, {"input": {}}, {"Origin": page, "Authorization": BEARER})
            assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, page)
            assert reply.headers["vary"] == "Origin"
        refused = await live.ask("POST", "/api/tools/say/call", {}, {"Origin": page})
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, page)


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer "},
        {"Cookie": f"toolstead-8420={TOKEN}"},
        {"Cookie": "toolstead-8420=" + "0" * 64},
    ],
)
async def test_without_the_token_no_route_answers(shown: dict[str, str]) -> None:
    mcp = Mcp()
    async with running(SAY, token=TOKEN, mcp=mcp) as live:
        for path in PATHS:
            reply = await live.ask("GET", path, headers=shown)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == 'Bearer realm="toolstead"'
            assert reply.problem["type"] == "/docs#no-token"
        assert mcp.reached == 0


async def test_with_the_token_every_route_answers() -> None:
    mcp = Mcp()
    async with running(SAY, token=TOKEN, mcp=mcp) as live:
        for authorization in (BEARER, f"bearer   {TOKEN} "):
            assert (await live.get("/api/tools", authorization=authorization)).status == 200
        assert (await live.get("/mcp", authorization=BEARER)).status == 200
        assert mcp.reached == 1


async def test_a_page_takes_the_token_once_and_keeps_a_cookie_that_is_not_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(SAY, token=TOKEN, mcp=Mcp()) as live:
        first = await live.get(f"/docs?a=1&token={TOKEN}&b=%26")
        assert first.status == 303
        assert first.headers["location"] == "/docs?a=1&b=%26"
        assert first.headers["cache-control"] == "no-store"
        cookie, *attributes = first.headers["set-cookie"].split("; ")
        assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Strict"]
        assert cookie.startswith(f"toolstead-{live.port}=")
        assert TOKEN not in cookie
        for path in ("/docs", "/api/tools", "/mcp"):
            assert (await live.get(path, cookie=f"other=1; {cookie}; more=2")).status == 200
        both = await live.get("/api/tools", cookie=cookie, authorization="Bearer wrong")
        assert both.status == 401
        assert TOKEN not in caplog.text


async def test_the_token_in_an_address_counts_for_pages_only() -> None:
    async with running(SAY, token=TOKEN, mcp=Mcp()) as live:
        for path in ("/api/tools", "/mcp"):
            assert (await live.get(f"{path}?token={TOKEN}")).status == 401
        assert (await live.ask("POST", f"/docs?token={TOKEN}")).status == 401
        for wrong in ("token=wrong", "token=", f"tokens={TOKEN}", "", f"token=%FF{TOKEN}"):
            assert (await live.get(f"/docs?{wrong}")).status == 401


@pytest.mark.parametrize("path", [b"//evil.example/", b"/\\evil.example/", b"///evil.example", b"/\\/evil.example"])
def test_the_way_back_from_the_token_never_leaves_this_server(path: bytes) -> None:
    place = strip_token(path, b"token=x")
    assert place.startswith(b"/evil")


def test_the_cookie_outlives_a_restart_with_the_same_token_only() -> None:
    cookie = AccessToken(TOKEN).make_cookie(b"localhost:8420").partition(b";")[0]
    assert AccessToken(TOKEN).is_shown_by({b"cookie": cookie})
    assert not AccessToken("another").is_shown_by({b"cookie": cookie})


@pytest.mark.parametrize("token", ["two words", "tab\t", "ä", "new\nline", "\x7f"])
def test_a_token_that_no_header_can_carry_is_refused_at_start(token: str) -> None:
    with pytest.raises(ServeError, match=r"server\.token") as refused:
        AccessToken(token)
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    "twice",
    [
        "Host: 127.0.0.1",
        "Origin: http://127.0.0.1",
        "Authorization: Bearer x",
        "Content-Type: text/plain",
        "Cookie: a=b",
    ],
)
async def test_a_header_that_must_be_there_once_is_refused_when_it_is_there_twice(twice: str) -> None:
    async with running(SAY) as live:
        name = twice.partition(":")[0]
        first = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1", "Content-Type": "application/json"}
        again = "" if name == "Host" else f"{name}: {first.get(name, 'x')}\r\n"
        reply = await live.raw(f"GET /api/tools HTTP/1.1\r\nHost: 127.0.0.1\r\n{again}{twice}\r\n\r\n".encode())
        assert reply.status == 400
        assert name.lower() in reply.problem["detail"]


async def test_other_headers_may_be_there_twice() -> None:
    async with running(SAY) as live:
        head = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: a/b\r\nAccept: c/d\r\n\r\n"
        assert (await live.raw(head)).status == 200


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_request_without_host_is_refused(version: str) -> None:
    async with running(SAY) as live:
        reply = await live.raw(f"GET /api/health HTTP/{version}\r\n\r\n".encode())
        assert reply.status == 400
        assert "Host is missing" in reply.problem["detail"]


async def test_pages_carry_the_headers_that_keep_them_to_themselves() -> None:
    async with running(SAY) as live:
        page = await live.get("/docs")
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert "script" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"


def test_options_do_not_show_the_token() -> None:
    assert TOKEN not in repr(options(token=TOKEN))


async def test_mcp_gets_its_body_whole_and_the_same_bounds() -> None:
    mcp, requests = Mcp(), 3
    async with running(SAY, mcp=mcp, max_body=2_000) as live:
        connection = await live.connect()
        for number in range(requests):
            body = b'{"n": %d}' % number
            chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
            head = f"POST /mcp HTTP/1.1\r\nHost: {connection.host}\r\nContent-Type: application/json\r\n"
            await connection.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            assert (await connection.reply()).body == body
        await connection.close()
        assert (await live.ask("POST", "/mcp", b"[" + b" " * 2_000)).status == 413
        assert (await live.ask("POST", "/mcp", b"{}", {"Content-Type": "text/plain"})).status == 415
        assert mcp.reached == requests


async def test_a_crash_behind_the_guard_is_a_problem_with_an_id_that_the_log_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("the inside of the server")

    async with running(SAY, mcp=broken) as live:
        reply = await live.get("/mcp")
        assert reply.status == 500
        assert reply.problem["id"] in caplog.text
        assert "the inside of the server" not in reply.body.decode()
        assert "the inside of the server" in caplog.text
        assert (await live.get("/api/health")).status == 200


async def test_a_crash_in_the_middle_of_an_answer_breaks_it_off(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("in the middle")

    async with running(SAY, mcp=broken) as live:
        connection = await live.connect()
        await connection.send(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await connection.reader.read()
        assert b"half" in answer
        assert not answer.endswith(b"0\r\n\r\n")
        assert "in the middle" in caplog.text
        assert "Expected ASGI message" not in caplog.text, "nothing is sent behind half an answer"
