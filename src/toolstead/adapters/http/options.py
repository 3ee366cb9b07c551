"""Options of a server: address and access. `app` fills them from `[server]`."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - named to be treated with care


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Address and access of a server.

    Attributes:
        host: The address or name to bind.
        port: The port; 0 picks a free one.
        token: The token that clients must send; empty needs none and allows loopback only.
        allowed_hosts: Further names this server answers to, as `host` or `host:port`.
        allowed_origins: Web pages of other origins that may call, as `scheme://host[:port]`.
        max_body: Bytes a request's body may have.
        private_token: The token of the user's own programs: it opens every route, private ones included.
            Created at every start; not a setting.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    token: str = field(default="", repr=False)
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    max_body: int = 4_194_304
    private_token: str = field(default_factory=partial(secrets.token_urlsafe, 32), repr=False)


def is_loopback(host: str) -> bool:
    """Whether a name or address can only be this machine; other names are never resolved here."""
    if host.lower() == "localhost":
        return True
    address = parse_address(host)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and address.is_loopback


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A literal IP address, or None for a name."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
