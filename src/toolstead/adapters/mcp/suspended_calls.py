"""Calls that wait for an answer of their modern client.

The modern protocol version has no requests from server to client. A call that asks something ends its request with an
`input_required` result: the questions, and a state. The client sends the same request again with the answers and the
state, and that request takes up the call where it stands, so a handler runs once. In between no request waits:

    running ── asks ──▶ suspended ── answers ──▶ running ── ends ──▶ result
                            └── no answer in time, the client cancels, the server stops ──▶ cancelled

| state     | who waits                                    | what ends it                                          |
|-----------|----------------------------------------------|-------------------------------------------------------|
| running   | one request of the client                    | its end; a cancelled request cancels it               |
| suspended | no request; the table has it by its state    | a request with its state; its time; the table's end   |
| ended     | the last request, or the next with its state | a result that is not fetched in time is dropped, logged |

The state is random, and a new one for each round. It counts once, and only for the same tool, the same arguments and
the same credentials.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from toolstead.adapters.http.access import find_access
from toolstead.adapters.http.asgi import Scope
from toolstead.adapters.mcp.caller_side import McpCallerSide
from toolstead.adapters.mcp.wire import is_modern
from toolstead.concurrency.owned_tasks import OwnedTasks, cancel_tasks
from toolstead.errors import NoClientError
from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

MOST: Final = 200
"""Calls of one server that may wait for answers."""
MOST_ROUNDS: Final = 50
"""How often one call may end a request with questions."""
PATIENCE: Final = 600.0
"""Seconds that a client has to answer."""

Start = Callable[[McpCallerSide], Coroutine[Any, Any, ToolResult]]
"""Begins a call whose client is this."""
_Request = ServerRequestContext[Any, Any]


@dataclass(slots=True, eq=False)
class _ClientQuestion:
    """What a call asks.

    Attributes:
        request: As the client gets it.
        answer: Ends with the client's answer, or with the error that the handler gets instead.
    """

    request: mcp_types.InputRequest
    answer: asyncio.Future[mcp_types.InputResponse]

    def resolve(self, answer: mcp_types.InputResponse | NoClientError) -> None:
        """Give the handler its answer, unless it was cancelled meanwhile."""
        if self.answer.done():
            return
        if isinstance(answer, NoClientError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


@dataclass(slots=True, eq=False)
class _SuspendableCall:
    """One call, over all its rounds.

    Attributes:
        name: The tool's name.
        binding: What a request must have in common with the first one to take it up.
        client: Its client; follows the requests.
        answers: What the client sent along before it was asked, by key.
        questions: What is asked and not answered, by key.
        asked: Ends when something is asked in this round.
        rounds: How many requests ended with questions.
        request_id: The id of its latest request.
        timer: Runs while it is suspended.
    """

    name: str
    binding: bytes
    client: McpCallerSide
    answers: dict[str, mcp_types.InputResponse]
    asked: asyncio.Future[None]
    request_id: str = ""
    questions: dict[str, _ClientQuestion] = field(default_factory=dict[str, _ClientQuestion])
    rounds: int = 0
    keys: int = 0
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[ToolResult] = field(init=False)

    def drop_questions(self, _: object) -> None:
        """Cancel what is still asked when the call has ended: by tasks that its handler left behind."""
        for question in self.questions.values():
            question.answer.cancel()


class SuspendedCalls:
    """The calls of one server that wait for their clients' answers."""

    def __init__(self, *, most: int = MOST, patience: float = PATIENCE) -> None:
        """Begin with none.

        Args:
            most: How many may wait.
            patience: Seconds that a client has to answer.
        """
        self._most = most
        self._patience = patience
        self._asking: set[_SuspendableCall] = set()
        self._suspended: dict[str, _SuspendableCall] = {}
        self._ending = OwnedTasks()

    @asynccontextmanager
    async def end_with_server(self) -> AsyncGenerator[None]:
        """Cancel what is still suspended when the server stops or its client is gone."""
        try:
            yield
        finally:
            for state, call in tuple(self._suspended.items()):
                self._cancel(state, call, "the server stopped, or its client is gone")
            with anyio.CancelScope(shield=True):
                await self._ending.wait_for_all()

    async def answer_request(
        self, request: _Request, params: mcp_types.CallToolRequestParams, start: Start
    ) -> tuple[ToolResult, McpCallerSide] | mcp_types.InputRequiredResult:
        """Begin a call, or take up the one that a request has the state of: its result, or what it asks now.

        Raises:
            MCPError: No call waits under this state.
            UnknownToolError: There is no such tool.
            asyncio.CancelledError: The client cancelled the request; so was the call.
        """
        binding = _bind_request(request, params)
        given = params.input_responses or {}
        if params.request_state is None:
            call = self._begin(params.name, binding, request, given, start)
        else:
            call = self._take_up(params.request_state, binding, request)
            self._give_answers(call, given)
        call.request_id = str(request.request_id)
        return await self._run_round(call)

    async def learn_cancellation(self, ctx: _Request, call_next: CallNext) -> HandlerResult:
        """Middleware: a client's cancellation reaches a call whose request has ended with a question.

        Over HTTP the SDK passes none on in the modern version: there the ids of different clients are alike.
        """
        if ctx.method == "notifications/cancelled" and is_modern(ctx.protocol_version):
            asked = (ctx.params or {}).get("requestId")
            for state, call in tuple(self._suspended.items()) if isinstance(asked, int | str) else ():
                if call.request_id == str(asked):
                    self._cancel(state, call, "the client cancelled it")
        return await call_next(ctx)

    def _begin(
        self,
        name: str,
        binding: bytes,
        request: _Request,
        answers: Mapping[str, mcp_types.InputResponse],
        start: Start,
    ) -> _SuspendableCall:
        async def ask(question: mcp_types.InputRequest, key: str | None) -> mcp_types.InputResponse:
            return await self._ask(call, question, key)

        client = McpCallerSide(request, ask=ask, patience=self._patience)
        call = _SuspendableCall(name, binding, client, dict(answers), asyncio.get_running_loop().create_future())
        call.task = asyncio.create_task(start(client), name=f"the call of {name[:80]!r}")
        call.task.add_done_callback(call.drop_questions)
        return call

    def _take_up(self, state: str, binding: bytes, request: _Request) -> _SuspendableCall:
        call = self._suspended.get(state)
        if call is None:
            raise _refuse_state(
                "no call waits for it. The server was restarted, the answer came too late (server.ask_timeout: "
                f"{self._patience:g} seconds), or it was sent before"
            )
        if call.binding != binding:
            raise _refuse_state(
                "it belongs to another call: the tool, the arguments and the credentials must be those of the request "
                "that it answers"
            )
        del self._suspended[state]
        if call.timer is not None:
            call.timer.cancel()
        call.client.attach(request)
        call.asked = asyncio.get_running_loop().create_future()
        return call

    def _give_answers(self, call: _SuspendableCall, given: Mapping[str, mcp_types.InputResponse]) -> None:
        """Give a call what its client answered; keys that nothing was asked under mean nothing."""
        for key, question in tuple(call.questions.items()):
            if key in given:
                question.resolve(given[key])
            elif call.rounds >= MOST_ROUNDS:
                question.resolve(NoClientError(f"the client did not answer {key!r} in {MOST_ROUNDS} rounds"))
            else:
                continue
            del call.questions[key]
        if not call.questions:
            self._asking.discard(call)

    async def _run_round(
        self, call: _SuspendableCall
    ) -> tuple[ToolResult, McpCallerSide] | mcp_types.InputRequiredResult:
        """Wait until the call has ended, or asks."""
        try:
            if call.questions:  # not all were answered: the client gets the others again
                await asyncio.sleep(0)  # what was answered goes on first, and may ask more
                if not call.asked.done():
                    call.asked.set_result(None)
            await asyncio.wait((call.task, call.asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The SDK cancels again at every `await`: the handler is cancelled once, and may clean up.
            with anyio.CancelScope(shield=True):
                await cancel_tasks((call.task,))
            self._asking.discard(call)
            raise
        if call.task.done():
            self._asking.discard(call)
            return call.task.result(), call.client
        return self._suspend(call)

    def _suspend(self, call: _SuspendableCall) -> mcp_types.InputRequiredResult:
        state = secrets.token_urlsafe(32)
        call.rounds += 1
        call.client.detach()
        self._suspended[state] = call
        call.timer = asyncio.get_running_loop().call_later(
            self._patience, self._cancel, state, call, f"its client did not answer within {self._patience:g} seconds"
        )
        requests = {key: question.request for key, question in call.questions.items()}
        return mcp_types.InputRequiredResult(input_requests=requests, request_state=state)

    async def _ask(
        self, call: _SuspendableCall, request: mcp_types.InputRequest, key: str | None
    ) -> mcp_types.InputResponse:
        """Ask the client: in the result of the request that is running, or of the next one.

        Raises:
            NoClientError: Too many calls wait, or this one asked too often.
        """
        if key is None:
            call.keys += 1
            key = f"question_{call.keys}"
        if key in call.questions:
            raise NoClientError(f"the question {key!r} is asked already; give each its own key")
        if (known := call.answers.pop(key, None)) is not None:
            return known
        if call.rounds >= MOST_ROUNDS:
            raise NoClientError(f"this call has asked its client {MOST_ROUNDS} times, and may not ask again")
        if call not in self._asking and len(self._asking) >= self._most:
            logger.warning("%r may not ask its client: %s calls wait for answers already", call.name, self._most)
            raise NoClientError(
                f"{self._most:,} calls wait for the answers of their clients already (server.max_asking); "
                "call again later"
            )
        self._asking.add(call)
        question = _ClientQuestion(request, asyncio.get_running_loop().create_future())
        call.questions[key] = question
        if not call.asked.done():
            call.asked.set_result(None)
        try:
            return await question.answer
        finally:
            call.questions.pop(key, None)  # also when the handler does not wait for the answer any more

    def _cancel(self, state: str, call: _SuspendableCall, reason: str) -> None:
        """End a suspended call that no request will take up."""
        del self._suspended[state]
        if call.timer is not None:
            call.timer.cancel()
        self._asking.discard(call)
        if call.task.done():
            if not call.task.cancelled():
                call.task.exception()  # the dispatcher has logged it
            logger.warning("the result of the call of %r was not fetched: %s", call.name, reason)
            return
        logger.warning("the call of %r, which waited for its client, is cancelled: %s", call.name, reason)
        self._ending.start(cancel_tasks((call.task,)), name="toolstead-mcp-suspended-end")


def _refuse_state(reason: str) -> MCPError:
    """The error of a request whose state is not known; a client that sends it without the state begins anew."""
    logger.warning("refused a requestState: %s", reason)
    return MCPError(
        code=mcp_types.INVALID_PARAMS,
        message=f"this requestState is not valid (any more): {reason}; "
        "send the request again without requestState and inputResponses to begin anew",
        data={"reason": "invalid_request_state"},
    )


def _bind_request(request: _Request, params: mcp_types.CallToolRequestParams) -> bytes:
    """A digest of what requests of one call have in common: tool, arguments, and who sends them."""
    shown = json.dumps([params.name, params.arguments or {}, _identify_caller(request)], sort_keys=True)
    return hashlib.sha256(shown.encode()).digest()


def _identify_caller(request: _Request) -> list[str]:
    """Who sends a request, also with a token that was refreshed; nobody on stdio, where a server has one client."""
    scope: Scope | None = getattr(request.request, "scope", None)
    if scope is None:
        return []
    if (access := find_access(scope)) is not None:
        return [access.holder]
    headers = dict(scope["headers"])
    return [headers.get(name, b"").decode("latin-1") for name in (b"authorization", b"cookie")]
