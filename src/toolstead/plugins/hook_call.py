"""Calls one hook of one plugin in isolation: no failure of the hook stops its caller.

It has a time limit and its answer is checked; failures are logged and recorded in the plugin's health.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from toolstead.concurrency.suspended_coroutine import (
    ClosingError,
    DeadlineError,
    IgnoredCancellationError,
    SuspendedCoroutine,
    start_coroutine,
)
from toolstead.plugins.crash import describe_crash
from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF, Health

logger = logging.getLogger(__name__)

Check = Callable[[Any], str | None]
"""Why an answer is invalid, or None when it is valid."""


class Failed(msgspec.Struct, frozen=True):
    """A hook that gave no answer. `why` may be shown to a model: what a crash says itself is in the log only."""

    why: str


class BadHookAnswerError(Exception):
    """A hook returned an invalid answer."""


class HookCall:
    """A hook that can be called any number of times at once."""

    __slots__ = ("_check", "_foreseen", "_function", "_health", "_seconds", "_waiting", "hook", "plugin")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        hook: str,
        health: Health,
        seconds: float,
        waiting: set[SuspendedCoroutine],
        plugin: str,
        check: Check | None = None,
        foreseen: tuple[type[Exception], ...] = (),
    ) -> None:
        """A hook, not called yet.

        Args:
            function: The plugin's own.
            hook: Its name.
            health: Records every success and failure.
            seconds: How long it may take.
            waiting: Holds those that wait for something, so that they can be ended.
            plugin: Whose it is.
            check: What its answer must be; without one any will do.
            foreseen: Exceptions that are answers.
        """
        self.plugin = plugin
        self.hook = hook
        self._function = function
        self._health = health
        self._seconds = seconds
        self._waiting = waiting
        self._check = check
        self._foreseen = foreseen

    async def __call__(self, *given: Any) -> Any | Failed:
        """Its answer, or `Failed`. Raises nothing but the caller's own cancellation, and KeyboardInterrupt."""
        if self._health.is_cut_off(self.hook):
            return Failed(
                f"it failed {FAILURES_UNTIL_CUT_OFF} times in a row, and is cut off until it is enabled again"
            )
        answer, error = None, None
        try:
            answer = start_coroutine(_check_awaitable(self._function(*given)))
        except BaseException as raised:  # noqa: BLE001 - reported below
            error = raised
        else:
            if type(answer) is SuspendedCoroutine:
                answer, error = await self._finish_hook(answer)
        if isinstance(error, self._foreseen):
            answer, error = error, None
        elif error is None and self._check is not None:
            error = self._check_answer(answer)
        if error is None:
            self._health.succeeded_hook(self.hook)
            return answer
        if isinstance(error, KeyboardInterrupt):
            raise error
        return self._report_failure(error)

    async def _finish_hook(self, suspended: SuspendedCoroutine) -> tuple[Any, BaseException | None]:
        self._waiting.add(suspended)
        try:
            return await suspended.finish_strictly(self._seconds)
        except asyncio.CancelledError as cancelled:
            match cancelled.__cause__:
                case IgnoredCancellationError() as ignored:
                    self._report_failure(ignored)
                case None | asyncio.CancelledError():
                    pass
                case error:
                    logger.warning(
                        "plugin %r: %s raised while its caller was cancelled", self.plugin, self.hook, exc_info=error
                    )
            raise
        finally:
            self._waiting.discard(suspended)

    def _check_answer(self, answer: Any) -> BaseException | None:
        try:
            problem = self._check(answer) if self._check is not None else None
        except Exception as error:  # noqa: BLE001 - looking at an answer may run the plugin's own code
            return error
        return None if problem is None else BadHookAnswerError(problem)

    def _report_failure(self, error: BaseException) -> Failed:
        match error:
            case ClosingError():
                logger.warning("plugin %r: %s was cancelled: %s", self.plugin, self.hook, error)
                return Failed(str(error))  # no fault of its own
            case DeadlineError() | IgnoredCancellationError() | BadHookAnswerError():
                reason = why = str(error)
                logger.error("plugin %r: %s failed: %s", self.plugin, self.hook, reason, exc_info=error.__cause__)
            case _:
                reason, why = describe_crash(error), f"it crashed ({type(error).__name__}); the log has the details"
                logger.error("plugin %r: %s failed: %s", self.plugin, self.hook, reason, exc_info=error)
        was_cut_off = self._health.is_cut_off(self.hook)
        self._health.failed_hook(self.hook, reason)
        if self._health.is_cut_off(self.hook) and not was_cut_off:
            logger.error(
                "plugin %r: %s failed %s times in a row, and is cut off until the plugin is enabled again",
                self.plugin,
                self.hook,
                FAILURES_UNTIL_CUT_OFF,
            )
        return Failed(why)


def _check_awaitable(returned: Any) -> Awaitable[Any]:
    if inspect.isawaitable(returned):
        return returned
    raise BadHookAnswerError(f"it returned {type(returned).__name__}, which cannot be awaited: write `async def`")
