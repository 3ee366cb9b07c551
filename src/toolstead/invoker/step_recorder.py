"""Records the steps of a run: each request of the kernel, and each turn of a program such as Claude Code.

`orchestrator/journal` takes them, and stores them with the run's events or with its end. Requests are noted when they
end, and written when they are taken, many at once: of a run of 20 turns that took 100 µs instead of 125. A request is
written at once where something in it could change until then. What is written is masked and shortened.

Recording never makes a run fail: a step that cannot be written is left out, and named in the log.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from toolstead.invoker.clock import REAL_CLOCK, Clock
from toolstead.invoker.error_codes import find_error_code
from toolstead.invoker.step_bounds import NOT_JSON, StepBounds, encode_plain, encode_step
from toolstead.invoker.step_mask import mask_step, may_have_secrets
from toolstead.invoker.step_requests import EndedRequest, RequestWriter, has_nested_input
from toolstead.tools.handlers.secrets import Mask
from toolstead.types.run import NOTHING_USED, RunError, Usage
from toolstead.types.step import RecordedStep, StepBatch

if TYPE_CHECKING:
    from toolstead.invoker.lease import Lease
    from toolstead.invoker.runtime import Answer
    from toolstead.kernel.conversation import ModelReply
    from toolstead.kernel.model import ModelRequest

logger = logging.getLogger(__name__)

LEFT_OUT = "step %s of run %s could not be recorded; where it stays away, it is left out"
NO_MASK = Mask()


class StepRecorder:
    """Records the steps of one run, one at a time. It is the `Recorder` of the kernel's activations."""

    __slots__ = (
        "_announce",
        "_bounds",
        "_clock",
        "_ended",
        "_first",
        "_last",
        "_mask",
        "_number",
        "_run_id",
        "_sent",
        "_writer",
        "_written",
    )

    def __init__(
        self,
        run_id: str,
        announce: Callable[[str, StepRecorder], object],
        *,
        mask: Mask = NO_MASK,
        clock: Clock = REAL_CLOCK,
        bounds: StepBounds | None = None,
    ) -> None:
        """Begin with no step.

        Args:
            run_id: The run.
            announce: Called with the run and this recorder when there are steps to take.
            mask: Masks what must not be stored.
            clock: Says when a step was sent, and how long it took.
            bounds: How much may be stored.
        """
        self._run_id, self._announce, self._mask, self._clock = run_id, announce, mask, clock
        self._bounds = bounds or StepBounds(run_id)
        self._writer = RequestWriter()
        self._number = 0
        self._sent: tuple[str, ModelRequest, int, float, float] | None = None
        self._ended: list[EndedRequest] = []
        self._written: list[bytes] = []
        self._first = self._last = 0

    def begin_request(self, model: str, request: ModelRequest) -> None:
        """A request of the kernel is about to be sent."""
        clock = self._clock
        self._sent = (model, request, len(request.messages), clock.now(), clock.monotonic())

    def end_request(self, reply: ModelReply | None, usage: Usage, error: BaseException | None) -> None:
        """The request that began has ended."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        if not self._ended and not self._written:
            self._announce(self._run_id, self)
        self._number += 1
        why = None if reply is not None or error is None else _describe_error(error)
        self._ended.append((sent, self._clock.monotonic(), reply, usage, why))
        # A tool could change what is nested in its arguments; without a reply the conversation may be shortened.
        if reply is None or (reply.calls and has_nested_input(reply)):
            self._write_ended()

    async def record_turn(self, lease: Lease, prompt: str, turn: Awaitable[Answer]) -> Answer:
        """Await a turn, and record it as one step, unless its own requests were recorded."""
        before, answer, clock = self._number, None, self._clock
        now, began = clock.now(), clock.monotonic()
        try:
            answer = await turn
            return answer
        finally:
            if self._number == before:
                took = clock.monotonic() - began
                self._record_turn(lease, prompt, answer, sys.exception(), now=now, took=took)

    def take_steps(self) -> StepBatch | None:
        """The steps since the last time, as they are to be stored; None when there are none."""
        self._write_ended()
        if not self._written:
            return None
        written, self._written = self._written, []
        steps = b"[%s]" % b",".join(written)
        return StepBatch(run_id=self._run_id, number=self._first, last=self._last, steps=steps.decode())

    def _record_turn(
        self, lease: Lease, prompt: str, answer: Answer | None, error: BaseException | None, *, now: float, took: float
    ) -> None:
        self._write_ended()
        if not self._written:
            self._announce(self._run_id, self)
        self._number = number = self._number + 1
        try:
            step = RecordedStep(
                number=number,
                kind="turn",
                created_at=now,
                model=lease.request.spec.model,
                request=self._writer.write_turn(number, lease, prompt),
                reply=None if answer is None else {"text": answer.text},
                usage=NOTHING_USED if answer is None else answer.usage,
                duration_ms=took * 1000,
                error=None if answer is not None or error is None else _describe_error(error),
            )
            self._write_steps([step])
        except Exception:
            logger.exception(LEFT_OUT, number, self._run_id)
            self._forget_sent()

    def _write_ended(self) -> None:
        """Write the requests that have ended; where one cannot be written, the others are."""
        ended, self._ended = self._ended, []
        first = self._number - len(ended) + 1
        if ended and not self._write_requests(first, ended):
            for number, one in enumerate(ended, first):
                self._write_requests(number, [one])

    def _write_requests(self, first: int, ended: Sequence[EndedRequest]) -> bool:
        try:
            self._write_steps(self._writer.write_requests(first, ended))
        except Exception:
            logger.exception(LEFT_OUT, first, self._run_id)
            self._forget_sent()
            return False
        return True

    def _write_steps(self, steps: Sequence[RecordedStep]) -> None:
        """Write steps: all together where nothing needs a closer look, else each by itself."""
        try:
            text = encode_plain(steps)
        except NOT_JSON:
            text = None
        if text is None or len(text) > self._bounds.most or may_have_secrets(text, self._mask):
            for step in steps:
                self._write_step(step)
        else:
            self._bounds.count_bytes(len(text))
            self._add_text(text[1:-1], steps[0].number, steps[-1].number)

    def _write_step(self, step: RecordedStep) -> None:
        try:
            text = self._bounds.fit_step(mask_step(encode_step(step), self._mask))
        except Exception:
            logger.exception(LEFT_OUT, step.number, self._run_id)
            self._forget_sent()
        else:
            if text is not None:
                self._add_text(text, step.number, step.number)

    def _add_text(self, text: bytes, first: int, last: int) -> None:
        if not self._written:
            self._first = first
        self._last = last
        self._written.append(text)

    def _forget_sent(self) -> None:
        """Write all of the next request: what was new in the one before is not stored."""
        self._writer = RequestWriter()


def _describe_error(error: BaseException) -> RunError:
    if isinstance(error, asyncio.CancelledError):
        return RunError(code="cancelled", message="it was interrupted")
    return RunError(code=find_error_code(error), message=str(error))
