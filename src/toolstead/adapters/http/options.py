"""Options of a server: address and access. `app` fills them from `[server]`."""

from __future__ import annotations

import ipaddress
import itertools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - named to be treated with care

SHORTEST_TOKEN = 16
"""Characters that a token has at least, where other machines can reach the server."""
FEWEST_CHARACTERS = 8
"""How many of them differ at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What gives a profile over HTTP, besides `/mcp/NAME` with a token for everything.

    Attributes:
        token: A token that gives it; empty for none.
        scope: The scope of an access token that gives it; empty for none.
    """

    token: str = field(default="", repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthOptions:
    """Whose access tokens are accepted.

    Attributes:
        issuer: The authorization server, as its tokens name it.
        audience: What its tokens must be made for: the public URL of `/mcp`; empty for that of `public_url`, else for
            the address that is bound.
        jwks_uri: Where its keys are; empty for where its metadata says.
    """

    issuer: str
    audience: str = ""
    jwks_uri: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Address and access of a server.

    Attributes:
        host: The address or name to bind.
        port: The port; 0 picks a free one.
        token: The token that clients must send; empty needs none and allows loopback only.
        public_url: Its address for its clients, as `scheme://host[:port]`, where a proxy stands in front; else empty.
        allowed_hosts: Further names this server answers to, as `host` or `host:port`.
        allowed_origins: Web pages of other origins that may call, as `scheme://host[:port]`.
        max_body: Bytes a request's body may have.
        private_token: The token of the user's own programs: it opens every route, private ones included.
            Created at every start; not a setting. 192 bits, so that the address of the console fits a terminal.
        profiles: The profiles by name, and what gives each.
        oauth: The authorization server; None where no access tokens are accepted.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    token: str = field(default="", repr=False)
    public_url: str = ""
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    max_body: int = 4_194_304
    private_token: str = field(default_factory=partial(secrets.token_urlsafe, 24), repr=False)
    profiles: Mapping[str, ProfileOptions] = field(default_factory=dict[str, ProfileOptions])
    oauth: OAuthOptions | None = None

    @property
    def needs_token(self) -> bool:
        """Whether a request without a token is refused: a token of a profile would else give less than none."""
        return bool(self.token or self.oauth) or any(profile.token for profile in self.profiles.values())

    def find_weak_token(self) -> tuple[str, str] | None:
        """The setting whose token is too weak to face other machines, and why; None where there is none."""
        tokens = {
            "server.token": self.token,
            **{f"profiles.{name}.token": one.token for name, one in self.profiles.items()},
        }
        return next(
            ((name, why) for name, token in tokens.items() if token and (why := _describe_weakness(token))), None
        )


def _describe_weakness(token: str) -> str:
    """Why a token can be guessed; empty where no simple rule says so."""
    if len(token) < SHORTEST_TOKEN:
        return f"has fewer than {SHORTEST_TOKEN} characters"
    if len(set(token)) < FEWEST_CHARACTERS:
        return f"has fewer than {FEWEST_CHARACTERS} different characters"
    if any(token.startswith(token[length:]) for length in range(1, len(token) // 2 + 1)):
        return "repeats itself"
    steps = [ord(second) - ord(first) for first, second in itertools.pairwise(token)]
    if sum(step in (-1, 0, 1) for step in steps) > len(steps) / 2:
        return "counts up or down"
    return ""


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
