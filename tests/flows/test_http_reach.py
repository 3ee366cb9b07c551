"""Where http tools may go: addresses, names that change, redirects, proxies, certificates; through the dispatcher."""

from __future__ import annotations

import asyncio
import gc
import ssl
from pathlib import Path

import pytest

from tests.flows.http_internet import (
    OTHER,
    PUBLIC,
    Certificates,
    Internet,
    Names,
    Seen,
    internet,
    redirect,
    reply,
    serving,
    tool_for,
)
from toolstead.tools.handlers import http_network
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.types.result import Failure

pytestmark = pytest.mark.promise("R8")

__all__ = ["internet"]

PRIVATE_HOSTS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "127。0。0。1",
    "0.0.0.0",
    "0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "a.localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "metadata.google.internal",
    "loop.test",
    "loop6.test",
    "mixed.test",
    "user@127.0.0.1",
    "public.test@127.0.0.1",
    "public.test:80@127.0.0.1",
    "127.0.0.1\\@public.test",
    "public.test#@127.0.0.1",
    "public.test?@127.0.0.1",
]


def names() -> Names:
    return Names(
        public_test=[[PUBLIC]],
        other_test=[[OTHER]],
        loop_test=[["127.0.0.1"]],
        loop6_test=[["::1"]],
        mixed_test=[[PUBLIC, "127.0.0.1"]],
        rebind_test=[[PUBLIC], ["127.0.0.1"]],
    )


def ok(seen: Seen) -> bytes:
    return reply(body="reached", content_type="text/plain")


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
async def test_no_spelling_of_a_private_host_is_reached(host: str, internet: Internet) -> None:
    async with serving(ok) as trap, GuardedClient(resolver=names()) as client:
        call = tool_for(client, "{{url}}/health", properties=["url"], method="GET")
        for url in (f"http://{host}:{trap.port}", f"http://{host}", f"https://{host}:{trap.port}/base"):
            result = await call(url=url)
            assert result.is_error
            assert result.failure == Failure.REFUSED, result.text
        assert trap.connections == 0
        assert internet.connected == []


@pytest.mark.parametrize("host", [host for host in PRIVATE_HOSTS if host.isascii() and not set(host) & set("@\\#?")])
@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
async def test_no_redirect_leads_to_a_private_host(host: str, status: str, internet: Internet) -> None:
    async with serving(ok) as trap, GuardedClient(resolver=names()) as client:

        def lead_away(seen: Seen) -> bytes:
            return redirect(f"http://{host}:{trap.port}/", status)

        async with serving(lead_away) as server:
            internet.put(server)
            result = await tool_for(client, "http://public.test/", method="GET")()
            assert (result.failure, server.connections, trap.connections) == (Failure.REFUSED, 1, 0), result.text


@pytest.mark.parametrize("hops", [1, 4])
async def test_a_chain_of_redirects_is_checked_at_every_step(hops: int, internet: Internet) -> None:
    async with serving(ok) as trap, GuardedClient(resolver=names()) as client:

        def chain(seen: Seen) -> bytes:
            step = int(seen.target.removeprefix("/"))
            return redirect(f"http://127.0.0.1:{trap.port}/" if step == hops else f"/{step + 1}")

        async with serving(chain) as server:
            internet.put(server)
            result = await tool_for(client, "http://public.test/0", method="GET")()
            assert result.failure == Failure.REFUSED
            assert len(server.seen) == hops + 1
            assert trap.connections == 0


async def test_five_redirects_are_followed_and_no_more(internet: Internet) -> None:
    def chain(seen: Seen) -> bytes:
        step = int(seen.target.removeprefix("/"))
        return ok(seen) if step == 0 else redirect(f"/{step - 1}")

    async with serving(chain) as server, GuardedClient(resolver=names()) as client:
        internet.put(server)
        assert (await tool_for(client, "http://public.test/5", method="GET")()).text == "reached"
        result = await tool_for(client, "http://public.test/6", method="GET")()
        assert "redirects more than " in result.text
        assert len(server.seen) == 12


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://public.test/", "http://user:pw@other.test/"])
async def test_a_redirect_leads_to_http_addresses_only(location: str, internet: Internet) -> None:
    async with serving(redirect(location)) as server, GuardedClient(resolver=names()) as client:
        internet.put(server)
        assert (await tool_for(client, "http://public.test/", method="GET")()).failure == Failure.REFUSED


