"""Approvals: a gate wants a person to decide about a call, and the call waits.

The question is a row of the database, and so is its one decision, made by a person in this
process or in another one, the end of the time, a caller that left, a process that stopped. Each is
stored together with its event. Every failure refuses the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.concurrency.owned_tasks import OwnedTasks, cancel_tasks
from toolstead.concurrency.suspended_coroutine import render_seconds
from toolstead.errors import (
    ApprovalDecidedError,
    InvalidApprovalError,
    NoClientError,
    NotFoundError,
    StorageError,
)
from toolstead.orchestrator.approval_events import (
    build_resolution,
    create_event,
    describe_decision,
    describe_question,
    describe_waiting,
)
from toolstead.orchestrator.ids import Ids
from toolstead.types.call import Allow, Ask, Deny, Rewrite, ToolCall

if TYPE_CHECKING:
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.store import Resolution, Store
    from toolstead.tools.gates import ApprovingClient
    from toolstead.types.approval import Approval, ApprovalDecision

logger = logging.getLogger(__name__)

OnChange = Callable[[str, dict[str, Any]], object]
"""Takes the type and the data of an event about an approval of this process."""

MOST_WAITING = 1_000
LONGEST_WAIT = 86_400.0
LONGEST_REASON = 2_000
POLL_SECONDS = 0.5
"""How often a process that waits polls for decisions made in another one."""

STOPPED = "the process that asked was stopped"
CLOSING = "no person can be asked any more: this process is shutting down"
WITHDRAWN = "withdrawn: the caller left"
GONE = "the question was deleted with its thread"
UNSTORED = "the question could not be stored"
UNSAID = "a person denied it"


class Approvals:
    """Asks people, and stores their decisions. One for each process; close it before the store."""

    def __init__(
        self,
        *,
        open_store: Callable[[], Awaitable[Store]],
        log: EventLog,
        problems_of: Callable[[str, Mapping[str, Any]], Awaitable[list[str]]] | None = None,
    ) -> None:
        """Create it; nothing is opened before the first question.

        Args:
            open_store: Gives the store; the first call opens it.
            log: Takes the stored events.
            problems_of: Why arguments do not fit a tool: each a sentence; none when they fit, or the tool is unknown.
        """
        self._open_store = open_store
        self._log = log
        self._problems_of = problems_of
        self._ids = Ids()
        self._asking = 0
        self._waiting: dict[str, _Question] = {}
        self._unstored: dict[str, tuple[_Question, Resolution]] = {}
        """Decisions that could not be stored yet; their calls were refused."""
        self._tasks = OwnedTasks()
        """What runs to its end even when its caller stops waiting."""
        self._watching: asyncio.Task[None] | None = None
        self._watchers: list[OnChange] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many calls of this process wait for a person."""
        return self._asking

    @contextmanager
    def watch_questions(self, on_change: OnChange) -> Generator[None]:
        """Call back with each question of this process, and each decision about one, while open.

        Args:
            on_change: Takes the type and the data of the event. Must not block and must not raise.
        """
        self._watchers.append(on_change)
        try:
            yield
        finally:
            self._watchers.remove(on_change)

    async def ask_person(
        self, call: ToolCall, ask: Ask, asked_by: str, client: ApprovingClient | None = None
    ) -> Allow | Deny | Rewrite:
        """Have a person decide about a call, and wait for the decision; every failure denies the call.

        Args:
            call: What is to be decided about.
            ask: Why, and for how long.
            asked_by: The gate that wants it.
            client: The caller's own side, where a person is asked as well. The first decision counts, wherever.

        Raises:
            asyncio.CancelledError: The caller left; the question is withdrawn.
        """
        refusal = self._refusal_reason(ask, asked_by)
        if refusal is not None:
            return Deny(refusal)
        self._asking += 1
        try:
            return await self._ask_and_wait(call, ask, asked_by, client)
        except (StorageError, InvalidApprovalError) as error:
            return Deny(f"{asked_by} wants a person to decide ({ask.reason}), and no person can be asked: {error}")
        except Exception:
            logger.exception("a person could not be asked about %r, so the call is refused", call.name)
            return Deny(
                f"{asked_by} wants a person to decide ({ask.reason}), and asking failed; the log has the details"
            )
        finally:
            self._asking -= 1

    async def decide_approval(
        self, id: str, decision: ApprovalDecision, *, input: Mapping[str, Any] | None = None, reason: str = ""
    ) -> Approval:
        """Decide about a call that waits, here or in another process.

        Args:
            id: The approval's id.
            decision: `allow` or `deny`.
            input: Arguments to go on with instead; only with `allow`.
            reason: For the model to read when it is a no, and for the record.

        Raises:
            NotFoundError: There is no such approval.
            ApprovalDecidedError: It is decided already.
            InvalidApprovalError: The decision is neither, or its arguments do not fit the tool.
            StorageError: The decision cannot be stored; nothing is decided.
        """
        _check_decision(decision, input, reason)
        approval = await self.read_approval(id)
        store = await self._open_store()
        if approval.decision is not None:
            raise _refuse_late(approval)
        edited = None if input is None else _copy_json(input)
        if edited is not None:
            if problems := await self.find_problems(approval.tool, edited):
                raise InvalidApprovalError("input", *problems)
            # As text `1` and `true` differ, though Python finds them equal.
            if msgspec.json.encode(edited, order="sorted") == msgspec.json.encode(approval.input, order="sorted"):
                edited = None  # sent back unchanged
        # A decision is finished even when its caller stops waiting for it: the waiting call gets it at once.
        resolution = build_resolution(approval, decision, reason, edited)
        return await asyncio.shield(
            self._tasks.start(self._store_decision(store, approval, resolution), name="toolstead-approval")
        )

    async def find_problems(self, tool: str, input: Mapping[str, Any]) -> list[str]:
        """Why arguments that a person wrote do not fit a tool; none when they fit, or the tool is unknown."""
        return [] if self._problems_of is None else await self._problems_of(tool, input)

    async def read_approval(self, id: str) -> Approval:
        """A question, with its decision where there is one.

        Raises:
            NotFoundError: There is no such approval.
            StorageError: The database does not answer.
        """
        store = await self._open_store()
        approval = await store.read_approval(id)
        if approval.decision is None and await self._settle_abandoned(store, [approval]):
            approval = await store.read_approval(id)
        return approval

    async def pending_approvals(self) -> list[Approval]:
        """The questions that wait for a person, oldest first, of all processes on the database.

        Raises:
            StorageError: The database does not answer.
        """
        store = await self._open_store()
        found = await store.pending_approvals()
        return await store.pending_approvals() if await self._settle_abandoned(store, found) else found

    async def recover_approvals(self) -> None:
        """Deny the questions of dead processes.

        Raises:
            StorageError: The database does not answer.
        """
        store = await self._open_store()
        for approval, _ in await store.recover_approvals(lambda one: build_resolution(one, "deny", STOPPED)):
            logger.warning("approval %s is denied: its process %s was stopped", approval.id, approval.owner)

    async def close(self) -> None:
        """Deny all waiting and later questions; store the decisions that are not stored yet, if possible."""
        self._closed = True
        await asyncio.gather(*(self._end_question(question, CLOSING) for question in tuple(self._waiting.values())))
        await self._tasks.wait_for_all()
        if self._watching is not None:
            await cancel_tasks((self._watching,))
        try:
            await self._store_unstored()
        except StorageError as error:
            logger.warning("%s approvals will be denied at the next start: %s", len(self._unstored), error)

    def _refusal_reason(self, ask: Ask, asked_by: str) -> str | None:
        """Why a question is not even asked."""
        if type(ask.timeout) not in (int, float) or not 0 < ask.timeout <= LONGEST_WAIT:
            return (
                f"{asked_by} wants a person to decide within {ask.timeout!r} seconds;"
                f" it must be more than 0 and at most {LONGEST_WAIT:,.0f}"
            )
        if type(ask.reason) is not str:
            return f"{asked_by} wants a person to decide, and gives no reason"
        if self._closed:
            return CLOSING
        if self._asking + len(self._unstored) >= MOST_WAITING:
            return (
                f"{asked_by} wants a person to decide ({ask.reason}), and {MOST_WAITING:,} calls wait for one already"
            )
        return None

    async def _ask_and_wait(
        self, call: ToolCall, ask: Ask, asked_by: str, client: ApprovingClient | None
    ) -> Allow | Deny | Rewrite:
        from toolstead.types.approval import Approval

        store = await self._open_store()
        if self._closed:
            return Deny(CLOSING)
        now = time.time()
        caller = call.caller
        approval = Approval(
            id=self._ids.new_id("approval"),
            call_id=call.call_id or caller.call_id or "",
            tool=call.name,
            input=_copy_json(call.input),
            reason=ask.reason,
            asked_by=asked_by,
            thread_id=caller.thread_id,
            run_id=caller.run_id,
            task_id=caller.task_id,
            requested_at=now,
            expires_at=now + ask.timeout,
            owner=store.owner,
        )
        question = _Question(
            approval, store, self._tasks.start(self._store_question(store, approval), name="toolstead-approval")
        )
        self._waiting[approval.id] = question
        try:
            await asyncio.shield(question.stored)
            self._announce_question(approval)
            self._watch_decisions()
            async with self._asked_at_client(client, approval):
                await asyncio.wait([question.decided], timeout=ask.timeout)
            if not question.decided.done():
                await self._settle_question(question, f"no answer within {render_seconds(ask.timeout)}")
        except asyncio.CancelledError:
            # Its event precedes the caller's own end; a caller that is cancelled again is not held up.
            await asyncio.wait([self._tasks.start(self._end_question(question, WITHDRAWN), name="toolstead-approval")])
            raise
        except StorageError:
            # When the connection broke during the commit, the question may be stored: it must not stay open.
            self._store_later(question, build_resolution(approval, "deny", UNSTORED))
            raise
        finally:
            del self._waiting[approval.id]
            if question.decided.done():
                self._call_watchers("approval.resolved", describe_decision(question.decided.result()))
        return _read_verdict(question.decided.result())

    def _announce_question(self, approval: Approval) -> None:
        """Log the question, and give it to those who watch."""
        logger.warning("%s", describe_waiting(approval))
        self._call_watchers("approval.requested", describe_question(approval))

    def _call_watchers(self, type: str, data: Mapping[str, Any]) -> None:
        for on_change in tuple(self._watchers):
            on_change(type, dict(data))

    @asynccontextmanager
    async def _asked_at_client(self, client: ApprovingClient | None, approval: Approval) -> AsyncGenerator[None]:
        """Ask the person at the caller's own side while open; closing withdraws the question there."""
        if client is None:
            yield
            return
        asking = self._tasks.start(self._ask_client(client, approval), name="toolstead-approval-at-client")
        try:
            yield
        finally:
            await cancel_tasks((asking,))

    async def _ask_client(self, client: ApprovingClient, approval: Approval) -> None:
        try:
            decided = await client.ask_approval(approval)
            if decided is not None:
                await self.decide_approval(approval.id, decided[0], reason=decided[1])
        except (NoClientError, ApprovalDecidedError, InvalidApprovalError, StorageError, NotFoundError) as error:
            logger.info("approval %s is not decided at the caller's client: %s", approval.id, error)
        except Exception:
            logger.exception("approval %s: the caller's client could not be asked", approval.id)

    async def _store_question(self, store: Store, approval: Approval) -> None:
        earlier = [] if approval.run_id is None else await self._log.take_unstored(approval.run_id)
        asked = create_event("approval.requested", approval, approval.requested_at, describe_question(approval))
        try:
            await store.add_approval(approval, [*earlier, asked])
        except BaseException:
            self._log.put_back(earlier)
            raise

    async def _store_decision(self, store: Store, approval: Approval, resolution: Resolution) -> Approval:
        if await store.resolve_approval(approval.id, resolution) is None:
            raise _refuse_late(await store.read_approval(approval.id))
        logger.info("approval %s: a person decided %s", approval.id, resolution.decision)
        decided = resolution.given_to(approval)
        if (question := self._waiting.get(approval.id)) is not None:
            question.resolve_question(decided)
        return decided

    async def _end_question(self, question: _Question, reason: str) -> None:
        """Deny a question for a reason; it may not be stored yet."""
        await asyncio.wait([question.stored])
        await self._settle_question(question, reason)

    async def _settle_question(self, question: _Question, reason: str) -> None:
        """Deny a question, unless a person has decided it: then that decision counts."""
        resolution = build_resolution(question.approval, "deny", reason)
        try:
            if await question.store.resolve_approval(question.approval.id, resolution) is None:
                question.resolve_question(await _decided_approval(question))
                return
        except StorageError as error:
            logger.warning("the denial of approval %s waits for the database: %s", question.approval.id, error)
            self._store_later(question, resolution)
        question.resolve_question(resolution.given_to(question.approval))

    async def _settle_abandoned(self, store: Store, found: list[Approval]) -> bool:
        """Deny those for which no call waits any more; False when there are none."""
        if self._unstored:
            await self._store_unstored()
        elif all(approval.owner == store.owner for approval in found):
            return False
        await self.recover_approvals()
        return True

    def _store_later(self, question: _Question, resolution: Resolution) -> None:
        self._unstored[question.approval.id] = (question, resolution)
        self._watch_decisions()

    async def _store_unstored(self) -> None:
        """Store the decisions that could not be stored before."""
        for approval_id, (question, resolution) in tuple(self._unstored.items()):
            await question.store.resolve_approval(approval_id, resolution)
            self._unstored.pop(approval_id, None)

    def _watch_decisions(self) -> None:
        if self._watching is None and not self._closed:
            self._watching = asyncio.create_task(self._poll_decisions(), name="toolstead-approvals")

    async def _poll_decisions(self) -> None:
        failing = False
        while self._waiting or self._unstored:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._find_decided()
                failing = False
            except Exception as error:  # noqa: BLE001 - whatever failed, it polls again
                if not failing:
                    level = error.log_level if isinstance(error, StorageError) else logging.WARNING
                    logger.log(level, "decisions of people cannot be read: %s", error)
                failing = True
        self._watching = None

    async def _find_decided(self) -> None:
        """Read the decisions made in other processes."""
        await self._store_unstored()
        open_here = [one for one in self._waiting.values() if one.stored.done() and not one.decided.done()]
        if not open_here:
            return
        store = open_here[0].store
        still = await store.pending_ids(store.owner)
        for question in open_here:
            if question.approval.id not in still:
                question.resolve_question(await _decided_approval(question))


