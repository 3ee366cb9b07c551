"""Private routes: only requests with the private token pass.

The server creates that token at its start and writes it only to `server.json`, which the console and the
command line read. MCP clients, tools and runtimes have at most the general token, so a model cannot
approve its own calls.
"""

from __future__ import annotations

import logging

from toolstead.adapters.http.asgi import Handler, HttpRequest, Sendable
from toolstead.adapters.http.names import ServerNames
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import PRIVATE, make_readable, problem_response
from toolstead.adapters.http.token import AccessToken

logger = logging.getLogger(__name__)


class PrivateAccess:
    """Checks the private token; without one, no request passes.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._token = AccessToken(options.private_token)
        self._names = ServerNames(options)

    def protect_handler(self, handler: Handler) -> Handler:
        """Wrap a handler so that it needs the private token; the refusal of other requests reveals nothing about it."""

        async def answer_request(request: HttpRequest) -> Sendable | None:
            if self._is_admitted(request):
                return await handler(request)
            logger.warning("refused a request for %r: it needs the private token", make_readable(request.path, 100))
            detail = (
                "Only a person may do this, so it needs the private token that this server created at its start. "
                "The console and the command line read it from server.json in the data folder; the settings' token is "
                "not enough."
            )
            return problem_response(PRIVATE, detail, instance=request.path)

        return answer_request

    def _is_admitted(self, request: HttpRequest) -> bool:
        """Whether a request has the private token. The cookie counts only for pages of this server."""
        headers = dict(request.scope["headers"])  # the guard has refused duplicates
        origin = headers.get(b"origin")
        if origin is not None and not self._names.is_own_page(origin, headers[b"host"]):
            # An allowed page may call, but the browser would send the user's cookie with any request of the page.
            headers.pop(b"cookie", None)
        return self._token.is_shown_by(headers)