async def test_a_name_is_resolved_once_and_the_checked_address_is_the_one_that_is_used(internet: Internet) -> None:
    resolver = names()
    async with serving(ok) as server, serving(ok) as trap, GuardedClient(resolver=resolver) as client:
        internet.put(server)
        internet.hosts["127.0.0.1", 80] = trap.port
        call = tool_for(client, "http://rebind.test/", method="GET")
        assert (await call()).text == "reached"
        assert resolver.asked == ["rebind.test"]
        assert internet.connected == [(PUBLIC, 80)]
        # The name has changed its mind: the open connection, made when it was public, does not help it.
        result = await call()
        assert (result.failure, trap.connections, len(server.seen)) == (Failure.REFUSED, 0, 1)
        assert resolver.asked == ["rebind.test"] * 2


async def test_what_one_tool_may_reach_is_not_open_to_another(internet: Internet) -> None:
    async with serving(ok) as server, GuardedClient(resolver=names()) as client:
        place = f"loop.test:{server.port}"
        allowed = tool_for(client, f"http://{place}/", method="GET", allowed_hosts=[place])
        assert (await allowed()).text == "reached"
        assert client.connections == 1
        other = await tool_for(client, f"http://{place}/", method="GET")()
        assert (other.failure, len(server.seen)) == (Failure.REFUSED, 1)


@pytest.mark.parametrize("option", ["allowed_hosts", "hosts"])
async def test_a_private_host_is_reached_when_the_tool_or_the_settings_name_it(option: str) -> None:
    async with serving(ok) as server, GuardedClient() as client:
        for host in ("127.0.0.1", f"127.0.0.1:{server.port}"):
            call = tool_for(client, f"http://127.1:{server.port}/", method="GET", **{option: [host]})
            assert (await call()).text == "reached"
        wrong_port = tool_for(client, f"http://127.0.0.1:{server.port}/", **{option: ["127.0.0.1:1"]})
        assert (await wrong_port()).failure == Failure.REFUSED


@pytest.mark.parametrize("silent", [True, False])
async def test_the_next_address_is_tried_when_one_does_not_answer(
    silent: bool, internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_network, "HELD_BACK", 0.2)
    async with serving(ok) as server, GuardedClient(resolver=Names(two_test=[[PUBLIC, OTHER]])) as client:
        internet.put(server, OTHER)
        if silent:
            internet.silent.add(PUBLIC)
        else:
            internet.hosts[PUBLIC, 80] = 1  # nobody listens there
        assert (await tool_for(client, "http://two.test/", method="GET")()).text == "reached"
        assert internet.connected == [(PUBLIC, 80), (OTHER, 80)]


# redirects: what goes along


async def test_headers_do_not_go_along_to_another_origin(internet: Internet) -> None:
    async with serving(ok) as other, serving(redirect("http://other.test/y")) as first:
        internet.put(first)
        internet.put(other, OTHER)
        async with GuardedClient(resolver=names()) as client:
            call = tool_for(
                client,
                "http://public.test/",
                method="GET",
                headers={"Authorization": "Bearer ${TOKEN}", "X-Own": "1", "User-Agent": "mine"},
                environ={"TOKEN": "s3cret-token"},
            )
            assert (await call()).text == "reached"
        assert first.seen[0].headers["authorization"] == "Bearer s3cret-token"
        assert first.seen[0].headers["user-agent"] == "mine"
        got = other.seen[0].headers
        assert got["host"] == "other.test"
        assert "authorization" not in got
        assert "x-own" not in got
        assert "s3cret" not in str(other.seen)
        assert got["user-agent"] == "toolstead"


