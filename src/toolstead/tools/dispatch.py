"""The dispatcher: the one way to call a tool.

Look up, validate, ask the gates, run with a deadline and cancellation, validate the output, cap
the size, log. A call keeps the generation it began with. Every foreseen failure is text
the model can act on, an error result, a log line and an event.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from toolstead.concurrency.suspended_coroutine import (
    DeadlineError,
    IgnoredCancellationError,
    SuspendedCoroutine,
    UnendingThreadError,
    render_seconds,
    start_coroutine,
)
from toolstead.errors import RefusedError, StorageError, ToolError, UnknownToolError
from toolstead.plugins.health import describe_crash
from toolstead.plugins.tool_meta import Client, Progress, ToolMeta
from toolstead.schema.compiled import CompiledSchema
from toolstead.schema.explanation import rename_whole
from toolstead.tools.definition import RegisteredTool
from toolstead.tools.gates import Approve, ApprovingClient, Gate, Gates, Observer, copy_json
from toolstead.tools.output import BadResultError, cap_result, convert_answer
from toolstead.tools.patient_client import PatientClient
from toolstead.tools.registry import Registry
from toolstead.tools.validation import BoundedValidator, take_arguments
from toolstead.types.call import ANONYMOUS, Caller
from toolstead.types.content import Text
from toolstead.types.result import RESULTS, Failure, ToolResult

logger = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that a handler has to end after it was cancelled: time to end a process, or to undo something."""
SHOWN_IN_EVENTS = 2_000
SHOWN_IN_LOG = 500
UNKNOWN_TOOL = "unknown_tool"
"""The failure of a call to a tool that the caller does not see."""
_MOST_BYTES_PER_CHARACTER = 4
_ABANDONED = "ignored its cancellation and was abandoned"


class EventSink(Protocol):
    """Receives the dispatcher's events."""

    listening: bool
    """Whether events of successful calls are wanted; failures are always emitted."""

    def emit(self, type: str, data: Mapping[str, Any], caller: Caller) -> None:
        """Emit one event. Must not block and must not raise."""
        ...


RecordCall = Callable[[str, "str | None", float, Caller], None]
"""Takes the tool, the failure and the seconds of one call, and its caller. Never blocks, never raises.

The failure is None for a call that succeeded, else a `Failure`, or `unknown_tool`; then the name is what the caller
wrote."""

Keep = Callable[[ToolResult, str, Caller], "str | None"]
"""Keeps the whole result of a tool when its caller is shown a part of it: its handle, or None when it is not kept.

Never blocks."""


