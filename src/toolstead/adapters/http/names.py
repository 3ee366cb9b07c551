"""The `Host` names that this server answers to, and the `Origin`s that may call it.

A browser lets any page send requests to this machine, under the page's own name (DNS rebinding) or
across origins. So `Host` must be a name that can only mean this server, and a page of another origin
must be listed.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from toolstead.adapters.http.options import WILDCARDS, ServerOptions, is_loopback, parse_address
from toolstead.errors import ServeError

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#@\s]+)")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_LARGEST_PORT = 65_535
_REMEMBERED = 512


class ServerNames:
    """The allowed names and origins, built once from the settings.

    Raises:
        ServeError: An entry of `allowed_hosts` or `allowed_origins` could never match.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._bound = options.host.lower()
        self._public = _normalize_origin(options.public_url.lower()) or ""
        split = _split_authority(self._public.rpartition("://")[2])
        self._public_name = None if split is None else split[0]
        self._any_address = self._bound in WILDCARDS
        self._hosts = frozenset(_parse_host_entry(entry) for entry in options.allowed_hosts)
        self._origins = frozenset(_parse_origin_entry(entry) for entry in options.allowed_origins)
        # Cached: the same few names arrive on every request.
        self.allows_host = lru_cache(_REMEMBERED)(self._allows_host)
        self.is_own_page = lru_cache(_REMEMBERED)(self._is_own_page)
        self.is_listed_page = lru_cache(_REMEMBERED)(self._is_listed_page)

    def _allows_host(self, header: bytes) -> bool:
        """Whether `Host` names this server.

        Loopback names, the bound host and that of the public URL pass with any port. A wildcard bind also answers to
        literal addresses: rebinding needs a name, so an address is what the caller really used.
        """
        split = _split_authority(header.decode("latin-1").strip().lower())
        if split is None:
            return False
        name, port = split
        return (
            is_loopback(name)
            or name in (self._bound, self._public_name)
            or not self._hosts.isdisjoint({(name, ""), (name, port)})
            or (self._any_address and parse_address(name) is not None)
        )

    def _is_own_page(self, origin: bytes, host: bytes) -> bool:
        """Whether `Origin` is a page of this server. A proxy may pass its name on as `Host`, and leave its port out."""
        if _is_own_page(origin, host):
            return True
        is_public = bool(self._public) and _normalize_origin(origin.decode("latin-1").strip().lower()) == self._public
        return is_public and self._names_public(host)

    def is_behind_tls(self, host: bytes) -> bool:
        """Whether a browser that sends this `Host` came by the public URL, and that is https."""
        return self._public.startswith("https://") and self._names_public(host)

    def _names_public(self, host: bytes) -> bool:
        split = _split_authority(host.decode("latin-1").strip().lower())
        return split is not None and split[0] == self._public_name

    def _is_listed_page(self, origin: bytes) -> bool:
        """Whether `Origin` is a page of another origin that the settings allow."""
        return _normalize_origin(origin.decode("latin-1").strip().lower()) in self._origins


def is_literal_address(header: bytes) -> bool:
    """Whether `Host` is an IP address, and no name, which can be pointed at any machine."""
    split = _split_authority(header.decode("latin-1").strip().lower())
    return split is not None and parse_address(split[0]) is not None


def _is_own_page(origin: bytes, host: bytes) -> bool:
    """Whether `Origin` is a page of this very server: the same name and the same port as `Host`.

    The same port matters: another program on this machine serves pages too.
    """
    matched = _ORIGIN.fullmatch(origin.decode("latin-1").strip().lower())
    if matched is None or matched[1] not in _DEFAULT_PORTS:
        return False
    default = _DEFAULT_PORTS[matched[1]]
    page, server = _split_authority(matched[2]), _split_authority(host.decode("latin-1").strip().lower())
    return (
        page is not None and server is not None and (page[0], page[1] or default) == (server[0], server[1] or default)
    )


def _split_authority(authority: str) -> tuple[str, str] | None:
    """Host and port of an authority; the port may be empty. None if it is malformed."""
    matched = _AUTHORITY.fullmatch(authority)
    if matched is None or int(matched[3] or 0) > _LARGEST_PORT:
        return None
    if matched[1] is not None and not isinstance(parse_address(matched[1]), ipaddress.IPv6Address):
        return None
    return matched[1] or matched[2], matched[3] or ""


def _parse_host_entry(entry: str) -> tuple[str, str]:
    text = entry.strip().lower()
    split = _split_authority(text) if parse_address(text) is None else (text, "")
    if split is None:
        raise ServeError(
            f"server.allowed_hosts: {entry!r} is not a host; write a name or address with or without a port, "
            "such as 'stead.example.org' or '192.168.1.5:8420' (no scheme, no path, no wildcard)"
        )
    return split


def _parse_origin_entry(entry: str) -> str:
    origin = _normalize_origin(entry.strip().lower())
    if origin is None:
        raise ServeError(
            f"server.allowed_origins: {entry!r} is not an origin; write scheme, host and port as a browser sends them, "
            "such as 'http://localhost:5173' (no path, no wildcard)"
        )
    return origin


def _normalize_origin(origin: str) -> str | None:
    """An origin as browsers write it, without its scheme's default port; None if it is not an origin."""
    matched = _ORIGIN.fullmatch(origin)
    if matched is None or "*" in origin:
        return None
    default = _DEFAULT_PORTS.get(matched[1])
    return origin.removesuffix(f":{default}") if default else origin