async def test_headers_go_along_on_the_same_origin(internet: Internet) -> None:
    async with serving(lambda seen: ok(seen) if seen.target == "/y" else redirect("/y")) as server:
        internet.put(server)
        async with GuardedClient(resolver=names()) as client:
            call = tool_for(client, "http://public.test/", method="GET", headers={"X-Own": "1"})
            assert (await call()).text == "reached"
        assert [seen.headers["x-own"] for seen in server.seen] == ["1", "1"]


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("303 See Other", "POST", "GET"),
        ("302 Found", "POST", "GET"),
        ("301 Moved Permanently", "POST", "GET"),
        ("307 Temporary Redirect", "POST", "POST"),
        ("308 Permanent Redirect", "PUT", "PUT"),
    ],
)
async def test_the_method_follows_as_in_a_browser(status: str, method: str, then: str, internet: Internet) -> None:
    async with serving(lambda seen: ok(seen) if seen.target == "/y" else redirect("/y", status)) as server:
        internet.put(server)
        async with GuardedClient(resolver=names()) as client:
            assert (await tool_for(client, "http://public.test/", method=method)(a=1)).text == "reached"
        assert server.targets == [f"{method} /", f"{then} /y"]
        assert server.seen[1].body == (b'{"a":1}' if then == method else b"")
        assert ("content-type" in server.seen[1].headers) == (then == method)


async def test_a_body_does_not_go_along_to_another_origin(internet: Internet) -> None:
    async with serving(ok) as other, serving(redirect("http://other.test/", "307 Temporary Redirect")) as first:
        internet.put(first)
        internet.put(other, OTHER)
        async with GuardedClient(resolver=names()) as client:
            result = await tool_for(client, "http://public.test/")(note="private")
        assert (result.failure, other.connections) == (Failure.REFUSED, 0)


# secrets and origins


async def test_a_secret_goes_to_the_tools_own_hosts_only(internet: Internet) -> None:
    async with serving(ok) as server, serving(ok) as other, GuardedClient(resolver=names()) as client:
        internet.put(server)
        internet.put(other, OTHER)
        call = tool_for(
            client,
            "{{url}}/x",
            properties=["url"],
            method="GET",
            headers={"Authorization": "Bearer ${TOKEN}"},
            environ={"TOKEN": "s3cret-token"},
            allowed_hosts=["public.test"],
            hosts=["other.test"],
        )
        assert (await call(url="http://public.test")).text == "reached"
        result = await call(url="http://other.test")
        assert result.failure == Failure.REFUSED
        assert 'only to the hosts in its "allowedHosts"' in result.text
        assert other.connections == 0


# proxies

PROXY_VARIABLES = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]


async def test_the_environments_proxies_are_ignored(internet: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ok) as trap, serving(ok) as server:
        for name in PROXY_VARIABLES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
        monkeypatch.setenv("NO_PROXY", "")
        internet.put(server)
        async with GuardedClient(resolver=names()) as client:
            assert (await tool_for(client, "http://public.test/", method="GET")()).text == "reached"
        assert (trap.connections, server.connections) == (0, 1)


async def test_the_proxy_of_the_settings_is_used_and_resolves_names_itself(internet: Internet) -> None:
    resolver = names()
    async with serving(ok) as proxy:
        async with GuardedClient(resolver=resolver, proxy=f"http://me:pw@127.0.0.1:{proxy.port}") as client:
            call = tool_for(client, "{{url}}/x?y=1", properties=["url"], method="GET")
            assert (await call(url="http://public.test:8080")).text == "reached"
            assert proxy.targets == ["GET http://public.test:8080/x?y=1"]
            assert proxy.seen[0].headers["host"] == "public.test:8080"
            assert proxy.seen[0].headers["proxy-authorization"] == "Basic bWU6cHc="
            for private in ("http://127.0.0.1", "http://2130706433", "http://localhost", "http://[::1]"):
                assert (await call(url=private)).failure == Failure.REFUSED
            assert len(proxy.seen) == 1
        assert resolver.asked == []


