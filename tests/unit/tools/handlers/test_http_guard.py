"""The address guard: every address it refuses, every spelling it sees through, and what it resolves."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest

from toolstead.errors import RefusedError, ToolError
from toolstead.tools.handlers.http_guard import (
    MOST_ADDRESSES,
    AddressGuard,
    AllowedHosts,
    canonical_host,
    system_resolver,
    why_refused,
)

pytestmark = pytest.mark.promise("R8")

NOBODY = AllowedHosts()
PUBLIC = "93.184.216.34"


def answering(*turns: Sequence[str]) -> tuple[AddressGuard, list[str]]:
    """A guard whose resolver gives these answers one after another, and the list of what it was asked."""
    asked: list[str] = []
    answers = iter(turns)

    async def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    return AddressGuard(resolver=resolver), asked


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("100.127.255.255", "private"),
        ("fc00::1", "unique-local"),
        ("fd12:3456::1", "unique-local"),
        ("fec0::1", "site-local"),
        ("169.254.0.1", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("240.0.0.1", "reserved"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("192.88.99.1", "6to4"),
        ("198.18.0.1", "benchmarks"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("::ffff:127.0.0.1", "127.0.0.1 inside IPv6"),
        ("::ffff:a9fe:a9fe", "metadata"),
        ("64:ff9b::7f00:1", "127.0.0.1 inside IPv6"),
        ("64:ff9b::a00:1", "10.0.0.1 inside IPv6"),
        ("2002:7f00:1::", "127.0.0.1 inside IPv6"),
        ("2606:4700::5efe:7f00:1", "127.0.0.1 inside IPv6"),
        ("2606:4700:0:1:200:5efe:a9fe:a9fe", "169.254.169.254 inside IPv6"),
        ("fe80::5efe:808:808", "a link-local address"),
        ("2002:c0a8:101::5", "192.168.1.1 inside IPv6"),
        ("::127.0.0.1", "not an address of the public internet"),
        ("64:ff9b:1::1", "not an address of the public internet"),
        ("4000::1", "not an address of the public internet"),
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_refused_with_its_kind(address: str, kind: str) -> None:
    assert kind in (why_refused(ipaddress.ip_address(address)) or "")


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        PUBLIC,
        "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "169.253.255.255",
        "192.0.1.1",
        "2606:2800:220:1:248:1893:25c8:1946",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2606:4700::5efe:808:808",
        "2606:4700::1:5efe:7f00:1",
        "2002:808:808::1",
    ],
)
def test_an_address_of_the_public_internet_is_not_refused(address: str) -> None:
    assert why_refused(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F000001", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("127。0。0。1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", str(ipaddress.ip_address("::ffff:127.0.0.1"))),
        ("bücher.example", "xn--bcher-kva.example"),
        ("my_service", "my_service"),
        ("1password.com", "1password.com"),
        ("3.example", "3.example"),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert canonical_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a..b",
        "-a.example",
        "a-.example",
        "a b",
        "a/b",
        "a@b",
        "a%2eb",
        "a\\b",
        "a\nb",
        "*.example",
        "1.2.3.4.5",
        "256.256.256.256",
        "1.2.3.0x",
        "08.0.0.1",
        "[::1",
        "[1.2.3.4]",
        "[::1%25lo]",
        "[fe80::1%eth0]",
        "①②⑦.⓪.⓪.①",
        "a" * 64,
        ".".join(["abcdefgh"] * 40),
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|names a network interface"):
        canonical_host(text)


@pytest.mark.parametrize(
    ("entry", "named", "not_named"),
    [
        ("localhost", [("localhost", 80), ("localhost", 8080)], [("127.0.0.1", 80), ("a.localhost", 80)]),
        ("LocalHost:8080", [("localhost", 8080)], [("localhost", 80)]),
        ("10.0.0.7", [("10.0.0.7", 1)], [("10.0.0.70", 1), ("10.0.0.8", 1)]),
        ("::1", [("::1", 80)], [("::2", 80)]),
        ("[::1]", [("::1", 80)], []),
        ("[::1]:8080", [("::1", 8080)], [("::1", 80)]),
        ("example.org.", [("example.org", 443)], [("sub.example.org", 443), ("notexample.org", 443)]),
    ],
)
def test_a_host_is_allowed_by_its_exact_name(
    entry: str, named: list[tuple[str, int]], not_named: list[tuple[str, int]]
) -> None:
    allowed = AllowedHosts.parse_entries([entry])
    assert all(allowed.names_host(*place) for place in named)
    assert not any(allowed.names_host(*place) for place in not_named)


@pytest.mark.parametrize(
    "entry", ["http://localhost", "localhost/x", "*.corp", "a b", "host:0", "host:65536", "host:", "[::1", "a@b", ""]
)
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is neither"):
        AllowedHosts.parse_entries([entry])


async def test_every_address_is_returned_in_a_fixed_order_and_the_families_as_the_system_prefers_them() -> None:
    first, second = (
        ["2606:2800::2", "2606:2800::1", "8.8.8.8", "8.8.4.4"],
        ["2606:2800::1", "8.8.4.4", "2606:2800::2", "8.8.8.8"],
    )
    guard, _ = answering(first, second)
    assert await guard.check_host("a.example", 80, NOBODY) == ("2606:2800::1", "2606:2800::2", "8.8.4.4", "8.8.8.8")
    assert await guard.check_host("a.example", 80, NOBODY) == ("2606:2800::1", "2606:2800::2", "8.8.4.4", "8.8.8.8")


async def test_a_name_with_a_hundred_addresses_is_tried_at_a_few_and_checked_at_all() -> None:
    many = [f"8.8.8.{number}" for number in range(100)]
    guard, _ = answering(many, [*many, "10.0.0.1"])
    assert len(await guard.check_host("a.example", 80, NOBODY)) == MOST_ADDRESSES
    with pytest.raises(RefusedError, match=r"10\.0\.0\.1, a private address"):
        await guard.check_host("a.example", 80, NOBODY)


@pytest.mark.parametrize("answer", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["::1", PUBLIC], ["fe80::1%lo"]])
async def test_a_name_is_refused_when_any_of_its_addresses_is(answer: list[str]) -> None:
    guard, asked = answering(answer)
    with pytest.raises(RefusedError, match=r"a\.example is refused"):
        await guard.check_host("a.example", 80, NOBODY)
    assert asked == ["a.example"]


async def test_an_allowed_name_is_resolved_and_not_refused() -> None:
    guard, asked = answering(["127.0.0.1"])
    assert await guard.check_host("a.example", 80, AllowedHosts.parse_entries(["a.example:80"])) == ("127.0.0.1",)
    assert asked == ["a.example"]


async def test_an_address_is_never_resolved() -> None:
    guard, asked = answering()
    assert await guard.check_host(PUBLIC, 80, NOBODY) == (PUBLIC,)
    with pytest.raises(RefusedError, match=r'names "\[::1\]" or "\[::1\]:80"'):
        await guard.check_host("::1", 80, NOBODY)
    assert asked == []


@pytest.mark.parametrize("name", ["localhost", "x.localhost", "metadata.google.internal", "ip6-localhost"])
async def test_a_name_of_this_machine_is_refused_whatever_it_resolves_to(name: str) -> None:
    guard, asked = answering([PUBLIC])
    with pytest.raises(RefusedError, match="a name of this machine"):
        await guard.check_host(name, 80, NOBODY)
    assert asked == []


async def test_behind_a_proxy_names_are_not_resolved_and_addresses_are_checked_all_the_same() -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        raise AssertionError

    guard = AddressGuard(resolver=resolver, by_name=True)
    assert await guard.check_host("a.example", 80, NOBODY) == ("a.example",)
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(RefusedError):
            await guard.check_host(host, 80, NOBODY)
        assert await guard.check_host(host, 80, AllowedHosts.parse_entries([host])) == (host,)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (UnicodeError("label empty or too long"), "it is no host name"),
        (None, "it has no address"),
    ],
)
async def test_a_name_without_an_address_is_a_sentence(failure: Exception | None, text: str) -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        if failure is not None:
            raise failure
        return []

    with pytest.raises(ToolError, match=rf"'a\.example' cannot be found: {text}"):
        await AddressGuard(resolver=resolver).check_host("a.example", 80, NOBODY)


async def test_the_systems_resolver_knows_this_machine() -> None:
    assert {"127.0.0.1", "::1"} & set(await system_resolver("localhost", 80))
