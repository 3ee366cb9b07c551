"""The address guard: which hosts an http tool may reach, decided on the address and not on the name.

A name is resolved once and every address it has is looked at; what comes back is what the client
connects to, so that DNS rebinding between check and connect has no effect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolstead.errors import RefusedError, ToolError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Name and port in, addresses out; raises `OSError` when there are none."""

MOST_ADDRESSES = 4
_LONGEST_NAME = 253
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)")
_ENTRY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]+)(:(?P<port>\d{1,5}))?")

# Names that mean this machine or its cloud whatever a resolver answers; behind a proxy, only names can be looked at.
_LOCAL_NAMES = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "metadata", "metadata.google.internal"}
)

_METADATA = "the metadata service of a cloud"
_FORBIDDEN = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("169.254.169.254/32", _METADATA),
        ("169.254.170.2/32", _METADATA),
        ("168.63.129.16/32", _METADATA),
        ("100.100.100.200/32", _METADATA),
        ("fd00:ec2::254/128", _METADATA),
        ("0.0.0.0/8", "an unspecified address"),
        ("::/128", "an unspecified address"),
        ("127.0.0.0/8", "a loopback address"),
        ("::1/128", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("100.64.0.0/10", "a private address (of a carrier's network)"),
        ("fc00::/7", "a private (unique-local) address"),
        ("fec0::/10", "a private (site-local) address"),
        ("169.254.0.0/16", "a link-local address"),
        ("fe80::/10", "a link-local address"),
        ("224.0.0.0/4", "a multicast address"),
        ("ff00::/8", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a reserved address (documentation)"),
        ("198.51.100.0/24", "a reserved address (documentation)"),
        ("203.0.113.0/24", "a reserved address (documentation)"),
        ("192.88.99.0/24", "a reserved address (6to4 relays)"),
        ("198.18.0.0/15", "a reserved address (benchmarks)"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a reserved address (documentation)"),
        ("3fff::/20", "a reserved address (documentation)"),
    )
)
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
_ISATAP = 0x5EFE
"""Before the IPv4 address, with or without the bit for a global one."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def system_resolver(host: str, port: int) -> list[str]:
    """The addresses the operating system knows for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def canonical_host(text: str) -> str:
    """The one spelling of a host: lower case, punycode, no final dot; an IP address as the system reads it.

    `127.1`, `0x7f000001`, `0177.0.0.1` and `2130706433` are all `127.0.0.1`; an IPv6 address comes
    in brackets and is returned without.

    Raises:
        ValueError: It is no host; the text has the reason.
    """
    if text.startswith("[") and text.endswith("]"):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            raise ValueError(f"{text[:80]!r} is no IPv6 address") from None
        if address.scope_id is not None:
            raise ValueError(f"{text[:80]!r} names a network interface, which an address may not")
        return str(address)
    name = (text if text.isascii() else _to_punycode(text)).lower().removesuffix(".")
    if _NUMBER.fullmatch(name):
        try:
            return str(ipaddress.IPv4Address(socket.inet_aton(name)))
        except OSError:
            raise ValueError(f"{text[:80]!r} ends in a number and is no IPv4 address") from None
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ValueError(f"{text[:80]!r} is no host name")
    return name


def why_refused(address: IPAddress) -> str | None:
    """What is wrong with an address, as words that follow "is"; None for one of the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inside = _embedded_address(address)
        if inside is not None:
            why = why_refused(inside)
            return why and f"{inside} inside IPv6, {why}"
        # In any network a router may unpack such an address (RFC 5214); the network itself counts as well.
        if (int(address) >> 32) & 0xFDFF_FFFF == _ISATAP:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
            if (why := why_refused(inside)) is not None:
                return f"{inside} inside IPv6, {why}"
    is_outside = address.version == 6 and address not in _GLOBAL_IPV6
    otherwise = "not an address of the public internet" if is_outside else None
    return next((kind for network, kind in _FORBIDDEN if address in network), otherwise)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts that may be reached whatever their address: exact names, each with one port or any."""

    entries: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def parse_entries(cls, entries: Iterable[str]) -> AllowedHosts:
        """Read entries such as `localhost`, `10.0.0.7:8080`, `[::1]:80` or `::1`.

        Raises:
            ValueError: One is neither a host nor host:port.
        """
        return cls(frozenset(map(_parse_entry, entries)))

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __or__(self, other: AllowedHosts) -> AllowedHosts:
        return AllowedHosts(self.entries | other.entries)

    def names_host(self, host: str, port: int) -> bool:
        """Whether a host in its canonical spelling is named, with this port or with any."""
        return (host, None) in self.entries or (host, port) in self.entries


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressGuard:
    """Checks where a request would go.

    Attributes:
        resolver: Turns names into addresses.
        by_name: Names are checked without resolving them, because a proxy does that; IP addresses are still checked.
    """

    resolver: Resolver = field(default=system_resolver, repr=False)
    by_name: bool = False

    async def check_host(self, host: str, port: int, allowed: AllowedHosts) -> tuple[str, ...]:
        """The addresses to connect to, each of which may be reached; the name itself where a proxy connects.

        Raises:
            RefusedError: The host, or one of its addresses, is not of the public internet and not allowed.
            ToolError: The name has no address.
        """
        exempt = allowed.names_host(host, port)
        literal = _literal_address(host)
        if literal is None and not exempt and (host in _LOCAL_NAMES or host.endswith(".localhost")):
            raise _refuse_host(host, port, "a name of this machine or its cloud")
        if literal is None and self.by_name:
            return (host,)
        addresses = await self._resolve_host(host, port) if literal is None else [literal]
        if not exempt:
            for address in addresses:  # one bad address among good ones is what rebinding looks like
                _refuse_private(host, port, address)
        # In a fixed order, so that a name whose server shuffles its answers still finds its open connections.
        families = list(dict.fromkeys(address.version for address in addresses))
        addresses.sort(key=lambda address: (families.index(address.version), int(address)))
        return tuple(str(address) for address in addresses[:MOST_ADDRESSES])

    async def _resolve_host(self, host: str, port: int) -> list[IPAddress]:
        try:
            found = [ipaddress.ip_address(text) for text in await self.resolver(host, port)]
        except OSError as error:
            raise ToolError(f"the host {host!r} cannot be found: {error.strerror or error}") from None
        except UnicodeError:  # the system's resolver refuses a label
            raise ToolError(f"the host {host!r} cannot be found: it is no host name") from None
        if not found:
            raise ToolError(f"the host {host!r} cannot be found: it has no address")
        return found


def _refuse_private(host: str, port: int, address: IPAddress) -> None:
    why = why_refused(address)
    if why is not None:
        raise _refuse_host(host, port, why if str(address) == host else f"{address}, {why}")


def _refuse_host(host: str, port: int, why: str) -> RefusedError:
    shown = f"[{host}]" if ":" in host else host
    return RefusedError(
        f"{shown} is refused: it is {why}. Only hosts of the public internet are reached, unless the tool's "
        f'"allowedHosts" or [tools] allowed_hosts names "{shown}" or "{shown}:{port}"'
    )


def _literal_address(host: str) -> IPAddress | None:
    """The address, where a canonical host is one."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _embedded_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to this IPv6 address end up at: mapped, 6to4, NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _parse_entry(text: str) -> tuple[str, int | None]:
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    found = _ENTRY.fullmatch(text)
    port = int(found["port"]) if found is not None and found["port"] else None
    if found is None or (port is not None and not 0 < port < 65_536):
        raise ValueError(f"{text[:80]!r} is neither a host nor host:port")
    try:
        return canonical_host(found["host"]), port
    except ValueError as error:
        raise ValueError(f"{error}; hosts are named exactly, without scheme, path or wildcard") from None


def _to_punycode(text: str) -> str:
    """A name with letters beyond ASCII as the system's resolver needs it."""
    import httpx2  # 0.4 s: paid by the first such name

    try:
        return httpx2.URL(scheme="http", host=text).raw_host.decode("ascii")
    except httpx2.InvalidURL:
        raise ValueError(f"{text[:80]!r} is no host name") from None
