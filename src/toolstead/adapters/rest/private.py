"""Routes for people alone: only who shows the private token passes.

The server makes that token at its start and tells it to nobody but `server.json`, which the console and
the command line read. MCP clients, tools and runtimes know at most the general token, so that a model
cannot approve what it asks for.
"""

from __future__ import annotations

import logging

from toolstead.adapters.rest.asgi import Answer, Handler, Request, Sendable
from toolstead.adapters.rest.names import Names
from toolstead.adapters.rest.options import ServerOptions
from toolstead.adapters.rest.problem import PRIVATE, problem, readable
from toolstead.adapters.rest.token import Token

logger = logging.getLogger(__name__)


class PrivateDoor:
    """Tells people from everybody else.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._token = Token(options.private_token)
        self._names = Names(options)

    def before(self, handler: Handler) -> Handler:
        """The same handler for who shows the private token; everybody else is told what is needed."""

        async def answer(request: Request) -> Sendable | None:
            return await handler(request) if self.admits(request) else refuse(request)

        return answer

    def admits(self, request: Request) -> bool:
        """Whether a request shows the private token. Its cookie counts for the pages of this server alone."""
        headers = dict(request.scope["headers"])  # the guard has seen to it that none of these is there twice
        origin = headers.get(b"origin")
        if origin is not None and not self._names.is_own_page(origin, headers[b"host"]):
            # A page that is listed may call, but a browser would send the person's cookie along with whatever it asks.
            headers.pop(b"cookie", None)
        return self._token.is_shown_by(headers)


def refuse(request: Request) -> Answer:
    """The answer to everybody else; it says nothing of what is behind the door."""
    logger.warning("refused a request for %r: it needs the private token", readable(request.path, 100))
    detail = (
        "This is for a person to do, so it needs the private token, which this server made when it started. The "
        "console and the command line have it, from server.json in the data folder; the settings' token does not do."
    )
    return problem(PRIVATE, detail, instance=request.path)


async def refuse_everybody(request: Request) -> Answer:
    """Stands before a private route where no private token was ever made."""
    return refuse(request)
