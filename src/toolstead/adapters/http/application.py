"""The outermost ASGI application: counts, guards, routes and answers every request, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from toolstead.adapters.http.access import AccessRules
from toolstead.adapters.http.asgi import ASGIApp, Receive, Scope, Send, TrackedResponse
from toolstead.adapters.http.guard import CLOSE, RequestGuard
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import CRASH, RETRY_AFTER, STOPPING, problem_response
from toolstead.adapters.http.routing import Routes
from toolstead.adapters.http.stopping import Stopping

logger = logging.getLogger(__name__)


class HttpApplication:
    """All routes and mounts as one ASGI application.

    Attributes:
        routes: The route table.
        stopping: The requests in flight, and whether the shutdown has begun.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """

    def __init__(
        self,
        routes: Routes,
        *,
        options: ServerOptions,
        stopping: Stopping,
        mounts: Mapping[str, ASGIApp] | None = None,
        is_stream: Callable[[Scope], bool] = lambda _: False,
        access: AccessRules | None = None,
        programs: Sequence[str] = (),
    ) -> None:
        """Put the parts together.

        Args:
            routes: Answers what no mount does.
            options: Who may call, and how much may be sent.
            stopping: Shared with streams that must end when the server does.
            mounts: Applications by the exact path that they answer, behind the same guard.
            is_stream: Whether a request to one of them stays open until it is ended.
            access: Decides about tokens that do not open everything; as the options say, unless given.
            programs: Path prefixes for programs, not pages: they accept no token in the URL.
        """
        self.routes = routes
        self.stopping = stopping
        self._mounts = mounts or {}
        self._is_stream = is_stream
        self._guard = RequestGuard(options, stopping, access=access or AccessRules(options), programs=programs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; any failure inside still ends it properly."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        response = TrackedResponse(send)
        mount = self._mounts.get(scope["path"])
        self.stopping.enter_request(task, stream=mount is not None and self._is_stream(scope))
        try:
            admitted = await self._guard.admit_request(scope, receive, response)
            if admitted is not None:
                await (self.routes if mount is None else mount)(scope, admitted, response)
        except asyncio.CancelledError:
            if not self.stopping.was_cut(task):
                raise
            task.uncancel()
            detail = "The server stopped before it answered this request, which may or may not have taken effect."
            await response.end_response(
                problem_response(STOPPING, detail, instance=scope["path"], headers=(RETRY_AFTER, CLOSE))
            )
        except Exception:
            crash = f"http_{secrets.token_hex(6)}"
            logger.exception("crash %s: %s %r", crash, scope["method"], scope["path"][:200])
            if response.status:
                raise  # the server aborts the connection, so that a partial response is not taken for a whole one
            detail = f"Internal error in the server; its log has the details under {crash}."
            await response.end_response(problem_response(CRASH, detail, instance=scope["path"], id=crash))
        finally:
            self.stopping.leave_request(task)