class _Question:
    """A call that waits.

    Attributes:
        stored: Ends when the question is stored, or cannot be.
        decided: The approval with its decision.
    """

    __slots__ = ("approval", "decided", "store", "stored")

    def __init__(self, approval: Approval, store: Store, stored: asyncio.Task[None]) -> None:
        self.approval = approval
        self.store = store
        self.stored = stored
        self.decided: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()

    def resolve_question(self, decided: Approval) -> None:
        """Give the decision to the call; the first one counts."""
        if not self.decided.done():
            self.decided.set_result(decided)


async def _decided_approval(question: _Question) -> Approval:
    approval = question.approval
    try:
        return await question.store.read_approval(approval.id)
    except NotFoundError:
        return build_resolution(approval, "deny", GONE).given_to(approval)


def _read_verdict(approval: Approval) -> Allow | Deny | Rewrite:
    """What a decision means for the call."""
    if approval.decision != "allow":
        return Deny(approval.decision_reason or UNSAID)
    return Allow() if approval.decided_input is None else Rewrite(approval.decided_input)


def _check_decision(decision: str, input: object, reason: object) -> None:
    """Refuse what can be no decision, whatever it is about.

    Raises:
        InvalidApprovalError: It says what is wrong.
    """
    if decision not in ("allow", "deny"):
        raise InvalidApprovalError("decision", f"it must be 'allow' or 'deny', not {decision!r}")
    if input is not None and decision == "deny":
        raise InvalidApprovalError("input", "a denied call takes none; leave it out, or allow the call")
    if not isinstance(input, Mapping | None):
        raise InvalidApprovalError("input", "the tool's arguments must be an object")
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
        raise InvalidApprovalError("reason", f"it must be text of at most {LONGEST_REASON:,} characters")


def _refuse_late(approval: Approval) -> ApprovalDecidedError:
    """The refusal of a second decision, which names the first."""
    return ApprovalDecidedError(id=approval.id, decision=approval.decision or "", reason=approval.decision_reason)


def _copy_json(input: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, as JSON has it.

    Raises:
        InvalidApprovalError: It is no JSON.
    """
    try:
        json.dumps(dict(input), allow_nan=False)  # msgspec would make null of what is no number
        return msgspec.json.decode(msgspec.json.encode(dict(input)), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidApprovalError("input", f"it must be a JSON object: {error}") from error