class Dispatcher:
    """Calls tools. One for each stead; safe for any number of calls at once.

    Attributes:
        validator: Validates what takes longer; one that keeps processes is closed by its owner.
        names_clients: Whether transports should say which client calls, where that costs something.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        events: EventSink,
        cwd: Path,
        timeout: float = 60,
        max_output: int = 262_144,
        gates: Sequence[Gate] = (),
        keep: Keep | None = None,
        approve: Approve | None = None,
        validator: BoundedValidator | None = None,
    ) -> None:
        self._registry = registry
        self._events = events
        self._cwd = cwd
        self.set_limits(timeout=timeout, max_output=max_output)
        self._own_gates = tuple(gates)
        self._approve = approve
        self.validator = validator or BoundedValidator()
        self.set_hooks()
        self._keep = keep
        self.names_clients = False
        self._recorders: list[RecordCall] = []
        self._record: RecordCall | None = None
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def set_limits(self, *, timeout: float, max_output: int) -> None:
        """Set the default deadline and result size of tools, from the next call on."""
        self._timeout = timeout
        self._max_output = max_output
        self._short = max_output // _MOST_BYTES_PER_CHARACTER

    def set_hooks(self, gates: Sequence[Gate] = (), observers: Sequence[Observer] = ()) -> None:
        """Set the gates and observers of every call, besides those of the constructor; from the next call on.

        A gate's `name`, where it has one, appears with its decision.
        """
        everyone = (*self._own_gates, *gates)
        has_hooks = everyone or observers
        self._gates = Gates(everyone, tuple(observers), self._approve, self.validator) if has_hooks else None

    def add_recorder(self, record: RecordCall) -> Callable[[], None]:
        """Have every call recorded from now on; the returned function ends that. Without recorders it costs nothing."""
        recorders = self._recorders

        def record_with_all(name: str, failure: str | None, seconds: float, caller: Caller) -> None:
            for one in recorders:
                one(name, failure, seconds, caller)

        def choose_recorder() -> None:
            self._record = record_with_all if len(recorders) > 1 else recorders[0] if recorders else None

        def remove_recorder() -> None:
            recorders.remove(record)
            choose_recorder()

        recorders.append(record)
        choose_recorder()
        return remove_recorder

    @property
    def has_gates(self) -> bool:
        """Whether a call is decided about before it runs."""
        return self._gates is not None and bool(self._gates.gates)

    async def call(  # noqa: PLR0912, PLR0915 - the one path every call takes, in one frame because a frame costs
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        caller: Caller = ANONYMOUS,
        *,
        progress: Progress | None = None,
        client: Client | None = None,
        approving: ApprovingClient | None = None,
    ) -> ToolResult:
        """Call a tool with the generation of this moment.

        Args:
            name: The tool's name.
            input: Its arguments; None means none.
            caller: On whose behalf.
            progress: Receives progress, where the caller wants it.
            client: The caller's own side, where it can be asked.
            approving: The same, where a person there can be asked about an approval.

        Raises:
            UnknownToolError: No such tool, or it is blocked, or the calling agent may not see it.
            asyncio.CancelledError: The caller was cancelled; so was the handler.
        """
        registry = self._registry
        # Most callers are narrowed by nothing, and most tools are for everyone: then the view is the generation.
        is_narrowed = caller.agent_id is not None or caller.profile is not None or not caller.may_spawn
        registered = (registry.find_callers_view(caller) if is_narrowed else registry.current).tools.get(name)
        if registered is not None and registered.tool.audience != "everyone":
            registered = registry.find_callers_view(caller).tools.get(name)
        if registered is None:
            raise self._unknown_tool(name, caller)
        meta: Any = None
        patient = PatientClient(client) if client is not None and registered.tool.interactive else None
        events, started, shown, used, gates = self._events, perf_counter(), input, None, self._gates
        is_wanted = events.listening or caller.run_id is not None  # all events of a run are kept
        if not registered.ignores_meta or is_wanted or gates is not None:
            meta = ToolMeta(registered.tool, caller, caller.cwd or self._cwd, self._new_id, progress, patient)
        if is_wanted:
            events.emit("tool_use", _event_details(caller, callId=meta.call_id, name=name, input=input or {}), caller)
        try:
            arguments = take_arguments(registered.input, input)
            if arguments is None:
                arguments = await self.validator.validate_arguments(registered, input)
            if gates is not None and isinstance(arguments, dict):
                asked = arguments
                arguments = await gates.ask_gates(name, asked, caller, meta.call_id, registered, approving=approving)
                started = perf_counter()  # what a person takes to decide is no time of the tool
                if is_wanted and arguments is not asked and isinstance(arguments, dict):
                    used = copy_json(arguments)
                shown = gates.copy_for_observers(arguments, input)
            if not isinstance(arguments, dict):  # and not `ToolResult`: a struct's metaclass makes that slow
                result = arguments
            else:
                tool = registered.tool
                answer = start_coroutine(tool.handler(registered.context, arguments, meta))
                if type(answer) is SuspendedCoroutine:
                    deadline = None if patient is None else patient.deadline
                    answer = await answer.finish(tool.timeout or self._timeout, grace=GRACE, deadline=deadline)
                if type(answer) is str and len(answer) <= self._short and registered.answers_text:
                    result = ToolResult(content=(Text(answer),))
                else:
                    result = await self._finish_result(registered, answer, caller)
        except (KeyboardInterrupt, GeneratorExit):  # Ctrl-C, and the end of a caller that is no task
            raise
        except BaseException as error:  # whatever else a handler raises is explained and logged, `sys.exit()` too
            if isinstance(error, asyncio.CancelledError) and _caller_gave_up():
                how = _describe_cancellation(error)
                cancelled = ToolResult.error(f"{name} was cancelled{how}", Failure.CANCELLED)
                self._report_failure(registered, self._id_of(meta, caller), cancelled, started, caller, used=used)
                if self._record is not None:
                    self._record(name, Failure.CANCELLED, perf_counter() - started, caller)
                raise
            call_id = self._id_of(meta, caller)
            limit = registered.tool.max_output or self._max_output
            result, _ = cap_result(_explain_failure(registered, call_id, error), limit)
            self._report_failure(registered, call_id, result, started, caller, used=used)
        else:
            if result.is_error:
                self._report_failure(registered, self._id_of(meta, caller), result, started, caller, used=used)
            elif is_wanted:
                self._emit_result(meta.call_id, name, result, started, caller, used=used)
        if self._record is not None:
            failure = result.failure or Failure.TOOL if result.is_error else None
            self._record(name, failure, perf_counter() - started, caller)
        if gates is not None and gates.observers:
            await gates.notify_observers(name, shown, meta.caller, meta.call_id, result)
        return result

    async def ask_own(
        self, caller: Caller, name: str, input: Mapping[str, Any], *, call_id: str
    ) -> dict[str, Any] | ToolResult:
        """Check a call that a runtime is about to make to its own tool: the arguments to use, or the refusal.

        It passes the same gates and emits the same events as any call; report its result with `tell_own`.
        """
        self._events.emit("tool_use", _event_details(caller, callId=call_id, name=name, input=input), caller)
        arguments = dict(input)
        decided = (
            arguments if self._gates is None else await self._gates.ask_gates(name, arguments, caller, call_id, None)
        )
        if isinstance(decided, ToolResult):
            logger.warning("call %s: the runtime's own tool %s was not used: %s", call_id, name, decided.text)
        return decided

    async def tell_own(
        self, caller: Caller, name: str, input: Mapping[str, Any], result: ToolResult, *, call_id: str
    ) -> None:
        """Record the result of a call to a runtime's own tool, or its refusal."""
        self._emit_result(call_id, name, result, perf_counter(), caller)
        if self._gates is not None and self._gates.observers:
            await self._gates.notify_observers(name, input, caller, call_id, result)

    async def _finish_result(self, registered: RegisteredTool, answer: Any, caller: Caller) -> ToolResult:
        """Turn a handler's answer into a bounded result that fits the output schema."""
        limit = registered.tool.max_output or self._max_output
        name = registered.tool.name
        try:
            result = convert_answer(answer)
        except BadResultError as error:
            return ToolResult.error(f"{name} returned {error}", Failure.INVALID_OUTPUT)
        if registered.output is not None and not result.is_error:
            problems = await self._output_problems(registered.output, result)
            if problems:
                return ToolResult.error(
                    f"{name} answered with something its output schema does not allow: {'; '.join(problems)}",
                    Failure.INVALID_OUTPUT,
                )
        capped, left_out = cap_result(result, limit)
        if left_out:
            logger.warning("the answer of %r was cut: %s bytes left out, %s allowed", name, left_out, limit)
            if registered.output is not None and capped.structured is None:
                return ToolResult.error(
                    f"the answer of {name} is larger than {limit:,} bytes; ask for less", Failure.INVALID_OUTPUT
                )
            handle = self._keep(result, name, caller) if self._keep is not None else None
            if handle is not None:
                note = Text(f"[toolstead: the whole answer is kept as {RESULTS}{handle}]")
                capped.content, capped.handle = (*capped.content, note), handle
        return capped

    async def _output_problems(self, schema: CompiledSchema, result: ToolResult) -> list[str]:
        """Why a structured answer does not fit the output schema."""
        if result.structured is None:
            return ["it has no structured answer"]
        return rename_whole(await self.validator.find_problems(schema, result.structured), "(answer)")

    def _unknown_tool(self, name: str, caller: Caller) -> UnknownToolError:
        error = self._registry.find_callers_view(caller).unknown_tool(name)
        logger.warning("%s%s", error, _name_thread(caller, " (thread %s)"))
        call_id = caller.call_id or self._new_id()
        self._emit_result(call_id, error.name, ToolResult.error(str(error)), perf_counter(), caller)
        if self._record is not None:
            self._record(name, UNKNOWN_TOOL, 0.0, caller)
        return error

    def _id_of(self, meta: ToolMeta | None, caller: Caller) -> str:
        return meta.call_id if meta is not None else caller.call_id or self._new_id()

    def _report_failure(
        self,
        registered: RegisteredTool,
        call_id: str,
        result: ToolResult,
        started: float,
        caller: Caller,
        *,
        used: Mapping[str, Any] | None,
    ) -> None:
        logger.warning(
            "call %s: %s failed (%s)%s: %s",
            call_id,
            registered.tool.name,
            result.failure or Failure.TOOL,
            _name_thread(caller, " in thread %s"),
            result.text[:SHOWN_IN_LOG],
        )
        self._emit_result(call_id, registered.tool.name, result, started, caller, used=used)

    def _emit_result(
        self,
        call_id: str,
        name: str,
        result: ToolResult,
        started: float,
        caller: Caller,
        *,
        used: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell the result of a call.

        Args:
            call_id: The call.
            name: Its tool.
            result: What came of it.
            started: When the handler was started, or the call where it was not.
            caller: Who called.
            used: The arguments that a gate or a person gave in place of the caller's; None where there are none.
        """
        text = result.text
        more: dict[str, Any] = {} if used is None else {"input": used}
        if (handle := self._find_handle(result, name, caller)) is not None:
            more["handle"] = handle
        self._events.emit(
            "tool_result",
            _event_details(
                caller,
                callId=call_id,
                name=name,
                isError=result.is_error,
                content=text if len(text) <= SHOWN_IN_EVENTS else text[:SHOWN_IN_EVENTS] + "…",
                durationMs=round((perf_counter() - started) * 1000, 3),
                **more,
            ),
            caller,
        )

    def _find_handle(self, result: ToolResult, name: str, caller: Caller) -> str | None:
        """Where a person finds what an event does not show: all of a cut answer, and pictures and sound of a run."""
        if result.handle is not None:
            return result.handle
        if self._keep is None or caller.run_id is None or all(type(part) is Text for part in result.content):
            return None
        return self._keep(result, name, caller)

    def _new_id(self) -> str:
        return f"call_{self._prefix}_{next(self._numbers)}"


def _name_thread(caller: Caller, words: str) -> str:
    """A call's thread for the log; the one of callers that name none says nothing."""
    return "" if caller.thread_id == ANONYMOUS.thread_id else words % caller.thread_id


def _event_details(caller: Caller, **data: Any) -> dict[str, Any]:
    """The event data of a call, with the call that started the calling agent, where there is one."""
    if caller.parent_call_id is not None:
        data["parentCallId"] = caller.parent_call_id
    return data


def _caller_gave_up() -> bool:
    """Whether this task was cancelled; otherwise something that the handler waited for was, and it is a crash."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _describe_cancellation(error: asyncio.CancelledError) -> str:
    """What is to be said of a handler whose caller left; one in a thread is named by that, should it not end soon."""
    match error.__cause__:
        case UnendingThreadError():
            return ": its caller left"
        case IgnoredCancellationError():
            return f", {_ABANDONED}"
        case _:
            return ""


def _log_cause(registered: RegisteredTool, call_id: str, error: ToolError) -> None:
    """Log what a tool's refusal was raised from, which the model does not read; with debug lines, the traceback."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        what = describe_crash(cause, registered.info.provenance.origin)
        trace = error if logger.isEnabledFor(logging.DEBUG) else None
        logger.warning("call %s: the cause of %s's failure: %s", call_id, registered.tool.name, what, exc_info=trace)


def _explain_failure(registered: RegisteredTool, call_id: str, error: BaseException) -> ToolResult:
    """Convert what a handler raised into a result that the model may read."""
    name = registered.tool.name
    match error:
        case RefusedError():
            return ToolResult.error(str(error), Failure.REFUSED)
        case ToolError():
            _log_cause(registered, call_id, error)
            return ToolResult.error(str(error) or f"{name} failed, and does not say why", Failure.TOOL)
        case StorageError():
            logger.log(error.log_level, "call %s: %s could not use the database: %s", call_id, name, error)
            what = "the database cannot be reached" if error.is_away else "the database could not be read or written"
            return ToolResult.error(f"{name} failed: {what}; try again later", Failure.TOOL)
        case DeadlineError():
            how = " and was stopped"
            if error.goes_on:
                how = "; it goes on in the background and may still take effect: check before calling it again"
            elif error.was_abandoned:
                how = f", {_ABANDONED}"
            return ToolResult.error(
                f"{name} did not finish within {render_seconds(error.seconds)}{how}", Failure.TIMEOUT
            )
        case _:
            origin = registered.info.provenance.origin
            logger.error("crash %s: tool %r (%s)", call_id, name, origin, exc_info=error)
            return ToolResult.error(f"{name} crashed (id {call_id}); the log has the details", Failure.CRASH)
