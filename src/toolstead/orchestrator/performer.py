"""Performs one run: waits until it may begin, invokes the agent, stores the end, calls the hooks.

message → begin → on_message → take the session → on_before_invoke → invoke → stored answer → on_after_invoke →
broadcast. A run has exactly one end, and it is stored with its answer and its last events in one commit.

The runs of a thread go one at a time, as they were accepted, whichever processes hold them. The store decides
(`begin_run`); here a run waits until the store lets it begin. It waits for the run directly before it: in this process
for that run's end, for another process by polling. So every wait is for a run that was accepted earlier, and no two
wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import structs

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.delegation.task_runs import NO_RESULTS
from toolstead.delegation.task_texts import RESUMED, describe_result, join_results
from toolstead.errors import InvocationError, NoRoomError, NotFoundError, StorageError
from toolstead.invoker.error_codes import find_error_code
from toolstead.invoker.lease import SessionRequest
from toolstead.invoker.step_recorder import StepRecorder
from toolstead.orchestrator.endings import (
    choose_end_type,
    create_start_event,
    end_with_answer,
    end_with_error,
    read_usage,
)
from toolstead.orchestrator.freshness import SessionFreshness
from toolstead.orchestrator.ids import format_session_id, parse_session_id
from toolstead.orchestrator.parts import ActiveRun, OrchestratorParts
from toolstead.orchestrator.recovery import Recovery, repeat_pauses
from toolstead.orchestrator.request import RunConfig
from toolstead.orchestrator.store import Behind, Ending, HeldRun
from toolstead.types.call import Caller
from toolstead.types.event import DELTA, Event
from toolstead.types.run import Invoking, Run, RunEnd, Warmth
from toolstead.types.thread import Message, Role

logger = logging.getLogger(__name__)

RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)
STEERING_SECONDS = 1.0
"""How long a run's end waits for a message that is being sent to its turn."""


