"""Approvals as a part of the client interface: of a stead in this process, or behind its HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toolstead.app.stead_events import follow_stored_events
from toolstead.errors import (
    ApprovalDecidedError,
    InvalidApprovalError,
    NotFoundError,
    RefusedRequestError,
    SchemaError,
    ServeError,
)

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.types.approval import ApprovalDecision

TYPES = ("approval.requested", "approval.resolved")

_DECIDED, _UNKNOWN, _INVALID = 409, 404, 422


class InProcessApprovals:
    """The approvals of a stead that is open in this process, and of every other process on its database."""

    def __init__(self, stead: Toolstead) -> None:
        self._stead = stead

    async def list_approvals(self) -> list[dict[str, Any]]:
        """The calls that wait, the oldest first, of every process on the database."""
        return [approval.to_json() for approval in await self._stead.approvals.pending_approvals()]

    async def decide_approval(
        self, id: str, decision: ApprovalDecision, *, input: Mapping[str, Any] | None = None, reason: str = ""
    ) -> dict[str, Any]:
        """Allow or deny a call, and return the decided approval.

        Raises:
            NotFoundError: There is no such approval.
            ApprovalDecidedError: It is decided already.
            InvalidApprovalError: The arguments do not fit the tool.
        """
        return (await self._stead.approvals.decide_approval(id, decision, input=input, reason=reason)).to_json()

    async def find_problems(self, tool: str, input: Mapping[str, Any]) -> list[str]:
        """Why arguments do not fit a tool, before anything is decided; none where that cannot be found out."""
        return await self._stead.approvals.find_problems(tool, input)

    @contextmanager
    def watch_own(self, on_event: Callable[[str, dict[str, Any]], object]) -> Generator[None]:
        """Call back with each question of this process and each decision about one, as their events are, while open."""
        with self._stead.approvals.watch_questions(on_event):
            yield

    def follow_events(self) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """The questions and the decisions from now on, of every process on the database."""
        return follow_stored_events(self._stead, TYPES)


class HttpApprovals:
    """The approvals behind a server. All of it needs the server's private token."""

    def __init__(
        self,
        send_request: Callable[..., Awaitable[Any]],
        check_keys: Callable[[Any, set[str]], dict[str, Any]],
        follow_stream: Callable[[str], AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]],
    ) -> None:
        """Keep what is sent with.

        Args:
            send_request: Gives the JSON that a route answers: method, path and body.
            check_keys: Refuses an answer that lacks one of these members.
            follow_stream: Gives the events of the stream at a path.
        """
        self._send_request, self._check_keys, self._follow_stream = send_request, check_keys, follow_stream

    async def list_approvals(self) -> list[dict[str, Any]]:
        """See `InProcessApprovals`."""
        answer = self._check_keys(await self._send_request("GET", "/api/approvals"), {"approvals"})
        return [self._take_approval(approval) for approval in answer["approvals"]]

    async def decide_approval(
        self, id: str, decision: ApprovalDecision, *, input: Mapping[str, Any] | None = None, reason: str = ""
    ) -> dict[str, Any]:
        """See `InProcessApprovals`."""
        body = {"decision": decision, "reason": reason, **({} if input is None else {"input": dict(input)})}
        path = f"/api/approvals/{quote(id, safe='', errors='surrogatepass')}"
        try:
            return self._take_approval(await self._send_request("POST", path, body))
        except RefusedRequestError as error:
            match error.status:
                case status if status == _DECIDED and "decision" in error.problem:
                    made, why = str(error.problem["decision"]), str(error.problem.get("reason", ""))
                    raise ApprovalDecidedError(id=id, decision=made, reason=why) from None
                case status if status == _UNKNOWN:
                    raise NotFoundError("approval", id) from None
                case status if status == _INVALID and input is not None:
                    raise InvalidApprovalError("input", error.problem["detail"].removeprefix("/input: ")) from None
                case _:
                    raise

    async def find_problems(self, tool: str, input: Mapping[str, Any]) -> list[str]:
        """See `InProcessApprovals`; the server decides with the arguments that are sent."""
        from toolstead.schema.compiled import compile_input_schema
        from toolstead.tools.validation import fill_defaults

        try:
            path = f"/api/tools/{quote(tool, safe='', errors='surrogatepass')}"
            answer = self._check_keys(await self._send_request("GET", path), {"inputSchema"})
            schema = compile_input_schema(answer["inputSchema"], tool=tool)
        except (ServeError, SchemaError):
            return []
        return schema.describe_problems(fill_defaults(schema, input))

    @contextmanager
    def watch_own(self, on_event: Callable[[str, dict[str, Any]], object]) -> Generator[None]:
        """Nothing waits in this process; what waits for a run is in the run's own events."""
        yield

    def follow_events(self) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """See `InProcessApprovals`; it ends when the server stops."""
        return self._follow_stream(f"/api/events?{urlencode({'type': ','.join(TYPES)})}")

    def _take_approval(self, answer: Any) -> dict[str, Any]:
        approval = self._check_keys(answer, {"id", "tool", "input", "reason", "askedBy", "expiresAt"})
        return {name: value for name, value in approval.items() if name != "shown"}
