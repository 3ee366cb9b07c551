"""One step of a plugin's life (`register`, `start`, `stop`), isolated and with a time limit."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from toolstead.concurrency.suspended_coroutine import DeadlineError, SuspendedCoroutine, start_coroutine
from toolstead.errors import PluginError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.crash import describe_crash

logger = logging.getLogger(__name__)


async def take_step(
    function: Callable[[PluginContext], Awaitable[Any]],
    context: PluginContext,
    *,
    field: str,
    origin: str,
    seconds: float,
) -> Any:
    """Call it, and wait for what it answers.

    Args:
        function: The plugin's own.
        context: The plugin's.
        field: What it is called in the plugin.
        origin: Where the plugin comes from.
        seconds: How long it may take; what ignores its cancellation then is abandoned.

    Raises:
        PluginError: It raised, `sys.exit()` included, did not end in time, or returned nothing to await.
        asyncio.CancelledError: The caller was cancelled; so was the step.
    """
    error: BaseException | None = None
    try:
        answer = start_coroutine(_check_awaitable(function(context)))
    except BaseException as raised:  # noqa: BLE001 - reported below; cancellation comes only at an await
        answer, error = None, raised
    if type(answer) is SuspendedCoroutine:
        answer, error = await answer.finish_strictly(seconds)
    if error is None:
        return answer
    if isinstance(error, KeyboardInterrupt):
        raise error
    is_late = isinstance(error, DeadlineError)
    reason = str(error) if is_late else describe_crash(error, origin)
    cause = error.__cause__ if is_late else error
    logger.error("plugin %r: %s failed: %s", context.name, field, reason, exc_info=cause)
    raise PluginError(plugin=context.name, field=field, reason=reason) from None


def _check_awaitable(returned: Any) -> Awaitable[Any]:
    if not inspect.isawaitable(returned):
        raise TypeError(f"it returned {type(returned).__name__}, which cannot be awaited")
    return returned