class RunPerformer:
    """Performs runs, each in its own task."""

    def __init__(
        self,
        parts: OrchestratorParts,
        recovery: Recovery,
        freshness: SessionFreshness,
        on_task_text: Callable[[str, str], None],
    ) -> None:
        self._parts = parts
        self._store, self._log, self._hooks, self._active = parts.store, parts.log, parts.hooks, parts.active
        self._recovery, self._freshness, self._on_task_text = recovery, freshness, on_task_text
        self._tasks = OwnedTasks()
        self.is_closing = False
        """From now on, retry an end that cannot be stored only once."""

    def start(self, active: ActiveRun) -> None:
        """Perform a run in the background, up to its stored end."""
        self._tasks.start(self._perform_run(active), name=f"toolstead-{active.run.id}")

    def create_message(self, run: Run, role: Role, content: str, now: float, *, kind: str = "text") -> Message:
        """A message of a run."""
        return Message(
            id=self._parts.ids.new_id("msg"),
            thread_id=run.thread_id,
            role=role,
            content=content,
            created_at=now,
            kind=kind,
            run_id=run.id,
        )

    def request_session(
        self,
        thread_id: str,
        config: RunConfig,
        *,
        stored: str | None,
        may_spawn: bool,
        has_history: bool,
        has_task: bool = False,
        cwd: str | None = None,
        profile: str | None = None,
        resume: str | None = None,
        may_wait: bool = True,
    ) -> SessionRequest:
        """The session that a thread needs; prewarming and invoking both build it here."""
        agents = self._parts.agents
        return SessionRequest(
            runtime=config.runtime,
            spec=agents.build_spec(
                config, cwd=agents.cwd / (cwd or ""), may_spawn=may_spawn, has_task=has_task, profile=profile
            ),
            thread_id=thread_id,
            resume=resume or parse_session_id(stored, config.runtime.name),
            has_history=has_history,
            may_wait=may_wait,
        )

    async def run_observer(self, hook: Awaitable[None]) -> None:
        """Await an observing hook; the run goes on even if it fails."""
        try:
            await hook
        except Exception:
            logger.exception("a hook failed; the run goes on without it")

    async def _perform_run(self, active: ActiveRun) -> None:
        """Perform a run, from waiting to its stored end; never raises, not even when cancelled."""
        active.task = task = asyncio.current_task()
        try:
            ending = await self._invoke(active)
        except asyncio.CancelledError:
            status, code, why = active.wanted_end or ("cancelled", "cancelled", "it was cancelled")
            ending = self._fail_run(active, status, code, why)
        except (InvocationError, StorageError) as error:
            code, status = find_error_code(error), "failed"
            if code == "timeout":
                status = "timeout"
            elif code == "storage" and active.request.is_repeated:
                status = "stopped"  # no reason to give up what was delegated, or a result
            ending = self._fail_run(active, status, code, str(error))
        except Exception:
            crash = self._parts.ids.new_id("run_crash")
            logger.exception("crash %s: run %s", crash, active.run.id)
            ending = self._fail_run(active, "failed", "crash", f"internal error ({crash}); the log has the details")
        active.is_ending = True
        while task is not None and task.cancelling():
            task.uncancel()  # the cancellation of the turn must not cancel the hooks
        await self._finish_run(active, ending)

    def _fail_run(self, active: ActiveRun, status: RunEnd, code: str, message: str) -> Ending:
        return end_with_error(active.run, status, code, message, self._parts.clock.now())

    async def _invoke(self, active: ActiveRun) -> Ending:
        if active.wanted_end is not None:
            raise asyncio.CancelledError
        if not await self._begin_run(active):
            return self._fail_run(active, "cancelled", "cancelled", "another process gave it an end")
        if active.request.is_woken and not active.results:
            return self._fail_run(active, "cancelled", NO_RESULTS, "another turn holds the results it was woken for")
        run, request, agents = active.run, active.request, self._parts.agents
        # Its file may have changed while it waited; what was chosen for the run stays.
        config = agents.resolve_agent(
            run.agent, model=run.model, runtime=run.runtime, is_child=run.parent_run_id is not None
        )
        may_spawn = run.depth < active.context.limits.max_depth
        if not request.is_woken and request.answers is None:
            await self.run_observer(self._hooks.on_message(run.thread_id, "user", run.prompt))
        caller = Caller(
            thread_id=run.thread_id,
            run_id=run.id,
            agent_id=run.agent,
            cwd=None if request.cwd is None else agents.cwd / request.cwd,
            task_id=run.task_id,
            parent_agent_id=run.parent_agent or None,
            depth=run.depth,
            root_run_id=run.root_run_id,
            may_spawn=may_spawn,
            profile=run.profile,
        )
        has_history = active.stored_session is not None or await self._find_history(active)
        session = self.request_session(
            run.thread_id,
            config,
            stored=active.stored_session,
            may_spawn=may_spawn,
            has_task=run.task_id is not None,
            has_history=has_history,
            cwd=request.cwd,
            profile=run.profile,
            resume=request.session_id,
            may_wait=request.may_wait,
        )
        answer = await self._parts.invoker.invoke(
            session,
            prompt=join_results(active.results, run.prompt),
            caller=caller,
            tell=partial(self._emit_event, active, caller),
            call_tool=self._parts.call_tool,
            own_tools=self._parts.own_tools,
            limits=config.turn,
            budget=active.context.share,
            timeout=request.timeout if request.timeout is not None else config.timeout,
            before=partial(self._make_prompt, active, has_history),
            on_session_id=partial(_note_session, active),
            recorder=StepRecorder(run.id, self._log.add_steps, mask=self._parts.find_mask(), clock=self._parts.clock),
        )
        return end_with_answer(run, answer, self.create_message(run, "assistant", answer.text, self._parts.clock.now()))

    async def _begin_run(self, active: ActiveRun) -> bool:
        """Begin a run when the store lets it; False when it ended meanwhile.

        Raises:
            NoRoomError: It would have to wait, and may not.
        """
        run = active.run
        for seconds in repeat_pauses():
            started = self._parts.clock.now()
            try:
                outcome = await self._store.begin_run(run, started, [create_start_event(run, started)])
            except BaseException:
                # It may have begun, and then the next run cannot see which process ran before this one.
                self._freshness.mark_outdated(run.thread_id)
                raise
            if isinstance(outcome, Behind):
                if not active.request.may_wait:
                    raise NoRoomError(
                        f"thread {run.thread_id!r} is busy with another run, and a child may not wait behind one: "
                        f"start it when that one has ended, or in another thread"
                    )
                await self._wait_for(outcome.runs[-1], seconds)
                continue
            if outcome is not None:
                active.run = structs.replace(run, status="running", started_at=started)
                active.stored_session = outcome.session_id
                active.results = outcome.results
                active.result_messages = self._create_results(active)
                active.context.has_tasks |= bool(outcome.results)
                active.context.run = active.run
                self._freshness.note_beginning(run.thread_id, outcome.last)
                await self._take_place(active)
            return outcome is not None
        raise AssertionError("there is always another pause")

    async def _wait_for(self, before: HeldRun, seconds: float) -> None:
        ours = self._active.get(before.id)
        if ours is not None:
            await asyncio.wait((ours.ended,))
        elif before.owner == self._store.owner:  # no task performs it: recovery ends it
            await self._recovery.pause_for(seconds)
        else:
            with suppress(NotFoundError):
                await self._recovery.wait_for_end(before.id)

    async def _take_place(self, active: ActiveRun) -> None:
        """Make it the thread's run in this process, after the hooks of the run before it."""
        running, thread_id = self._active.running, active.run.thread_id
        while (other := running.get(thread_id)) is not None:
            await asyncio.wait((other.ended,))
        running[thread_id] = active

    async def _find_history(self, active: ActiveRun) -> bool:
        """Whether the thread has messages besides the one that the run answers."""
        if active.request.is_new_thread:
            return False
        own = 0 if active.request.is_woken else 1
        return len(await self._store.list_messages(active.run.thread_id, limit=own + 1)) > own

    async def _make_prompt(self, active: ActiveRun, has_history: bool, prompt: str, warmth: Warmth) -> str:
        run = active.run
        if active.request.answers is not None and warmth == "resumed":
            prompt = RESUMED + prompt
        about = Invoking(
            run_id=run.id,
            agent=run.agent,
            model=run.model,
            runtime=run.runtime,
            session=warmth,
            has_history=has_history,
        )
        return await self._hooks.on_before_invoke(run.thread_id, prompt, about)

    def _emit_event(self, active: ActiveRun, caller: Caller, type: str, data: Mapping[str, Any]) -> None:
        context = active.context
        context.note_event(self._parts.clock.monotonic())
        if type == "usage":
            usage = read_usage(data)
            active.used += usage
            context.share.note_usage(usage)
        elif type == DELTA and active.run.task_id is not None:
            self._on_task_text(active.run.task_id, str(data.get("text", "")))
        self._log.emit(type, data, caller)

    async def _finish_run(self, active: ActiveRun, ending: Ending) -> None:
        """Store a run's end with its pending events, then hand it to the waiting callers."""
        run = active.run
        await self._end_steering(active)
        session_id = None if active.session is None else format_session_id(run.runtime, active.session[0])
        await active.context.share.close()
        ending = structs.replace(
            ending,
            usage=ending.usage or active.used,
            session_id=session_id,
            results=active.result_messages if ending.status == "completed" else (),
            has_tasks=active.context.has_tasks,
            shared_root=(run.root_run_id or run.id) if active.context.share.is_shared else None,
        )
        final, events = await self._store_end(active, ending)
        self._active.remove(active)
        if events is not None:
            self._active.ended[final.status, final.runtime] += 1
            await self._report_end(final)
        if self._active.running.get(run.thread_id) is active:
            del self._active.running[run.thread_id]
        active.ended.set_result(final)

    def _create_results(self, active: ActiveRun) -> list[Message]:
        """The results that the turn holds, as messages of its thread: a later session must find them there.

        Made when the turn begins, so that they are older than its answer, by their time and their id too.
        """
        if not active.results:
            return []
        now = self._parts.clock.now()
        return [
            self.create_message(active.run, "system", describe_result(task), now, kind="result")
            for task in active.results
        ]

    async def _end_steering(self, active: ActiveRun) -> None:
        """Let a message that is being sent to the turn arrive, and no further one."""
        try:
            async with asyncio.timeout(STEERING_SECONDS), active.steering:
                active.takes_messages = False
        except TimeoutError:
            logger.warning("run %s ends while a message is being sent to it", active.run.id)
            active.takes_messages = False

    async def _store_end(self, active: ActiveRun, least: Ending) -> tuple[Run, list[Event] | None]:
        """The ended run and the events stored with it; None when another process ended it.

        Its pending events and steps are stored too; if they cannot be, only `least` is.
        """
        run = active.run
        events = [*await self._log.take_unstored(run.id), *least.events]
        ending = structs.replace(least, events=events, steps=self._log.take_steps(run.id))
        failures = 0
        while True:
            try:
                if active.session is not None and ending.session_id is None:
                    await self._store.update_thread(run.thread_id, session_id=None)
                events = await self._store.end_run(run.id, ending)
                return (ending.given_to(run) if events is not None else await self._store.read_run(run.id)), events
            except NotFoundError:  # it is gone with its thread
                return ending.given_to(run), None
            except StorageError as error:
                if self.is_closing and failures:
                    logger.exception("the end of run %s could not be stored; recovery will end it as lost", run.id)
                    return ending.given_to(run), None
                logger.log(error.log_level, "the end of run %s waits for the database: %s", run.id, error)
                await self._parts.clock.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
            except Exception:
                logger.exception("run %s emitted events that cannot be stored", run.id)
                if ending is least:
                    self._recovery.note_doubtful(run)
                    return ending.given_to(run), None
                ending = least

    async def _report_end(self, run: Run) -> None:
        if run.result is not None:
            await self.run_observer(self._hooks.on_message(run.thread_id, "assistant", run.result))
        await self.run_observer(self._hooks.on_after_invoke(run.thread_id, run))
        await self.run_observer(self._hooks.on_broadcast(choose_end_type(run.status), run.to_json()))


def _note_session(active: ActiveRun, session_id: str | None) -> None:
    active.session = (session_id,)
