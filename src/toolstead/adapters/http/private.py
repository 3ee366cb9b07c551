"""Routes for people alone: only who shows the private token passes.

The server makes that token at its start and tells it to nobody but `server.json`, which the console and
the command line read. MCP clients, tools and runtimes know at most the general token, so that a model
cannot approve what it asks for.
"""

from __future__ import annotations

import logging

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Sendable
from toolstead.adapters.http.names import ServerNames
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import PRIVATE, make_readable, problem_response
from toolstead.adapters.http.token import AccessToken

logger = logging.getLogger(__name__)


class PrivateAccess:
    """Tells people from everybody else.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._token = AccessToken(options.private_token)
        self._names = ServerNames(options)

    def protect_handler(self, handler: Handler) -> Handler:
        """The same handler for who shows the private token; everybody else gets an answer that says what is needed."""

        async def answer_request(request: HttpRequest) -> Sendable | None:
            return await handler(request) if self.is_admitted(request) else refuse_stranger(request)

        return answer_request

    def is_admitted(self, request: HttpRequest) -> bool:
        """Whether a request shows the private token. Its cookie counts for the pages of this server alone."""
        headers = dict(request.scope["headers"])  # the guard has seen to it that none of these is there twice
        origin = headers.get(b"origin")
        if origin is not None and not self._names.is_own_page(origin, headers[b"host"]):
            # A page that is listed may call, but a browser would send the person's cookie along with whatever it asks.
            headers.pop(b"cookie", None)
        return self._token.is_shown_by(headers)


def refuse_stranger(request: HttpRequest) -> HttpResponse:
    """The answer to everybody else; it says nothing of what is behind it."""
    logger.warning("refused a request for %r: it needs the private token", make_readable(request.path, 100))
    detail = (
        "This is for a person to do, so it needs the private token, which this server made when it started. The "
        "console and the command line have it, from server.json in the data folder; the settings' token does not do."
    )
    return problem_response(PRIVATE, detail, instance=request.path)


async def refuse_everybody(request: HttpRequest) -> HttpResponse:
    """Stands before a private route where no private token was ever made."""
    return refuse_stranger(request)