async def test_a_proxy_that_does_not_let_through_is_a_sentence() -> None:
    async with (
        serving(reply("403 Forbidden")) as proxy,
        GuardedClient(proxy=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        result = await tool_for(client, "https://public.test/", method="GET")()
        assert "the proxy cannot reach public.test: 403" in result.text
        assert proxy.targets == ["CONNECT public.test:443"]


# TLS


async def test_tls_checks_the_name_and_not_the_address(tmp_path: Path, internet: Internet) -> None:
    certificates = Certificates.made_in(tmp_path)
    hello: list[str | None] = []
    context = certificates.server("public.test")
    context.sni_callback = lambda _socket, name, _context: hello.append(name)
    async with serving(ok, tls=context) as server:
        internet.put(server, port=443)
        internet.put(server, OTHER, 443)
        async with GuardedClient(resolver=names(), ssl_context=certificates.client()) as client:
            assert (await tool_for(client, "https://public.test/", method="GET")()).text == "reached"
            assert hello == ["public.test"]
            wrong = await tool_for(client, "https://other.test/", method="GET")()
            assert "no connection to other.test: its certificate is not trusted" in wrong.text
            assert "Hostname mismatch" in wrong.text
            bare = await tool_for(client, f"https://{PUBLIC}/", method="GET")()
            assert "its certificate is not trusted" in bare.text
            assert len(server.seen) == 1


async def test_a_connection_of_one_name_is_not_used_for_another_at_the_same_address(
    tmp_path: Path, internet: Internet
) -> None:
    certificates = Certificates.made_in(tmp_path)
    resolver = Names(public_test=[[PUBLIC]], same_test=[[PUBLIC]])
    async with serving(ok, tls=certificates.server("public.test")) as server:
        internet.put(server, port=443)
        async with GuardedClient(resolver=resolver, ssl_context=certificates.client()) as client:
            for _ in range(2):
                assert (await tool_for(client, "https://public.test/", method="GET")()).text == "reached"
            assert server.connections == 1
            other = await tool_for(client, "https://same.test/", method="GET")()
            assert "its certificate is not trusted" in other.text
            assert len(server.seen) == 2


async def test_an_address_with_a_certificate_of_its_own_is_reached(tmp_path: Path, internet: Internet) -> None:
    certificates = Certificates.made_in(tmp_path)
    async with serving(ok, tls=certificates.server(PUBLIC)) as server:
        internet.put(server, port=443)
        async with GuardedClient(resolver=names(), ssl_context=certificates.client()) as client:
            assert (await tool_for(client, f"https://{PUBLIC}/", method="GET")()).text == "reached"


async def test_a_certificate_that_nobody_trusts_is_a_sentence(tmp_path: Path, internet: Internet) -> None:
    async with serving(ok, tls=Certificates.made_in(tmp_path).server("public.test")) as server:
        internet.put(server, port=443)
        async with GuardedClient(resolver=names()) as client:
            result = await tool_for(client, "https://public.test/", method="GET")()
            assert "no connection to public.test: its certificate is not trusted" in result.text
            assert server.seen == []


async def test_a_server_that_speaks_no_tls_is_a_sentence(internet: Internet) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(reply("400 Bad Request"))
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
        internet.hosts[PUBLIC, 443] = listener.sockets[0].getsockname()[1]
        async with GuardedClient(resolver=names()) as client:
            result = await tool_for(client, "https://public.test/", method="GET")()
            assert "no connection to public.test: TLS failed" in result.text


async def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path, internet: Internet) -> None:
    certificates = Certificates.made_in(tmp_path)
    context = certificates.server("public.test")
    async with serving(redirect("http://public.test/"), tls=context) as server, serving(ok) as plain:
        internet.put(server, port=443)
        internet.put(plain)
        async with GuardedClient(resolver=names(), ssl_context=certificates.client()) as client:
            result = await tool_for(client, "https://public.test/", method="GET")()
            assert (result.failure, plain.connections) == (Failure.REFUSED, 0)


async def test_a_handshake_that_never_ends_is_given_up_and_leaves_no_connection(internet: Internet) -> None:
    accepted = asyncio.Event()
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        while await reader.read(1_000):
            pass
        ended.set()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    internet.hosts[PUBLIC, 443] = listener.sockets[0].getsockname()[1]
    async with GuardedClient(resolver=names(), ssl_context=ssl.create_default_context()) as client:
        await client._open_network()  # its half second is not what this is about
        result = await tool_for(client, "https://public.test/", method="GET", timeout=0.3)()
        assert result.failure == Failure.TIMEOUT
        async with asyncio.timeout(10):
            await accepted.wait()
            await ended.wait()
        assert client.connections == 0
    gc.collect()
    listener.close()
    await listener.wait_closed()
