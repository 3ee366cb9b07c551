"""One step of a plugin's life (`register`, `start`, `stop`), bounded and behind a boundary."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from toolstead.errors import PluginError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.crash import described
from toolstead.plugins.leash import LateError, Leash, StuckError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


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
        seconds: How long it may take; what ignores being cancelled then is let go.

    Raises:
        PluginError: It raised, `sys.exit()` included, did not end in time, or gave back nothing to await.
        asyncio.CancelledError: The caller was cancelled; the step was told the same way.
    """
    error: BaseException | None = None
    try:
        returned: Any = function(context)
        steps: Coroutine[Any, Any, Any] = returned if inspect.iscoroutine(returned) else _awaited(returned)
    except BaseException as raised:  # noqa: BLE001 - told below
        error = raised
    else:
        try:
            waiting = steps.send(None)
        except StopIteration as done:
            return done.value
        except BaseException as raised:  # noqa: BLE001 - told below; nobody cancels what did not wait yet
            error = raised
        else:
            answer, error = await Leash(seconds).hold(steps, waiting)
            if error is None:
                return answer
    if isinstance(error, KeyboardInterrupt):
        raise error
    told = isinstance(error, LateError | StuckError)
    reason = str(error) if told else described(error, origin)
    cause = error.__cause__ if told else error
    logger.error("plugin %r: %s failed: %s", context.name, field, reason, exc_info=cause)
    raise PluginError(plugin=context.name, field=field, reason=reason) from None


async def see_through(work: Coroutine[Any, Any, _T]) -> _T:
    """Wait for work that must not be left half done: the caller's first cancellation waits until it has ended.

    A second one is passed on to it.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            if cancelled is not None:
                task.cancel()
            cancelled = error
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("work that was seen through failed", exc_info=failure)
        raise cancelled
    return task.result()


async def _awaited(something: Any) -> Any:
    if not inspect.isawaitable(something):
        raise TypeError(f"it gave back {type(something).__name__} where something to await is needed")
    return await something
