"""Calls one hook of one plugin in isolation: no failure of the hook stops its caller.

It has a time limit and its answer is checked; failures are logged and recorded in the plugin's health.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from toolstead.concurrency.suspended_coroutine import (
    ClosingError,
    DeadlineError,
    IgnoredCancellationError,
    SuspendedCoroutine,
    start_coroutine,
)
from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF, Health, describe_crash

logger = logging.getLogger(__name__)

TIMEOUT = 10.0
"""Seconds that a hook may take, unless its plugin sets another limit."""


class HookRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook may answer, and what counts in the place of an answer that it does not give.

    Attributes:
        check: Why an answer is invalid, or None when it is valid; without a check any will do.
        fallback: What a failure becomes: gets the plugin's name and the reason. The reason may be shown to a model:
            the text of a crash is in the log only.
        foreseen: Exceptions that are answers.
        seconds: How long the hook may take.
    """

    check: Callable[[Any], str | None] | None = None
    fallback: Callable[[str, str], Any] = lambda _, __: None
    foreseen: tuple[type[Exception], ...] = ()
    seconds: float = TIMEOUT


class BadHookAnswerError(Exception):
    """A hook returned an invalid answer."""


class HookCall(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A hook that can be called any number of times at once.

    Attributes:
        function: The plugin's own.
        name: The plugin's name, by which a gate is known.
        hook: Which hook it is.
        health: Records every success and failure.
        seconds: How long it may take.
        waiting: Holds those that wait for something, so that they can be ended.
        rule: What it may answer, and what counts when it fails.
    """

    function: Callable[..., Any]
    name: str
    hook: str
    health: Health
    seconds: float
    waiting: set[SuspendedCoroutine]
    rule: HookRule

    async def __call__(self, *given: Any) -> Any:
        """Its answer, or what counts in its place.

        Raises nothing but the caller's own cancellation, and KeyboardInterrupt.
        """
        if self.health.is_cut_off(self.hook):
            why = f"it failed {FAILURES_UNTIL_CUT_OFF} times in a row, and is cut off until it is enabled again"
            return self.rule.fallback(self.name, why)
        answer, error = None, None
        try:
            returned = self.function(*given)
            if not inspect.isawaitable(returned):
                kind = type(returned).__name__
                raise BadHookAnswerError(f"it returned {kind}, which cannot be awaited: write `async def`")
            answer = start_coroutine(returned)
        except BaseException as raised:  # noqa: BLE001 - reported below
            error = raised
        else:
            if type(answer) is SuspendedCoroutine:
                answer, error = await self._finish_hook(answer)
        if isinstance(error, self.rule.foreseen):
            answer, error = error, None
        elif error is None and self.rule.check is not None:
            try:
                problem = self.rule.check(answer)
                error = None if problem is None else BadHookAnswerError(problem)
            except Exception as raised:  # noqa: BLE001 - looking at an answer may run the plugin's own code
                error = raised
        if error is None:
            self.health.succeeded_hook(self.hook)
            return answer
        if isinstance(error, KeyboardInterrupt):
            raise error
        return self.rule.fallback(self.name, self._report_failure(error))

    async def _finish_hook(self, suspended: SuspendedCoroutine) -> tuple[Any, BaseException | None]:
        self.waiting.add(suspended)
        try:
            return await suspended.finish_strictly(self.seconds)
        except asyncio.CancelledError as cancelled:
            match cancelled.__cause__:
                case IgnoredCancellationError() as ignored:
                    self._report_failure(ignored)
                case None | asyncio.CancelledError():
                    pass
                case error:
                    logger.warning(
                        "plugin %r: %s raised while its caller was cancelled", self.name, self.hook, exc_info=error
                    )
            raise
        finally:
            self.waiting.discard(suspended)

    def _report_failure(self, error: BaseException) -> str:
        """Log it, record it where it is the plugin's, and give the reason as a model may see it."""
        if isinstance(error, ClosingError):
            logger.warning("plugin %r: %s was cancelled: %s", self.name, self.hook, error)
            return str(error)  # no fault of its own
        has_crashed = not isinstance(error, DeadlineError | IgnoredCancellationError | BadHookAnswerError)
        reason = describe_crash(error) if has_crashed else str(error)
        cause = error if has_crashed else error.__cause__
        logger.error("plugin %r: %s failed: %s", self.name, self.hook, reason, exc_info=cause)
        if self.health.failed_hook(self.hook, reason):
            logger.error(
                "plugin %r: %s failed %s times in a row, and is cut off until the plugin is enabled again",
                self.name,
                self.hook,
                FAILURES_UNTIL_CUT_OFF,
            )
        return f"it crashed ({type(error).__name__}); the log has the details" if has_crashed else reason
