"""The running server of a project, as a command talks to it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolstead.errors import ServeError

if TYPE_CHECKING:
    from toolstead.console.cli.invocation import Invocation

SECONDS = 60.0
_LONGEST_LINE = 64 * 1024 * 1024


class Remote:
    """A running server."""

    def __init__(self, url: str, token: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ServeError(f"{url}: an address begins with http:// or https://")
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A token goes to the address it is for, and nowhere else: no proxies, no redirects.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON that a route answers; None for an answer without a body.

        Raises:
            NobodyListensError: The server is gone.
            ServeError: It cannot be asked, or said no; its own words are in the text.
        """
        with self._open(method, path, body, headers, SECONDS) as response:
            data = response.read()
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise ServeError(f"{self.url}{path} answered, but not as a Toolstead server does") from None

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """The events of a stream, until it ends."""
        with self._open("GET", path, None, {"Accept": "text/event-stream"}, None) as response:
            while line := response.readline(_LONGEST_LINE):
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])

    @contextmanager
    def _open(
        self, method: str, path: str, body: Any, headers: Mapping[str, str] | None, seconds: float | None
    ) -> Generator[http.client.HTTPResponse]:
        address = f"{self.url}{path}"
        sent = {
            **self._headers,
            **({"Content-Type": "application/json"} if body is not None else {}),
            **(headers or {}),
        }
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(address, data=data, headers=sent, method=method)  # noqa: S310 - see __init__
        try:
            with self._opener.open(request, timeout=seconds) as response:
                yield response
        except urllib.error.HTTPError as error:
            raise ServeError(f"{address} answered {error.code}: {_detail(error.read(4_000))}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ConnectionRefusedError):
                raise NobodyListensError(f"{self.url} cannot be reached: nobody listens there") from None
            raise ServeError(f"{address} cannot be reached: {reason}") from None
        except http.client.HTTPException as error:
            raise ServeError(f"{address} broke off in the middle of its answer: {error!r}") from None


class NobodyListensError(ServeError):
    """The server has gone."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Never."""


def find_server(invocation: Invocation, url: str | None) -> Remote | None:
    """The server that was named, else this project's own, if one runs.

    Raises:
        ServeError: The one that was named cannot be reached.
    """
    from toolstead.app.server_file import ServerFile

    places = invocation.places()
    servers = ServerFile(places.data)
    known = servers.find(places.project) if url is None else servers.find_url(url)
    if url is None and known is None:
        return None
    if url is not None:
        # The token of one server is nobody else's business: another address gets what the settings say, or none.
        own = invocation.load().settings.server.token
        remote = Remote(url, known.token if known is not None else own if own != "auto" else "")
    else:
        remote = Remote(known.url, known.token) if known is not None else None
    if remote is None:
        return None
    try:
        remote.ask("GET", "/api/health")
    except NobodyListensError:
        if url is not None:
            raise
        return None  # it died without taking its name off the list
    return remote


def _detail(data: bytes) -> str:
    try:
        document: Any = json.loads(data)
        return str(document["detail"])
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace")[:500]
