"""The general or private token of the server: in a header, in a cookie, or once in a page's URL.

The cookie does not hold the token but a keyed digest of it: browsers send a cookie to every port
of a host, so other programs on this machine may see it, and must not learn the token from it. It
stays valid over restarts as long as the token does.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from toolstead.errors import ServeError

_COOKIE = re.compile(rb"(?:^|;)\s*toolstead-[0-9a-z]+=([0-9a-f]{64})\s*(?=;|$)")
_PORT = re.compile(rb":([0-9]+)$")


class AccessToken:
    """A token that clients must send. An empty one needs nothing and matches nothing.

    Raises:
        ServeError: The token could not be sent in a header.
    """

    def __init__(self, token: str) -> None:
        if not all("!" <= character <= "~" for character in token):
            raise ServeError("server.token: use visible ASCII characters only, without spaces: it is sent in a header")
        self.needed = bool(token)
        self._token = token.encode()
        self._digest = hmac.new(self._token, b"toolstead cookie", hashlib.sha256).hexdigest().encode()

    def is_shown_by(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the headers have the token, or its cookie."""
        if not self.needed:
            return False
        if b"authorization" in headers:
            shown = read_bearer(headers)
            return shown is not None and hmac.compare_digest(shown, self._token)
        cookies = _COOKIE.findall(headers.get(b"cookie", b""))
        return any(hmac.compare_digest(found, self._digest) for found in cookies)

    def is_shown_in(self, query: bytes) -> bool:
        """Whether a query string has the token as `token=`."""
        return self.needed and any(
            hmac.compare_digest(value.encode(), self._token) for key, value in _parse_query(query) if key == "token"
        )

    def make_cookie(self, host: bytes, *, is_secure: bool = False) -> bytes:
        """The `Set-Cookie` value. Its name carries the port, because cookies of a host are shared by its ports.

        Args:
            host: The header of the request.
            is_secure: Whether the browser reached this server over TLS, and is to send the cookie over TLS alone.
        """
        port = _PORT.search(host.strip())
        name = b"toolstead-" + (port[1] if port else b"web")
        return name + b"=" + self._digest + b"; Path=/; HttpOnly; SameSite=Strict" + (b"; Secure" if is_secure else b"")


def read_bearer(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The token of the header `Authorization`; None without one."""
    scheme, _, shown = headers.get(b"authorization", b"").strip().partition(b" ")
    return shown.strip() or None if scheme.lower() == b"bearer" else None


def describe_shown(headers: Mapping[bytes, bytes], query: bytes) -> str:
    """What a request shows that no token admits, for the log."""
    if b"authorization" in headers:
        return (
            "no token"
            if not headers[b"authorization"].strip()
            else (
                "a wrong token"
                if read_bearer(headers) is not None
                else "a header Authorization that is no `Bearer TOKEN`"
            )
        )
    if any(key == "token" for key, _ in _parse_query(query)):
        return "a wrong token in the URL"
    return "a wrong cookie" if _COOKIE.search(headers.get(b"cookie", b"")) else "no token"


def strip_token(raw_path: bytes, query: bytes) -> bytes:
    """The same URL without `token=`, for a redirect that stays on this server.

    Two slashes in front would name another host, and browsers read a backslash as a slash.
    """
    rest = urlencode([(key, value) for key, value in _parse_query(query) if key != "token"])
    path = b"/" + raw_path.lstrip(b"/\\")
    return path + (b"?" + rest.encode() if rest else b"")


def _parse_query(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=100)
    except ValueError:  # not ASCII, or far too many fields: no token in any case
        return []
